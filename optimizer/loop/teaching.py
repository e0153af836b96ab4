"""The last stage: what a step showed, into the memory, the step's row and the run's best."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from memory.models import GlobalNode
from memory.policy import utility
from memory.services import MemoryChange, record_evidence
from optimizer.choices import Provenance, Stage
from optimizer.loop import events, lessons
from optimizer.loop.context import StepContext
from optimizer.loop.summary import dtype_of
from optimizer.models import Candidate, CandidateEvaluation, Run, Step
from optimizer.serializers import LIGHT_STEP_PARTS, StepSerializer, deciding_evaluation

NEVER_COMPILED = frozenset({"compile_error", "rejected"})


def speedup_before(step: Step) -> float:
    """How fast the plan is that this step edits, over PyTorch eager; 1 where it edits PyTorch itself.

    A plan that was not confirmed has not beaten PyTorch, whatever a noisy first measurement says.
    """
    evaluation = deciding_evaluation(step.parent)
    if evaluation is None or evaluation.speedup is None:
        return 1.0
    return evaluation.speedup if evaluation.kind == "confirm" else min(evaluation.speedup, 1.0)


def looks_improved(evaluation: CandidateEvaluation, before: float) -> bool:
    """Correct, and the whole interval of its speed-up above what was there before."""
    low = evaluation.speedup_low
    return evaluation.verdict == "correct" and low is not None and low > before


def update(ctx: StepContext) -> None:
    """Close the step: evidence, the step's figures, a new best, and the events, in one transaction."""
    candidate = ctx.step.candidates.order_by("attempt").last()
    evaluation = deciding_evaluation(candidate)
    if candidate is None or evaluation is None:
        close_without_kernel(ctx)
        return
    before = speedup_before(ctx.step)
    improved = evaluation.kind == "confirm" and looks_improved(evaluation, before)
    gained = step_utility(ctx, evaluation, before)
    fields = {
        "result": candidate,
        "outcome": evaluation.outcome,
        "message": evaluation.message,
        "improved": improved,
        "utility": gained,
        "speedup": evaluation.speedup if evaluation.verdict == "correct" else None,
        "finished_at": timezone.now(),
    }
    with ctx.saving(Stage.DONE, **fields) as save:
        if ctx.step.direction is not None:  # None: somebody deleted it meanwhile
            change = teach(ctx, ctx.step.direction, candidate, evaluation, before, improved, gained)
            save.fields["memory_change"] = change.to_json()
            save.event("memory.updated", step=ctx.step.pk, change=change.to_json())
            lessons.draw(ctx, save, candidate, change, improved=improved)
        note_baseline(ctx.run.pk, evaluation)
        if improved and evaluation.outcome == "faster":
            save.events.append(crown(ctx, candidate, evaluation))
        save.last = lambda: [finished(ctx.step.pk)]


def close_without_kernel(ctx: StepContext) -> None:
    """A step that wrote nothing teaches nothing: no kernel was tried."""
    with ctx.saving(Stage.DONE, outcome="no_proposal", finished_at=timezone.now()) as save:
        save.last = lambda: [finished(ctx.step.pk)]


def step_utility(ctx: StepContext, evaluation: CandidateEvaluation, before: float) -> float:
    """u = clip(log2(t_before / t_after)). Both times are ratios to eager, each taken within one session, so
    that a drift of the machine between sessions cancels out."""
    correct = evaluation.verdict == "correct" and bool(evaluation.speedup)
    after = 1.0 / evaluation.speedup if correct and evaluation.speedup else None
    return utility(1.0 / before, after, correct, failure_utility=ctx.config.failure_utility)


def teach(
    ctx: StepContext,
    direction: GlobalNode,
    candidate: Candidate,
    evaluation: CandidateEvaluation,
    before: float,
    improved: bool,
    gained: float,
) -> MemoryChange:
    step = ctx.step
    earlier = ctx.run.steps.filter(index__lt=step.index, direction__isnull=False)
    previous = earlier.select_related("direction").order_by("-index").first()
    correct = evaluation.verdict == "correct"
    return record_evidence(
        ctx.run.bank,
        direction=direction,
        strategy=step.strategy,
        source=previous.direction if previous else None,
        step_id=step.pk,
        run_id=ctx.run.pk,
        verdict=evaluation.verdict,
        compiled=evaluation.verdict not in NEVER_COMPILED,
        correct=correct,
        improved=improved,
        utility=gained,
        speedup=evaluation.speedup / before if correct and evaluation.speedup else None,
        device=ctx.report.device_key,
        dtype=dtype_of(ctx.report),
        family=ctx.run.operator.family,
        operator_id=ctx.run.operator_id,
        setting=lessons.setting_of(ctx, candidate),
        proposer="human" if candidate.provenance == Provenance.HUMAN else ctx.run.proposer,
        human_touched=bool(step.state.get("steering")),
        config=ctx.config,
    )


def note_baseline(run_id: int, evaluation: CandidateEvaluation) -> None:
    if evaluation.baseline_us is not None:
        Run.objects.filter(pk=run_id, baseline_us__isnull=True).update(baseline_us=evaluation.baseline_us)


def crown(ctx: StepContext, candidate: Candidate, evaluation: CandidateEvaluation) -> events.Event:
    """Make a confirmed candidate the run's best, and return the event that says so."""
    figures: dict[str, Any] = {
        "speedup": evaluation.speedup,
        "speedup_low": evaluation.speedup_low,
        "speedup_high": evaluation.speedup_high,
    }
    Run.objects.filter(pk=ctx.run.pk).update(
        best_candidate=candidate, **{f"best_{name}": value for name, value in figures.items()}
    )
    return "run.best", {"step": ctx.step.pk, "candidate": candidate.pk, **figures}


def finished(step_id: int) -> events.Event:
    step = (
        Step.objects.select_related("run", "direction", "strategy", "result")
        .prefetch_related(*LIGHT_STEP_PARTS)
        .get(pk=step_id)
    )
    return "step.finished", {"step": dict(StepSerializer(step).data)}
