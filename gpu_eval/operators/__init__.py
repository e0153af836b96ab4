"""Operators: KernelBench-format Python files, first parsed, then run inside the judge only."""
