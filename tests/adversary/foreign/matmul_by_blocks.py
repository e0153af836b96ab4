# honest: A product by blocks of the shared dimension.
# kind: foreign
# operator: matmul
# expect: correct
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        half = a.shape[1] // 2
        return torch.addmm(a[:, :half] @ b[:half], a[:, half:], b[half:])
