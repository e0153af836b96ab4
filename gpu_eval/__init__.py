"""Compile, check and time GPU kernels against the PyTorch operators that they replace. Imports nothing of Django."""
