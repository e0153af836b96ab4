# trick: Works in place on the caller's tensor.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: input changed
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.copy_(torch.softmax(x, -1))
        return x
