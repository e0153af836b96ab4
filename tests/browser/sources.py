"""Texts that browser tests upload or store."""

from __future__ import annotations

HOSTILE = '<img src=x onerror="window.injected=1"><script>window.injected=1</script>&amp;'

DOUBLE = '''"""Twice the input."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
'''

# A point-wise chain with parameters and a residual, none of the samples; large enough to gain from fusion.
GATED_RESIDUAL = '''"""Scale and shift by channel, a hard clamp, SiLU, and a weighted residual."""
import torch
import torch.nn as nn

ROWS, COLS = 16384, 2048
PRESETS = {"cpu": {"ROWS": 4096, "COLS": 2048}}


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(cols))
        self.shift = nn.Parameter(torch.randn(cols))

    def forward(self, x, residual):
        y = x * self.scale + self.shift
        y = torch.clamp(y, -3.0, 3.0)
        y = y * torch.sigmoid(y)
        return y + 0.5 * residual


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
'''


def plan(width: int, comment: str = "") -> str:
    """A plan text that differs from step to step in one number."""
    return f'''language = "opencl"
kernels = r"""
// {comment}
__kernel void twice(__global const float* x, __global float* y) {{
    const int width = {width};
    for (int i = 0; i < width; ++i) {{
        const int at = get_global_id(0) * width + i;
        y[at] = 2.0f * x[at];
    }}
}}
"""


def forward(x, params):
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, {64 * width}), block=64, args=[x, y])
    return y
'''
