# trick: Computes in half precision.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: precision downgrade
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.half(), -1).float()
