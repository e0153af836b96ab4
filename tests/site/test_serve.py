"""`manage.py serve` with real processes: starts, says where, ends together."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.serving import Served, alive, manage

pytestmark = pytest.mark.process
CHUNKED = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def var_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database of its own."""
    folder = tmp_path_factory.mktemp("serve")
    manage(folder, 0, "migrate", "-v0")
    return folder


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


def leader(served: Served, name: bytes) -> int:
    """The child of serve whose command line holds ``name``; waits until there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in served.descendants():
            with contextlib.suppress(OSError):
                if os.getsid(pid) == pid and name in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.2)
    raise AssertionError(served.log.read_text())


def test_a_dead_worker_is_replaced_while_the_pages_stay_up(served: Served) -> None:
    """A kernel that takes the worker down (out of memory, say) costs neither the web nor the queue."""
    served.link()
    first = leader(served, b"worker")
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while leader(served, b"worker") == first and time.monotonic() < deadline:
        time.sleep(0.2)
    assert leader(served, b"worker") != first
    assert "The worker ended with status -9; another starts" in served.log.read_text()
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/healthz", timeout=30) as page:
        assert page.status == 200


def test_a_dead_web_ends_serve(served: Served) -> None:
    """Without its page the command has nothing to offer: it ends whole and says so."""
    served.link()
    below = served.descendants()
    os.kill(leader(served, b"daphne"), signal.SIGKILL)
    assert served.process.wait(30) == 1
    assert "The web ended" in served.log.read_text()
    assert alive(below) == []


def test_a_huge_body_without_a_length_is_refused(served: Served) -> None:
    """Chunks do not slip past the limit that Content-Length is held to."""
    served.link()
    chunks = (b"x" * 1_000_000 for _ in range(20))
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("POST", "/api/operators/", body=chunks, encode_chunked=True, headers=CHUNKED)
    answer = connection.getresponse()
    assert answer.status == 413
    assert b"8 MB at most" in answer.read()


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
