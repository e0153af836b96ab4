"""Double precision: dot products of rows."""

import torch
import torch.nn as nn

rows = 4096
cols = 2048
PRESETS = {"cpu": {"rows": 61, "cols": 200}}


class Model(nn.Module):
    def forward(self, a, b):
        return (a * b).sum(dim=-1)


def get_inputs():
    return [torch.rand(rows, cols, dtype=torch.float64), torch.rand(rows, cols, dtype=torch.float64)]


def get_init_inputs():
    return []
