"""Rows for browser tests, written by the product's own models in a process of their own.

Playwright keeps an event loop running, so a test cannot use Django's ORM itself. Run as
``python -m tests.browser.rows ACTION JSON``; prints one JSON value.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from typing import Any

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402 - the models need the app registry
from django.utils import timezone  # noqa: E402

from gpu_eval.results import (  # noqa: E402
    CHECKER_VERSION,
    Check,
    Conditions,
    DeviceFacts,
    Evaluation,
    KernelReport,
    Timing,
    Verdict,
)
from htam_site.accounts.people import add_person  # noqa: E402
from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank  # noqa: E402
from memory.policy import EvidenceContext, PolicyConfig  # noqa: E402
from memory.review import Suggestion, propose  # noqa: E402
from memory.services import choose_direction, record_evidence, strategy_options  # noqa: E402
from optimizer.choices import EvaluationKind  # noqa: E402
from optimizer.loop import events  # noqa: E402
from optimizer.loop.evaluation import Evaluator, OnPhase, Subject  # noqa: E402
from optimizer.models import Candidate, CandidateEvaluation, Operator, Run, Step  # noqa: E402
from optimizer.serializers import StepSerializer  # noqa: E402
from optimizer.services import verification  # noqa: E402
from optimizer.services.evaluations import store  # noqa: E402
from tests.browser.live_site import PASSWORD  # noqa: E402
from tests.browser.sources import DOUBLE, HOSTILE, plan  # noqa: E402

DEVICE = DeviceFacts(kind="opencl", name="test CPU", compute_units=2, peak_bandwidth_gbs=20.0)
PEOPLE = {"vera": ["viewer"], "olga": ["operator"], "carl": ["operator", "curator"]}
EAGER_US = 900.0


def people() -> dict[str, list[str]]:
    for name, roles in PEOPLE.items():
        user = add_person(name, roles)
        user.set_password(PASSWORD)
        user.save()
    return PEOPLE


def run(finished: int = 0, total: int = 6, status: str = "running", hostile: bool = False) -> dict[str, Any]:
    """A run with ``finished`` steps. Every second one fails; the others are faster and faster."""
    name = f"operator {Operator.objects.count() + 1}"
    operator = Operator.objects.create(
        name=f"{HOSTILE} {name}" if hostile else name,
        source=DOUBLE,
        content_hash="0" * 64,
        family="pointwise",
        status="ready",
    )
    bank = MemoryBank.objects.order_by("pk").first()
    made = Run.objects.create(
        operator=operator,
        bank=bank,
        steps_total=total,
        status="running",
        started_at=timezone.now(),
        device_key=DEVICE.key,
        policy=PolicyConfig().to_json(),
        created_by=User.objects.get(username="olga"),
    )
    tell(made, "run.status", status="running", request="", error="")
    for _ in range(finished):
        step(made.pk, hostile=hostile)
    if status != "running":
        Run.objects.filter(pk=made.pk).update(status=status)
        tell(made, "run.status", status=status, request="", error="")
    return {"id": made.pk, "operator": operator.name, "bank": made.bank_id}


def step(run: int, hostile: bool = False, finish: bool = True) -> dict[str, Any]:
    """The next step of a run: chosen by the memory's policy, written, judged, taught."""
    owner = Run.objects.select_related("bank", "operator").get(pk=run)
    earlier = list(owner.steps.select_related("direction").order_by("index"))
    index = len(earlier) + 1
    facts = {
        "family": "pointwise",
        "dtype": "float32",
        "device_kind": "opencl",
        "has_plan": index > 1,
        "step_index": index,
    }
    prefix = [previous.direction.key for previous in reversed(earlier) if previous.direction]
    config, context = PolicyConfig(), EvidenceContext(DEVICE.key, "float32", "pointwise")
    decision = choose_direction(owner.bank, prefix, facts, context, config, random.Random(index))
    direction = owner.bank.directions.get(key=decision.chosen)
    options = strategy_options(owner.bank, direction.key, facts, context, config)
    option = options[0]
    strategy = direction.strategies.get(pk=option.id)
    row = Step.objects.create(
        run=owner,
        index=index,
        stage="evaluate",
        state={"facts": facts, "operator": {}, "best": {}, "recent": [], "prefix": [*prefix, "START"]},
        decision=decision.to_json(),
        direction=direction,
        strategy=strategy,
        strategy_choice={"reason": "The first that applies.", "chosen": option.key, "scores": []},
        parent=owner.best_candidate,
        started_at=timezone.now(),
    )
    tell(owner, "step.started", step=row.pk, index=index)
    tell(
        owner,
        "step.direction",
        step=row.pk,
        index=index,
        direction={"id": direction.pk, "key": direction.key, "title": direction.title},
        probability=decision.probability,
    )
    tell(
        owner,
        "step.strategy",
        step=row.pk,
        strategy={"id": strategy.pk, "key": strategy.key, "title": strategy.title},
    )
    tell(owner, "step.stage", step=row.pk, index=index, stage="evaluate")
    text = plan(width=2**index, comment=HOSTILE if hostile else "")
    candidate = Candidate.objects.create(
        step=row,
        plan=text,
        plan_hash=f"{row.pk:064d}",
        language="opencl",
        parent=row.parent,
        note=HOSTILE if hostile else "Wider.",
    )
    tell(owner, "candidate.written", step=row.pk, candidate=candidate.pk, attempt=0, of=2, language="opencl")
    if finish:
        close(owner, row, candidate, index, prefix, hostile)
    return {"id": row.pk, "index": index, "direction": direction.title}


def close(owner: Run, row: Step, candidate: Candidate, index: int, prefix: list[str], hostile: bool) -> None:
    judged = evaluation(index, HOSTILE if hostile else "Element [3, 1] is 0.2 off, tolerance 1e-4.")
    outcome = store(candidate, EvaluationKind.FIRST, judged, DEVICE.key).outcome
    tell(
        owner,
        "evaluation.done",
        step=row.pk,
        candidate=candidate.pk,
        kind="first",
        verdict=judged.verdict.value,
        outcome=outcome,
        message=judged.message,
        speedup=judged.speedup,
        speedup_low=judged.speedup_low,
        speedup_high=judged.speedup_high,
        time_us=judged.candidate.median_us if judged.candidate else None,
    )
    improved = outcome == "faster"
    change = record_evidence(
        owner.bank,
        direction=row.direction,
        strategy=row.strategy,
        source=prefix[0] if prefix else None,
        step_id=row.pk,
        run_id=owner.pk,
        verdict=judged.verdict.value,
        compiled=True,
        correct=judged.correct,
        improved=improved,
        utility=0.5 if improved else -0.5,
        speedup=judged.speedup,
        device=DEVICE.key,
        dtype="float32",
        family="pointwise",
        proposer="recipes",
    )
    Step.objects.filter(pk=row.pk).update(
        stage="done",
        result=candidate,
        outcome=outcome,
        message=judged.message,
        improved=improved,
        speedup=judged.speedup,
        stage_seconds={"direction": 0.02, "evaluate": 2.0},
        memory_change=change.to_json(),
        finished_at=timezone.now(),
    )
    tell(owner, "memory.updated", step=row.pk, change=change.to_json())
    if improved:
        figures = {
            "speedup": judged.speedup,
            "speedup_low": judged.speedup_low,
            "speedup_high": judged.speedup_high,
        }
        Run.objects.filter(pk=owner.pk).update(
            best_candidate=candidate, **{f"best_{name}": value for name, value in figures.items()}
        )
        tell(owner, "run.best", step=row.pk, candidate=candidate.pk, **figures)
    tell(owner, "step.finished", step=dict(StepSerializer(Step.objects.get(pk=row.pk)).data))


def evaluation(index: int, message: str) -> Evaluation:
    """Odd steps are correct and faster, even ones wrong."""
    if index % 2 == 0:
        checks = [Check("values", False, message, {"max_abs_error": 0.2, "tolerance": 1e-4})]
        return Evaluation(Verdict.WRONG, message, device=DEVICE, checks=checks, compiler_log=message)
    time_us = EAGER_US / (1 + index)
    ratio = EAGER_US / time_us
    return Evaluation(
        Verdict.CORRECT,
        "",
        device=DEVICE,
        checks=[Check("values", True, "", {"max_abs_error": 1e-7, "tolerance": 1e-4})],
        candidate=timing(time_us),
        baseline=timing(EAGER_US),
        speedup=ratio,
        speedup_low=ratio * 0.97,
        speedup_high=ratio * 1.03,
        faster=True,
        floor_us=40.0,
        achieved_gbs=16.2,
        achieved_gflops=4.1,
        bottleneck="memory",
        kernels=[KernelReport("double", 1, [64], [256], 24, 0, 1024, 0.75, True)],
        phase_seconds={"compile": 0.4, "check": 0.2, "time": 0.9},
        versions={"torch": "2.11", "pocl": "6.0"},
        sandbox="bubblewrap",
        checker=CHECKER_VERSION - 1,
        compiler="PoCL 6.0",
        compile_cached=True,
        launch_us=3.2,
        clock="wall clock",
        before=Conditions(load=0.12),
        after=Conditions(load=0.2),
        seed=11,
    )


class Judge(Evaluator):
    """The present checker, which finds every plan ``right`` or wrong."""

    def __init__(self, right: bool) -> None:
        self.right = right

    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        judged = evaluation(1 if self.right else 2, "Round 3 is 0.4 off.")
        return dataclasses.replace(judged, checker=CHECKER_VERSION)

    def inspect(self, subject: Subject) -> Any:
        raise NotImplementedError


def judge(right: bool) -> int:
    """Work off every re-verification that waits."""
    done = 0
    while verification.judge_next(Judge(right), lambda row, phase: None):
        done += 1
    return done


def age(run: int) -> None:
    """Results as the first version stored them: without what came later."""
    kept = ("verdict", "message", "candidate", "baseline", "speedup", "checks", "device", "kernels")
    for stored in CandidateEvaluation.objects.filter(candidate__step__run=run):
        stored.result = {name: stored.result[name] for name in kept}
        for kernel in stored.result["kernels"]:
            del kernel["matters"]
        stored.checker = 0
        stored.save()


def proposals(run: int) -> list[int]:
    """Three suggestions of a run, each with the evidence of its steps: two strategies and an edit."""
    owner = Run.objects.get(pk=run)
    evidence = list(Evidence.objects.filter(run_id=run).values_list("pk", flat=True))
    fusion = GlobalNode.objects.get(bank=owner.bank, key="fusion")
    edited = LocalNode.objects.filter(direction=fusion).order_by("pk").first()

    def strategy(key: str, title: str) -> dict[str, Any]:
        return {
            "key": key,
            "title": title,
            "edit_pattern": f"{title}: keep the partial results in registers.",
            "applies_when": "Rows are long.",
            "risks": ["Register pressure."],
        }

    base = {"rationale": "It improved every time.", "evidence": evidence, "run_id": run}
    suggestions = [
        Suggestion(
            kind="strategy",
            title=f"New strategy: {title}",
            fields=strategy(f"{key}-{run}", title),
            fingerprint=f"strategy:fusion/{key}-{run}",
            direction=fusion,
            **base,
        )
        for key, title in (
            ("fold-tail", "Fold the tail loop"),
            ("swap-order", "Exchange the two outer loops"),
        )
    ]
    suggestions.append(
        Suggestion(
            kind="edit",
            title="When to apply it",
            fields={"applies_when": f"Rows are longer than {1000 + run} elements."},
            fingerprint=f"edit:{run}",
            strategy=edited,
            **base,
        )
    )
    made = [propose(owner.bank, suggestion) for suggestion in suggestions]
    return [row.pk for row in made if row is not None]


def timing(median: float) -> Timing:
    samples = [median * (1 + 0.01 * (number % 5 - 2)) for number in range(30)]
    return Timing(median, min(samples), max(samples), samples)


def tell(owner: Run, kind: str, /, **payload: Any) -> None:
    events.append(owner.pk, [(kind, payload)])


def status(run: int, status: str) -> None:
    """A run's status as a worker would leave it."""
    Run.objects.filter(pk=run).update(status=status)
    events.append(run, [("run.status", {"status": status, "request": "", "error": ""})])


def sign_out(name: str) -> None:
    """End every session of everybody, as an administrator would."""
    from django.contrib.sessions.models import Session

    Session.objects.all().delete()


ACTIONS = {
    "people": people,
    "run": run,
    "step": step,
    "status": status,
    "sign_out": sign_out,
    "judge": judge,
    "age": age,
    "proposals": proposals,
}

if __name__ == "__main__":
    print(json.dumps(ACTIONS[sys.argv[1]](**json.loads(sys.argv[2]))))
