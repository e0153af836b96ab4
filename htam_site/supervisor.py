"""Web and worker as child processes that start together and end together.

Each child leads its own process group, so that whatever it starts ends with it, and each dies with this
process even when that is killed (on Linux, by the kernel's parent-death signal).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

READY_SECONDS = 60
WEB_GRACE = 4.0
WORKER_GRACE = 8.0  # it kills the kernel it runs, then writes where the step stands
PR_SET_PDEATHSIG = 1


class PortBusy(RuntimeError):
    """Something listens there already."""


def claim_port(host: str, port: int) -> None:
    """Raise PortBusy with one sentence unless a server can listen at ``host``:``port``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortBusy(
                f"Cannot listen at {host}:{port} ({error.strerror}); free the port or set HTAM_PORT."
            ) from None


@dataclass
class Child:
    name: str
    process: subprocess.Popen[bytes]
    grace: float

    def ask_to_end(self) -> None:
        """SIGTERM to the child alone: it ends its own children in order."""
        if self.process.poll() is None:
            self.process.terminate()

    def kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Supervisor:
    """Starts children, waits until the page answers, and ends all when one ends or a signal comes."""

    def __init__(self, address: str, folder: Path) -> None:
        """``address`` is where the web answers; ``folder`` holds manage.py."""
        self.address = address
        self.folder = folder
        self.children: list[Child] = []
        self.stopping = False

    def start_web(self, host: str, port: int) -> None:
        options = ["-b", host, "-p", str(port), "-v", "0", "--no-server-name"]
        self._start("web", ["-m", "daphne", *options, "htam_site.asgi:application"], WEB_GRACE)

    def start_worker(self) -> None:
        self._start("worker", ["manage.py", "worker"], WORKER_GRACE)

    def run(self, on_ready: Callable[[], None]) -> int:
        """Block until the end. 0 after a signal, 1 when a child ended by itself or no page answered."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            if not self._wait_until_ready():
                return 0 if self.stopping else 1
            on_ready()
            return self._watch()
        finally:
            self._end_all()

    def _start(self, name: str, arguments: list[str], grace: float) -> None:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self.children.append(Child(name, process, grace))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and not self.stopping and not self._ended():
            if _answers(self.address + "/healthz"):
                return True
            time.sleep(0.2)
        return False

    def _watch(self) -> int:
        while not self.stopping:
            ended = self._ended()
            if ended:
                print(f"The {ended.name} ended with status {ended.process.returncode}.", file=sys.stderr)
                return 1
            time.sleep(0.2)
        return 0

    def _ended(self) -> Child | None:
        return next((child for child in self.children if child.process.poll() is not None), None)

    def _end_all(self) -> None:
        for child in self.children:
            child.ask_to_end()
        started = time.monotonic()
        for child in self.children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, child.grace - (time.monotonic() - started)))
            child.kill_group()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
