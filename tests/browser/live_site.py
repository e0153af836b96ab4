"""A real installation for browser tests: own database and var folder, Daphne and a worker as subprocesses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90
PASSWORD = "a-long-password-for-tests"
OWN_VARIABLES = ("HTAM_", "DJANGO_", "Q_CLUSTER_NAME")


class LiveSite:
    """``start`` brings up the web server; ``worker`` starts a worker for as long as its block lasts."""

    def __init__(self, var_dir: Path) -> None:
        self.var_dir = var_dir
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.children: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Ours, without what configures another installation."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        return kept | {
            "HTAM_VAR_DIR": str(self.var_dir),
            "HTAM_PORT": str(self.port),
            "HTAM_SENTINELS": "0",  # half a minute a worker; tests/optimizer/test_worker.py tries them
            "DJANGO_SETTINGS_MODULE": "htam_site.settings",
        }

    def start(self) -> None:
        self.manage("migrate", "--verbosity", "0")
        self.manage("seed_memory")
        self.rows("people")
        self.spawn(
            "web",
            "-m",
            "daphne",
            "-v",
            "0",
            "-b",
            "127.0.0.1",
            "-p",
            str(self.port),
            "htam_site.asgi:application",
        )
        self.wait_until_it_answers()

    def manage(self, *arguments: str) -> str:
        return self.run("manage.py", *arguments)

    def rows(self, action: str, **values: Any) -> Any:
        """Rows put into this site's database by `tests.browser.rows`, in its own process."""
        return json.loads(self.run("-m", "tests.browser.rows", action, json.dumps(values)))

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        return done.stdout

    def spawn(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.var_dir / f"{name}.log").open("ab")
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.children.append(child)
        return child

    @contextlib.contextmanager
    def worker(self) -> Any:
        child = self.spawn("worker", "manage.py", "worker")
        try:
            yield child
        finally:
            end(child)

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.children[0].poll() is None, f"the web server ended:\n{self.log('web')}"
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(self.address + "/login/", timeout=5)
                return
            time.sleep(0.2)
        raise AssertionError(f"no answer within {START_SECONDS} s:\n{self.log('web')}")

    def log(self, name: str) -> str:
        path = self.var_dir / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def stop(self) -> None:
        for child in self.children:
            end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child and whatever it started."""
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
