"""Rows of a table, chosen by ids."""

import torch
import torch.nn as nn

words = 5000
width = 256
count = 8192
PRESETS = {"cpu": {"words": 90, "width": 20, "count": 64}}


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)

    def forward(self, ids):
        return self.table(ids)


def get_inputs():
    return [torch.randint(0, words, (count,))]


def get_init_inputs():
    return [words, width]
