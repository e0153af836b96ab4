"""The judge: a sandboxed process that runs the operator, holds seeds and expected values, and says what is wrong."""
