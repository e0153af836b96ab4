# honest: Writes into a buffer of its own and returns a copy.
# kind: foreign
# operator: row_sum
# expect: correct
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    buffer = None

    def forward(self, x):
        if self.buffer is None or self.buffer.shape != x.shape[:1]:
            self.buffer = torch.empty(x.shape[0], device=x.device)
        torch.sum(x, -1, out=self.buffer)
        return self.buffer.clone()
