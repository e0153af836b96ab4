# honest: Returns a tensor that is not contiguous.
# kind: foreign
# operator: softmax_rows
# expect: correct
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.t().contiguous(), 0).t()
