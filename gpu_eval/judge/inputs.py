"""Inputs of other distributions than the operator's own, where its inputs are plain floats.

KernelBench inputs are mostly uniform in [0, 1): branches are never taken, sums never cancel. The variants
keep shape and dtype and change the values: normal, wide (ten times normal), negative (the own values with
their sign turned). An input with structure (symmetric, triangular, rows that sum to one, a handful of
values) keeps its own distribution.
"""

from __future__ import annotations

from typing import Any

import torch

OWN, NORMAL, WIDE, NEGATIVE = "own", "normal", "wide", "negative"
VARIANTS = (NORMAL, WIDE, NEGATIVE)
WIDTH = 10.0
FEW_VALUES = 8  # an input with at most this many different values is a mask or a label, not plain
SAMPLE = 4096


def plain_inputs(values: list[Any]) -> list[bool]:
    """Which inputs may be drawn from another distribution."""
    return [isinstance(value, torch.Tensor) and is_plain(value) for value in values]


def is_plain(value: torch.Tensor) -> bool:
    """Whether a tensor is floating and shows no structure that another draw would break."""
    if not value.is_floating_point() or value.numel() < 2 or not bool(torch.isfinite(value).all()):
        return False
    sample = value.reshape(-1)[:SAMPLE].float()
    if sample.unique().numel() <= min(FEW_VALUES, sample.numel() // 2) or bool(
        (sample == sample.round()).all()
    ):
        return False
    return not (rows_sum_to_one(value) or is_matrix_with_structure(value))


def rows_sum_to_one(value: torch.Tensor) -> bool:
    """Whether the last dimension holds probabilities."""
    if value.ndim < 1 or value.shape[-1] < 2 or bool((value < 0).any()):
        return False
    sums = value.float().sum(-1)
    return bool(((sums - 1).abs() < 1e-3).all())


def is_matrix_with_structure(value: torch.Tensor) -> bool:
    """Whether the last two dimensions are square and symmetric or triangular."""
    if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    transposed = value.transpose(-1, -2)
    if torch.equal(value, transposed):
        return True
    return torch.equal(value, value.tril()) or torch.equal(value, value.triu())


def vary(values: list[Any], plain: list[bool], variant: str, seed: int) -> list[Any]:
    """The same inputs with the plain ones re-drawn as ``variant``."""
    if variant == OWN:
        return values
    varied = []
    for index, (value, may) in enumerate(zip(values, plain, strict=True)):
        varied.append(redraw(value, variant, seed + index) if may else value)
    return varied


def redraw(value: torch.Tensor, variant: str, seed: int) -> torch.Tensor:
    """One tensor of another distribution, on the same device."""
    if variant == NEGATIVE:
        return -value
    generator = torch.Generator(device=value.device).manual_seed(seed)
    drawn = torch.randn(value.shape, generator=generator, device=value.device, dtype=torch.float32)
    if variant == WIDE:
        drawn = drawn * WIDTH
    return drawn.to(value.dtype)
