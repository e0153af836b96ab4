"""Sentinels: no worker judges on a device that has not shown what it must."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from gpu_eval import sentinels
from gpu_eval.errors import EvaluatorFault
from gpu_eval.sentinels import SentinelResult
from htam_site import doctor
from optimizer.choices import OperatorStatus
from optimizer.loop import clearance
from optimizer.loop.evaluation import LiveEvaluator, NoDevice
from optimizer.models import WorkerHeartbeat
from optimizer.services import background, operators
from optimizer.services.workers import NAME_VARIABLE
from tests.optimizer.support import OPERATOR, person

GOOD = SentinelResult("wrong", True, "The wrong sentinel must be wrong; it was wrong.")
BAD = SentinelResult(
    "slow", False, "The slow sentinel must be correct and slower; it was correct at 3.00 times."
)
FACTS = {"kind": "opencl", "name": "Test CPU"}


def sentinels_say(monkeypatch: pytest.MonkeyPatch, *rounds: Any) -> list[str]:
    """`check_device` answers with each of ``rounds`` in turn; returns the kinds it was asked for."""
    asked: list[str] = []
    answers = list(rounds)

    def check_device(kind: str) -> Any:
        asked.append(kind)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sentinels, "check_device", check_device)
    monkeypatch.setattr(clearance, "PAUSE", 0.0)
    return asked


def worker(monkeypatch: pytest.MonkeyPatch, **found: Any) -> WorkerHeartbeat:
    """This process belongs to a live worker with these outcomes."""
    monkeypatch.setitem(os.environ, NAME_VARIABLE, "box-1")
    now = timezone.now()
    return WorkerHeartbeat.objects.create(
        name="box-1",
        queue="htam",
        device=FACTS,
        sentinels={"opencl": found} if found else {},
        started_at=now,
        seen_at=now,
    )


def test_all_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round is enough, and it is said when it was."""
    asked = sentinels_say(monkeypatch, [GOOD, GOOD])
    found = clearance.examine("opencl")
    assert (found["state"], asked) == ("passed", ["opencl"])
    assert found["results"][0]["sentence"] == GOOD.sentence
    assert found["checked_at"]


def test_a_blurred_round_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy while its worker starts gets another try."""
    sentinels_say(monkeypatch, [GOOD, BAD], [GOOD, GOOD])
    assert clearance.examine("opencl")["state"] == "passed"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([GOOD, BAD], BAD.sentence),
        (EvaluatorFault("No runner started."), "No runner started."),
        (OSError(), "OSError"),
    ],
)
def test_what_stays_wrong_fails(monkeypatch: pytest.MonkeyPatch, answer: Any, sentence: str) -> None:
    """A sentinel that fails three times, and one that cannot be evaluated, are failures with a sentence."""
    asked = sentinels_say(monkeypatch, *[answer] * clearance.TRIES)
    found = clearance.examine("cuda")
    assert found["state"] == "failed"
    assert sentence in found["sentence"]
    assert len(asked) == clearance.TRIES


def test_a_failed_device_refuses_with_a_sentence(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inspection there says why it was not made, and no process was started for it."""
    worker(monkeypatch, state="failed", sentence=BAD.sentence)
    operator = operators.create_operator(name="twice", source=OPERATOR)
    with LiveEvaluator() as evaluator:
        background.work_one(evaluator)
    operator.refresh_from_db()
    assert operator.status == OperatorStatus.PENDING
    assert BAD.sentence in operator.status_reason


def test_an_evaluation_waits_for_the_outcome(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is judged before the sentinels passed; a cancel ends the wait."""
    row = worker(monkeypatch)
    looks: list[int] = []

    def given_up() -> bool:
        looks.append(1)
        if len(looks) == 2:
            row.sentinels = {"opencl": {"state": "passed", "sentence": "", "results": []}}
            row.save()
        return False

    monkeypatch.setattr(clearance, "LOOK_EVERY", 0.0)
    clearance.await_clearance("opencl", given_up)
    assert len(looks) == 2
    row.sentinels = {}
    row.save()
    clearance.await_clearance("opencl", lambda: True)


def test_a_wait_has_an_end(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentinels that hang do not hold the queue for ever."""
    worker(monkeypatch)
    monkeypatch.setattr(clearance, "PATIENCE", -1.0)
    with pytest.raises(NoDevice, match="did not end"):
        clearance.await_clearance("opencl", lambda: False)


def test_the_foreground_is_not_held_up(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command belongs to no worker: nobody checks for it, and it judges at once."""
    monkeypatch.delitem(os.environ, NAME_VARIABLE, raising=False)
    clearance.await_clearance("opencl", lambda: False)


def test_it_shows_on_the_devices_page_and_in_doctor(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wonders why nothing runs finds the sentence in both places, and over REST."""
    found = {"state": "failed", "sentence": BAD.sentence, "results": [GOOD.__dict__, BAD.__dict__]}
    worker(monkeypatch, **found)
    client = Client()
    client.force_login(person("viewer"))
    page = client.get("/devices/").content.decode()
    assert "A sentinel failed: nothing is judged on this device" in page
    assert BAD.sentence in page
    (device,) = client.get("/api/devices/").json()["results"]
    assert device["sentinels"]["state"] == "failed"
    (row,) = [finding for finding in doctor._worker() if finding.name == "sentinels opencl"]
    assert not row.ok
    assert BAD.sentence in row.detail
    assert row.fix


def test_sentinels_can_be_switched_off(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is honest: the outcome says that nothing was checked."""
    asked = sentinels_say(monkeypatch)
    settings.SENTINELS = False
    assert clearance.examine("opencl")["state"] == "skipped"
    assert asked == []


def test_a_gone_worker_offers_no_device(db: None) -> None:
    """Within seconds of its last beat a dead worker is shown as gone and its device is not offered."""
    client = Client()
    client.force_login(person("viewer"))
    then = timezone.now() - timedelta(seconds=15)
    WorkerHeartbeat.objects.create(name="box-2", queue="htam", device=FACTS, started_at=then, seen_at=then)
    assert [row["alive"] for row in client.get("/api/workers/").json()["results"]] == [False]
    assert client.get("/api/devices/").json()["results"] == []
