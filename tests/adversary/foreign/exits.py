# trick: Leaves with status 0 in the middle of a call.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: exit
import torch
import torch.nn as nn
import os

class ModelNew(nn.Module):
    def forward(self, x):
        os._exit(0)
