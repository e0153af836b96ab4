"""The queue: runs come between pieces of background work, and no request is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.models import OrmQ

from gpu_eval.errors import UnusableInput
from gpu_eval.operators.health import OperatorReport
from optimizer import tasks
from optimizer.choices import OperatorStatus
from optimizer.loop.evaluation import Subject
from optimizer.models import Operator
from optimizer.services import background, operators, runs
from tests.optimizer.support import OPERATOR, REPORT, FateEvaluator, make_run

pytestmark = pytest.mark.django_db(transaction=True)


class Inspector(FateEvaluator):
    """Inspects without a device; ``meanwhile`` is called in the middle of each inspection."""

    def __init__(self, meanwhile: Any = None) -> None:
        super().__init__()
        self.meanwhile = meanwhile
        self.seen: list[str] = []

    def inspect(self, subject: Subject) -> OperatorReport:
        self.seen.append(f"{subject.name} on {subject.device}")
        if self.meanwhile:
            self.meanwhile()
        if subject.name == "broken":
            raise UnusableInput("It has no forward.")
        return OperatorReport(health=REPORT, graph=None, graph_reason="not captured")


def upload(name: str, **fields: Any) -> Operator:
    return operators.create_operator(name=name, source=OPERATOR, **fields)


def take() -> str:
    """What the queue's pusher does: the oldest task that nobody has, off the queue."""
    task = OrmQ.objects.order_by("pk").first()
    assert task is not None
    name = task.name()
    task.delete()
    return name


@pytest.fixture
def inspector(monkeypatch: pytest.MonkeyPatch) -> Inspector:
    made = Inspector()
    monkeypatch.setattr(tasks, "evaluator", lambda: made)
    return made


def test_a_resumed_run_waits_for_one_inspection_at_most(inspector: Inspector) -> None:
    """However many inspections were asked for before, the run's step is next but one."""
    for number in range(5):
        upload(f"operator {number}")
    run = make_run(status="paused")
    assert take() == "background"
    runs.resume(run)
    tasks.background()
    assert inspector.seen == ["operator 0 on auto"]
    assert take() == f"run-{run.pk}"
    assert take() == "background"
    assert not OrmQ.objects.exists()


def test_inspections_are_done_in_order_and_samples_last(inspector: Inspector) -> None:
    """What people wait for comes before what nobody asked for, and the work ends by itself."""
    upload("sample", is_sample=True)
    upload("b")
    upload("broken")
    upload("a")
    done = 0
    while OrmQ.objects.exists():
        assert take() == "background"
        tasks.background()
        done += 1
    assert inspector.seen == ["b on auto", "broken on auto", "a on auto", "sample on auto"]
    assert done == 4
    assert Operator.objects.get(name="broken").status_reason == "It has no forward."
    assert set(Operator.objects.exclude(name="broken").values_list("status", flat=True)) == {
        OperatorStatus.READY
    }


def test_many_requests_are_one_task(inspector: Inspector) -> None:
    """A hundred uploads leave one task, so that nothing piles up before a run."""
    for number in range(20):
        upload(f"operator {number}")
    assert OrmQ.objects.count() == 1


def test_asked_for_anew_in_the_middle_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inspection of an older source does not swallow the request that a change made."""
    operator = upload("changing")

    def change() -> None:
        inspector.meanwhile = None
        operators.inspect_again(Operator.objects.get(pk=operator.pk), "opencl")

    inspector = Inspector(change)
    background.work_one(inspector)
    assert background.waits()
    background.work_one(inspector)
    assert inspector.seen == ["changing on auto", "changing on opencl"]
    assert not background.waits()


def test_nothing_is_queued_by_a_change_that_is_rolled_back() -> None:
    """A task that no row asks for would only wake a worker in vain."""

    def fail() -> None:
        with transaction.atomic():
            upload("never saved")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not OrmQ.objects.exists()


def test_lost_work_is_queued_again() -> None:
    """A request whose task was lost does not wait for ever; one that is being done is left alone."""
    upload("waiting")
    OrmQ.objects.all().delete()
    background.revive()
    assert [task.name() for task in OrmQ.objects.all()] == ["background"]
    OrmQ.objects.update(lock=timezone.now() + timedelta(hours=1))
    background.revive()
    assert OrmQ.objects.count() == 1
