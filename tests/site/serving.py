"""Starting `manage.py serve` as people do, on a database of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from django.conf import settings

START_SECONDS = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(var_dir: Path, port: int) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "HTAM_VAR_DIR": str(var_dir), "HTAM_PORT": str(port), "PYTHONUNBUFFERED": "1"}


def manage(var_dir: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=environment(var_dir, port or 8000),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


class Served:
    """A running `manage.py serve` and what it printed so far."""

    def __init__(self, var_dir: Path, *options: str) -> None:
        self.port = free_port()
        self.log = var_dir / f"serve-{self.port}.log"
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", *options],
            cwd=settings.BASE_DIR,
            env=environment(var_dir, self.port),
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def link(self) -> str:
        """The printed login link, as soon as the page answers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:\d+/login/link/\S+", self.log.read_text())
            if found:
                return found[0]
            time.sleep(0.2)
        raise AssertionError(self.log.read_text())

    def descendants(self) -> list[int]:
        """Process ids below serve, at any depth."""
        below: list[int] = []
        parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
        queue = [self.process.pid]
        while queue:
            parent = queue.pop()
            children = [pid for pid, its_parent in parents.items() if its_parent == parent]
            below += children
            queue += children
        return below

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def _parent(path: Path) -> int:
    try:
        return int(path.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def alive(pids: list[int]) -> list[int]:
    """Those still running; a zombie that nobody has reaped yet is dead."""
    return [pid for pid in pids if _state(pid) not in {"", "Z", "X"}]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""
