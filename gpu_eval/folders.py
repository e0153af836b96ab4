"""Temporary folders that name their owner, so that those of a killed process can be found and dropped."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

NAME = "htam-scratch-{pid}-"
PATTERN = re.compile(r"htam-scratch-(\d+)-")


def make_scratch() -> Path:
    """A fresh folder for one child's own files, after dropping those of dead owners."""
    parent = Path(tempfile.gettempdir())
    drop_orphans(parent)
    return Path(tempfile.mkdtemp(prefix=NAME.format(pid=os.getpid()), dir=parent))


def drop_orphans(parent: Path) -> None:
    """Remove folders whose owner no longer runs."""
    with contextlib.suppress(OSError):
        for path in parent.glob("htam-*"):
            match = PATTERN.match(path.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                shutil.rmtree(path, ignore_errors=True)
