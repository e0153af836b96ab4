"""Hostile modules through the whole evaluator: each ends as its own verdict in time, and the next one is judged."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.limits import MIB, Limits
from gpu_eval.results import Evaluation, EvaluationPolicy, Verdict
from gpu_eval.sandbox import BUBBLEWRAP, sandbox_level
from gpu_eval.tree import descendants
from tests.gpu_eval.test_foreign import HONEST, MODULE, OPERATOR

CALL_S, BUILD_S = 4.0, 12.0
LIMITS = Limits(
    run_s=CALL_S,
    compile_s=BUILD_S / 4,
    runner_memory_bytes=1500 * MIB,
    foreign_scratch_bytes=64 * MIB,
    processes=40,
)


@pytest.fixture(scope="module")
def session() -> Iterator[EvaluationSession]:
    """One session meets every bomb: the worker goes on."""
    policy = EvaluationPolicy(timed_calls=10)
    with EvaluationSession(OPERATOR, device="opencl", policy=policy, limits=LIMITS) as made:
        yield made


def judged(session: EvaluationSession, code: str, body: str = HONEST) -> Evaluation:
    """The verdict of a module that begins with ``code``."""
    return session.evaluate(code + MODULE.format(body=body), foreign=True, filename="new.py")


BOMBS = {
    "fork bomb": "import os\nwhile True:\n    os.fork()\n",
    "thread bomb": "import threading, time\nwhile True:\n"
    "    threading.Thread(target=time.sleep, args=(600,)).start()\n",
    "memory bomb": "kept = []\nwhile True:\n    kept.append(bytearray(1 << 26))\n",
    "disk filler": "n = 0\nwhile True:\n    open(f'f{n}', 'wb').write(bytes(1 << 24))\n    n += 1\n",
    "file handles": "import os\nwhile True:\n    os.open('/dev/null', os.O_RDONLY)\n",
    "endless import": "while True:\n    pass\n",
    "output flood": "import os\nwhile True:\n    os.write(2, b'x' * 65536)\n",
    "answer flood": "import os\nfor fd in range(3, 64):\n    try:\n"
    "        while True: os.write(fd, bytes(1 << 20))\n    except OSError: pass\n",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
}
ENDS = {
    Verdict.COMPILE_ERROR,
    Verdict.CRASHED,
    Verdict.TIMEOUT,
    Verdict.OUT_OF_MEMORY,
    Verdict.LAUNCH_ERROR,
    Verdict.REJECTED,
}


@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.timeout(120)
def test_bombs_end_as_verdicts_and_the_next_candidate_is_judged(
    session: EvaluationSession, code: str
) -> None:
    """Protects worker and machine; pytest's timeout is far above the deadline, which the evaluator keeps."""
    result = judged(session, code)
    assert result.verdict in ENDS, result.message
    assert result.message
    after = judged(session, "")
    assert after.verdict is Verdict.CORRECT, after.message


def test_a_survivor_of_its_session_ends_with_the_evaluation(session: EvaluationSession) -> None:
    """A daemon that left its process group holds neither cores nor the device once the verdict is there."""
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(601)\n"
        "    os._exit(0)\n"
    )
    judged(session, code)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (left := forks_of_modules()):
        time.sleep(0.1)
    assert left == []
    assert judged(session, "").correct


def forks_of_modules() -> list[int]:
    """Processes below this one that run the foreign host."""
    found = []
    for pid in descendants(os.getpid()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        if b"gpu_eval.foreign" in line:
            found.append(pid)
    return found


@pytest.mark.skipif(
    sandbox_level() != BUBBLEWRAP, reason="only bubblewrap hides files, processes and network"
)
def test_no_network_no_files_no_parent(session: EvaluationSession, tmp_path: object) -> None:
    """A connection, a file of the user and the evaluator's memory are out of reach, by name and by number."""
    server = socket.create_server(("127.0.0.1", 0))
    planted = os.path.join(str(tmp_path), "canary")
    with open(planted, "w") as file:
        file.write("canary-9911")
    tries = [
        f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)",
        f"open({planted!r}).read()",
        f"open('/proc/{os.getpid()}/mem', 'rb').read(1)",
        f"open('/proc/{os.getpid()}/environ').read()",
        f"os.kill({os.getpid()}, 0)",
        "open('/usr/htam-was-here', 'w')",
    ]
    lines = "".join(f"try:\n    done.append(({number}, {code}))\nexcept Exception:\n    pass\n"
                    for number, code in enumerate(tries))  # fmt: skip
    code = f"import os, socket\ndone = []\n{lines}if done:\n    raise RuntimeError(repr(done))\n"
    result = judged(session, code)
    assert result.verdict is Verdict.CORRECT, result.message
    server.setblocking(False)
    with server, pytest.raises(BlockingIOError):
        server.accept()
