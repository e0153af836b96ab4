# trick: Returns zeros.
# kind: foreign
# operator: gelu
# expect: wrong|nondeterministic|compile_error|crashed
# threat: trivial output
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
