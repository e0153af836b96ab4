"""Recipes stay plain Python."""

from __future__ import annotations

import subprocess
import sys


def test_recipes_import_no_framework() -> None:
    """The web process imports recipes, and must not pull in torch, numpy or Django through them."""
    script = (
        "import sys, optimizer.recipes;"
        "print([name for name in ('torch', 'numpy', 'django', 'pyopencl', 'pycuda') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
