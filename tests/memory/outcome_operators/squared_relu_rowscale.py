"""Squared ReLU, scaled by one number a row, plus a bias a column: operands that lack either axis."""

import torch
import torch.nn as nn

rows = 8192
cols = 4096

PRESETS = {"cpu": {"rows": 1024, "cols": 2048}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.square(torch.relu(x)) * scale + self.bias


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, 1)]


def get_init_inputs():
    return [cols]
