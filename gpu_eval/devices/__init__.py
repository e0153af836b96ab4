"""Device backends: compile kernels, hold memory, replay bound plans, keep time.

Loading this loads no device library.
"""

from __future__ import annotations

from gpu_eval.devices.base import (
    Buffer,
    CompiledCode,
    CompileError,
    DeviceBackend,
    DeviceLost,
    DeviceUnavailable,
    Elapsed,
    Executor,
    KernelFacts,
    LaunchError,
    Module,
    OutOfDeviceMemory,
    Tf32,
)
from gpu_eval.devices.cuda_compile import compile_check
from gpu_eval.devices.probe import probe_devices

__all__ = [
    "Buffer",
    "CompileError",
    "CompiledCode",
    "DeviceBackend",
    "DeviceLost",
    "DeviceUnavailable",
    "Elapsed",
    "Executor",
    "KernelFacts",
    "LaunchError",
    "Module",
    "OutOfDeviceMemory",
    "Tf32",
    "compile_check",
    "make_backend",
    "open_backend",
    "probe_devices",
]

KINDS = ("cuda", "opencl")


def make_backend(kind: str) -> DeviceBackend:
    """A backend that is not open yet. Raises ValueError on an unknown kind."""
    if kind == "opencl":
        from gpu_eval.devices.opencl import OpenCLBackend

        return OpenCLBackend()
    if kind == "cuda":
        from gpu_eval.devices.cuda import CudaBackend

        return CudaBackend()
    raise ValueError(f"unknown device kind {kind!r}")


def open_backend(kind: str) -> DeviceBackend:
    """An open backend; the caller closes it. Raises DeviceUnavailable with a sentence."""
    backend = make_backend(kind)
    backend.open()
    return backend
