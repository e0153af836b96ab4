"""The real worker process on PoCL: inspection, a run, cancel, SIGTERM and SIGKILL in mid-step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.models import Evidence
from memory.services import ensure_seed_bank
from optimizer.choices import OperatorStatus, RunStatus
from optimizer.loop import processes
from optimizer.models import Operator, Run, WorkerHeartbeat
from optimizer.services import operators, runs
from tests.optimizer.support import OPERATOR

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0


class Workers:
    """Starts workers on this test's database, and ends what is left of them."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.environment = environment
        self.log = log
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, sentinels: bool = False) -> subprocess.Popen[bytes]:
        """A worker; trying the sentinels takes half a minute, so most tests do without."""
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "manage.py", "worker"],
                cwd=ROOT,
                env={**self.environment, "HTAM_SENTINELS": str(int(sentinels))},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(worker)
        return worker

    def wait(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen.\n{self.log.read_text()[-6000:]}"
            time.sleep(0.1)

    def end(self) -> None:
        for worker in self.started:
            below = processes.descendants(worker.pid)
            worker.kill()
            worker.wait()
            processes.kill_all(below)


@pytest.fixture
def workers(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Workers]:
    made = Workers(child_environment, tmp_path / "worker.log")
    yield made
    made.end()


def upload() -> Operator:
    ensure_seed_bank()
    return operators.create_operator(name="twice", source=OPERATOR)


def launched(workers: Workers, operator: Operator, steps: int) -> Run:
    """A run of an operator that the worker inspects first."""

    def inspected() -> bool:
        operator.refresh_from_db()
        return operator.status != OperatorStatus.PENDING

    workers.wait(inspected, "The inspection")
    assert operator.status == OperatorStatus.READY, operator.status_reason
    return runs.launch(operator, steps_total=steps, seed=1)


def ended(run: Run) -> bool:
    run.refresh_from_db()
    return run.is_terminal


def evaluating(run: Run, count: int = 1) -> bool:
    return run.events.filter(kind="evaluation.phase", payload__phase="check").count() >= count


def evaluation_processes(pids: list[int]) -> list[int]:
    return [pid for pid in pids if "gpu_eval." in processes.command_line(pid)]


def check_nothing_doubled(run: Run) -> None:
    assert run.status == RunStatus.FINISHED, run.error
    assert list(run.steps.values_list("index", flat=True)) == list(range(1, run.steps_total + 1))
    kernels = [step for step in run.steps.all() if step.outcome != "no_proposal"]
    assert Evidence.objects.filter(run_id=run.pk).count() == len(kernels)
    assert list(run.events.values_list("seq", flat=True)) == list(range(1, run.event_seq + 1))
    assert run.events.filter(kind="step.finished").count() == run.steps_total


def test_an_upload_is_inspected_and_a_run_finishes(workers: Workers) -> None:
    """From a file to verified kernels, by the real worker, judge and runner; SIGTERM then ends it cleanly."""
    worker = workers.start()
    operator = upload()
    run = launched(workers, operator, steps=2)
    assert operator.family == "pointwise"
    assert WorkerHeartbeat.objects.get().sentinels["opencl"]["state"] == "skipped"
    workers.wait(lambda: ended(run), "The end of the run")
    check_nothing_doubled(run)
    outcomes = {step.outcome for step in run.steps.all()}
    assert outcomes <= {"faster", "correct", "slower"}, outcomes
    beat = WorkerHeartbeat.objects.get()
    assert beat.queue == "htam"
    worker.terminate()
    assert worker.wait(15) == 0
    assert not WorkerHeartbeat.objects.exists()


def test_cancel_kills_what_is_evaluated(workers: Workers) -> None:
    """Judge and runner of a cancelled run die at once; the worker lives on and takes the next task."""
    worker = workers.start()
    operator = upload()
    run = launched(workers, operator, steps=1)
    workers.wait(lambda: evaluating(run), "An evaluation")
    assert evaluation_processes(processes.descendants(worker.pid))
    runs.cancel(run)

    def none_left() -> bool:
        return not evaluation_processes(processes.descendants(worker.pid))

    workers.wait(none_left, "The end of judge and runner", patience=10)
    run.refresh_from_db()
    assert run.status == RunStatus.CANCELLED
    again = runs.launch(operator, steps_total=1, seed=2)
    workers.wait(lambda: ended(again), "The next run")
    assert again.status == RunStatus.FINISHED, again.error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_worker_that_ends_in_mid_step_leaves_nothing_behind(workers: Workers, number: int) -> None:
    """However a worker ends, its whole tree ends with it, and the next one finishes the run undoubled."""
    worker = workers.start()
    operator = upload()
    run = launched(workers, operator, steps=1)
    workers.wait(lambda: evaluating(run), "An evaluation")
    below = processes.descendants(worker.pid)
    assert evaluation_processes(below)
    started = {pid: processes.start_time(pid) for pid in below}
    os.kill(worker.pid, number)
    status = worker.wait(15)
    assert status == (0 if number != signal.SIGKILL else -signal.SIGKILL)

    def all_dead() -> bool:
        return not [pid for pid in below if started[pid] and processes.start_time(pid) == started[pid]]

    workers.wait(all_dead, "The end of the tree", patience=10)
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING
    workers.start()
    workers.wait(lambda: ended(run), "The end of the run")
    check_nothing_doubled(run)


def test_nothing_is_inspected_before_the_sentinels_passed(workers: Workers) -> None:
    """The queue starts at once, and its first evaluation waits for the device to show what it must."""
    operator = upload()
    workers.start(sentinels=True)

    def state() -> str:
        row = WorkerHeartbeat.objects.first()
        return row.sentinels.get("opencl", {}).get("state", "") if row else ""

    workers.wait(lambda: state() == "checking", "The start of the sentinels")
    operator.refresh_from_db()
    assert operator.status == OperatorStatus.PENDING
    workers.wait(lambda: state() in {"passed", "failed"}, "The end of the sentinels")

    def decided() -> bool:
        operator.refresh_from_db()
        return operator.status != OperatorStatus.PENDING or bool(operator.status_reason)

    workers.wait(decided, "The inspection")
    found = WorkerHeartbeat.objects.get().sentinels["opencl"]
    if found["state"] == "failed":  # a machine too noisy for timing: then nothing is judged, and it says so
        assert found["sentence"] in operator.status_reason
    else:
        assert operator.status == OperatorStatus.READY, operator.status_reason
