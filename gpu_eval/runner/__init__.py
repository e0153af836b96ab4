"""The runner: a sandboxed process that holds one candidate, its inputs and its empty outputs, and never the answers."""
