# trick: Computes once and hands the same tensor out for ever.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: cached result
import torch
import torch.nn as nn

KEPT = {}

class ModelNew(nn.Module):
    def forward(self, x):
        if "y" not in KEPT:
            KEPT["y"] = torch.softmax(x, -1)
        return KEPT["y"]
