"""A matrix of weights times a vector: its time is that of reading the matrix."""

import torch
import torch.nn as nn

inner = 2048
outer = 4096
PRESETS = {"cpu": {"inner": 128, "outer": 96}}


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return torch.mv(self.weight, x)


def get_inputs():
    return [torch.rand(inner)]


def get_init_inputs():
    return [inner, outer]
