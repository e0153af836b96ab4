"""OpenCL on a CPU through PyOpenCL (PoCL from its wheel): every buffer is host memory, used in place."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_eval.devices import torch_library
from gpu_eval.devices.base import (
    Buffer,
    CompileError,
    DeviceBackend,
    DeviceUnavailable,
    Elapsed,
    Executor,
    KernelFacts,
    LaunchError,
    Module,
    OutOfDeviceMemory,
    clean_log,
)
from gpu_eval.devices.opencl_peaks import measure_peaks
from gpu_eval.devices.opencl_run import OpenCLExecutor
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.program import Program
from gpu_eval.plans.specs import TensorSpec
from gpu_eval.results import DeviceFacts

ALIGNMENT = 256


class OpenCLBackend(DeviceBackend):
    """The first CPU device of any OpenCL platform. Zero copy.

    A buffer's pointer is an address of this process.
    """

    kind = "opencl"

    def __init__(self) -> None:
        self.cl: Any = None
        self.device: Any = None
        self.context: Any = None
        self.queue: Any = None
        self._facts: DeviceFacts | None = None
        self._maps: dict[str, mmap.mmap] = {}

    def open(self) -> None:
        # A process that crashes while compiling leaves broken entries in both caches, which later ones would
        # load.
        os.environ.setdefault("POCL_KERNEL_CACHE", "0")
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
        try:
            import pyopencl
        except ImportError as error:
            raise DeviceUnavailable(f"PyOpenCL is not installed ({error})") from None
        warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)  # logs are read, not printed
        self.cl = pyopencl
        self.device = self._cpu_device()
        self.context = pyopencl.Context([self.device])
        self.queue = pyopencl.CommandQueue(self.context, self.device)

    def _cpu_device(self) -> Any:
        try:
            platforms = self.cl.get_platforms()
        except self.cl.Error:
            platforms = []
        for platform in platforms:
            for device in platform.get_devices():
                if device.type & self.cl.device_type.CPU:
                    return device
        raise DeviceUnavailable("no OpenCL CPU device; `pip install pocl-binary-distribution` brings one")

    def facts(self) -> DeviceFacts:
        if self._facts is None:
            bandwidth, rate = measure_peaks(self)
            device = self.device
            self._facts = DeviceFacts(
                kind=self.kind,
                name=cpu_name(device.name.strip()),
                compute_units=int(device.max_compute_units),
                architecture=device.version.strip(),
                memory_bytes=int(device.global_mem_size),
                l2_bytes=int(device.global_mem_cache_size) or None,
                shared_bytes_per_block=int(device.local_mem_size),
                max_threads_per_block=int(device.max_work_group_size),
                warp_size=None,
                peak_bandwidth_gbs=bandwidth,
                peak_fp32_gflops=rate,
                peaks_measured=True,
            )
        return self._facts

    def limits(self) -> BindLimits:
        sizes = [int(size) for size in self.device.max_work_item_sizes]
        return BindLimits(
            max_threads_per_block=int(self.device.max_work_group_size),
            max_block=(sizes[0], sizes[1], sizes[2]),
            max_shared_bytes=0,
            max_memory_bytes=int(self.device.global_mem_size),
        )

    def compiler(self) -> str:
        return f"{self.device.platform.name.strip()} {self.device.driver_version.strip()}"

    def compile(
        self, source: str, names: Sequence[str], options: Sequence[str] = ()
    ) -> Module | CompileError:
        start = time.perf_counter()
        try:
            program = self.cl.Program(self.context, source or "kernel void htam_nothing() {}")
            program.build(options=["-cl-std=CL1.2", "-cl-kernel-arg-info", *options], devices=[self.device])
        except self.cl.Error as error:
            return compile_error(str(error))
        log = clean_log(program.get_build_info(self.device, self.cl.program_build_info.LOG) or "")
        kernels = {}
        for name in names:
            try:
                kernels[name] = self._kernel_facts(name, self.cl.Kernel(program, name))
            except self.cl.Error:
                return CompileError(f"kernels defines no kernel {name!r}", log)
        return Module(kernels, log, time.perf_counter() - start, handle=program)

    def _kernel_facts(self, name: str, kernel: Any) -> KernelFacts:
        info = self.cl.kernel_work_group_info
        return KernelFacts(
            name=name,
            shared_bytes=int(kernel.get_work_group_info(info.LOCAL_MEM_SIZE, self.device)),
            max_threads_per_block=int(kernel.get_work_group_info(info.WORK_GROUP_SIZE, self.device)),
        )

    def alloc(self, nbytes: int) -> Buffer:
        size = max(nbytes, 1) + ALIGNMENT
        try:
            memory = mmap.mmap(-1, size)  # page aligned, and handed back to the system when dropped
        except (OSError, ValueError, OverflowError):
            raise OutOfDeviceMemory(f"{nbytes} bytes do not fit into memory") from None
        return self.wrap(_address(memory), nbytes, memory)

    def from_exchange(self, handle: Mapping[str, Any]) -> Buffer:
        path, offset, nbytes = str(handle["path"]), int(handle["offset"]), int(handle["nbytes"])
        if path not in self._maps:
            with open(path, "r+b") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0)
        memory = self._maps[path]
        if offset < 0 or nbytes < 0 or offset + nbytes > len(memory):
            raise ValueError(f"{nbytes} bytes at {offset} are outside the exchange file")
        return self.wrap(_address(memory) + offset, nbytes, memory)

    def wrap(self, pointer: int, nbytes: int, keep: Any = None) -> Buffer:
        return Buffer(pointer, nbytes, keep)

    def executor(
        self,
        program: Program,
        module: Module | None,
        buffers: Mapping[int, Buffer],
        share: Executor | None = None,
    ) -> Executor:
        assert share is None or isinstance(share, OpenCLExecutor)
        return OpenCLExecutor(self, program, module, buffers, share)

    def infer_library(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, ...]:
        return torch_library.infer(op, args, kwargs)

    def read(self, buffer: Buffer) -> bytes:
        self.synchronise()
        return ctypes.string_at(buffer.pointer, buffer.nbytes)

    def write(self, buffer: Buffer, content: bytes) -> None:
        if len(content) > buffer.nbytes:
            raise ValueError(f"{len(content)} bytes do not fit into {buffer.nbytes}")
        self.synchronise()
        ctypes.memmove(buffer.pointer, content, len(content))

    def synchronise(self) -> None:
        try:
            self.queue.finish()
        except self.cl.Error as error:
            raise LaunchError(f"the device reported: {error}") from None

    def fill(self, buffer: Buffer, value: int) -> None:
        self.synchronise()
        ctypes.memset(buffer.pointer, value, buffer.nbytes)

    def time(self, run: Callable[[], None], lead_in: bool = False) -> Elapsed:
        self.synchronise()
        start = time.perf_counter_ns()
        run()
        self.synchronise()
        return Elapsed((time.perf_counter_ns() - start) / 1000, None)

    def close(self) -> None:
        if self.queue is not None:
            self.queue.finish()
        self.queue = self.context = self.device = None
        self._maps.clear()

    def over(self, pointer: int, nbytes: int) -> Any:
        """An OpenCL buffer that uses host memory in place."""
        flags = self.cl.mem_flags
        host = (ctypes.c_char * max(nbytes, 1)).from_address(pointer)
        try:
            return self.cl.Buffer(self.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)
        except self.cl.MemoryError:
            raise OutOfDeviceMemory(f"a buffer of {nbytes} bytes does not fit the device") from None


def compile_error(text: str) -> CompileError:
    """A build failure, without PyOpenCL's frame around the compiler's words."""
    log = re.sub(r"\n?\(options: .*", "", text, flags=re.DOTALL)
    log = re.sub(r"^.*?Build on <[^>]*>:\s*", "", log, count=1, flags=re.DOTALL)
    log = clean_log(re.sub(r"\S*tempfile_\w+\.cl", "kernels.cl", log)).strip()
    first = next((line for line in log.splitlines() if "error" in line.lower()), "")
    return CompileError(first.strip() or "the kernels do not compile", log)


def cpu_name(name: str) -> str:
    """``AMD EPYC`` of PoCL's ``pthread-AMD EPYC``."""
    return name.removeprefix("pthread-").removeprefix("cpu-")


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
