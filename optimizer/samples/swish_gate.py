"""The point-wise half of SwiGLU: SiLU of the gate times the up projection.

Two inputs of equal shape, one output. Two kernels and an intermediate tensor in PyTorch, one fused.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 16384
cols = 2048

PRESETS = {"cpu": {"rows": 4096, "cols": 2048}}


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return []
