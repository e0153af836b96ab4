"""A run from launch to its end, judged by stub seams."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpu_eval.devices import probe_devices
from memory.models import Evidence
from optimizer.choices import OperatorStatus, RunStatus, Stage
from optimizer.loop import engine, processes, transitions
from optimizer.loop.evaluation import LiveEvaluator
from optimizer.models import Candidate, CandidateEvaluation, Run, RunEvent, Step
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def work_off(run: Run, script: dict[int, list[str]] | None = None) -> Run:
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer(script))
    run.refresh_from_db()
    return run


def steps_of(run: Run) -> list[Step]:
    return list(run.steps.order_by("index"))


def test_a_run_finishes_with_its_best_confirmed() -> None:
    """Every step is done, and the best is the fastest plan that a second measurement confirmed."""
    run = work_off(make_run())
    steps = steps_of(run)
    assert run.status == RunStatus.FINISHED, run.error
    assert [step.stage for step in steps] == [Stage.DONE] * 4
    assert [step.outcome for step in steps] == ["faster", "faster", "wrong", "faster"]
    assert run.best_speedup == pytest.approx(3.0)
    assert run.best_candidate is not None
    assert run.best_candidate.evaluations.filter(kind="confirm").exists()
    assert run.baseline_us == pytest.approx(400.0)


def test_utility_compares_with_the_plan_that_was_edited() -> None:
    """u = clip(log2(before / after)): doubling twice over gives 1, a slower plan is negative, failure
    costs."""
    steps = steps_of(work_off(make_run()))
    assert steps[0].utility == pytest.approx(0.585, abs=1e-3)  # 1 -> 1.5
    assert steps[1].utility == pytest.approx(1.0)  # 1.5 -> 3
    assert steps[2].utility == pytest.approx(-0.5)  # failed
    assert steps[3].utility == pytest.approx(-0.585, abs=1e-3)  # 3 -> 2
    assert [step.improved for step in steps] == [True, True, False, False]


def test_a_failed_plan_is_repaired_as_often_as_allowed() -> None:
    """The second attempt replaces the first; after the last the step keeps its failure."""
    run = work_off(make_run(repair_tries=2))
    second, third = steps_of(run)[1:3]
    assert [candidate.attempt for candidate in second.candidates.order_by("attempt")] == [0, 1]
    assert second.result is not None
    assert second.result.attempt == 1
    assert third.candidates.count() == 3
    assert third.message == "It was wrong."


def test_the_next_step_edits_the_best_correct_plan() -> None:
    """A slower plan does not become what later steps build on."""
    run = work_off(
        make_run(steps_total=4), {1: ["correct 2.0"], 2: ["correct 1.2"], 3: ["correct 2.5"], 4: ["wrong"]}
    )
    steps = steps_of(run)
    assert steps[0].parent is None
    assert steps[1].parent == steps[0].result
    assert steps[2].parent == steps[0].result
    assert steps[3].parent == steps[2].result


def test_a_best_that_fails_its_confirmation_does_not_count() -> None:
    """A plan that is wrong in the fresh runner is a failed step, and no best."""

    class Fickle(FateEvaluator):
        def evaluate(self, subject: Any, plan: str, plan_hash: str, kind: str, on_phase: Any) -> Any:
            fated = plan if kind == "first" else plan.replace("correct 2.0", "nondeterministic")
            return super().evaluate(subject, fated, plan_hash, kind, on_phase)

    run = make_run(steps_total=1, repair_tries=0)
    engine.advance(run.pk, Fickle(), proposer=ScriptedProposer({1: ["correct 2.0"]}))
    run.refresh_from_db()
    step = steps_of(run)[0]
    assert run.best_candidate is None
    assert (step.outcome, step.improved, step.utility) == ("nondeterministic", False, -0.5)


def test_slower_than_pytorch_is_no_best() -> None:
    """A kernel that loses to PyTorch is kept as the plan to improve, never as the run's best."""
    run = work_off(make_run(steps_total=2), {1: ["correct 0.5"], 2: ["correct 0.8"]})
    assert run.best_candidate is None
    assert [step.outcome for step in steps_of(run)] == ["slower", "slower"]
    assert steps_of(run)[1].improved
    assert steps_of(run)[1].parent == steps_of(run)[0].result


def test_a_step_without_a_proposal_teaches_nothing() -> None:
    """Nothing was tried, so nothing is recorded, and the run goes on."""
    run = work_off(make_run(steps_total=2), {2: ["correct 2.0"]})
    assert [step.outcome for step in steps_of(run)] == ["no_proposal", "faster"]
    assert steps_of(run)[0].message == "The script has no more."
    assert Evidence.objects.filter(run_id=run.pk).count() == 1


def test_one_evidence_a_step_along_the_path_of_directions() -> None:
    """Each step teaches once, on the edge from the direction before it."""
    run = work_off(make_run())
    steps = list(run.steps.select_related("direction").order_by("index"))
    rows = list(Evidence.objects.filter(run_id=run.pk).select_related("edge").order_by("step_id"))
    assert [row.step_id for row in rows] == [step.pk for step in steps]
    sources = [row.edge.source_id if row.edge else None for row in rows]
    assert sources == [None, *(step.direction_id for step in steps[:-1])]


def test_events_count_without_gaps_and_end_with_the_status() -> None:
    """A page that follows the log misses nothing and knows the end."""
    run = work_off(make_run())
    rows = list(RunEvent.objects.filter(run=run).order_by("seq"))
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert run.event_seq == len(rows)
    kinds = [row.kind for row in rows]
    assert kinds.count("step.started") == kinds.count("step.finished") == 4
    assert rows[-1].kind == "run.status"
    assert rows[-1].payload["status"] == RunStatus.FINISHED


def test_the_decision_and_the_state_are_stored() -> None:
    """The page answers "why this direction?" from data: every term, and the facts that it read."""
    run = work_off(make_run(steps_total=2))
    first, second = run.steps.select_related("direction").order_by("index")
    assert first.decision["chosen"] == first.direction.key
    assert sum(score["probability"] for score in first.decision["scores"]) == pytest.approx(1.0)
    assert first.state["facts"]["has_plan"] is False
    assert second.state["facts"]["has_plan"] is True
    assert second.state["facts"]["last_direction"] == first.direction.key
    assert second.state["prefix"] == [first.direction.key, "START"]


def test_a_frozen_bank_learns_nothing() -> None:
    """A run on a frozen bank leaves it as it was and still finishes."""
    run = make_run(policy={"frozen": True})
    work_off(run)
    assert run.status == RunStatus.FINISHED
    assert not Evidence.objects.exists()


def test_a_held_run_is_left_alone() -> None:
    """A second task for a run that another worker holds does nothing."""
    run = make_run()
    assert transitions.claim(run.pk, "elsewhere:1:1")
    before = run.events.count()
    assert engine.run_step(run.pk, FateEvaluator(), proposer=ScriptedProposer()) is engine.Progress.NOT_OURS
    assert not run.steps.exists()
    assert run.events.count() == before


def test_a_finished_run_is_left_alone() -> None:
    """A task that comes late to a finished run adds nothing."""
    run = work_off(make_run(steps_total=1))
    counts = (Step.objects.count(), Candidate.objects.count(), CandidateEvaluation.objects.count())
    assert engine.run_step(run.pk, FateEvaluator()) is engine.Progress.NOT_OURS
    assert counts == (Step.objects.count(), Candidate.objects.count(), CandidateEvaluation.objects.count())


def test_an_unexpected_error_fails_the_run_with_an_id() -> None:
    """A fault of ours is a sentence with an id found in the log, not a traceback."""

    class Broken(FateEvaluator):
        def evaluate(self, *args: Any) -> Any:
            raise RuntimeError("secret detail")

    run = make_run()
    engine.advance(run.pk, Broken(), proposer=ScriptedProposer())
    run.refresh_from_db()
    assert run.status == RunStatus.FAILED
    assert "the log has it as" in run.error
    assert "secret" not in run.error


def test_a_lost_lease_stops_the_writer() -> None:
    """A worker whose run went to another saves nothing more."""

    class Robbed(FateEvaluator):
        def evaluate(self, *args: Any) -> Any:
            result = super().evaluate(*args)
            Run.objects.update(lease_owner="another:1:1")
            return result

    run = make_run()
    progress = engine.run_step(run.pk, Robbed(), proposer=ScriptedProposer())
    assert progress is engine.Progress.NOT_OURS
    assert not CandidateEvaluation.objects.exists()
    assert Step.objects.get().stage == Stage.EVALUATE


def test_a_dead_process_is_told_from_a_living_one() -> None:
    """Leases of this host's dead processes are seen as such; another host's never are."""
    assert not processes.is_dead(processes.this_process())
    tag, pid, _ = processes.this_process().split(":")
    assert processes.is_dead(f"{tag}:{pid}:1")
    assert processes.is_dead(f"{tag}:4194304:1")
    assert not processes.is_dead("another-host:1:1")


def test_a_noisy_measurement_does_not_become_what_others_must_beat() -> None:
    """A plan whose interval reaches below PyTorch is built on, but the next one has to beat PyTorch only."""

    class Noisy(FateEvaluator):
        def evaluate(self, *args: Any) -> Any:
            result = super().evaluate(*args)
            return dataclasses.replace(result, speedup_low=0.5) if result.speedup == 9.0 else result

    run = make_run(steps_total=2)
    engine.advance(run.pk, Noisy(), proposer=ScriptedProposer({1: ["correct 9.0"], 2: ["correct 2.0"]}))
    run.refresh_from_db()
    first, second = steps_of(run)
    assert not first.improved
    assert second.parent == first.result
    assert second.improved
    assert run.best_speedup == pytest.approx(2.0)


def test_a_missing_device_fails_the_run_and_not_the_operator() -> None:
    """What a worker lacks says nothing about the operator."""
    run = make_run(device="cuda")
    if "cuda" in [facts.kind for facts in probe_devices()]:
        pytest.skip("this machine has a CUDA device")
    with LiveEvaluator() as evaluator:
        engine.advance(run.pk, evaluator)
    run.refresh_from_db()
    assert run.status == RunStatus.FAILED
    assert run.error.startswith("This worker has no usable cuda device")
    assert run.operator.status == OperatorStatus.READY


@pytest.mark.parametrize("switch", ["use_hierarchy", "use_local_memory", "use_prefix"])
def test_each_part_of_the_memory_can_be_switched_off(switch: str) -> None:
    """A run without one part still finishes, and its strategies belong to its directions."""
    run = work_off(make_run(policy={switch: False}))
    assert run.status == RunStatus.FINISHED, run.error
    for step in run.steps.select_related("strategy"):
        assert step.strategy is not None
        assert step.strategy.direction_id == step.direction_id
