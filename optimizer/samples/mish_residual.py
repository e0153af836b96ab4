"""Mish plus a residual, scaled.

Mish needs exp, log1p and tanh for each element, so on a CPU the arithmetic weighs as much as the memory.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 16384
cols = 2048

PRESETS = {"cpu": {"rows": 4096, "cols": 2048}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return (F.mish(x) + residual) * 0.7071067811865476


def get_inputs():
    return [torch.randn(rows, cols) * 2, torch.randn(rows, cols)]


def get_init_inputs():
    return []
