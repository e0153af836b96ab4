"""Compile, check and time GPU kernels against the PyTorch operators that they replace. Without Django."""
