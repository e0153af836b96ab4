"""What every device backend does. One contract test class runs over all implementations.

A backend lives in one process and one thread, and only in the judge or the runner: opening one loads a device
library. Order of use::

    backend = open_backend("opencl"); backend.open()
    module = backend.compile(plan.kernels, plan.launch_names)      # Module or CompileError
    program = bind(plan, inputs, params, limits=backend.limits(), infer_library=backend.infer_library)
    buffers = {slot.index: backend.from_exchange(handle) for slot in program.judge_slots()}
    executor = backend.executor(program, module, buffers)  # checks arguments, allocates the runner's slots
    executor.prepare()
    elapsed = backend.time(executor.run, lead_in=True)
    if executor.collects: executor.collect()
    backend.close()
"""

from __future__ import annotations

import re
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.program import Program
from gpu_eval.plans.specs import TensorSpec
from gpu_eval.results import DeviceFacts, KernelReport

LOG_BYTES = 8192
LEAD_IN_BYTES = (
    256 * 1024**2
)  # several times the L2 of any device so far; what the KernelBench harness writes too


class DeviceUnavailable(RuntimeError):
    """No such device, driver or library on this machine; the sentence says what is missing."""


class LaunchError(RuntimeError):
    """The device or torch refused a launch, an argument list or a library call.

    A verdict, not a fault of ours.
    """


class OutOfDeviceMemory(RuntimeError):
    """An allocation did not fit. A verdict, not a fault of ours."""


class DeviceLost(RuntimeError):
    """The context is unusable (illegal access, trap): this process can do no more device work."""


@dataclass(frozen=True)
class CompileError:
    """A compilation that failed: the compiler's words, cleaned and cut to `LOG_BYTES`."""

    message: str  # one sentence: the first error line
    log: str


@dataclass(frozen=True)
class CompiledCode:
    """Machine code for one architecture, made without a device: another process may load it."""

    code: bytes
    symbols: dict[str, str]  # every wanted kernel name to its symbol in the code
    log: str = ""
    compiler: str = ""  # its name and version
    device_globals: tuple[str, ...] = ()  # the source's variables that outlive a launch
    seconds: float = 0.0


@dataclass(frozen=True)
class KernelFacts:
    """What the compiler says of one kernel. ``None`` where a backend cannot know."""

    name: str
    registers: int | None = None
    spill_bytes: int | None = None  # local memory a thread, spills and stack frames
    shared_bytes: int | None = None  # static, a block
    max_threads_per_block: int | None = None
    parameter_bytes: tuple[int, ...] | None = None  # size of each parameter, in order


@dataclass
class Module:
    """Compiled kernels, ready to launch by plain name. ``handle`` is the backend's own."""

    kernels: dict[str, KernelFacts]
    log: str
    seconds: float
    handle: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


class Tf32(NamedTuple):
    """Where fp32 operands may be rounded to TF32."""

    products: bool = False
    convolutions: bool = False


class Elapsed(NamedTuple):
    """Time of one call, in microseconds; ``wall_us`` spans two full device synchronises."""

    wall_us: float
    device_us: float | None  # between two events around the work; None where a backend has none


@dataclass
class Buffer:
    """Device memory. ``pointer`` is an address valid in this process (host memory on OpenCL).

    ``keep`` holds owners.
    """

    pointer: int
    nbytes: int
    keep: Any = None


class Executor(ABC):
    """A program tied to memory: argument packing is done, so a replay costs little more than the launches."""

    program: Program

    @abstractmethod
    def prepare(self) -> None:
        """Run the plan's `prepare` steps and synchronise. Needed once before `run`, and after new weights."""

    @abstractmethod
    def run(self) -> None:
        """Enqueue one call's steps, without synchronising.

        Raises LaunchError, OutOfDeviceMemory, DeviceLost.
        """

    @property
    @abstractmethod
    def collects(self) -> bool:
        """Whether `collect` is needed after `run`."""

    @abstractmethod
    def collect(self) -> None:
        """Put results that torch allocated into the memory of the program's outputs, and synchronise.

        No part of a timed call: eager PyTorch leaves its results where they are, too.
        """

    @abstractmethod
    def kernel_reports(self) -> list[KernelReport]:
        """One report a kernel that `run` launches, with occupancy where the backend can tell."""

    @abstractmethod
    def broken_guards(self) -> list[str]:
        """Names of the runner's own slots whose guard bytes were overwritten. Synchronises first."""

    @abstractmethod
    def poison(self) -> None:
        """Fill the temporaries of `run` with NaN, so that a kernel that reads what nothing wrote shows."""


class DeviceBackend(ABC):
    """One device in this process. Every method but `open` needs an open backend.

    None is safe across threads.
    """

    kind: str
    library_tf32: Tf32 = Tf32()  # set before `executor`: where library calls may round fp32 operands

    @abstractmethod
    def open(self) -> None:
        """Load the device library and make the context. Raises DeviceUnavailable with a sentence."""

    @abstractmethod
    def facts(self) -> DeviceFacts:
        """Name, sizes and peaks.

        On OpenCL the first call measures the peaks (about a second), then remembers.
        """

    @abstractmethod
    def limits(self) -> BindLimits:
        """Launch and memory bounds of this device, for `bind`."""

    @abstractmethod
    def compile(
        self, source: str, names: Sequence[str], options: Sequence[str] = ()
    ) -> Module | CompileError:
        """Compile ``source`` and find every kernel of ``names`` (plain, or template instances ``k<4>``).

        A source that does not compile, or lacks a name, is a CompileError value.
        """

    def compiler(self) -> str:
        """Name and version of what `compile` uses."""
        return ""

    def load(self, compiled: CompiledCode) -> Module | CompileError:
        """Load what was compiled elsewhere, its variables as at the start. Only where the device takes
        machine code from another process; the others compile here."""
        raise NotImplementedError(f"{self.kind} compiles where it runs")

    @abstractmethod
    def alloc(self, nbytes: int) -> Buffer:
        """Fresh memory with undefined content, aligned to 256 bytes. Raises OutOfDeviceMemory."""

    @abstractmethod
    def from_exchange(self, handle: Mapping[str, Any]) -> Buffer:
        """Memory that another process owns.

        OpenCL: ``{"kind": "file", "path": str, "offset": int, "nbytes": int}``: a shared file, mapped once a
        path; ``offset`` a multiple of 64. CUDA: ``{"kind": "ipc", "handle": hex, "offset": int, "nbytes":
        int}``: an arena exported by ``mem_get_ipc_handle``, opened once a handle.
        """

    @abstractmethod
    def wrap(self, pointer: int, nbytes: int, keep: Any = None) -> Buffer:
        """Memory of this process at ``pointer`` (a host address on OpenCL), used in place."""

    @abstractmethod
    def executor(
        self,
        program: Program,
        module: Module | None,
        buffers: Mapping[int, Buffer],
        share: Executor | None = None,
    ) -> Executor:
        """Tie ``program`` to memory: ``buffers`` holds every slot of `Program.judge_slots`.

        The runner's own slots are allocated here, or taken over from ``share`` (an executor of the same
        program), so that several lanes of inputs and outputs need one set of temporaries. Raises LaunchError
        when a kernel's parameters do not fit the launch's arguments, OutOfDeviceMemory when the slots do not
        fit.
        """

    @abstractmethod
    def infer_library(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, ...]:
        """Result specs of a library call whose tensors are given as TensorSpec. Loads torch.

        Raises LibraryRefused, which `bind` turns into a PlanError with the place.
        """

    @abstractmethod
    def read(self, buffer: Buffer) -> bytes:
        """The buffer's content, after a synchronise."""

    @abstractmethod
    def write(self, buffer: Buffer, content: bytes) -> None:
        """Replace the first ``len(content)`` bytes; complete on return."""

    @abstractmethod
    def fill(self, buffer: Buffer, value: int) -> None:
        """Set every byte to ``value``; complete on return."""

    @abstractmethod
    def synchronise(self) -> None:
        """Wait for everything on the device.

        Raises DeviceLost or LaunchError for failures that surface here.
        """

    @abstractmethod
    def time(self, run: Callable[[], None], lead_in: bool = False) -> Elapsed:
        """Synchronise, run, synchronise; how long the middle took.

        With ``lead_in``, where the device has a queue, memory is written right before ``run`` and not waited
        for (see `gpu_eval.devices.cuda_clock`). ``wall_us`` then spans that too.
        """

    @abstractmethod
    def close(self) -> None:
        """Free everything and leave the context. Safe to call twice."""

    def __enter__(self) -> DeviceBackend:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def clean_log(log: str) -> str:
    """A compiler's log without control characters and folders of the host, cut to `LOG_BYTES` with its head
    and tail kept."""
    log = cut(log)  # what follows is slow, and a log may be made to be long
    return without_folders("".join(char for char in log if char in "\n\t" or char.isprintable()))


def cut(log: str) -> str:
    """At most `LOG_BYTES`, head and tail."""
    data = log.encode("utf-8", "replace")
    if len(data) <= LOG_BYTES:
        return log
    half = LOG_BYTES // 2 - 16
    head = data[:half].decode("utf-8", "ignore")
    return f"{head}\n[... cut ...]\n{data[-half:].decode('utf-8', 'ignore')}"


def without_folders(text: str) -> str:
    """``cuda_fp16.hpp(9)`` for ``/usr/local/cuda/include/cuda_fp16.hpp(9)``: where this host keeps its files
    is nobody's business, and would tell equal messages apart."""
    return _host_path().sub(r"\1", text)


@lru_cache(maxsize=1)
def _host_path() -> re.Pattern[str]:
    """An absolute path below a folder that hosts have, or that this one's interpreter is in."""
    tops = set("bin dev etc home lib lib64 mnt opt proc root run sbin srv sys tmp usr var".split())
    for place in (sys.prefix, sys.base_prefix, tempfile.gettempdir(), str(Path(__file__).resolve())):
        tops.update(Path(place).parts[1:2])
    names = "|".join(map(re.escape, sorted(tops)))
    return re.compile(rf"(?<![\w./)\]])/(?:{names})/(?:[\w.+@~-]+/)*([\w.+@~-]*)")
