"""Foreign modules: KernelBench files with a class ModelNew, whose own host code is believed in nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.limits import Limits
from gpu_eval.results import Evaluation, EvaluationPolicy, Verdict

OPERATOR = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(64))
    def forward(self, x):
        return torch.relu(x) * self.scale

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
LIMITS = Limits(run_s=5.0, compile_s=3.0)  # a module has a multiple of it to build, its first call included
MODULE = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(64))
    def forward(self, x):
        {body}
"""
HONEST = "return torch.clamp(x, min=0) * self.scale"


@pytest.fixture(scope="module")
def session() -> Iterator[EvaluationSession]:
    """One session for all: a foreign module must leave nothing behind that the next one meets."""
    policy = EvaluationPolicy(timed_calls=20)
    with EvaluationSession(OPERATOR, device="opencl", policy=policy, limits=LIMITS) as made:
        yield made


def judged(session: EvaluationSession, body: str, before: str = "") -> Evaluation:
    """The verdict of a module whose forward is ``body``, behind module code ``before``."""
    text = before + MODULE.format(body=body.replace("\n", "\n        "))
    return session.evaluate(text, foreign=True, filename="new.py")


def test_an_honest_module_is_correct_and_marked_untrusted(session: EvaluationSession) -> None:
    """An engineer checks somebody's claim; the result says that host code ran beside the kernels."""
    result = judged(session, HONEST)
    assert result.verdict is Verdict.CORRECT, result.message
    assert result.untrusted
    assert result.speedup is not None
    assert {"clamp", "mul"} <= set(result.library_calls)


def test_try_and_finally_are_honest(session: EvaluationSession) -> None:
    """Ordinary Python is no trick."""
    assert judged(session, "try:\n    y = torch.relu(x)\nfinally:\n    s = self.scale\nreturn y * s").correct


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("return torch.relu(x)", ""),
        ("return torch.relu(x) * self.scale * 1.01", ""),
        ("y = torch.relu(x) * self.scale\nx.zero_()\nreturn y", ""),
        ("return (torch.relu(x) * self.scale).half()", ""),
        ("return (torch.relu(x) * self.scale)[:-1]", ""),
        ("return KEPT.setdefault('y', torch.relu(x) * self.scale)", "KEPT = {}\n"),
        (
            "return KEPT.setdefault((x.data_ptr(), x.shape), torch.relu(x) * self.scale)",
            "KEPT = {}\n",
        ),
        ("return float(x.sum())", ""),
        ("return None", ""),
        (
            "torch.relu = lambda value: value\ntorch.Tensor.__mul__ = lambda a, b: a\nreturn x",
            "import torch\n",
        ),
        ("torch.allclose = lambda *a, **k: True\ntorch.equal = torch.allclose\nreturn x", "import torch\n"),
    ],
    ids=[
        "no weight", "rough", "input changed", "half", "cut", "kept", "kept by address", "a number", "nothing",
        "torch patched", "comparison patched",
    ],
)  # fmt: skip
def test_wrong_answers_are_not_correct(session: EvaluationSession, body: str, before: str) -> None:
    """Whatever the module does to the torch of its own process, the judge looks with another."""
    result = judged(session, body, before)
    assert result.verdict in (Verdict.WRONG, Verdict.NONDETERMINISTIC, Verdict.LAUNCH_ERROR), result.message
    assert result.message


def test_a_thread_that_goes_on_writes_nothing(session: EvaluationSession) -> None:
    """A module that answers before its work is done has not done it: the process stands still from then on."""
    before = "import threading, time\n"
    body = (
        "y = torch.empty_like(x)\n"
        "def work():\n    time.sleep(0.05)\n    y.copy_(torch.relu(x) * self.scale)\n"
        "threading.Thread(target=work).start()\nreturn y"
    )
    result = judged(session, body, before)
    assert not result.correct


def test_its_own_clock_is_not_believed(session: EvaluationSession) -> None:
    """A patched clock in the module's process does not make it faster: ours bounds the time."""
    before = "import time\ntime.perf_counter = lambda: 0.0\ntime.perf_counter_ns = lambda: 0\n"
    before += "time.monotonic_ns = lambda: 0\n"
    slow = "time.sleep(0.02)\n" + HONEST
    result = judged(session, slow, before)
    if result.correct:
        assert result.candidate is not None
        assert result.candidate.median_us > 15_000
    else:
        assert result.message


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("x = (", Verdict.REJECTED),
        ("import torch\n", Verdict.COMPILE_ERROR),
        ("raise SystemExit(0)", Verdict.COMPILE_ERROR),
        ("import os\nos._exit(0)", Verdict.CRASHED),
        ("import os\nos.kill(os.getpid(), 9)", Verdict.CRASHED),
    ],
)
def test_files_that_cannot_be_used_end_with_a_sentence(
    session: EvaluationSession, text: str, verdict: Verdict
) -> None:
    """Each failure is a verdict of its own with a sentence, and the session goes on."""
    result = session.evaluate(text, foreign=True, filename="new.py")
    assert result.verdict in (verdict, Verdict.REJECTED), result.message
    assert result.message
    assert judged(session, HONEST).correct


@pytest.mark.timeout(120)
def test_an_endless_call_times_out_and_the_next_is_judged(session: EvaluationSession) -> None:
    """The deadline ends the whole tree."""
    assert judged(session, "while True: pass").verdict is Verdict.TIMEOUT
    assert judged(session, HONEST).correct


@pytest.mark.parametrize(
    "read",
    [
        "open('/etc/passwd').read()",
        "open('/proc/%d/environ' % os.getppid()).read()",
        "dict(os.environ)",
        "os.listdir(os.path.expanduser('~'))",
    ],
)
def test_secrets_stay_outside(session: EvaluationSession, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module reads and shouts into its error holds nothing of ours."""
    monkeypatch.setenv("HTAM_CANARY", "canary-51f0-foreign")
    result = session.evaluate(f"import os\nraise ValueError({read})\n", foreign=True, filename="new.py")
    said = json.dumps(result.to_json())
    assert "canary-51f0-foreign" not in said
    assert "root:x:0:0:root:/root:/bin" not in said


def test_the_command_line_takes_a_foreign_file(tmp_path: Path) -> None:
    """``python -m gpu_eval evaluate OPERATOR FOREIGN.py --foreign`` is how a claim is checked."""
    operator, module = tmp_path / "operator.py", tmp_path / "new.py"
    operator.write_text(OPERATOR)
    module.write_text(MODULE.format(body=HONEST))
    command = [
        sys.executable,
        "-m",
        "gpu_eval",
        "evaluate",
        str(operator),
        str(module),
        "--foreign",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["verdict"], answer["untrusted"]) == ("correct", True)
