"""More than 2^31 bytes, each with its bits turned."""

import torch
import torch.nn as nn

count = 2**31 + 4096
PRESETS = {"cpu": {"count": 5000}}


class Model(nn.Module):
    def forward(self, x):
        return torch.bitwise_not(x)


def get_inputs():
    return [torch.randint(-128, 127, (count,), dtype=torch.int8)]


def get_init_inputs():
    return []
