"""The same seed, memory and verdicts give the same decisions."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from optimizer.choices import RunStatus
from optimizer.loop import engine
from optimizer.loop.evaluation import NotRecorded, RecordedEvaluator
from optimizer.models import Run
from optimizer.services import replay
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def decisions(run: Run) -> list[Any]:
    """What was decided, with every probability to nine digits."""
    told = []
    for step in run.steps.select_related("direction", "strategy").order_by("index"):
        odds = {score["key"]: round(score["probability"], 9) for score in step.decision["scores"]}
        plans = list(step.candidates.order_by("attempt").values_list("plan_hash", flat=True))
        told.append((step.direction.key, step.strategy.key, odds, plans, step.outcome, step.utility))
    return told


def test_a_replay_decides_the_same() -> None:
    """A second run on the memory as it was, with recorded verdicts, repeats every decision and outcome."""
    run = make_run()
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    again = make_run(run.operator, replay.bank_before(run), seed=run.seed)
    engine.advance(again.pk, RecordedEvaluator(run.pk), proposer=replay.proposer_of(run))
    again.refresh_from_db()
    assert again.status == RunStatus.FINISHED, again.error
    assert decisions(again) == decisions(run)


def test_another_seed_decides_otherwise() -> None:
    """The seed matters, so equal decisions under equal seeds mean something."""
    paths = set()
    for seed in range(6):
        run = make_run(make_run().operator if not paths else Run.objects.first().operator, seed=seed)  # type: ignore[union-attr]
        Run.objects.filter(pk=run.pk).update(policy={"frozen": True})
        engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
        paths.add(
            tuple(step.direction.key for step in run.steps.select_related("direction").order_by("index"))
        )
    assert len(paths) > 1


def test_the_copied_bank_knows_what_the_run_knew() -> None:
    """Evidence from before the run is in the copy; what the run itself taught is not."""
    first = make_run()
    engine.advance(first.pk, FateEvaluator(), proposer=ScriptedProposer())
    second = make_run(first.operator, first.bank)
    engine.advance(second.pk, FateEvaluator(), proposer=ScriptedProposer())
    assert replay.bank_before(Run.objects.get(pk=second.pk)).evidence.count() == 4
    assert replay.bank_before(Run.objects.get(pk=first.pk)).evidence.count() == 0


def test_a_verdict_that_was_not_recorded_ends_the_run_with_a_sentence() -> None:
    """A replay never invents a verdict."""
    run = make_run(steps_total=1)
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    again = make_run(run.operator, replay.bank_before(run), steps_total=1)
    other = ScriptedProposer({1: ["correct 9.0"]})
    engine.advance(again.pk, RecordedEvaluator(run.pk), proposer=other)
    again.refresh_from_db()
    assert again.status == RunStatus.FAILED
    assert f"Run {run.pk} holds no" in again.error


def test_a_replay_inspects_nothing() -> None:
    """Recorded seams never run an operator."""
    run = make_run(steps_total=1)
    with pytest.raises(NotRecorded):
        RecordedEvaluator(run.pk).inspect(None)  # type: ignore[arg-type]


def test_the_command_refuses_an_unknown_run() -> None:
    """Status 2 and one sentence."""
    with pytest.raises(CommandError, match="There is no run 999") as caught:
        call_command("optimize", replay=999, stdout=StringIO())
    assert caught.value.returncode == 2
    assert json.dumps(str(caught.value))
