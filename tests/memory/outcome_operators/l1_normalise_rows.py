"""Each row over the sum of its magnitudes."""

import torch
import torch.nn as nn

rows = 16384
cols = 2048

PRESETS = {"cpu": {"rows": 1024, "cols": 2048}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs().sum(dim=-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
