"""Pause, resume, stop and cancel, by compare-and-set, and what the reaper picks up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from optimizer import tasks
from optimizer.choices import TERMINAL_RUN_STATUSES, RunRequest, RunStatus
from optimizer.loop import engine, reaper, transitions
from optimizer.models import Run
from optimizer.services import runs
from optimizer.services.operators import Refused
from optimizer.services.queue import enqueue_step
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


class Asking(FateEvaluator):
    """Asks something of the run while its first plan is evaluated."""

    def __init__(self, run: Run, ask: Callable[[Run], None]) -> None:
        super().__init__()
        self.run, self.ask, self.asked = run, ask, False

    def evaluate(self, *args: Any) -> Any:
        if not self.asked:
            self.asked = True
            self.ask(self.run)
        return super().evaluate(*args)


def advance(run: Run, ask: Callable[[Run], None]) -> Run:
    engine.advance(run.pk, Asking(run, ask), proposer=ScriptedProposer())
    run.refresh_from_db()
    return run


def test_pause_finishes_the_step_and_resume_goes_on() -> None:
    """A pause never cuts a step, and a resumed run ends as if it had not been paused."""
    run = advance(make_run(), runs.pause)
    assert (run.status, run.request) == (RunStatus.PAUSED, RunRequest.NONE)
    assert [step.stage for step in run.steps.all()] == ["done"]
    runs.resume(run)
    run.refresh_from_db()
    assert run.status == RunStatus.QUEUED
    assert [task.name() for task in OrmQ.objects.all()] == [f"run-{run.pk}"]
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    run.refresh_from_db()
    assert (run.status, run.steps.count()) == (RunStatus.FINISHED, 4)


def test_a_pause_can_be_taken_back() -> None:
    """Resume before the step has ended leaves the run running."""

    def pause_and_resume(run: Run) -> None:
        runs.pause(run)
        runs.resume(run)

    assert advance(make_run(), pause_and_resume).status == RunStatus.FINISHED


def test_stop_finishes_the_step_and_closes() -> None:
    """The step in hand is kept with its evidence; no other begins."""
    run = advance(make_run(), runs.stop)
    assert run.status == RunStatus.STOPPED
    assert [step.stage for step in run.steps.all()] == ["done"]
    assert run.best_speedup is not None


def test_cancel_closes_at_once() -> None:
    """The status changes with the request, and the worker writes nothing more."""
    run = advance(make_run(), runs.cancel)
    assert run.status == RunStatus.CANCELLED
    step = run.steps.get()
    assert step.stage == "evaluate"
    assert not step.candidates.get().evaluations.exists()


@pytest.mark.parametrize(
    ("ask", "status"),
    [(runs.pause, RunStatus.PAUSED), (runs.stop, RunStatus.STOPPED), (runs.cancel, RunStatus.CANCELLED)],
)
def test_a_run_that_waits_obeys_at_once(ask: Callable[[Run], None], status: RunStatus) -> None:
    """No worker is needed to hold or close a run that nobody works on, and its task then does nothing."""
    run = make_run()
    ask(run)
    run.refresh_from_db()
    assert run.status == status
    tasks.run_step(run.pk)
    assert not run.steps.exists()


@pytest.mark.parametrize("status", sorted(TERMINAL_RUN_STATUSES))
@pytest.mark.parametrize("ask", [runs.pause, runs.resume, runs.stop, runs.cancel])
def test_terminal_states_refuse_change(ask: Callable[[Run], None], status: str) -> None:
    """What has ended stays ended, with a sentence."""
    run = make_run(status=status)
    with pytest.raises(Refused, match=r"\.$"):
        ask(run)
    run.refresh_from_db()
    assert run.status == status


def test_of_two_claims_one_wins() -> None:
    """The lease goes to one worker, and comes free when it expires."""
    run = make_run()
    assert transitions.claim(run.pk, "a:1:1")
    assert not transitions.claim(run.pk, "b:1:1")
    assert transitions.claim(run.pk, "a:1:1")
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert transitions.claim(run.pk, "b:1:1")
    with pytest.raises(transitions.LostLease):
        transitions.fence(run.pk, "a:1:1")


def test_the_reaper_queues_an_abandoned_run_once() -> None:
    """An expired lease puts the run back on the queue; a task that waits already is enough."""
    run = make_run()
    transitions.claim(run.pk, "elsewhere:1:1")
    assert reaper.reap() == []
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert reaper.reap() == [run.pk]
    assert reaper.reap() == [run.pk]
    assert [task.name() for task in OrmQ.objects.all()] == [f"run-{run.pk}"]


def test_the_reaper_leaves_other_runs_alone() -> None:
    """Runs that wait for a person, have ended, or were launched a moment ago are not queued."""
    for number, status in enumerate((RunStatus.PAUSED, RunStatus.FINISHED, RunStatus.QUEUED)):
        make_run(status=status, operator=make_run_operator(number))
    assert reaper.reap() == []


def make_run_operator(number: int) -> Any:
    from tests.optimizer.support import make_operator

    return make_operator(f"twice {number}")


def test_a_launched_run_that_lost_its_task_is_queued_again() -> None:
    """A queued run is not forgotten when its task vanished."""
    run = make_run()
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    assert reaper.reap() == [run.pk]


def test_queueing_twice_makes_one_task() -> None:
    """A step that is due has one task, however often it is asked for."""
    run = make_run()
    enqueue_step(run.pk)
    enqueue_step(run.pk)
    assert OrmQ.objects.count() == 1
