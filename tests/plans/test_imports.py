"""Parsing a plan must stay cheap and safe for every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "django", "pyopencl", "pycuda", "cuda")
PROGRAM = """
import sys
{work}
print(",".join(name for name in {heavy!r} if name in sys.modules))
"""
USE = """
from gpu_eval.plans import TensorSpec, bind, parse_plan
text = 'language = "opencl"\\nkernels = ""\\ndef forward(x, params):\\n    return empty_like(x)\\n'
bind(parse_plan(text), [TensorSpec((4,))], {})
"""


@pytest.mark.parametrize("work", ["import gpu_eval.plans", USE, "import gpu_eval.devices"])
def test_loads_no_heavy_library(work: str) -> None:
    """Plans are parsed in the web process, which holds neither torch nor a device library."""
    program = PROGRAM.format(work=work, heavy=HEAVY)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == ""
