"""A stand-in for `pycuda.driver` that records calls; its device memory is host memory."""

from __future__ import annotations

import ctypes
import types
from typing import Any

ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MULTIPROCESSOR_COUNT": 132,
    "MEMORY_CLOCK_RATE": 3_201_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "CLOCK_RATE": 1_980_000,
    "L2_CACHE_SIZE": 62_914_560,
    "WARP_SIZE": 32,
}


class Error(Exception):
    pass


class MemoryError(Error):
    pass


class LogicError(Error):
    pass


class LaunchError(Error):
    pass


class DeviceAllocation:
    def __init__(self, size: int) -> None:
        self.memory = ctypes.create_string_buffer(size + 256)
        self.pointer = (ctypes.addressof(self.memory) + 255) // 256 * 256

    def __int__(self) -> int:
        return self.pointer


class Function:
    num_regs, local_size_bytes, shared_size_bytes, max_threads_per_block = 32, 0, 0, 1024

    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log
        self.attributes: dict[str, int] = {}

    def set_attribute(self, attribute: str, value: int) -> None:
        self.attributes[attribute] = value

    def _launch_kernel(self, grid: tuple, block: tuple, arguments: bytes, shared: int, stream: None) -> None:
        self.log.append(("launch", self.name, grid, block, arguments, shared))


class Event:
    def record(self, stream: None = None) -> None:
        pass

    def time_till(self, other: Event) -> float:
        return 0.25


class Driver(types.SimpleNamespace):
    """The module. ``log`` holds the work in order; ``fail`` is raised by the next synchronise."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.fail: Exception | None = None
        self.stack: list[str] = []
        super().__init__(
            Error=Error,
            MemoryError=MemoryError,
            LogicError=LogicError,
            LaunchError=LaunchError,
            Event=Event,
            device_attribute=types.SimpleNamespace(**{name: name for name in ATTRIBUTES}),
            function_attribute=types.SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic"),
            Context=types.SimpleNamespace(synchronize=self.synchronize),
        )

    def synchronize(self) -> None:
        if self.fail:
            failure, self.fail = self.fail, None
            raise failure

    def init(self) -> None:
        self.stack.append("init")

    def Device(self, index: int) -> Any:
        context = types.SimpleNamespace(
            push=lambda: self.stack.append("push"), pop=lambda: self.stack.append("pop")
        )
        return types.SimpleNamespace(
            retain_primary_context=lambda: context,
            get_attribute=lambda name: ATTRIBUTES[name],
            compute_capability=lambda: (9, 0),
            name=lambda: "NVIDIA H200",
            total_memory=lambda: 150_000_000_000,
        )

    def mem_get_info(self) -> tuple[int, int]:
        return 140_000_000_000, 150_000_000_000

    def mem_alloc(self, size: int) -> DeviceAllocation:
        if size > 2**40:
            raise MemoryError("cuMemAlloc failed: out of memory")
        return DeviceAllocation(size)

    def memcpy_htod(self, target: int, source: bytes) -> None:
        ctypes.memmove(target, bytes(source), len(source))

    def memcpy_dtoh(self, target: bytearray, source: int) -> None:
        target[:] = ctypes.string_at(source, len(target))

    def memcpy_dtod_async(self, target: int, source: int, size: int, stream: None = None) -> None:
        ctypes.memmove(target, source, size)
        self.log.append(("copy", size))

    def memset_d8_async(self, target: int, value: int, size: int, stream: None = None) -> None:
        ctypes.memset(target, value, size)
        self.log.append(("fill", value, size))

    def module_from_buffer(self, cubin: bytes) -> Any:
        return types.SimpleNamespace(get_function=lambda name: Function(name, self.log))


Driver.Device.count = lambda: 1  # type: ignore[attr-defined]
