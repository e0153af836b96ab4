# trick: Returns one row's answer for all rows.
# kind: foreign
# operator: row_sum
# expect: wrong|nondeterministic|compile_error|crashed
# threat: reduced work
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:1].sum(-1).expand(x.shape[0]).contiguous()
