"""What a bound plan is: slots of memory and a flat list of steps over them. Nothing here touches a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeAlias

from gpu_eval.plans.specs import Scalar, TensorSpec, contiguous_strides


class SlotKind(StrEnum):
    """Who owns a slot's memory and how long its content lives."""

    INPUT = "input"  # the judge's; fresh content every call; read only
    PARAM = "param"  # the judge's; the operator's weights; read only
    PREPARED = "prepared"  # the runner's; written by `prepare`, kept for all calls
    LOCAL = "local"  # the runner's; content is meaningless between calls
    OUTPUT = "output"  # the judge's; poisoned before every call


@dataclass(frozen=True)
class Slot:
    """One piece of device memory, ``spec.nbytes`` long. ``name`` is for people.

    ``x``, ``linear.weight``, ``empty@12``.
    """

    index: int
    kind: SlotKind
    spec: TensorSpec
    name: str


@dataclass(frozen=True)
class SlotView:
    """A tensor as a window on a slot. ``offset`` and ``strides`` count elements of ``dtype``."""

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    PLAN_WORD: ClassVar[str] = "a tensor"

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype)

    @property
    def numel(self) -> int:
        return self.spec.numel

    @property
    def offset_bytes(self) -> int:
        return self.offset * self.spec.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether elements lie row-major without gaps; strides of sizes 0 and 1 do not matter."""
        if self.numel == 0:
            return True
        expected = contiguous_strides(self.shape)
        pairs = zip(self.shape, self.strides, expected, strict=True)
        return all(size == 1 or stride == wanted for size, stride, wanted in pairs)


@dataclass(frozen=True)
class Allocate:
    """``slot`` comes to life. With ``zero`` its bytes are set to 0 at this point of every replay."""

    slot: int
    spec: TensorSpec
    zero: bool
    line: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch: ``grid`` counts blocks, ``block`` threads, ``shared`` dynamic bytes (CUDA)."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[SlotView | Scalar, ...]
    line: int = 0


LibraryArgument: TypeAlias = "SlotView | float | str | tuple[LibraryArgument, ...] | None"


@dataclass(frozen=True)
class LibraryCall:
    """One torch operation; its results are copied or written into the ``outs`` views (whole slots)."""

    op: str
    args: tuple[LibraryArgument, ...]
    kwargs: tuple[tuple[str, LibraryArgument], ...]
    outs: tuple[SlotView, ...]
    line: int = 0


@dataclass(frozen=True)
class Copy:
    """``source`` (any strides) into ``target`` (contiguous, same shape and dtype)."""

    source: SlotView
    target: SlotView
    line: int = 0


Step: TypeAlias = Allocate | Launch | LibraryCall | Copy


@dataclass(frozen=True)
class Program:
    """A plan bound to fixed shapes.

    ``inputs`` has one entry an operator input: its slot, or None for a Python scalar. ``params`` maps every
    dotted name to its slot. Each output is a whole, contiguous slot of kind OUTPUT that nothing else shares,
    so the judge can put its own memory there. ``prepare_steps`` run once for a set of weights, ``steps`` in
    every call.
    """

    language: str
    slots: tuple[Slot, ...]
    inputs: tuple[int | None, ...]
    params: dict[str, int]
    prepare_steps: tuple[Step, ...]
    steps: tuple[Step, ...]
    outputs: tuple[SlotView, ...]
    returns_tuple: bool
    launch_count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "launch_count", sum(isinstance(step, Launch) for step in self.steps))

    def launches(self) -> Iterator[Launch]:
        """The launches of one call, in order."""
        return (step for step in self.steps if isinstance(step, Launch))

    @property
    def library_calls(self) -> list[str]:
        """Names of the torch operations, `prepare` included, in order, once a call."""
        every = (*self.prepare_steps, *self.steps)
        return [step.op for step in every if isinstance(step, LibraryCall)]

    @property
    def output_slots(self) -> tuple[int, ...]:
        return tuple(view.slot for view in self.outputs)

    @property
    def runner_bytes(self) -> int:
        """Device memory that the runner itself must allocate."""
        owned = (SlotKind.LOCAL, SlotKind.PREPARED)
        return sum(slot.spec.nbytes for slot in self.slots if slot.kind in owned)

    def judge_slots(self) -> list[Slot]:
        """Slots whose memory the caller provides: inputs, params, outputs."""
        return [slot for slot in self.slots if slot.kind not in (SlotKind.LOCAL, SlotKind.PREPARED)]
