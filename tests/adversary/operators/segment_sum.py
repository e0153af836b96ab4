"""Adds rows into the bins that their ids name."""

import torch
import torch.nn as nn

rows = 16384
cols = 256
bins = 50
PRESETS = {"cpu": {"rows": 400, "cols": 24, "bins": 7}}


class Model(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x, ids):
        out = torch.zeros(self.bins, x.shape[1], dtype=x.dtype, device=x.device)
        return out.index_add(0, ids, x)


def get_inputs():
    return [torch.rand(rows, cols), torch.randint(0, bins, (rows,))]


def get_init_inputs():
    return [bins]
