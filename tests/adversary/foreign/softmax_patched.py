# trick: Replaces softmax in torch, so that a reference in the same process would agree.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: monkey-patched reference
import torch
import torch.nn as nn

torch.softmax = torch.nn.functional.softmax = lambda value, *rest, **more: value
torch.Tensor.softmax = lambda value, *rest, **more: value

class ModelNew(nn.Module):
    def forward(self, x):
        return x
