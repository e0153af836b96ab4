"""A program tied to host memory and an in-order OpenCL queue."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_eval.devices import torch_library
from gpu_eval.devices.base import Buffer, Executor, LaunchError, Module, OutOfDeviceMemory
from gpu_eval.devices.binding import Memory, kernel_of, kernel_reports
from gpu_eval.plans.program import Allocate, Copy, Launch, LibraryCall, Program, SlotView, Step
from gpu_eval.plans.specs import Scalar
from gpu_eval.plans.views import coalesced
from gpu_eval.results import KernelReport

if TYPE_CHECKING:
    from gpu_eval.devices.opencl import OpenCLBackend

_DECLARED = {"int": "int32", "uint": "int32", "long": "int64", "ulong": "int64"}
_DECLARED |= {"float": "float32", "double": "float64"}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}

Call = Callable[[], Any]


class OpenCLExecutor(Executor):
    """Kernel launches are enqueued with arguments set once; host-side steps wait for the queue first."""

    def __init__(
        self,
        backend: OpenCLBackend,
        program: Program,
        module: Module | None,
        buffers: Mapping[int, Buffer],
        share: OpenCLExecutor | None,
    ) -> None:
        self.backend = backend
        self.program = program
        self.module = module
        self.memory: Memory = Memory(program, buffers, backend.alloc, share.memory if share else None)
        if share is None:
            self.memory.fill_guards(backend.write)
        self._buffers: dict[SlotView, Any] = {}
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
        return kernel_reports(self.program, self.module, lambda launch: None)

    def broken_guards(self) -> list[str]:
        self.backend.synchronise()
        return self.memory.broken_guards(self.backend.read)

    def poison(self) -> None:
        self.memory.poison(self.backend.fill)

    def _replay(self, calls: Sequence[Call]) -> None:
        try:
            for call in calls:
                call()
        except self.backend.cl.MemoryError as error:
            raise OutOfDeviceMemory(f"the device reported: {error}") from None
        except self.backend.cl.Error as error:
            raise LaunchError(f"the device reported: {error}") from None

    def _calls(self, steps: Sequence[Step]) -> list[Call]:
        calls: list[Call] = []
        for step in steps:
            if isinstance(step, Launch):
                calls.append(self._launch(step))
            elif isinstance(step, Copy):
                calls.append(self._after_queue(self._copy(step)))
            elif isinstance(step, LibraryCall):
                torch_library.set_tf32(self.backend.library_tf32)
                calls.append(self._after_queue(self.library.prepared(step)))
            elif isinstance(step, Allocate) and step.zero:
                calls.append(self._after_queue(self._zero(step)))
        return calls

    def _after_queue(self, call: Call) -> Call:
        """Host work runs at once, so everything enqueued before it must be done."""
        finish = self.backend.queue.finish

        def run() -> None:
            finish()
            call()

        return run

    def _launch(self, step: Launch) -> Call:
        kernel_of(self.module, step)
        assert self.module is not None
        cl, queue = self.backend.cl, self.backend.queue
        kernel = cl.Kernel(self.module.handle, step.kernel)
        if kernel.num_args != len(step.args):
            raise LaunchError(
                f"kernel {step.kernel!r} takes {kernel.num_args} arguments, the launch gives {len(step.args)}"
            )
        for position, argument in enumerate(step.args):
            self._set_argument(kernel, step.kernel, position, argument)
        dims = 3 if step.grid[2] * step.block[2] > 1 else 2 if step.grid[1] * step.block[1] > 1 else 1
        size = tuple(blocks * threads for blocks, threads in zip(step.grid, step.block, strict=True))[:dims]
        block = step.block[:dims]
        enqueue = cl.enqueue_nd_range_kernel
        return lambda: enqueue(queue, kernel, size, block)

    def _set_argument(self, kernel: Any, name: str, position: int, argument: SlotView | Scalar) -> None:
        info = self.backend.cl.kernel_arg_info
        declared = kernel.get_arg_info(position, info.TYPE_NAME)
        if not _fits(declared, argument):
            raise _mismatch(name, position, declared, argument)
        if isinstance(argument, SlotView):
            value = self._buffer(argument)
        else:
            value = np.dtype(argument.kind).type(argument.value)
        try:
            kernel.set_arg(position, value)
        except self.backend.cl.Error:
            raise _mismatch(name, position, declared, argument) from None

    def _buffer(self, view: SlotView) -> Any:
        if view not in self._buffers:
            self._buffers[view] = self.backend.over(self.memory.pointer(view), view.spec.nbytes)
        return self._buffers[view]

    def _zero(self, step: Allocate) -> Call:
        pointer, nbytes = self.memory.pointers[step.slot], step.spec.nbytes
        return lambda: ctypes.memset(pointer, 0, nbytes)

    def _copy(self, step: Copy) -> Call:
        shape, strides = coalesced(step.source)
        item = step.source.spec.itemsize
        source = self._array(self.memory.pointer(step.source), step.source, shape, strides)
        target = self._array(self.memory.pointer(step.target), step.target, shape, None)
        assert item in _UNSIGNED
        return lambda: np.copyto(target, source)

    def _array(
        self, pointer: int, view: SlotView, shape: Sequence[int], strides: Sequence[int] | None
    ) -> np.ndarray[Any, Any]:
        item = view.spec.itemsize
        span = 1 + sum((size - 1) * step for size, step in zip(shape, strides or (), strict=False))
        elements = view.numel if strides is None else span
        if view.numel == 0:
            return np.empty((0,), _UNSIGNED[item])
        memory: Any = (ctypes.c_char * (elements * item)).from_address(pointer)
        byte_strides = None if strides is None else tuple(step * item for step in strides)
        return np.ndarray(tuple(shape), _UNSIGNED[item], buffer=memory, strides=byte_strides)

    def tensor(self, view: SlotView) -> Any:
        """A torch tensor over the view's memory, not copied."""
        import torch

        slot = self.program.slots[view.slot].spec
        if slot.nbytes == 0:
            return torch.empty(view.shape, dtype=torch_library.torch_dtype(view.dtype))
        memory = (ctypes.c_char * slot.nbytes).from_address(self.memory.pointers[view.slot])
        flat = torch.frombuffer(memory, dtype=torch_library.torch_dtype(view.dtype))
        return flat.as_strided(view.shape, view.strides, view.offset)


def _fits(declared: str, argument: SlotView | Scalar) -> bool:
    """Whether an argument's kind is the declared one; types that the kernel names itself pass."""
    if isinstance(argument, SlotView):
        return declared.rstrip().endswith("*")
    return argument.kind == _DECLARED.get(declared, argument.kind) and not declared.endswith("*")


def _mismatch(name: str, position: int, declared: str, argument: SlotView | Scalar) -> LaunchError:
    given = "a tensor" if isinstance(argument, SlotView) else argument.kind
    where = f"kernel {name!r}: argument {position} is declared {declared}"
    return LaunchError(f"{where}, the launch gives {given}")
