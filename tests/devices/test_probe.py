"""Asking what devices there are must not make the asker hold one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gpu_eval.devices import probe_devices

ROOT = Path(__file__).resolve().parents[2]


def test_module_prints_one_json_object() -> None:
    """Standard output holds the report and nothing else; a missing kind has its reason."""
    result = subprocess.run(
        [sys.executable, "-m", "gpu_eval.devices"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report = json.loads(result.stdout)
    kinds = {facts["kind"] for facts in report["devices"]}
    assert kinds | report["missing"].keys() == {"cuda", "opencl"}
    assert all(report["missing"].values())


def test_probe_keeps_the_caller_clean() -> None:
    """The web process may ask: the libraries load in the child only."""
    program = (
        "import sys\nfrom gpu_eval.devices import probe_devices\nfound = probe_devices()\n"
        "assert all(facts.key for facts in found)\n"
        "print(any(name in sys.modules for name in ('torch', 'numpy', 'pyopencl', 'pycuda')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout.strip() == "False"


def test_probe_asks_once() -> None:
    """The answer is remembered: it costs a process."""
    assert probe_devices() is probe_devices()
