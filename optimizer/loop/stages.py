"""The stages of a step, one function each. A stage reads the rows, decides, and saves its result with the
move to the next stage in one transaction; killed at any point, it is done again from the same rows and
decides the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeGuard

from memory.models import LocalNode
from memory.services import StrategyOption, choose_direction
from optimizer.choices import EvaluationKind, Provenance, Stage
from optimizer.loop import steering, summary, teaching
from optimizer.loop.context import StepContext
from optimizer.models import Candidate, CandidateEvaluation, Step
from optimizer.proposers import Failure, NoProposal, Proposal
from optimizer.serializers import LIGHT_EVALUATIONS, deciding_evaluation
from optimizer.services.evaluations import store

LARGE_FIELDS = ("state", "decision", "strategy_choice", "memory_change", "stage_seconds")
REPAIRABLE = frozenset(
    {
        "compile_error",
        "launch_error",
        "wrong",
        "nondeterministic",
        "crashed",
        "timeout",
        "out_of_memory",
        "rejected",
    }
)


def summarise(ctx: StepContext) -> None:
    """s_t, and the plan to edit: the best correct one so far, or none for PyTorch itself."""
    earlier = finished_steps(ctx)
    parent = best_correct(ctx.run.pk)
    state = summary.summarise(ctx.run, ctx.step, ctx.report, earlier, parent)
    with ctx.saving(Stage.DIRECTION, state=state, parent=parent) as save:
        steering.take_up(ctx, save)


def direction(ctx: StepContext) -> None:
    """Choose a direction by the memory's policy, among those with a strategy that the proposer can carry
    out."""
    state = ctx.search_state()
    known: dict[str, bool] = {}
    banned = steering.banned_directions(ctx)
    banned_strategies = steering.banned_strategy_ids(ctx)

    def usable(node: LocalNode) -> bool:
        if node.pk in banned_strategies:
            return False
        recipe = repr(node.recipe)
        if recipe not in known:
            known[recipe] = ctx.proposer.can_use(state, node.recipe)
        return known[recipe]

    decision = choose_direction(
        ctx.run.bank,
        ctx.step.state["prefix"],
        state.facts,
        ctx.evidence_context,
        ctx.config,
        ctx.rng("direction"),
        usable=usable,
        banned=banned,
    )
    decision, pin = steering.pinned(ctx, decision)
    stored = {**decision.to_json(), **pin}
    if decision.chosen in banned:  # nothing else was available either
        end_without_kernel(ctx, "No direction that is not banned has a usable strategy now.", decision=stored)
        return
    node = ctx.run.bank.directions.get(key=decision.chosen)
    with ctx.saving(Stage.STRATEGY, direction=node, decision=stored) as save:
        if unmet := pin.get("pin_unmet"):
            steering.note_unmet(save, ctx, unmet["steer"], unmet["reason"])
        save.event(
            "step.direction",
            step=ctx.step.pk,
            index=ctx.step.index,
            direction={"id": node.pk, "key": node.key, "title": node.title},
            probability=decision.probability,
            pinned="pinned" in pin,
        )


def strategy(ctx: StepContext) -> None:
    """Let the proposer choose among the direction's strategies; without a usable one the step ends here."""
    if ctx.step.direction is None:
        end_without_kernel(ctx, "Somebody deleted the chosen direction meanwhile.")
        return
    choice, unmet = steering.chosen_strategy(ctx)
    saved = {
        "reason": choice.reason,
        "scores": choice.scores,
        "chosen": choice.option.key if choice.option else None,
    }
    if choice.option is None:
        end_without_kernel(ctx, choice.reason, strategy_choice=saved)
        return
    option = choice.option
    with ctx.saving(Stage.WRITE, strategy_choice=saved, strategy_id=option.id) as save:
        if unmet:
            steering.note_unmet(save, ctx, steering.of(ctx)["pin"]["steer"], unmet)
        save.event(
            "step.strategy",
            step=ctx.step.pk,
            strategy={"id": option.id, "key": option.key, "title": option.title},
            reason=choice.reason,
        )


def write(ctx: StepContext) -> None:
    """Write the step's plan, or repair the one that failed; a proposer with nothing to offer ends the
    step."""
    attempts = list(ctx.step.candidates.prefetch_related("evaluations").order_by("attempt"))
    if (own := steering.own_plan(ctx)) is not None:
        save_candidate(ctx, own, attempts, Provenance.HUMAN)
        return
    option = next((option for option in ctx.options() if option.id == ctx.step.strategy_id), None)
    if option is None:
        end_without_kernel(ctx, "Somebody retired the chosen strategy meanwhile.")
        return
    proposal = propose(ctx, option, attempts)
    if isinstance(proposal, NoProposal):
        end_without_kernel(ctx, proposal.reason)
        return
    save_candidate(ctx, proposal, attempts)


def save_candidate(
    ctx: StepContext,
    proposal: Proposal,
    attempts: list[Candidate],
    provenance: Provenance = Provenance.PROPOSER,
) -> None:
    with ctx.saving(Stage.EVALUATE) as save:
        candidate = Candidate.objects.create(
            step=ctx.step,
            attempt=len(attempts),
            parent=attempts[-1] if attempts else ctx.step.parent,
            plan=proposal.plan,
            plan_hash=plan_hash(proposal.plan),
            language=proposal.language,
            schedule=proposal.schedule,
            note=proposal.note,
            lesson=proposal.lesson,
            provenance=provenance,
        )
        ctx.known_state = None
        save.event(
            "candidate.written",
            step=ctx.step.pk,
            candidate=candidate.pk,
            attempt=candidate.attempt,
            of=ctx.run.repair_tries,
            language=candidate.language,
        )


def end_without_kernel(ctx: StepContext, sentence: str, **fields: Any) -> None:
    """Go to the last stage with nothing more to evaluate; an earlier attempt is then the step's result."""
    with ctx.saving(Stage.UPDATE, message=sentence, **fields):
        pass


def propose(ctx: StepContext, option: StrategyOption, attempts: list[Candidate]) -> Proposal | NoProposal:
    state = ctx.search_state()
    rng = ctx.rng(f"write:{len(attempts)}")
    if not attempts:
        return ctx.proposer.write(state, option, rng)
    failed = attempts[-1]
    view = next(item for item in reversed(state.tried) if item.plan_hash == failed.plan_hash)
    return ctx.proposer.repair(state, option, view, failure_of(failed), len(attempts), rng)


def failure_of(candidate: Candidate) -> Failure:
    evaluation = deciding_evaluation(candidate)
    assert evaluation is not None  # a repair follows an evaluation
    checks = [check for check in evaluation.result.get("checks", []) if not check["passed"]]
    return Failure(evaluation.verdict, evaluation.message, evaluation.result.get("compiler_log", ""), checks)


def evaluate(ctx: StepContext) -> None:
    """Judge the newest plan; measure it again in a fresh runner where it looks like a new best."""
    candidate = ctx.step.candidates.order_by("attempt").last()
    assert candidate is not None  # `write` saved it with the move to this stage
    evaluation = measured(ctx, candidate, EvaluationKind.FIRST)
    if teaching.looks_improved(evaluation, teaching.speedup_before(ctx.step)):
        evaluation = measured(ctx, candidate, EvaluationKind.CONFIRM)
    if is_repairable(candidate, evaluation) and candidate.attempt < ctx.run.repair_tries:
        with ctx.saving(Stage.WRITE) as save:
            save.event(
                "step.repair",
                step=ctx.step.pk,
                attempt=candidate.attempt + 1,
                of=ctx.run.repair_tries,
                reason=evaluation.message,
            )
        return
    with ctx.saving(Stage.UPDATE):
        pass


def is_repairable(candidate: Candidate, evaluation: CandidateEvaluation) -> bool:
    """Whether the proposer may try again: never in place of the plan that a person wrote."""
    return evaluation.verdict in REPAIRABLE and candidate.provenance != Provenance.HUMAN


def measured(ctx: StepContext, candidate: Candidate, kind: EvaluationKind) -> CandidateEvaluation:
    """The stored evaluation of this kind, made now where there is none."""
    stored = candidate.evaluations.filter(kind=kind).first()
    if stored is not None:
        return stored

    def on_phase(phase: str) -> None:
        ctx.emit("evaluation.phase", step=ctx.step.pk, candidate=candidate.pk, phase=phase, kind=kind.value)

    result = ctx.evaluator.evaluate(ctx.subject, candidate.plan, candidate.plan_hash, kind.value, on_phase)
    with ctx.saving() as save:
        evaluation = store(candidate, kind, result, ctx.report.device_key)
        seconds = with_phases(ctx.step.stage_seconds, result.phase_seconds)
        Step.objects.filter(pk=ctx.step.pk).update(stage_seconds=seconds)
        save.event("evaluation.done", **evaluation_payload(ctx.step, evaluation))
        ctx.known_state = None
    return evaluation


def with_phases(stage_seconds: dict[str, float], phase_seconds: dict[str, float]) -> dict[str, float]:
    """A step's seconds with those of one more evaluation's phases added."""
    seconds = dict(stage_seconds)
    for phase, spent in phase_seconds.items():
        seconds[phase] = round(seconds.get(phase, 0.0) + spent, 4)
    return seconds


def evaluation_payload(step: Step, evaluation: CandidateEvaluation) -> dict[str, Any]:
    names = ("kind", "verdict", "outcome", "message", "speedup", "speedup_low", "speedup_high", "time_us")
    figures = {name: getattr(evaluation, name) for name in names}
    return {
        "step": step.pk,
        "candidate": evaluation.candidate_id,
        "evaluation": evaluation.pk,
        **figures,
        "kind": str(evaluation.kind),
    }


def finished_steps(ctx: StepContext) -> list[Step]:
    """The run's earlier steps, in order, without what lay behind their decisions."""
    earlier = ctx.run.steps.filter(index__lt=ctx.step.index).select_related("direction", "strategy")
    return list(earlier.defer(*LARGE_FIELDS).order_by("index"))


def best_correct(run_id: int) -> Candidate | None:
    """The plan to build on: the last confirmed improvement; before there is one, the fastest correct plan.

    One that a newer checker refuted is neither.
    """
    kept = Step.objects.filter(run_id=run_id, improved=True, result__refuted_by__isnull=True)
    improved = kept.order_by("-index").first()
    candidates = (
        Candidate.objects.filter(step__run_id=run_id, evaluations__verdict="correct", refuted_by__isnull=True)
        .select_related("step")
        .prefetch_related(LIGHT_EVALUATIONS)
        .order_by("step__index", "attempt")
        .distinct()
    )
    if improved is not None and improved.result_id is not None:
        return candidates.filter(pk=improved.result_id).first()
    found = [(deciding_evaluation(candidate), candidate) for candidate in candidates]
    correct = [(evaluation.speedup or 0.0, plan) for evaluation, plan in found if is_correct(evaluation)]
    return max(correct, key=lambda pair: pair[0])[1] if correct else None


def is_correct(evaluation: CandidateEvaluation | None) -> TypeGuard[CandidateEvaluation]:
    return evaluation is not None and evaluation.verdict == "correct"


def plan_hash(plan: str) -> str:
    """SHA-256 of the text: equal plans are equal candidates."""
    return hashlib.sha256(plan.encode()).hexdigest()


STAGES: dict[str, Callable[[StepContext], None]] = {
    Stage.SUMMARISE: summarise,
    Stage.DIRECTION: direction,
    Stage.STRATEGY: strategy,
    Stage.WRITE: write,
    Stage.EVALUATE: evaluate,
    Stage.UPDATE: teaching.update,
}
