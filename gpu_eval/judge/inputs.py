"""Inputs of other distributions than the operator's own, and when each is used.

KernelBench inputs are mostly uniform in [0, 1): branches are never taken, sums never cancel. The variants
keep shape, dtype and structure (see `gpu_eval.judge.structure`) and change the values:

- normal: standard normal;
- wide: magnitudes over many powers of ten in one tensor, either sign;
- negative: the own values with their sign turned;
- sparse: half of the values exactly zero, and some whole rows;
- large: normal times as much as the operator bears;
- shuffled: the own values in another order, for inputs that nothing else can be drawn for.

What an operator bears is found out once, by running PyTorch on it: a ladder of scales and, at its end, of
positive values only (logarithms, roots).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu_eval.judge.structure import Kind, Structure

OWN = "own"
NORMAL, WIDE, NEGATIVE, SPARSE, LARGE, SHUFFLED = (
    "normal",
    "wide",
    "negative",
    "sparse",
    "large",
    "shuffled",
)
VARIANTS = (NORMAL, WIDE, NEGATIVE, SPARSE, LARGE, SHUFFLED)
SMALLEST = -4.0  # power of ten, of wide values
SCALES = (1e4, 1e3, 1e2, 10.0)
SEARCH_S = 5.0  # for trying what the operator bears
TIMED_EVERY = 4  # of the timed calls, one in so many has inputs of another distribution


@dataclass(frozen=True)
class Flavour:
    """A variant made concrete: how large, and whether of one sign."""

    variant: str
    scale: float = 1.0
    positive: bool = False


def ladder(variant: str) -> list[Flavour]:
    """The flavours of a variant, the one that tests most first."""
    scales = SCALES if variant in (WIDE, LARGE) else (1.0,)
    signed = [Flavour(variant, scale) for scale in scales]
    if variant in (NEGATIVE, SHUFFLED):
        return signed
    return signed + [Flavour(variant, scale, positive=True) for scale in scales]


class Distributions:
    """The variants that one operator's inputs allow. ``usable`` maps their names to flavours."""

    def __init__(self, structures: list[Structure]) -> None:
        self.structures = structures
        self.usable: dict[str, Flavour] = {}

    @property
    def repeats(self) -> bool:
        """Whether no input changes with the seed of `get_inputs`."""
        tensors = [structure for structure in self.structures if structure.kind is not Kind.SCALAR]
        return bool(tensors) and all(structure.repeats for structure in tensors)

    def search(self, drawn: list[Any], bears: Callable[[list[Any]], bool], seed: int) -> None:
        """Fill ``usable`` with the first flavour of each variant that the operator ``bears``."""
        self.usable = {}
        end = time.monotonic() + SEARCH_S
        for variant in self.possible():
            for flavour in ladder(variant):
                if time.monotonic() > end:
                    return
                if bears(self.flavoured(drawn, flavour, seed)):
                    self.usable[variant] = flavour
                    break

    def possible(self) -> list[str]:
        """Variants that change at least one input."""
        redrawn = any(structure.redrawn for structure in self.structures)
        shuffled = any(can_shuffle(structure) for structure in self.structures)
        return [variant for variant in VARIANTS if (shuffled if variant == SHUFFLED else redrawn)]

    def make(self, drawn: list[Any], variant: str, seed: int, raw: bool = False) -> list[Any]:
        """``drawn`` as ``variant``. Own values that ignore the seed are changed too, unless ``raw``."""
        if variant != OWN:
            return self.flavoured(drawn, self.usable[variant], seed)
        if raw:
            return drawn
        return self.each(drawn, seed, lambda value, at, draw: fresh(value, at, draw) if at.repeats else value)

    def flavoured(self, drawn: list[Any], flavour: Flavour, seed: int) -> list[Any]:
        """``drawn`` with every input of a known structure replaced."""

        def replaced(value: torch.Tensor, structure: Structure, draw: Draw) -> torch.Tensor:
            if flavour.variant == SHUFFLED:
                return shuffle(value, structure, draw)
            if structure.redrawn:
                return redraw(value, structure, flavour, draw)
            return fresh(value, structure, draw) if structure.repeats else value

        return self.each(drawn, seed, replaced)

    def each(
        self,
        drawn: list[Any],
        seed: int,
        change: Callable[[torch.Tensor, Structure, Draw], torch.Tensor],
    ) -> list[Any]:
        """``change`` applied to every tensor; those that were equal stay equal."""
        made: list[Any] = []
        for index, (value, structure) in enumerate(zip(drawn, self.structures, strict=True)):
            if not isinstance(value, torch.Tensor) or value.numel() == 0:
                made.append(value)
            elif structure.same_as is not None:
                made.append(made[structure.same_as].clone())
            else:
                made.append(change(value, structure, Draw(value, seed + index)))
        return made


class Draw:
    """Random tensors like ``like``, reproducible by ``seed``, made on its device in float32."""

    def __init__(self, like: torch.Tensor, seed: int) -> None:
        self.shape, self.device = like.shape, like.device
        self.generator = torch.Generator(device=like.device).manual_seed(seed % 2**63)

    def normal(self) -> torch.Tensor:
        return torch.randn(self.shape, generator=self.generator, device=self.device, dtype=torch.float32)

    def uniform(self, shape: torch.Size | tuple[int, ...] | None = None) -> torch.Tensor:
        """In [0, 1)."""
        wanted = self.shape if shape is None else shape
        return torch.rand(wanted, generator=self.generator, device=self.device, dtype=torch.float32)

    def order(self, size: int) -> torch.Tensor:
        """A permutation."""
        return torch.randperm(size, generator=self.generator, device=self.device)

    def factor(self) -> float:
        """A number in [0.5, 1.5)."""
        return 0.5 + float(self.uniform((1,)))

    def keep_half(self) -> torch.Tensor:
        """A mask that drops half of the elements and one row in eight."""
        keep = self.uniform() < 0.5
        if len(self.shape) > 1:
            keep &= self.uniform((*self.shape[:-1], 1)) < 0.875
        return keep


def redraw(value: torch.Tensor, structure: Structure, flavour: Flavour, draw: Draw) -> torch.Tensor:
    """One tensor of another distribution and the same structure."""
    made = in_unit(value, flavour, draw) if structure.kind is Kind.UNIT else unbound(value, flavour, draw)
    return restructured(made, value, structure, flavour, draw).to(value.dtype).contiguous()


def unbound(value: torch.Tensor, flavour: Flavour, draw: Draw) -> torch.Tensor:
    """Values of the flavour without regard to structure, float32 or wider."""
    if flavour.variant == NEGATIVE:
        return -value
    if flavour.variant == WIDE:
        top = math.log10(flavour.scale)
        made = draw.uniform().mul_(top - SMALLEST).add_(SMALLEST).mul_(math.log(10)).exp_()
        if not flavour.positive:
            made.copysign_(draw.uniform() - 0.5)
        return made
    made = draw.normal().mul_(flavour.scale)
    if flavour.positive:
        made.abs_()
    return made * draw.keep_half() if flavour.variant == SPARSE else made


def in_unit(value: torch.Tensor, flavour: Flavour, draw: Draw) -> torch.Tensor:
    """Values of the flavour's spirit within [0, 1]."""
    if flavour.variant == NEGATIVE:
        return 1 - value
    if flavour.variant == NORMAL:
        return draw.normal().sigmoid_()
    if flavour.variant == SPARSE:
        return (draw.uniform() < 0.5).float() * draw.uniform().round_()
    return draw.uniform().pow_(8.0)  # many powers of ten


def restructured(
    made: torch.Tensor, value: torch.Tensor, structure: Structure, flavour: Flavour, draw: Draw
) -> torch.Tensor:
    """``made`` given the structure of ``value``."""
    kind, dim = structure.kind, structure.dim
    if kind is Kind.SORTED:
        return made.sort(-1).values
    if kind is Kind.SYMMETRIC:
        return (made + made.transpose(-1, -2)) / 2
    if kind is Kind.PATTERN:
        return made * (value != 0)
    if kind is Kind.UNIT_NORM:
        made = made.float()
        return made / torch.linalg.vector_norm(made, dim=dim, keepdim=True).clamp_min(1e-12)
    if kind is Kind.PROBABILITIES:
        if flavour.variant == SPARSE:
            kept = draw.uniform() * draw.keep_half() + 1e-6 * draw.uniform((1,))
            return kept / kept.sum(dim, keepdim=True)
        return value if flavour.variant == NEGATIVE else made.clamp(-50, 50).softmax(dim)
    if kind is Kind.LOG_PROBABILITIES:
        return value if flavour.variant == NEGATIVE else made.clamp(-50, 50).log_softmax(dim)
    return made


def can_shuffle(structure: Structure) -> bool:
    """Whether another order of the same values is as good an input."""
    return structure.kind not in (Kind.SCALAR, Kind.KEPT, Kind.CONSTANT, Kind.SORTED, Kind.PATTERN)


def shuffle(value: torch.Tensor, structure: Structure, draw: Draw) -> torch.Tensor:
    """The same values, rows and the last dimension's places permuted alike everywhere, so that masks, one-hot
    rows and probabilities remain what they are, and symmetric matrices symmetric."""
    if not can_shuffle(structure) or value.ndim == 0:
        return value
    if not value.is_floating_point() and in_order(value):
        return value  # offsets, positions: their order is their meaning
    columns = draw.order(value.shape[-1])
    if structure.kind is Kind.SYMMETRIC:
        return value[..., columns, :][..., columns].contiguous()
    if value.ndim > 1:
        value = value[draw.order(value.shape[0])]
    return value[..., columns].contiguous()


def in_order(value: torch.Tensor) -> bool:
    """Whether every row of whole numbers or booleans ascends, or descends."""
    rows = value.long()
    steps = rows[..., 1:] - rows[..., :-1]
    return bool((steps >= 0).all()) or bool((steps <= 0).all())


def fresh(value: torch.Tensor, structure: Structure, draw: Draw) -> torch.Tensor:
    """New content in the own distribution's place, for values that ignore the seed."""
    kind = structure.kind
    if kind in (Kind.PLAIN, Kind.UNIT, Kind.SORTED) and value.numel() > 1:
        low, high = float(value.min()), float(value.max())
        made = draw.uniform().mul_(high - low).add_(low).to(value.dtype)
        return made.sort(-1).values if kind is Kind.SORTED else made
    if kind in (Kind.CONSTANT, Kind.PLAIN):
        return value * draw.factor()
    if kind is Kind.PATTERN:
        return (value * draw.uniform().add_(0.5)).to(value.dtype)
    return shuffle(value, structure, draw)


@dataclass(frozen=True)
class Schedule:
    """Which distribution each call of one candidate has. ``checks``: of the check rounds, in order."""

    checks: tuple[str, ...]
    turns: tuple[str, ...]
    seed: int

    def checked(self, index: int) -> str:
        """Of one check round; beyond the last they begin again."""
        return self.checks[index % len(self.checks)]

    def timed(self, index: int) -> str:
        """Own inputs but for one call in `TIMED_EVERY`, at a place that the seed decides."""
        turn, position = divmod(index, TIMED_EVERY)
        if not self.turns or position != random.Random(f"{self.seed}/turn/{turn}").randrange(TIMED_EVERY):
            return OWN
        return self.turns[turn % len(self.turns)]


def schedule(usable: list[str], rounds: int, seed: int) -> Schedule:
    """Own inputs twice (weights are moved before the second), then the variants that tell most.

    Five rounds are own, own, normal, wide and, as the seed decides, sparse or negative. The timed calls begin
    with negative and large values, so that ten of them have met both.
    """
    last = [SPARSE, NEGATIVE]
    if random.Random(f"{seed}/last").random() < 0.5:
        last.reverse()
    order = [name for name in (NORMAL, WIDE, *last, LARGE, SHUFFLED) if name in usable]
    checks = [OWN, OWN] + [order[i % len(order)] if order else OWN for i in range(max(rounds - 2, 0))]
    turns = [name for name in (NEGATIVE, LARGE, SPARSE, WIDE, NORMAL, SHUFFLED) if name in usable]
    return Schedule(tuple(checks[: max(rounds, 2)]), tuple(turns), seed)
