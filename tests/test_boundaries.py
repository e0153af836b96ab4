"""Which packages may load which: the search core stays free of Django, the web process free of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = {"torch", "pyopencl", "pycuda", "cuda"}


def modules_after(code: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after running ``code``."""
    program = f"{code}\nimport sys\nprint('\\n'.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "gpu_eval",
        "gpu_eval.evaluator",
        "gpu_eval.plans",
        "gpu_eval.results",
        "memory.policy",
        "memory.simulation.replay",
        "optimizer.recipes",
        "optimizer.recording.__main__",
    ],
)
def test_core_imports_without_django(module: str) -> None:
    """The evaluator, the plan parser, the policy and the recipes run on a host that has no Django."""
    loaded = modules_after(f"import {module}")
    assert "django" not in loaded
    assert not loaded & HEAVY, "device libraries load only in the judge and the runner"


def test_web_process_loads_no_device_library() -> None:
    """Daphne's process, with every page, route and consumer imported, can never hold a CUDA context."""
    loaded = modules_after(
        "import htam_site.asgi\nfrom django.urls import get_resolver\nget_resolver().url_patterns\n"
        "from django.test import Client\nClient().get('/healthz')"
    )
    assert "django" in loaded
    assert not loaded & HEAVY
