"""kill -9 of the worker at every stage of a step: the run goes on, and nothing is doubled or lost."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from memory.models import Evidence
from memory.services import export_bank, import_bank
from optimizer.choices import RunStatus, Stage
from optimizer.loop import engine, reaper
from optimizer.models import Run
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_operator, make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

STAGES = [stage for stage in Stage.values if stage != Stage.DONE]


def story(run: Run) -> list[tuple[object, ...]]:
    """What a run did, without ids and times."""
    told: list[tuple[object, ...]] = []
    for step in run.steps.select_related("direction", "strategy").order_by("index"):
        plans = [
            (
                candidate.attempt,
                candidate.plan_hash,
                sorted(candidate.evaluations.values_list("kind", "verdict")),
            )
            for candidate in step.candidates.order_by("attempt")
        ]
        direction = step.direction.key if step.direction else None
        strategy = step.strategy.key if step.strategy else None
        told.append((step.index, step.stage, direction, strategy, step.outcome, step.utility, plans))
    return told


@pytest.mark.parametrize("when", ["before", "inside", "after"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_run_goes_on_where_it_was_cut(
    stage: str, when: str, child_environment: dict[str, str]
) -> None:
    """After a kill at any stage the run tells the same story as one that was left in peace."""
    operator = make_operator()
    undisturbed = make_run(operator)
    twin_bank = import_bank(export_bank(undisturbed.bank), "twin")
    engine.advance(undisturbed.pk, FateEvaluator(), proposer=ScriptedProposer())
    run = make_run(operator, twin_bank)

    command = [sys.executable, "-m", "tests.optimizer.kill_at", str(run.pk), "2", stage, when]
    killed = subprocess.run(command, env=child_environment, timeout=120, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING

    assert reaper.reap() == [run.pk]
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    run.refresh_from_db()
    assert run.status == RunStatus.FINISHED, run.error
    assert story(run) == story(undisturbed)
    assert Evidence.objects.filter(run_id=run.pk).count() == run.steps.count()
    seqs = list(run.events.values_list("seq", flat=True))
    assert seqs == list(range(1, run.event_seq + 1))
    finished = [event.payload["step"]["index"] for event in run.events.filter(kind="step.finished")]
    assert finished == [1, 2, 3, 4]


def test_a_stage_that_was_done_is_not_done_again(child_environment: dict[str, str]) -> None:
    """A kill between measurement and confirmation repeats neither what was measured nor what was written."""
    run = make_run(steps_total=1)
    command = [sys.executable, "-m", "tests.optimizer.kill_at", str(run.pk), "1", Stage.EVALUATE, "after"]
    killed = subprocess.run(command, env=child_environment, timeout=120, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    reaper.reap()
    evaluator = FateEvaluator()
    engine.advance(
        run.pk, evaluator, proposer=ScriptedProposer({})
    )  # an empty script: writing again would end it
    run.refresh_from_db()
    assert run.best_speedup == pytest.approx(1.5)
    assert evaluator.calls == []
