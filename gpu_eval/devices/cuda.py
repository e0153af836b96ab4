"""CUDA through PyCUDA on the device's primary context, the one that torch uses too."""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpu_eval.devices import torch_library
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
)
from gpu_eval.devices.cubin import read_cubin
from gpu_eval.devices.cuda_clock import CudaClock
from gpu_eval.devices.cuda_compile import compile_code, native_arch
from gpu_eval.devices.cuda_run import CudaExecutor
from gpu_eval.devices.occupancy import Multiprocessor, fp32_cores
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.program import Program
from gpu_eval.plans.specs import TensorSpec
from gpu_eval.results import DeviceFacts

# Words of driver errors after which a context does no more work.
_LOST = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "unspecified launch failure",
    "launch failed",
    "launch timed out",
    "hardware stack error",
    "device-side assert",
    "context is destroyed",
    "uncorrectable",
)


class CudaBackend(DeviceBackend):
    """Device 0 as CUDA_VISIBLE_DEVICES numbers it. All work runs on the default stream, as torch's does."""

    kind = "cuda"

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.drv: Any = None
        self.device: Any = None
        self.context: Any = None
        self._arenas: dict[str, tuple[Any, int]] = {}
        self._clock: CudaClock | None = None
        self._copy_module: Module | None = None

    # life

    def open(self) -> None:
        try:
            import pycuda.driver as drv
        except (ImportError, OSError) as error:
            raise DeviceUnavailable(f"PyCUDA does not load ({error})") from None
        try:
            drv.init()
            if drv.Device.count() <= self.index:
                raise DeviceUnavailable("the CUDA driver sees no GPU")
            device = drv.Device(self.index)
            _wake_torch()
            context = device.retain_primary_context()
            context.push()
        except drv.Error as error:
            raise DeviceUnavailable(f"no CUDA context can be made ({error})") from None
        self.drv, self.device, self.context = drv, device, context
        self._clock = CudaClock(drv)
        atexit.register(self.close)  # a context that is still pushed at exit aborts the process

    def close(self) -> None:
        if self.context is None:
            return
        atexit.unregister(self.close)
        with contextlib.suppress(self.drv.Error):
            self.drv.Context.synchronize()
        for handle, _ in self._arenas.values():
            with contextlib.suppress(self.drv.Error):
                handle.close()
        self._arenas.clear()
        self._clock = self._copy_module = None
        with contextlib.suppress(self.drv.Error):
            self.context.pop()
        self.context = None

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """PyCUDA's exceptions as this package's."""
        try:
            yield
        except self.drv.MemoryError as error:
            raise OutOfDeviceMemory(str(error)) from None
        except self.drv.Error as error:
            text = str(error)
            if any(words in text.lower() for words in _LOST):
                raise DeviceLost(text) from None
            if "out of memory" in text.lower():
                raise OutOfDeviceMemory(text) from None
            raise LaunchError(text) from None

    # what the device is

    def attribute(self, name: str) -> int:
        """A device attribute by PyCUDA's name."""
        return int(self.device.get_attribute(getattr(self.drv.device_attribute, name)))

    def arch(self) -> str:
        """``sm_90``; with the architecture's own instructions (``sm_90a``) where it has such."""
        major, minor = self.device.compute_capability()
        return native_arch(f"sm_{major}{minor}")

    def facts(self) -> DeviceFacts:
        major, minor = self.device.compute_capability()
        units = self.attribute("MULTIPROCESSOR_COUNT")
        bus_bytes = self.attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8
        return DeviceFacts(
            kind=self.kind,
            name=self.device.name(),
            compute_units=units,
            architecture=f"sm_{major}{minor}",
            memory_bytes=int(self.device.total_memory()),
            l2_bytes=self.attribute("L2_CACHE_SIZE"),
            shared_bytes_per_block=self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            max_threads_per_block=self.attribute("MAX_THREADS_PER_BLOCK"),
            warp_size=self.attribute("WARP_SIZE"),
            peak_bandwidth_gbs=2 * self.attribute("MEMORY_CLOCK_RATE") * bus_bytes / 1e6,
            peak_fp32_gflops=2 * units * fp32_cores((major, minor)) * self.attribute("CLOCK_RATE") / 1e6,
        )

    def multiprocessor(self) -> Multiprocessor:
        """What bounds occupancy here."""
        return Multiprocessor(
            capability=self.device.compute_capability(),
            warp_size=self.attribute("WARP_SIZE"),
            max_threads=self.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            max_blocks=self.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            registers=self.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_bytes=self.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        )

    def limits(self) -> BindLimits:
        x, y, z = (self.attribute(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ")
        grid_x, grid_y, grid_z = (self.attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ")
        free, _ = self.drv.mem_get_info()
        return BindLimits(
            max_threads_per_block=self.attribute("MAX_THREADS_PER_BLOCK"),
            max_block=(x, y, z),
            max_grid=(grid_x, grid_y, grid_z),
            max_shared_bytes=self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            max_memory_bytes=int(free),
        )

    # code

    def compile(
        self, source: str, names: Sequence[str], options: Sequence[str] = ()
    ) -> Module | CompileError:
        compiled = compile_code(source, names, self.arch(), options)
        return compiled if isinstance(compiled, CompileError) else self.load(compiled)

    def load(self, compiled: CompiledCode) -> Module | CompileError:
        if not compiled.code:
            return Module({}, "", 0.0, extra={"functions": {}, "device_globals": []})
        parameters = {kernel.symbol: kernel.parameter_bytes for kernel in read_cubin(compiled.code).kernels}
        try:
            handle = self.drv.module_from_buffer(compiled.code)
            functions = {name: handle.get_function(symbol) for name, symbol in compiled.symbols.items()}
        except self.drv.Error as error:
            if "out of memory" in str(error).lower():
                raise OutOfDeviceMemory("the compiled code and its variables do not fit the device") from None
            return CompileError(f"the driver does not load the compiled code: {error}", compiled.log)
        kernels = {
            name: KernelFacts(
                name=name,
                registers=int(function.num_regs),
                spill_bytes=int(function.local_size_bytes),
                shared_bytes=int(function.shared_size_bytes),
                max_threads_per_block=int(function.max_threads_per_block),
                parameter_bytes=parameters.get(compiled.symbols[name]),
            )
            for name, function in functions.items()
        }
        extra = {
            "functions": functions,
            "compiler": compiled.compiler,
            "device_globals": list(compiled.device_globals),
            "cubin": compiled.code,
        }
        return Module(kernels, compiled.log, compiled.seconds, handle=handle, extra=extra)

    # memory

    def alloc(self, nbytes: int) -> Buffer:
        with self.errors():
            allocation = self.drv.mem_alloc(max(nbytes, 1))
        return Buffer(int(allocation), nbytes, allocation)

    def from_exchange(self, handle: Mapping[str, Any]) -> Buffer:
        key, offset, nbytes = str(handle["handle"]), int(handle["offset"]), int(handle["nbytes"])
        if key not in self._arenas:
            with self.errors():
                arena = self.drv.IPCMemoryHandle(bytearray.fromhex(key))
            self._arenas[key] = (arena, int(arena))
        arena, base = self._arenas[key]
        return Buffer(base + offset, nbytes, arena)

    def wrap(self, pointer: int, nbytes: int, keep: Any = None) -> Buffer:
        return Buffer(int(pointer), nbytes, keep)

    def read(self, buffer: Buffer) -> bytes:
        content = bytearray(buffer.nbytes)
        with self.errors():
            self.drv.Context.synchronize()
            if content:
                self.drv.memcpy_dtoh(content, buffer.pointer)
        return bytes(content)

    def write(self, buffer: Buffer, content: bytes) -> None:
        if len(content) > buffer.nbytes:
            raise ValueError(f"{len(content)} bytes do not fit into {buffer.nbytes}")
        with self.errors():
            if content:
                self.drv.memcpy_htod(buffer.pointer, bytearray(content))
            self.drv.Context.synchronize()

    # work

    def executor(
        self,
        program: Program,
        module: Module | None,
        buffers: Mapping[int, Buffer],
        share: Executor | None = None,
    ) -> Executor:
        assert share is None or isinstance(share, CudaExecutor)
        return CudaExecutor(self, program, module, buffers, share)

    def infer_library(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, ...]:
        return torch_library.infer(op, args, kwargs)

    def copy_module(self, source: str, names: Sequence[str]) -> Module:
        """The host's own copy kernels, compiled on first use."""
        if self._copy_module is None:
            module = self.compile(source, names)
            if isinstance(module, CompileError):
                raise RuntimeError(f"the copy kernels do not compile: {module.log}")
            self._copy_module = module
        return self._copy_module

    def synchronise(self) -> None:
        with self.errors():
            self.drv.Context.synchronize()

    def fill(self, buffer: Buffer, value: int) -> None:
        with self.errors():
            if buffer.nbytes:
                self.drv.memset_d8(buffer.pointer, value, buffer.nbytes)
            self.drv.Context.synchronize()

    def time(self, run: Callable[[], None], lead_in: bool = False) -> Elapsed:
        assert self._clock is not None
        with self.errors():
            return self._clock.time(run, lead_in)[0]


def _wake_torch() -> None:
    """Where torch is loaded already, it makes the primary context first, as its own start-up expects."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.init()
        torch.cuda.current_stream().synchronize()
