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
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

READY_SECONDS = 60
WEB_GRACE = 4.0
WORKER_GRACE = 8.0  # it kills the kernel it runs, then writes where the step stands
RESTART_PAUSE = 2.0  # doubled by every end of the worker within a minute of its start, up to a minute
STEADY_SECONDS = 60.0
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
    started: float = field(default_factory=time.monotonic)

    def ask_to_end(self) -> None:
        """SIGTERM to the child alone: it ends its own children in order."""
        if self.process.poll() is None:
            self.process.terminate()

    def kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Supervisor:
    """Starts children, waits until the page answers, and ends all when the web ends or a signal comes.

    A worker that ends by itself (a kernel exhausted the memory, say) is started again: the pages stay up, and the
    runs it held go on from the stage that was cut.
    """

    def __init__(self, address: str, folder: Path) -> None:
        """``address`` is where the web answers; ``folder`` holds manage.py."""
        self.address = address
        self.folder = folder
        self.children: list[Child] = []
        self.stopping = False
        self.pause = RESTART_PAUSE

    def start_web(self, host: str, port: int) -> None:
        options = ["-b", host, "-p", str(port), "-v", "0", "--no-server-name"]
        self._start("web", ["-m", "daphne", *options, "htam_site.asgi:application"], WEB_GRACE)

    def start_worker(self) -> None:
        self._start("worker", ["manage.py", "worker"], WORKER_GRACE)

    def run(self, on_ready: Callable[[], None]) -> int:
        """Block until the end. 0 after a signal, 1 when the web ended by itself or no page answered."""
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
            if ended is not None and ended.name == "worker":
                self._restart_worker(ended)
            elif ended is not None:
                print(f"The {ended.name} ended with status {ended.process.returncode}.", file=sys.stderr)
                return 1
            time.sleep(0.2)
        return 0

    def _restart_worker(self, ended: Child) -> None:
        """Start another worker after a pause that grows while workers keep ending soon."""
        ended.kill_group()
        self.children.remove(ended)
        steady = time.monotonic() - ended.started > STEADY_SECONDS
        self.pause = RESTART_PAUSE if steady else min(2 * self.pause, STEADY_SECONDS)
        status = ended.process.returncode
        print(
            f"The worker ended with status {status}; another starts in {self.pause:.0f} s.", file=sys.stderr
        )
        until = time.monotonic() + self.pause
        while time.monotonic() < until and not self.stopping:
            time.sleep(0.1)
        if not self.stopping:
            self.start_worker()

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
