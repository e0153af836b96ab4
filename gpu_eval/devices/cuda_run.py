"""A program tied to device memory: every argument buffer is packed once, a replay only launches."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpu_eval.devices import torch_library
from gpu_eval.devices.base import Buffer, Executor, KernelFacts, LaunchError, Module, OutOfDeviceMemory
from gpu_eval.devices.binding import Memory, kernel_of, kernel_reports
from gpu_eval.devices.occupancy import occupancy
from gpu_eval.plans.program import Allocate, Copy, Launch, LibraryCall, Program, SlotView, Step
from gpu_eval.plans.specs import SCALAR_STRUCT, Scalar
from gpu_eval.plans.views import coalesced
from gpu_eval.results import KernelReport

if TYPE_CHECKING:
    from gpu_eval.devices.cuda import CudaBackend

DEFAULT_DYNAMIC_SHARED = 48 * 1024  # beyond this a function must be told
COPY_DIMS = 8
_COPY_BLOCK = 256

# Gathers `n` elements of any strides into a contiguous target; sizes and strides come as one struct by value.
COPY_SOURCE = """
struct Layout { long long size[8]; long long stride[8]; int dims; };
template<typename T> __device__ __forceinline__ void gather(const T* x, T* y, long long n, const Layout& at) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        long long rest = i, from = 0;
        for (int d = at.dims - 1; d >= 0; --d) {
            from += rest % at.size[d] * at.stride[d];
            rest /= at.size[d];
        }
        y[i] = x[from];
    }
}
#define COPY(BYTES, T) extern "C" __global__ void htam_copy_##BYTES( \\
    const T* x, T* y, long long n, Layout at) { gather(x, y, n, at); }
COPY(1, unsigned char) COPY(2, unsigned short) COPY(4, unsigned int) COPY(8, unsigned long long)
COPY(16, uint4)
"""
COPY_NAMES = tuple(f"htam_copy_{size}" for size in (1, 2, 4, 8, 16))

Call = Callable[[], Any]

# Formats of `__cuda_array_interface__` by element size; torch views the bytes as the real dtype afterwards.
_TYPESTR = {1: "|u1", 2: "<i2", 4: "<i4", 8: "<i8", 16: "<c16"}


class CudaExecutor(Executor):
    """Launches, copies and torch calls go to the default stream in the plan's order."""

    def __init__(
        self,
        backend: CudaBackend,
        program: Program,
        module: Module | None,
        buffers: Mapping[int, Buffer],
        share: CudaExecutor | None,
    ) -> None:
        self.backend = backend
        self.program = program
        self.module = module
        self.memory: Memory = Memory(program, buffers, backend.alloc, share.memory if share else None)
        if share is None:
            self.memory.fill_guards(backend.write)
        self.library = torch_library.LibraryCalls(program, self.tensor)
        self._prepare = self._calls(program.prepare_steps)
        self._run = self._calls(program.steps)

    def prepare(self) -> None:
        self._replay(self._prepare)
        self.backend.synchronise()

    def run(self) -> None:
        self._replay(self._run)

    @property
    def collects(self) -> bool:
        return self.library.collects

    def collect(self) -> None:
        self._replay([self.library.collect])
        self.backend.synchronise()

    def kernel_reports(self) -> list[KernelReport]:
        processor = self.backend.multiprocessor()

        def of(launch: Launch) -> float:
            facts = kernel_of(self.module, launch)
            shared = (facts.shared_bytes or 0) + launch.shared
            return occupancy(processor, math.prod(launch.block), facts.registers or 0, shared)

        return kernel_reports(self.program, self.module, of)

    def broken_guards(self) -> list[str]:
        self.backend.synchronise()
        return self.memory.broken_guards(self.backend.read)

    def poison(self) -> None:
        self.memory.poison(self.backend.fill)

    def _replay(self, calls: Sequence[Call]) -> None:
        try:
            for call in calls:
                call()
        except self.backend.drv.Error as error:
            with self.backend.errors():
                raise error
        except RuntimeError as error:
            if "out of memory" in str(error).lower() and not isinstance(error, OutOfDeviceMemory):
                raise OutOfDeviceMemory(str(error).splitlines()[0]) from None
            raise

    def _calls(self, steps: Sequence[Step]) -> list[Call]:
        calls: list[Call] = []
        for step in steps:
            if isinstance(step, Launch):
                calls.append(self._launch(step))
            elif isinstance(step, Copy):
                calls += self._copy(step)
            elif isinstance(step, LibraryCall):
                torch_library.set_tf32(self.backend.library_tf32)
                calls.append(self.library.prepared(step))
            elif isinstance(step, Allocate) and step.zero and step.spec.nbytes:
                calls.append(self._zero(step))
        return calls

    def _launch(self, step: Launch) -> Call:
        facts = kernel_of(self.module, step)
        assert self.module is not None
        _check_parameters(facts, step)
        function = self.module.extra["functions"][step.kernel]
        if step.shared > DEFAULT_DYNAMIC_SHARED:
            attribute = self.backend.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            with self.backend.errors():
                function.set_attribute(attribute, step.shared)
        packed = self._packed(step.args)
        launch, grid, block, shared = function._launch_kernel, step.grid, step.block, step.shared
        return lambda: launch(grid, block, packed, shared, None)

    def _packed(self, args: Sequence[SlotView | Scalar]) -> bytes:
        """The parameter buffer, each value aligned to its size as CUDA lays it out."""
        form = ""
        values: list[int | float] = []
        for argument in args:
            if isinstance(argument, SlotView):
                form += "P"
                values.append(self.memory.pointer(argument))
            else:
                form += SCALAR_STRUCT[argument.kind]
                values.append(argument.value)
        return struct.pack(form, *values)

    def _zero(self, step: Allocate) -> Call:
        fill = self.backend.drv.memset_d8_async
        pointer, nbytes = self.memory.pointers[step.slot], step.spec.nbytes
        return lambda: fill(pointer, 0, nbytes, None)

    def _copy(self, step: Copy) -> list[Call]:
        source, target = self.memory.pointer(step.source), self.memory.pointer(step.target)
        nbytes = step.target.spec.nbytes
        if nbytes == 0:
            return []
        if step.source.contiguous:
            move = self.backend.drv.memcpy_dtod_async
            return [lambda: move(target, source, nbytes, None)]
        return [self._gather(step, source, target)]

    def _gather(self, step: Copy, source: int, target: int) -> Call:
        sizes, strides = coalesced(step.source)
        if len(sizes) > COPY_DIMS:
            raise LaunchError(f"a copy of more than {COPY_DIMS} separate dimensions is not supported")
        name = f"htam_copy_{step.source.spec.itemsize}"
        function = self.backend.copy_module(COPY_SOURCE, COPY_NAMES).extra["functions"][name]
        count = step.source.numel
        pad = (1,) * (COPY_DIMS - len(sizes))
        packed = struct.pack("PPq8q8qi4x", source, target, count, *sizes, *pad, *strides, *pad, len(sizes))
        blocks = min(-(-count // _COPY_BLOCK), 65_536)
        launch = function._launch_kernel
        return lambda: launch((blocks, 1, 1), (_COPY_BLOCK, 1, 1), packed, 0, None)

    def tensor(self, view: SlotView) -> Any:
        """A torch tensor over the view's memory, not copied."""
        import torch

        dtype = torch_library.torch_dtype(view.dtype)
        slot = self.program.slots[view.slot].spec
        if slot.nbytes == 0:
            return torch.empty(view.shape, dtype=dtype, device="cuda")
        memory = _Interface(self.memory.pointers[view.slot], slot.numel, slot.itemsize)
        flat = torch.as_tensor(memory, device="cuda")
        return flat.view(dtype).as_strided(view.shape, view.strides, view.offset)


class _Interface:
    """Device memory as `__cuda_array_interface__` describes it: one dimension of raw elements."""

    def __init__(self, pointer: int, count: int, itemsize: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": _TYPESTR[itemsize],
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


def _check_parameters(facts: KernelFacts, step: Launch) -> None:
    """Refuse a launch whose arguments differ in number or size from the kernel's parameters."""
    sizes = facts.parameter_bytes
    if sizes is None:
        return
    if len(sizes) != len(step.args):
        given = len(step.args)
        raise LaunchError(f"kernel {step.kernel!r} takes {len(sizes)} arguments, the launch gives {given}")
    for position, (size, argument) in enumerate(zip(sizes, step.args, strict=True)):
        kind = "a tensor" if isinstance(argument, SlotView) else argument.kind
        width = struct.calcsize("P" if isinstance(argument, SlotView) else SCALAR_STRUCT[argument.kind])
        if size != width:
            where = f"kernel {step.kernel!r}: argument {position} has {size} bytes"
            raise LaunchError(f"{where}, the launch gives {kind} of {width} bytes")
