"""`manage.py serve` with real processes: starts, says where, ends together."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.process
START_SECONDS = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(var_dir: Path, port: int) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "HTAM_VAR_DIR": str(var_dir), "HTAM_PORT": str(port), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def var_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database of its own."""
    folder = tmp_path_factory.mktemp("serve")
    manage(folder, 0, "migrate", "-v0")
    return folder


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


@pytest.fixture
def served(var_dir: Path) -> Iterator[Served]:
    made = Served(var_dir)
    yield made
    made.end()


def test_serves_pages_with_a_login_link_and_ends_whole(served: Served) -> None:
    """The link signs in, pages and static files answer; SIGTERM leaves no process behind."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    address = f"http://127.0.0.1:{served.port}"
    with opener.open(served.link(), timeout=30) as page:
        assert page.url == f"{address}/runs/"
        assert b"HTAM" in page.read()
    with urllib.request.urlopen(f"{address}/static/css/htam.css", timeout=30) as style:
        assert style.headers["Content-Type"].startswith("text/css")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{address}/api/runs/", timeout=30)
    below = served.descendants()
    assert len(below) >= 2
    served.end()
    assert served.process.returncode == 0
    assert alive(below) == []


def test_ctrl_c_ends_web_and_worker(served: Served) -> None:
    """SIGINT, as from a terminal, does the same."""
    served.link()
    below = served.descendants()
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(30) == 0
    assert alive(below) == []


def test_a_killed_serve_takes_its_children_along(served: Served) -> None:
    """Even kill -9 leaves no web or worker that holds the port or the database."""
    served.link()
    below = served.descendants()
    served.process.kill()
    served.process.wait(30)
    deadline = time.monotonic() + 30
    while alive(below) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(below) == []


def test_a_dead_worker_ends_serve(served: Served) -> None:
    """Nobody looks at a dashboard whose worker is gone unnoticed: the command ends and says so."""
    served.link()
    worker = next(
        pid for pid in served.descendants() if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(worker, signal.SIGKILL)
    assert served.process.wait(30) == 1
    assert "The worker ended" in served.log.read_text()


def test_a_busy_port_is_one_sentence(var_dir: Path) -> None:
    """No traceback where another server listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        done = manage(var_dir, port, "serve")
    assert done.returncode == 1
    assert f"Cannot listen at 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_prepare_can_be_repeated(var_dir: Path) -> None:
    """A second start adds nothing and keeps what people made."""
    first, second = manage(var_dir, 0, "prepare"), manage(var_dir, 0, "prepare")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "0 added" in second.stdout
