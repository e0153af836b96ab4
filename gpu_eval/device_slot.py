"""One measurement at a time on a device, whatever the number of workers and command lines on the machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def device_slot(kind: str) -> Iterator[float]:
    """Hold the device of ``kind``; yields the seconds spent waiting for it.

    Compiling and starting processes stay outside. The lock is the system's on a file, so a killed holder
    frees it.
    """
    with slot_path(kind).open("a") as file:
        start = time.monotonic()
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield time.monotonic() - start
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def slot_path(kind: str) -> Path:
    """One file a user and device: the CPU is one device, a GPU is told by what makes it visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0] or "0"
    device = "".join(char for char in visible if char.isalnum() or char == "-") if kind == "cuda" else "cpu"
    return Path(tempfile.gettempdir()) / f"htam-device-{os.getuid()}-{kind}-{device}.lock"
