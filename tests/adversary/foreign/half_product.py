# trick: Multiplies in bfloat16.
# kind: foreign
# operator: matmul
# expect: wrong|nondeterministic|compile_error|crashed
# threat: precision downgrade
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.bfloat16() @ b.bfloat16()).float()
