"""The judge: a sandboxed process that runs the operator, holds the answers and says what is wrong."""
