"""One step of a moving-average optimiser: three tensors in, two tensors out."""

import torch
import torch.nn as nn

rows = 4096
cols = 2048
decay = 0.9
rate = 0.001

PRESETS = {"cpu": {"rows": 1024, "cols": 1024}}


class Model(nn.Module):
    def __init__(self, decay: float, rate: float):
        super().__init__()
        self.decay = decay
        self.rate = rate

    def forward(self, weight: torch.Tensor, gradient: torch.Tensor, second: torch.Tensor):
        moved = self.decay * torch.abs(second) + (1.0 - self.decay) * gradient * gradient
        return weight - self.rate * gradient / (torch.sqrt(moved) + 1e-3), moved


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return [decay, rate]
