"""GELU after a bias, with rows of an odd length: no wide access divides a row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 8192
cols = 2047

PRESETS = {"cpu": {"rows": 1024, "cols": 2047}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + self.bias)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return [cols]
