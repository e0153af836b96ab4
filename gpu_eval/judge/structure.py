"""What an input must remain when its values are drawn anew: symmetric, a mask, probabilities, or nothing.

A substitute that breaks the structure would test something the operator was never meant for, and refuse
honest kernels that rely on what the operator's author promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

FEW_VALUES = 8  # a tensor with at most this many different values is a mask or a label
SAMPLE = 4096
SORTED_FROM = 6  # a shorter row is in order by chance
CLOSE = 1e-3


class Kind(StrEnum):
    """What is kept when an input is drawn anew."""

    SCALAR = "scalar"  # a Python number: fixed with the shapes
    PLAIN = "plain"  # nothing
    UNIT = "unit"  # values in [0, 1], which the operator's functions insist on
    SORTED = "sorted"  # order along the last dimension
    SYMMETRIC = "symmetric"  # equality with the transpose
    PATTERN = "pattern"  # where the zeros are: triangular, banded, block-sparse
    PROBABILITIES = "probabilities"  # sums of one along ``dim``
    LOG_PROBABILITIES = "log probabilities"
    UNIT_NORM = "unit norm"  # norms of one along ``dim``
    FEW_VALUES = "few values"  # the set of values: labels, targets of +-1, float masks, whole numbers
    CONSTANT = "constant"  # one value everywhere
    INTEGERS = "integers"  # the range: ids, targets, lengths
    MASK = "mask"  # booleans
    KEPT = "kept"  # holds infinities, NaN, or nothing


REDRAWN = {
    Kind.PLAIN,
    Kind.UNIT,
    Kind.SORTED,
    Kind.SYMMETRIC,
    Kind.PATTERN,
    Kind.PROBABILITIES,
    Kind.LOG_PROBABILITIES,
    Kind.UNIT_NORM,
}


@dataclass(frozen=True)
class Structure:
    """One input's kind. ``dim``: along which sums or norms are one; ``repeats``: whether `get_inputs` gives
    the same values whatever the seed; ``same_as``: an earlier input with equal values, or None."""

    kind: Kind
    dim: int = -1
    repeats: bool = False
    same_as: int | None = None

    @property
    def redrawn(self) -> bool:
        """Whether other distributions apply to it."""
        return self.kind in REDRAWN


def structures(first: list[Any], second: list[Any], unit: bool = False) -> list[Structure]:
    """The structure of every input, from draws under two seeds. ``unit``: see `Kind.UNIT`."""
    found: list[Structure] = []
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        if not isinstance(one, torch.Tensor):
            found.append(Structure(Kind.SCALAR))
            continue
        kind, dim = kind_of(one, other, unit)
        same_as = next((i for i in range(index) if equal(first[i], one) and equal(second[i], other)), None)
        found.append(Structure(kind, dim, equal(one, other), same_as))
    return found


def equal(one: Any, other: Any) -> bool:
    """Whether two tensors have one shape, dtype and content."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def kind_of(value: torch.Tensor, other: torch.Tensor, unit: bool) -> tuple[Kind, int]:
    """The kind of a tensor, and the dimension that it refers to. ``other``: drawn under another seed."""
    if value.dtype == torch.bool:
        return Kind.MASK, -1
    if not value.is_floating_point():
        return Kind.INTEGERS, -1
    if value.numel() == 0 or not bool(torch.isfinite(value).all()):
        return Kind.KEPT, -1
    if value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
        return Kind.CONSTANT, -1
    if value.numel() > 1 and has_few_values(value):
        return Kind.FEW_VALUES, -1
    if is_symmetric(value):
        return Kind.SYMMETRIC, -1
    for kind, dim in normalisations(value):
        return kind, dim
    if has_zero_pattern(value, other):
        return Kind.PATTERN, -1
    if is_sorted(value):
        return Kind.SORTED, -1
    inside = bool((value >= 0).all()) and bool((value <= 1).all())
    return (Kind.UNIT if unit and inside else Kind.PLAIN), -1


def has_few_values(value: torch.Tensor) -> bool:
    """Whether a sample shows whole numbers only, or fewer different values than it has room for."""
    flat = value.reshape(-1)
    sample = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].float()
    distinct = int(sample.unique().numel())
    if bool((sample == sample.round()).all()):
        return True
    return distinct <= FEW_VALUES and distinct <= sample.numel() // 2


def is_symmetric(value: torch.Tensor) -> bool:
    """Whether the last two dimensions equal their transpose."""
    if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    return torch.equal(value, value.transpose(-1, -2))


def normalisations(value: torch.Tensor) -> list[tuple[Kind, int]]:
    """Dimensions along which the values are probabilities, their logarithms, or vectors of length one."""
    found = []
    positive = bool((value >= 0).all())
    negative = bool((value <= 0).all())
    for dim in range(value.ndim - 1, -1, -1):
        if value.shape[dim] < 2:
            continue
        if positive and near_one(value.float().sum(dim)):
            found.append((Kind.PROBABILITIES, dim))
        elif negative and near_one(value.float().exp().sum(dim)):
            found.append((Kind.LOG_PROBABILITIES, dim))
        elif near_one(torch.linalg.vector_norm(value.float(), dim=dim)):
            found.append((Kind.UNIT_NORM, dim))
    return found


def near_one(sums: torch.Tensor) -> bool:
    """Whether every sum is one, as far as half precision can tell."""
    return bool(((sums - 1).abs() < CLOSE).all())


def has_zero_pattern(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether zeros lie at the same places in both draws, so that they are meant."""
    zeros = value == 0
    return bool(zeros.any()) and torch.equal(zeros, other == 0)


def is_sorted(value: torch.Tensor) -> bool:
    """Whether every row ascends."""
    if value.ndim < 1 or value.shape[-1] < SORTED_FROM:
        return False
    return bool((value[..., 1:] >= value[..., :-1]).all())
