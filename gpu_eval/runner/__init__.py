"""The runner: a sandboxed process that holds one candidate and its inputs, and never the answers."""
