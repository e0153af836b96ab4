"""Temporary folders that name their owner, so that those of a killed process can be found and dropped."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

NAME = "htam-{kind}-{pid}-"
PATTERN = re.compile(r"htam-(?:exchange|scratch)-(\d+)-")
SHARED_MEMORY = Path("/dev/shm")


def make_exchange() -> Path:
    """A fresh folder in shared memory (or the usual temporary folder) for an arena's file."""
    parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    return make("exchange", parent)


def make_scratch() -> Path:
    """A fresh folder for one child's own files."""
    return make("scratch", Path(tempfile.gettempdir()))


def make(kind: str, parent: Path) -> Path:
    """A folder of this process, after dropping those of dead ones."""
    drop_orphans(parent)
    return Path(tempfile.mkdtemp(prefix=NAME.format(kind=kind, pid=os.getpid()), dir=parent))


def drop_orphans(parent: Path) -> None:
    """Remove folders whose owner no longer runs."""
    with contextlib.suppress(OSError):
        for path in parent.glob("htam-*"):
            match = PATTERN.match(path.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                shutil.rmtree(path, ignore_errors=True)
