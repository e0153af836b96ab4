"""bfloat16: a sum of two tensors."""

import torch
import torch.nn as nn

rows = 8192
cols = 4096
PRESETS = {"cpu": {"rows": 61, "cols": 200}}


class Model(nn.Module):
    def forward(self, a, b):
        return a + b


def get_inputs():
    return [torch.rand(rows, cols).bfloat16(), torch.rand(rows, cols).bfloat16()]


def get_init_inputs():
    return []
