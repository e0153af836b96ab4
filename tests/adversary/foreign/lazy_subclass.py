# trick: Returns a tensor subclass that computes when it is looked at.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: lazy tensors
import torch
import torch.nn as nn


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.softmax(torch.zeros(1), -1)

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x).as_subclass(Lazy)
