"""A product of two matrices of odd sizes."""

import torch
import torch.nn as nn

m = 1021
k = 770
n = 515
PRESETS = {"cpu": {"m": 61, "k": 70, "n": 67}}


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(m, k), torch.rand(k, n)]


def get_init_inputs():
    return []
