"""What the machine is like while a kernel is timed: clocks, temperature, power, who else uses the device.

Read by the evaluator's own process, through NVML where a GPU is measured. Nothing is ever set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from gpu_eval.results import Conditions
from gpu_eval.tree import descendants

T = TypeVar("T")


def read_conditions(kind: str) -> Conditions:
    """The conditions now; a field that cannot be read is None."""
    load = tried(lambda: round(os.getloadavg()[0] / (os.cpu_count() or 1), 2))
    if kind != "cuda":
        return Conditions(load=load)
    gpu = Gpu.first_visible()
    if gpu is None:
        return Conditions(load=load)
    return Conditions(
        sm_clock_mhz=tried(gpu.sm_clock_mhz),
        memory_clock_mhz=tried(gpu.memory_clock_mhz),
        temperature_c=tried(gpu.temperature_c),
        power_w=tried(gpu.power_w),
        other_processes=tried(gpu.other_processes),
        load=load,
    )


class Gpu:
    """One GPU as NVML sees it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle

    @classmethod
    def first_visible(cls) -> Gpu | None:
        """The GPU that evaluations use; None without NVML or its Python package."""
        with contextlib.suppress(Exception):  # the package raises kinds of its own, the loader others
            import pynvml

            pynvml.nvmlInit()
            wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
            if wanted.startswith("GPU-"):
                return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(wanted))
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(wanted or 0)))
        return None

    def sm_clock_mhz(self) -> int:
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM))

    def memory_clock_mhz(self) -> int:
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_MEM))

    def temperature_c(self) -> int:
        return int(self.nvml.nvmlDeviceGetTemperature(self.handle, self.nvml.NVML_TEMPERATURE_GPU))

    def power_w(self) -> float:
        return round(self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000, 1)

    def other_processes(self) -> int:
        """Compute processes besides those below this one."""
        ours = {os.getpid(), *descendants(os.getpid())}
        running = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        return sum(process.pid not in ours for process in running)

    def memory_used_bytes(self) -> int:
        return int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used)


def tried(read: Callable[[], T]) -> T | None:
    """What ``read`` says, or None where this machine does not tell."""
    try:
        return read()
    except Exception:
        return None
