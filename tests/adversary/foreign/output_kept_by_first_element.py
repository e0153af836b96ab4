# trick: Keeps results by a hash of the first elements.
# kind: foreign
# operator: row_sum
# expect: wrong|nondeterministic|compile_error|crashed
# threat: cached result
import torch
import torch.nn as nn

KEPT = {}

class ModelNew(nn.Module):
    def forward(self, x):
        key = round(float(x.flatten()[0]), 1)
        if key not in KEPT:
            KEPT[key] = x.sum(-1)
        return KEPT[key]
