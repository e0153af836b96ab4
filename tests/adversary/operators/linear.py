"""A fully connected layer."""

import torch
import torch.nn as nn

rows = 1000
inner = 520
outer = 300
PRESETS = {"cpu": {"rows": 33, "inner": 50, "outer": 30}}


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.rand(rows, inner)]


def get_init_inputs():
    return [inner, outer]
