"""Statistics of an output's error, relative to the reference's own scale.

An element's error is divided by its magnitude plus the output's root mean square (the "level"), so a tiny or
degenerate output cannot hide behind an absolute tolerance. Large outputs are read in pieces: nothing here
takes more than a piece's memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

TINY = 1e-30
CPU_PIECE = 2**18  # elements: a piece and its error stay in a core's cache
CUDA_PIECE = 2**26
TAIL_SAMPLE = 16_384
TAIL_FROM = 200  # fewer elements have no tail to speak of
TAIL_SHARE = 0.01

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class ErrorProfile:
    """Relative errors: the largest, the root mean square, the signed mean, and the tail's beginning, which one
    element in a hundred exceeds (estimated from a sample)."""

    largest: float = 0.0
    rms: float = 0.0
    bias: float = 0.0
    tail: float = 0.0

    def worst(self, other: ErrorProfile) -> ErrorProfile:
        """The larger of each."""
        return ErrorProfile(
            max(self.largest, other.largest),
            max(self.rms, other.rms),
            max(self.bias, other.bias, key=abs),
            max(self.tail, other.tail),
        )


HOPELESS = ErrorProfile(math.inf, math.inf, math.inf, math.inf)


def error_profile(actual: torch.Tensor, exact: torch.Tensor) -> ErrorProfile:
    """Errors of ``actual`` against ``exact`` where both are finite; all zero when nowhere."""
    return finite_profile(actual, exact) or profile_of(list(masked_pieces(actual, exact))) or HOPELESS


def finite_profile(actual: torch.Tensor, exact: torch.Tensor) -> ErrorProfile | None:
    """As `error_profile`, in few passes; None when a NaN or an infinity is involved."""
    return profile_of(list(pieces(actual, exact)))


def pieces(actual: torch.Tensor, exact: torch.Tensor) -> Iterator[Pair]:
    """Both as flat pieces of matching elements."""
    size = CUDA_PIECE if actual.is_cuda else CPU_PIECE
    yield from zip(actual.reshape(-1).split(size), exact.reshape(-1).split(size), strict=True)


def masked_pieces(actual: torch.Tensor, exact: torch.Tensor) -> Iterator[Pair]:
    """As `pieces`, in float64, with zeros on both sides where either is not finite."""
    for one, other in pieces(actual, exact):
        both = torch.isfinite(one) & torch.isfinite(other)
        zero = torch.zeros((), dtype=torch.float64, device=one.device)
        yield torch.where(both, one.double(), zero), torch.where(both, other.double(), zero)


def profile_of(parts: list[Pair]) -> ErrorProfile | None:
    """The profile over all parts, or None when a number of it is not finite."""
    count = sum(exact.numel() for _, exact in parts)
    if count == 0:
        return ErrorProfile()
    norms = torch.stack([torch.linalg.vector_norm(in_work_type(exact)) for _, exact in parts])
    level = max(float(torch.linalg.vector_norm(norms.double())) / math.sqrt(count), TINY)
    step = max(1, count // TAIL_SAMPLE)
    found = [part_statistics(actual, exact, level, step) for actual, exact in parts]
    rows = torch.stack([row for row, _ in found]).cpu()
    profile = ErrorProfile(
        largest=float(rows[:, 2].max()),
        rms=math.sqrt(float(rows[:, 1].square().sum()) / count) / level,
        bias=float(rows[:, 0].sum()) / count / level,
        tail=tail_of(torch.cat([sample for _, sample in found])) if count >= TAIL_FROM else 0.0,
    )
    return profile if all(map(math.isfinite, (level, profile.largest, profile.rms, profile.bias))) else None


def part_statistics(
    actual: torch.Tensor, exact: torch.Tensor, level: float, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """One piece's three numbers in float64 (the error's sum and norm, the largest relative error), and every
    ``step``-th relative error."""
    exact = in_work_type(exact)
    error = actual.to(exact.dtype) - exact
    total, norm = error.sum(dtype=torch.float64), torch.linalg.vector_norm(error)
    error.abs_().div_(exact.abs().add_(level))
    return torch.stack([total, norm.double(), error.max().double()]), error[::step].clone()


def tail_of(sample: torch.Tensor) -> float:
    """What one element in a hundred exceeds."""
    return float(sample.kthvalue(math.ceil(sample.numel() * (1 - TAIL_SHARE))).values)


def in_work_type(exact: torch.Tensor) -> torch.Tensor:
    """Float64 as it is, anything narrower as float32."""
    return exact if exact.dtype == torch.float64 else exact.float()
