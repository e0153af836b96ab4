"""Weights moved a little from where they start.

Norms start with ones and zeros and running statistics with 0 and 1, so a kernel that ignores them would pass
with the weights as initialised.
"""

from __future__ import annotations

import torch

SHIFT = 0.1  # of a weight's own spread, or of 1 where it is constant
SPREAD_FROM = 1e-6
FEW_VALUES = 8


def moved(name: str, initial: torch.Tensor, trained: bool, seed: int) -> torch.Tensor:
    """Another value for one weight. Parameters and running means are shifted; variances and other tensors
    keep their signs and zeros; whole numbers, masks and labels keep everything."""
    if not initial.is_floating_point() or initial.numel() == 0:
        return initial
    generator = torch.Generator(device=initial.device).manual_seed(seed % 2**63)
    noise = torch.randn(initial.shape, generator=generator, device=initial.device, dtype=torch.float32)
    leaf = name.rpartition(".")[2]
    if trained or leaf == "running_mean" or not bool(initial.any()):
        spread = float(initial.float().std(unbiased=False))
        change = noise.mul_(SHIFT * (spread if spread > SPREAD_FROM else 1.0))
        return (initial + change).to(initial.dtype)
    if leaf == "running_var":
        return (initial * noise.mul_(3 * SHIFT).exp_()).to(initial.dtype)
    if not bool(torch.isfinite(initial).all()) or is_label(initial):
        return initial
    return (initial * noise.mul_(SHIFT).add_(1)).to(initial.dtype)


def is_label(value: torch.Tensor) -> bool:
    """Whether a tensor that is no parameter takes a few different values only: a mask or a label."""
    distinct = int(value.reshape(-1)[:4096].unique().numel())
    return 1 < distinct <= FEW_VALUES
