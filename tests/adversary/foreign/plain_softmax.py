# honest: The same operation by other calls.
# kind: foreign
# operator: softmax_rows
# expect: correct
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)
