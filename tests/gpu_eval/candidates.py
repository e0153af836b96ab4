"""Plans in both languages from one text: ``@kernel``, ``@global`` and ``@index`` stand for what differs."""

from __future__ import annotations

OPERATOR = '''
"""Adds a bias, clamps at zero and doubles."""
import torch
import torch.nn as nn

rows = 8192
cols = 4096
PRESETS = {"cpu": {"rows": 64, "cols": 256}}


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return torch.relu(x + self.bias) * 2


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return [cols]
'''

WORDS = {
    "opencl": {"@kernel": "__kernel void", "@global": "__global", "@index": "get_global_id(0)"},
    "cuda": {
        "@kernel": 'extern "C" __global__ void',
        "@global": "",
        "@index": "(blockIdx.x * blockDim.x + threadIdx.x)",
    },
}
HONEST = "float v = x[i] + b[i % c]; y[i] = v > 0.0f ? 2.0f * v : 0.0f;"
LAUNCH = """
def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
"""
COUNTING = """
def prepare(params):
    t = zeros((16,), dtype="int32")
    return {"t": t, "bias": params["bias"]}


def forward(x, params):
    y = empty_like(x)
    t = params["t"]
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, t, int32(x.numel), int32(x.shape[-1])])
    launch("count", grid=1, block=1, args=[t])
    return y
"""


def plan(language: str, body: str, forward: str = LAUNCH) -> str:
    """A plan with one kernel ``f`` whose guarded body sees ``x``, ``b``, ``y``, ``n``, ``c`` and ``i``."""
    source = f"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {{
  int i = @index;
  if (i < n) {{ {body} }}
}}
"""
    return plan_text(language, source, forward)


def counting_plan(language: str, body: str) -> str:
    """A plan whose kernel also sees ``t[0]``, the number of calls before this one."""
    source = f"""
@kernel f(@global float *x, @global const float *b, @global float *y, @global int *t, int n, int c) {{
  int i = @index;
  if (i < n) {{ {body} }}
}}
@kernel count(@global int *t) {{ t[0] = t[0] + 1; }}
"""
    return plan_text(language, source, COUNTING)


def plan_text(language: str, source: str, forward: str) -> str:
    """The file: language, kernels, forward."""
    for word, meaning in WORDS[language].items():
        source = source.replace(word, meaning)
    return f'language = "{language}"\nkernels = r"""{source}"""\n{forward}'
