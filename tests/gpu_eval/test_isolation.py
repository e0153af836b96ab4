"""What is kept apart: heavy libraries from the parent, secrets and files from the children."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_eval import tree
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.folders import make_scratch
from gpu_eval.limits import Limits, Profile
from gpu_eval.process import Child, ChildDied, ChildFailure, ChildTimeout, OutputTail, death_signal
from gpu_eval.sandbox import BUBBLEWRAP, NONE, UNSHARE, sandbox_level

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "pyopencl", "pycuda", "cuda", "django")  # NumPy is light: the intervals are made with it


def test_parent_imports_nothing_heavy() -> None:
    """Protects web process and worker: driving evaluations loads no torch, device library or Django."""
    code = "import sys, gpu_eval.evaluator, gpu_eval.__main__, gpu_eval.inspection; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & set(HEAVY)


SPY = """
import json, os, socket, torch
import torch.nn as nn

def look():
    try:
        socket.create_connection(("1.1.1.1", 53), 0.5)
        network = True
    except OSError:
        network = False
    seen = [path for path in {paths!r} if os.path.exists(path)]
    secret = [name for name in os.environ if "KEY" in name or "URL" in name]
    return {{"seen": seen, "network": network, "secret": secret}}

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    raise RuntimeError("REPORT" + json.dumps(look()))
"""


@pytest.mark.process
def test_operator_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects keys, the database and the network from an uploaded operator."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never")
    monkeypatch.setenv("DATABASE_URL", "postgres://never")
    paths = [str(ROOT / "var"), str(ROOT / "manage.py"), "/etc/passwd", "/etc/shadow", str(ROOT / ".git")]
    with pytest.raises(ValueError, match="REPORT") as caught:  # noqa: SIM117
        with EvaluationSession(SPY.format(paths=paths), device="opencl"):
            pass
    text = str(caught.value)
    assert '"secret": []' in text
    if sandbox_level() == NONE:
        pytest.skip("no namespaces on this machine: only the environment is bounded")
    assert '"network": false' in text
    if sandbox_level() == BUBBLEWRAP:
        assert '"seen": []' in text


def start(tmp_path: Path, body: str, **limits: float) -> Child:
    """A child whose single method ``act`` runs ``body``."""
    module = tmp_path / "acting.py"
    module.write_text(
        "import os, sys, time, signal\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from gpu_eval.child import child_arguments, harden, serve\n"
        "read_fd, write_fd, settings = child_arguments()\n"
        "harden(2 * 1024**3, 1 << 20, 256, 64)\n"
        "class Acting:\n"
        "    def handlers(self):\n"
        "        return {'act': self.act}\n"
        f"    def act(self):\n        {body}\n"
        "serve(Acting(), read_fd, write_fd)\n"
    )
    return Child("acting", Profile.FOREIGN, Limits(**limits), {})  # type: ignore[arg-type]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Children without namespaces, so that a module of the test is found."""
    monkeypatch.setattr("gpu_eval.process.sandbox_level", lambda: NONE)
    monkeypatch.setattr("gpu_eval.sandbox.package_root", lambda: tmp_path)
    return tmp_path


def test_answers_and_failures_come_back(plain: Path) -> None:
    """Protects the conversation: a result is a result, an exception a fault with its trace."""
    child = start(plain, "return {'pid': os.getpid()}")
    assert child.call("act", deadline_s=20)["pid"] > 0
    with pytest.raises(ChildFailure) as caught:
        child.call("unknown", deadline_s=20)
    assert caught.value.kind == "fault"
    child.kill()


def test_non_finite_answers_are_refused(plain: Path) -> None:
    """Protects JSON readers from NaN."""
    child = start(plain, "return float('nan')")
    with pytest.raises(ChildFailure, match="not JSON"):
        child.call("act", deadline_s=20)
    child.kill()


@pytest.mark.parametrize(
    "stubborn", ["signal.signal(signal.SIGTERM, signal.SIG_IGN)", "os.setsid() if os.fork() == 0 else 0"]
)
def test_deadline_ends_the_whole_tree(plain: Path, stubborn: str) -> None:
    """Protects the machine: a child that ignores SIGTERM, or escapes its session, ends all the same."""
    child = start(plain, f"{stubborn}; time.sleep(600)")
    with pytest.raises(ChildTimeout):
        child.call("act", deadline_s=2)
    assert not child.alive
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and runs_in(pid, plain)]
    assert not left


def runs_in(pid: str, folder: Path) -> bool:
    """Whether a process got ``folder`` on its command line or as its module path."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes() and "acting" in Path(
            f"/proc/{pid}/cmdline"
        ).read_text(errors="replace")
    except OSError:
        return False


def test_death_by_signal_is_named(plain: Path) -> None:
    """Protects the verdict "crashed", which names the signal."""
    child = start(plain, "os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ChildDied, match="SIGSEGV"):
        child.call("act", deadline_s=20)


def test_memory_is_bounded(plain: Path) -> None:
    """Protects the machine's memory: an allocation beyond the limit fails inside the child."""
    child = start(plain, "bytearray(8 * 1024**3)")
    with pytest.raises(ChildFailure) as caught:
        child.call("act", deadline_s=20)
    assert caught.value.kind == "out_of_memory"
    child.kill()


def test_files_are_bounded(plain: Path) -> None:
    """Protects the disk: a file beyond the limit cannot be written."""
    child = start(plain, "open('big', 'wb').write(bytes(4 << 20))")
    with pytest.raises(ChildFailure, match="File too large"):
        child.call("act", deadline_s=20)
    child.kill()


def test_process_bombs_are_bounded(plain: Path) -> None:
    """Protects the process table: a tree beyond the limit is ended."""
    body = "[os.fork() == 0 and time.sleep(600) for _ in range(100)]; time.sleep(600)"
    child = start(plain, body, processes=20)
    with pytest.raises((ChildDied, ChildFailure)):
        child.call("act", deadline_s=20)
    child.kill()


def test_fork_that_returns_does_not_answer_twice(plain: Path) -> None:
    """Protects the conversation from a forked copy of the child."""
    child = start(plain, "os.fork(); return 1")
    assert child.call("act", deadline_s=20) == 1
    assert child.call("act", deadline_s=20) == 1
    child.kill()


def test_output_keeps_head_and_tail() -> None:
    """Protects memory from log floods: the middle is dropped, and the cut is marked."""
    read_fd, write_fd = os.pipe()
    tail = OutputTail(os.fdopen(read_fd, "rb"), keep=100)
    os.write(write_fd, b"head" + b"x" * 5000 + b"tail")
    os.close(write_fd)
    text = tail.text()
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "cut" in text
    assert len(text) < 200


@pytest.mark.parametrize(
    ("status", "number"), [(-11, 11), (139, 11), (137, 9), (0, None), (1, None), (None, None)]
)
def test_signals_are_read_off_statuses(status: int | None, number: int | None) -> None:
    """Protects the reading of wrappers' exit statuses."""
    assert death_signal(status) == number


def test_sandbox_level_is_one_of_three() -> None:
    """Protects the word that results carry."""
    assert sandbox_level() in (BUBBLEWRAP, UNSHARE, NONE)
    assert json.dumps(sandbox_level())


KILLED = """
import os, signal, sys
from gpu_eval import tree
from gpu_eval.evaluator import EvaluationSession
from tests.gpu_eval.candidates import OPERATOR
session = EvaluationSession(OPERATOR, device="opencl")
session.__enter__()
print(session._judge.child.scratch, session._judge.child.mark, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_nothing_outlives_a_killed_worker() -> None:
    """Protects the machine from `kill -9` of a worker: processes end, the next session drops the folder."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    scratch, _, mark = done.stdout.strip().partition(" ")
    assert scratch, done.stderr
    deadline = time.monotonic() + 10
    while (left := tree.marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    shutil.rmtree(make_scratch())
    assert not Path(scratch).exists()
