"""Judging stored results again: both verdicts stay, and a refuted one is marked wherever it counts."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django_q.models import OrmQ
from rest_framework.test import APIClient

from gpu_eval.results import CHECKER_VERSION, Evaluation
from memory.models import Evidence, EvidenceTotals
from optimizer.choices import EvaluationKind, ReverificationStatus
from optimizer.exports.bundle import exported_candidate
from optimizer.loop import engine
from optimizer.loop.evaluation import NoDevice, Subject
from optimizer.loop.stages import best_correct
from optimizer.management.commands import reverify
from optimizer.models import Candidate, CandidateEvaluation, Reverification, Run
from optimizer.serializers import ReverificationSerializer, RunSerializer, StepSerializer
from optimizer.services import verification
from optimizer.services.operators import Refused
from tests.optimizer.support import FateEvaluator, ScriptedProposer, evaluation, make_run, person

OLD = CHECKER_VERSION - 1


class Judge(FateEvaluator):
    """The present checker: judges by ``fate`` whatever the plan says, or by the plan's own where it is ""."""

    def __init__(self, fate: str = "", speedup: float | None = None) -> None:
        super().__init__()
        self.fate, self.speedup = fate, speedup
        self.subjects: list[Subject] = []

    def evaluate(self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: Any) -> Evaluation:
        self.subjects.append(subject)
        if self.fate == "no device":
            raise NoDevice("This worker has no usable cuda device (usable: opencl).")
        judged = evaluation(self.fate, self.speedup) if self.fate else None
        judged = judged or super().evaluate(subject, plan, plan_hash, kind, on_phase)
        return replace(judged, checker=CHECKER_VERSION)


@pytest.fixture
def run(db: None) -> Run:
    """A finished run whose best, at 3.0x, an older checker confirmed; 1.5x came before it."""
    run = make_run(steps_total=2)
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    CandidateEvaluation.objects.update(checker=OLD)
    run.refresh_from_db()
    assert run.best_speedup == 3.0
    return run


def best_of(run: Run) -> Candidate:
    candidate = run.best_candidate
    assert candidate is not None
    candidate.refresh_from_db()
    return candidate


def judge_all(judge: Judge) -> None:
    while verification.judge_next(judge, lambda row, phase: None):
        pass


def counted(run: Run) -> int:
    return sum(
        EvidenceTotals.objects.filter(direction__isnull=False, bank=run.bank).values_list("tries", flat=True)
    )


def test_a_confirmed_winner_keeps_both_verdicts(run: Run) -> None:
    """The old verdict is not touched; the new one stands beside it and the run is up to date."""
    before = best_of(run).evaluations.get(kind="confirm")
    stored = before.result
    assert [row.evaluation for row in verification.ask_winners()] == [before]
    judge_all(Judge("correct", 2.8))
    before.refresh_from_db()
    assert (before.result, before.speedup, before.checker) == (stored, 3.0, OLD)
    after = best_of(run).evaluations.get(kind=EvaluationKind.REVERIFY)
    assert (after.speedup, after.checker) == (2.8, CHECKER_VERSION)
    shown = ReverificationSerializer(Reverification.objects.get()).data
    assert (shown["finding"], shown["sentence"]) == ("confirmed", "Still correct.")
    assert (shown["before"]["speedup"], shown["after"]["speedup"]) == (3.0, 2.8)
    assert not verification.outdated_runs().exists()
    assert best_of(run).refuted_by is None


def test_a_refuted_winner_is_marked_and_teaches_no_more(run: Run) -> None:
    """Mark, evidence, next parent, export and live view all follow; nothing is overwritten."""
    best = best_of(run)
    tries = counted(run)
    verification.ask_winners()
    judge_all(Judge("wrong"))
    best.refresh_from_db()
    run.refresh_from_db()
    assert best.refuted_by == CHECKER_VERSION
    assert (run.best_candidate, run.best_speedup) == (best, 3.0)
    assert RunSerializer(run).data["best_refuted_by"] == CHECKER_VERSION
    assert StepSerializer(run.steps.get(index=2)).data["refuted_by"] == CHECKER_VERSION
    evidence = Evidence.objects.get(step_id=best.step_id)
    assert evidence.excluded
    assert evidence.excluded_reason == f"Not confirmed by checker {CHECKER_VERSION}: It was wrong."
    assert counted(run) == tries - 1
    other = best_correct(run.pk)
    assert other is not None
    assert other.step.index == 1
    assert exported_candidate(run) == other
    event = run.events.last()
    assert event is not None
    assert (event.kind, event.payload["finding"]) == ("candidate.reverified", "refuted")
    assert event.payload["refuted_by"] == CHECKER_VERSION


def test_a_later_checker_can_take_the_mark_back(run: Run) -> None:
    """A refutation that was an error of the checker leaves no trace in the statistics."""
    tries = counted(run)
    original = best_of(run).evaluations.get(kind="confirm")
    for fate, speedup in (("wrong", None), ("correct", 2.9)):
        verification.ask(original)
        judge_all(Judge(fate, speedup))
    assert best_of(run).refuted_by is None
    assert not Evidence.objects.filter(excluded=True).exists()
    assert counted(run) == tries
    assert Reverification.objects.count() == 2
    assert best_of(run).evaluations.filter(kind="reverify").count() == 2


def test_an_exclusion_by_a_person_stays(run: Run) -> None:
    """Only what re-verification left out is taken back in by it."""
    Evidence.objects.filter(step_id=best_of(run).step_id).update(excluded=True, excluded_reason="Hot day.")
    verification.ask_winners()
    judge_all(Judge("correct", 3.0))
    assert Evidence.objects.get(step_id=best_of(run).step_id).excluded_reason == "Hot day."


def test_a_machine_that_cannot_judge_marks_nothing(run: Run) -> None:
    """No verdict is no refutation: the sentence is kept, and it can be asked for again."""
    verification.ask_winners()
    judge_all(Judge("no device"))
    row = Reverification.objects.get()
    assert row.status == ReverificationStatus.FAILED
    assert row.error == "This worker has no usable cuda device (usable: opencl)."
    assert best_of(run).refuted_by is None
    assert len(verification.ask_winners()) == 1


def test_a_whole_run_is_judged_on_its_own_terms(run: Run) -> None:
    """Every correct result, on the device kind and under the policy of the first verdict."""
    row = best_of(run).evaluations.get(kind="confirm")
    row.result = {**row.result, "policy": {**row.result["policy"], "library": "forbid"}}
    row.save()
    verification.ask_run(run)
    judge = Judge()
    judge_all(judge)
    assert [subject.device for subject in judge.subjects] == ["opencl", "opencl"]
    assert [subject.policy.library.value for subject in judge.subjects] == ["allow", "forbid"]
    with pytest.raises(Refused, match="no correct result"):
        verification.ask_run(make_run(operator=run.operator))


def test_asking_twice_asks_once(run: Run) -> None:
    """A double click makes one evaluation, and one task on the queue."""
    original = best_of(run).evaluations.get(kind="confirm")
    assert verification.ask(original) == verification.ask(original)
    assert Reverification.objects.count() == 1


def test_one_whose_worker_died_is_judged_by_the_next(run: Run) -> None:
    """A killed worker loses no request and leaves no second row."""
    (row,) = verification.ask_winners()
    Reverification.objects.filter(pk=row.pk).update(
        status=ReverificationStatus.RUNNING,
        owner=f"{verification.processes.host_tag()}:999999:1",
        started_at="2026-01-01T00:00Z",
    )
    judge_all(Judge("correct", 3.0))
    row.refresh_from_db()
    assert row.status == ReverificationStatus.DONE
    assert best_of(run).evaluations.filter(kind="reverify").count() == 1


class TestRoutes:
    @pytest.fixture
    def client(self, db: None) -> APIClient:
        client = APIClient()
        client.force_authenticate(person("operator"))
        return client

    def test_one_result(self, client: APIClient, run: Run, django_capture_on_commit_callbacks: Any) -> None:
        """The button's route queues background work and answers with both sides of the comparison."""
        original = best_of(run).evaluations.get(kind="confirm")
        with django_capture_on_commit_callbacks(execute=True):
            answer = client.post(f"/api/evaluations/{original.pk}/reverify/")
        assert (answer.status_code, answer.data["status"]) == (202, "waiting")
        assert (answer.data["before"]["speedup"], answer.data["after"]) == (3.0, None)
        assert [task.name() for task in OrmQ.objects.all()] == ["background"]
        shown = client.get(f"/api/evaluations/{original.pk}/").data
        assert shown["outdated"] is True
        assert shown["reading"]["facts"]

    def test_all_winners_with_progress(self, client: APIClient, run: Run) -> None:
        """From the count of outdated winners to their second verdicts."""
        assert client.get("/api/reverifications/summary/").data["outdated"] == 1
        assert client.post("/api/reverifications/", {"winners": True}, format="json").data == {"asked": 1}
        assert client.get("/api/reverifications/summary/").data["waiting"] == 1
        judge_all(Judge("wrong"))
        summary = client.get("/api/reverifications/summary/").data
        assert (summary["outdated"], summary["waiting"], summary["refuted"]) == (0, 0, 1)
        (row,) = client.get(f"/api/reverifications/?run={run.pk}").data["results"]
        assert (row["finding"], row["after"]["verdict"]) == ("refuted", "wrong")

    def test_what_was_not_named(self, client: APIClient, run: Run) -> None:
        """One of the two must be named; a run that is not there is a sentence."""
        for body in ({}, {"winners": True, "run": run.pk}, {"run": 10**9}):
            answer = client.post("/api/reverifications/", body, format="json")
            assert answer.status_code == 400
            assert answer.data["detail"]

    def test_withdrawing(self, client: APIClient, run: Run) -> None:
        """One that waits can be taken back, one that is done cannot."""
        (row,) = verification.ask_winners()
        assert client.delete(f"/api/reverifications/{row.pk}/").status_code == 204
        (row,) = verification.ask_winners()
        judge_all(Judge("correct", 3.0))
        assert client.delete(f"/api/reverifications/{row.pk}/").status_code == 409

    def test_the_list_asks_few_questions(
        self, client: APIClient, run: Run, django_assert_max_num_queries: Any
    ) -> None:
        """Comparisons of many results come in one query and without their evidence."""
        for _ in range(5):
            verification.ask_run(run)
            judge_all(Judge())
        with django_assert_max_num_queries(4):
            assert len(client.get("/api/reverifications/").data["results"]) == 10


def test_the_command_prints_one_object(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The foreground does the same, and says what it found as JSON."""
    monkeypatch.setattr(reverify, "LiveEvaluator", lambda: Judge("wrong"))
    out = StringIO()
    call_command("reverify", "--winners", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert (found["refuted"], found["confirmed"], found["checker"]) == (1, 0, CHECKER_VERSION)
    assert found["results"][0]["before"]["speedup"] == 3.0
    with pytest.raises(CommandError, match="no run 999") as raised:
        call_command("reverify", "--run", "999")
    assert raised.value.returncode == 2
