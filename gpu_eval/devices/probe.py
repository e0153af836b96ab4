"""Which devices this machine has, asked in a child process so that the caller loads no device library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from gpu_eval.results import DeviceFacts

PROBE_SECONDS = 120


@lru_cache(maxsize=1)
def probe_devices() -> tuple[DeviceFacts, ...]:
    """Facts of every usable device, CUDA first. Empty when there is none or the probe fails.

    Asked once a process.
    """
    try:
        result = subprocess.run(
            [sys.executable, "-m", "gpu_eval.devices"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
        )
        report = json.loads(result.stdout)
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError):
        return ()
    return tuple(DeviceFacts(**facts) for facts in report["devices"])


def search_path() -> list[str]:
    """Where a child finds this package, whatever the working directory, and what the caller's path adds."""
    root = str(Path(__file__).resolve().parents[2])
    return [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def probe() -> dict[str, object]:
    """What ``python -m gpu_eval.devices`` prints: ``devices``, and ``missing`` with a sentence a kind."""
    from gpu_eval.devices import KINDS, DeviceUnavailable, make_backend

    devices: list[dict[str, object]] = []
    missing: dict[str, str] = {}
    for kind in KINDS:
        backend = make_backend(kind)
        try:
            with backend:
                devices.append(vars(backend.facts()).copy())
        except DeviceUnavailable as error:
            missing[kind] = str(error)
    return {"devices": devices, "missing": missing}
