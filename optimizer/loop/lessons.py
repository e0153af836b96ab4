"""What a run proposes to the memory after a step: strategies that nobody wrote down yet, edits, transitions.

Runs in the transaction that records the step's evidence, so a killed worker proposes once. What is proposed waits
for a curator, unless the run's own policy accepts it (`Run.auto_accept`).
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from django.utils.text import slugify

from memory.history import Frozen
from memory.models import (
    START,
    ChangeItem,
    ChangeKind,
    Evidence,
    GlobalNode,
    LocalNode,
    ProposalKind,
    TransitionEdge,
)
from memory.review import AutoAccept, BadFields, Suggestion, propose
from memory.services import MemoryChange
from optimizer.choices import Provenance
from optimizer.loop.context import Saving, StepContext
from optimizer.models import Candidate
from optimizer.recipes import RecipeFacts, Schedule, leads_to, naive_schedule, recipe_between, setting

WINS = 3  # improved steps with one setting in one operator family, before a strategy's words say so
WIN_SHARE = 2 / 3  # of all steps with it
FAILURES = 3  # steps of a strategy that ended alike in one family, before its risks say so
FAILURE_SHARE = 0.5
NEWEST = 50  # rows of a strategy that are looked at
DIFF_LINES = 60


def setting_of(ctx: StepContext, candidate: Candidate) -> str:
    """The knobs that a recipe turned in this step, as text; "" for plans that no recipe made."""
    pair = schedules(ctx, candidate)
    return setting(*pair) if pair else ""


def schedules(ctx: StepContext, candidate: Candidate) -> tuple[Schedule, Schedule] | None:
    """The schedule that the step edited and the one it wrote; None unless recipes made both."""
    if candidate.provenance == Provenance.HUMAN or ctx.run.proposer != "recipes":
        return None
    parent = ctx.step.parent
    if parent is not None and parent.provenance == Provenance.HUMAN:
        return None
    before = Schedule.from_json(parent.schedule) if parent else naive_schedule(candidate.language)
    return before, Schedule.from_json(candidate.schedule)


def draw(
    ctx: StepContext, save: Saving, candidate: Candidate, change: MemoryChange, *, improved: bool
) -> None:
    """Propose what this step's evidence suggests, and tell it in the run's events."""
    if change.evidence_id is None or change.repeated or change.frozen:
        return
    evidence = Evidence.objects.select_related(
        "direction", "strategy__direction", "edge__source", "edge__target"
    ).get(pk=change.evidence_id)
    found = after_improvement(ctx, candidate, evidence) if improved else after_failure(evidence)
    auto = AutoAccept(ctx.run.auto_accept, ctx.run.auto_accept_evidence)
    for suggestion in found:
        try:
            proposal = propose(ctx.run.bank, suggestion, auto)
        except Frozen:
            return
        except BadFields as error:  # a model's words may break the rules for strategies
            save.event("memory.unproposed", step=ctx.step.pk, title=suggestion.title, reason=str(error))
            continue
        if proposal is not None:
            save.event(
                "memory.proposed",
                step=ctx.step.pk,
                proposal=proposal.pk,
                kind=proposal.kind,
                title=proposal.title,
                status=proposal.status,
            )


def after_improvement(ctx: StepContext, candidate: Candidate, evidence: Evidence) -> Iterator[Suggestion]:
    yield from new_strategy(ctx, candidate, evidence)
    yield from new_edge(ctx, evidence)
    yield from winning_setting(evidence)
    yield from lesson_edit(candidate, evidence)


# new strategies


def new_strategy(ctx: StepContext, candidate: Candidate, evidence: Evidence) -> Iterator[Suggestion]:
    """An improvement that no strategy describes: by the model's own words, by its knobs, or by a person."""
    lesson = candidate.lesson.get("strategy")
    pair = schedules(ctx, candidate)
    if isinstance(lesson, dict) and lesson:
        fields = {name: value for name, value in lesson.items() if name not in {"recipe", "direction"}}
    elif pair is not None and candidate.attempt > 0:
        fields = undescribed_knobs(ctx, *pair)
    elif candidate.provenance == Provenance.HUMAN and evidence.strategy_id is None:
        fields = own_plan(ctx, candidate)
    else:
        fields = {}
    if not fields:
        return
    title = str(fields.get("title") or "").strip()
    key = slugify(str(fields.get("key") or title))[:76].strip("-") or f"step-{ctx.step.pk}"
    yield suggestion(
        evidence,
        kind=ProposalKind.STRATEGY,
        title=f"New strategy: {title}" if title else "New strategy",
        rationale=f"No strategy of {evidence.direction.title!r} describes this improvement. {measured([evidence])}",
        fields={"prior_utility": 0.0, **fields, "key": free_key(evidence.direction, key)},
        fingerprint=f"strategy:{evidence.direction.key}/{key}",
        direction=evidence.direction,
    )


def free_key(direction: GlobalNode, key: str) -> str:
    """The key with the first number that makes it new under the direction."""
    taken = set(direction.strategies.filter(key__startswith=key).values_list("key", flat=True))
    number = 2
    found = key
    while found in taken:
        found, number = f"{key}-{number}", number + 1
    return found


def undescribed_knobs(ctx: StepContext, before: Schedule, after: Schedule) -> dict[str, Any]:
    """A strategy with these parameters, where no recipe of the bank turns exactly these knobs; {} where one does."""
    assert ctx.report.graph is not None  # recipes work on captured graphs
    facts = RecipeFacts(ctx.report.graph, ctx.report.report["device"])
    rows = LocalNode.objects.filter(direction__bank=ctx.run.bank)
    recipes = rows.exclude(recipe=None).values_list("recipe", flat=True)
    if any(recipe and leads_to(recipe, before, after, facts) for recipe in recipes):
        return {}
    turned = setting(before, after)
    family = spoken(ctx.run.operator.family)
    return {
        "title": f"Set {turned}"[:160],
        "edit_pattern": f"Change the schedule to {turned}.",
        "applies_when": f"Seen to help on a {family} operator; fits where its knobs change the kernel.",
        "recipe": recipe_between(before, after, facts),
    }


def own_plan(ctx: StepContext, candidate: Candidate) -> dict[str, Any]:
    """A draft from a plan that a person wrote: what changed in its text, for the curator to put into words."""
    before = ctx.step.parent.plan if ctx.step.parent else ""
    lines = list(difflib.unified_diff(before.splitlines(), candidate.plan.splitlines(), lineterm="", n=1))[2:]
    shown = "\n".join(lines[:DIFF_LINES])
    rest = f"\n... {len(lines) - DIFF_LINES} more lines" if len(lines) > DIFF_LINES else ""
    against = f"step {ctx.step.parent.step.index}" if ctx.step.parent else "PyTorch"
    return {
        "title": f"From the plan of run {ctx.run.pk}, step {ctx.step.index}",
        "edit_pattern": f"Say what this change does, against {against}:\n{shown}{rest}"[:10000],
        "applies_when": f"Seen to help on a {spoken(ctx.run.operator.family)} operator.",
    }


# transitions


def new_edge(ctx: StepContext, evidence: Evidence) -> Iterator[Suggestion]:
    """A transition that a run walked first, that nobody has described, and that led to an improvement."""
    edge = evidence.edge
    if edge is None or edge.applies_when or edge.rationale or edge.risks or not walked_first(edge):
        return
    rows = list(Evidence.objects.filter(edge=edge, improved=True, excluded=False).order_by("-id")[:NEWEST])
    source = edge.source.key if edge.source else START
    words = f"{source} then {edge.target.key} led to a verified improvement. {measured(rows)}"
    yield suggestion(
        evidence,
        kind=ProposalKind.EDGE,
        title=f"New transition: {source} -> {edge.target.key}",
        rationale=words,
        fields={"source": edge.source_id, "target": edge.target_id, "rationale": words[:5000]},
        fingerprint=f"edge:{source}->{edge.target.key}",
        edge=edge,
        rows=rows,
    )


def walked_first(edge: TransitionEdge) -> bool:
    """Whether a run made the edge, by going along it, and no person or file."""
    made = ChangeItem.objects.filter(kind="edge", part=edge.pk, before__isnull=True).order_by("pk").first()
    return made is not None and made.change.kind == ChangeKind.TRAVERSED


# edits


def winning_setting(evidence: Evidence) -> Iterator[Suggestion]:
    """A parameter setting that keeps winning for an operator family, into the words on when to apply it."""
    strategy = evidence.strategy
    if strategy is None or not evidence.setting:
        return
    rows = rows_of(strategy, evidence.family, setting=evidence.setting)
    wins = [row for row in rows if row.improved]
    if len(wins) < WINS or len(wins) < WIN_SHARE * len(rows):
        return
    family = spoken(evidence.family)
    begin = f"Keeps winning on {family} operators"
    words = f"{begin}: improved {len(wins)} of {len(rows)} steps with {evidence.setting}."
    yield suggestion(
        evidence,
        kind=ProposalKind.EDIT,
        title=f"{strategy.title} keeps winning on {family} operators",
        rationale=f"{words} {measured(wins)}",
        fields={"applies_when": with_sentence(strategy.applies_when, begin, words)},
        fingerprint=f"edit:strategy:{strategy.pk}:applies_when:{evidence.family}:{evidence.setting}",
        strategy=strategy,
        rows=wins,
    )


def after_failure(evidence: Evidence) -> Iterator[Suggestion]:
    """A strategy that keeps failing the same way in an operator family, into its risks."""
    strategy = evidence.strategy
    if strategy is None or evidence.correct:
        return
    rows = rows_of(strategy, evidence.family)
    failed = [row for row in rows if row.verdict == evidence.verdict]
    if len(failed) < FAILURES or len(failed) < FAILURE_SHARE * len(rows):
        return
    family, verdict = spoken(evidence.family), evidence.verdict.replace("_", " ")
    begin = f"On {family} operators it tends to end in {verdict!r}"
    words = f"{begin}: {len(failed)} of its newest {len(rows)} steps."
    others = [risk for risk in strategy.risks if not str(risk).startswith(begin)]
    yield suggestion(
        evidence,
        kind=ProposalKind.EDIT,
        title=f"{strategy.title} tends to end in {verdict!r} on {family} operators",
        rationale=words,
        fields={"risks": [*others, words]},
        fingerprint=f"edit:strategy:{strategy.pk}:risks:{evidence.family}:{evidence.verdict}",
        strategy=strategy,
        rows=failed,
    )


def lesson_edit(candidate: Candidate, evidence: Evidence) -> Iterator[Suggestion]:
    """Other words for the strategy used, as the model that wrote the plan put them."""
    lesson = candidate.lesson.get("edit")
    strategy = evidence.strategy
    if strategy is None or not isinstance(lesson, dict):
        return
    fields = {
        name: lesson[name]
        for name in ("applies_when", "risks")
        if lesson.get(name) and lesson[name] != getattr(strategy, name)
    }
    if fields:
        yield suggestion(
            evidence,
            kind=ProposalKind.EDIT,
            title=f"{strategy.title}: {' and '.join(name.replace('_', ' ') for name in fields)}",
            rationale=f"The model that wrote the plan suggests these words. {measured([evidence])}",
            fields=fields,
            fingerprint=f"edit:strategy:{strategy.pk}:lesson:{'+'.join(fields)}",
            strategy=strategy,
        )


# shared


def suggestion(evidence: Evidence, *, rows: Sequence[Evidence] = (), **fields: Any) -> Suggestion:
    """A suggestion of the step behind ``evidence``, which speaks for it with ``rows``."""
    return Suggestion(
        **fields,
        evidence=sorted({evidence.pk, *(row.pk for row in rows)}),
        proposer=evidence.proposer,
        run_id=evidence.run_id,
        step_id=evidence.step_id,
    )


def rows_of(strategy: LocalNode, family: str, **where: Any) -> list[Evidence]:
    """The strategy's newest counted steps in a family."""
    rows = Evidence.objects.filter(strategy=strategy, family=family, excluded=False, **where)
    return list(rows.order_by("-id")[:NEWEST])


def measured(rows: Sequence[Evidence]) -> str:
    """The ratios of improved steps in a sentence: time before over time after."""
    ratios = sorted(row.speedup for row in rows if row.speedup is not None)
    if not ratios:
        return ""
    if len(ratios) == 1:
        return f"Measured: {ratios[0]:.2f}x the speed of the plan before it, on {rows[0].device}."
    return (
        f"Measured over {len(ratios)} steps: median {statistics.median(ratios):.2f}x the speed of the plan before "
        f"({ratios[0]:.2f}x to {ratios[-1]:.2f}x)."
    )


def with_sentence(text: str, begin: str, sentence: str) -> str:
    """The text with one more sentence, in place of an older one that begins alike."""
    kept = [line for line in text.split("\n") if not line.startswith(begin)]
    return "\n".join([*kept, sentence]).strip()


def spoken(family: str) -> str:
    return family.replace("_", " ") or "unknown"
