# trick: Returns the right values as another type.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: shape and dtype
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1).double()
