# honest: Ordinary exception handling.
# kind: foreign
# operator: softmax_rows
# expect: correct
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            y = torch.softmax(x, dim=-1)
        finally:
            self.calls = getattr(self, "calls", 0) + 1
        return y
