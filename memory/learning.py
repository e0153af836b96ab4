"""What one step showed, into a bank: the evidence row, the sums it counts in, the edge it walked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from django.db import transaction

from memory.history import Recorder, locked, survivor
from memory.models import (
    START,
    Change,
    ChangeKind,
    CuratedPart,
    Evidence,
    EvidenceTotals,
    GlobalNode,
    LocalNode,
    MemoryBank,
    TransitionEdge,
)
from memory.policy import BucketTotals, EvidenceContext, PolicyConfig, posterior
from memory.statistics import (
    Sums,
    add_to_totals,
    bucket_of,
    place_in,
    places_of,
    sums_in,
    sums_of,
    totals_around,
)


@dataclass(frozen=True)
class MemoryChange:
    """Utilities before and after a step's evidence, as JSON-able dicts; ``strategy`` is None where none
    was used."""

    direction: dict[str, Any]
    strategy: dict[str, Any] | None
    edge: dict[str, Any] | None
    evidence_id: int | None
    frozen: bool = False  # nothing was recorded
    repeated: bool = False  # this step had taught already; nothing was counted twice

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Lesson(NamedTuple):
    """The parts that a step taught about."""

    direction: GlobalNode
    strategy: LocalNode | None
    edge: TransitionEdge | None


def record_evidence(
    bank: MemoryBank,
    *,
    direction: GlobalNode | str,
    strategy: LocalNode | None,
    source: GlobalNode | str | None,
    step_id: int | None,
    run_id: int | None,
    verdict: str,
    compiled: bool,
    correct: bool,
    improved: bool,
    utility: float,
    speedup: float | None,
    device: str,
    dtype: str,
    family: str,
    proposer: str,
    model: str = "",
    human_touched: bool = False,
    note: str = "",
    operator_id: int | None = None,
    setting: str = "",
    frozen: bool = False,
    config: PolicyConfig | None = None,
) -> MemoryChange:
    """Record what one step showed and count it, in one transaction.

    ``source`` is the direction before (None or `START` at the first step); an edge that the bank lacks is
    created on its first traversal. Parts that were merged or moved since the step chose them teach where
    their evidence went. A step that has taught already is not counted again. A frozen bank, or ``frozen``,
    records nothing. Utilities in the result are those of the step's own device, dtype and family.

    ``operator_id`` and ``setting`` (the knob that the step turned, such as "vector_width=8") tell the review
    queue which settings win for a family.
    """
    config = config or PolicyConfig()
    context = EvidenceContext(device, dtype, family)
    with transaction.atomic():
        row = locked(bank)
        target, used = _present(bank, direction, strategy)
        previous = None if source is None or source == START else _direction(bank, source)
        edges = TransitionEdge.objects.filter(bank=bank, source=previous, target=target)
        edge = edges.first()
        if frozen or config.frozen or row.frozen:
            return _change(Lesson(target, used, edge), None, context, config, frozen=True)
        earlier = Evidence.objects.filter(step_id=step_id, bank=bank).first() if step_id is not None else None
        if earlier is not None:
            return _change(Lesson(target, used, edge), earlier, context, config, repeated=True)
        if edge is None:
            edge = _traversed(row, previous, target, run_id, step_id)
        evidence = Evidence(
            bank=bank, direction=target, strategy=used, edge=edge, run_id=run_id, step_id=step_id,
            verdict=verdict, compiled=compiled, correct=correct, improved=improved, utility=utility,
            speedup=speedup, device=device, dtype=dtype, family=family, proposer=proposer, model=model,
            human_touched=human_touched, note=note, operator_id=operator_id, setting=setting[:160],
        )  # fmt: skip
        if run_id is not None:
            _note_run(row, run_id)
        evidence.save(force_insert=True)
        before = totals_around(evidence)
        add_to_totals(evidence, before)
        return _change(Lesson(target, used, edge), evidence, context, config, before=before)


def _present(
    bank: MemoryBank, direction: GlobalNode | str, strategy: LocalNode | None
) -> tuple[GlobalNode, LocalNode | None]:
    """The direction and strategy as they are now: a strategy leads to the direction it stands under."""
    if strategy is not None:
        used = LocalNode.objects.select_related("direction", "merged_into__direction").get(pk=strategy.pk)
        used = survivor(used)
        return used.direction, used
    return _direction(bank, direction), None


def _direction(bank: MemoryBank, direction: GlobalNode | str) -> GlobalNode:
    named = {"pk": direction.pk} if isinstance(direction, GlobalNode) else {"bank": bank, "key": direction}
    node = GlobalNode.objects.select_related("merged_into").get(**named)
    return survivor(node)


def _traversed(
    bank: MemoryBank, source: GlobalNode | None, target: GlobalNode, run_id: int | None, step_id: int | None
) -> TransitionEdge:
    why = {"run_id": run_id, "step_id": step_id, "reason": "First traversal."}
    return Recorder(bank, ChangeKind.TRAVERSED, **why).create(
        TransitionEdge(bank=bank, source=source, target=target)
    )


def _note_run(bank: MemoryBank, run_id: int) -> None:
    """The run's one entry in the history, written before its first evidence."""
    if not Change.objects.filter(run_id=run_id, bank=bank, kind=ChangeKind.LEARNED).exists():
        _ = Recorder(bank, ChangeKind.LEARNED, run_id=run_id).change


def _change(
    lesson: Lesson,
    evidence: Evidence | None,
    context: EvidenceContext,
    config: PolicyConfig,
    *,
    before: list[EvidenceTotals] | None = None,
    **flags: bool,
) -> MemoryChange:
    """How the three parts stood before and after ``evidence``, whose totals were ``before`` it."""

    def moved(subject: str, owner: CuratedPart | None, **names: Any) -> dict[str, Any] | None:
        if owner is None:
            return None
        prior: float = getattr(owner, "prior_utility")  # noqa: B009 (not a field of the base)
        old, new = _around(subject, owner.pk, evidence, before)
        return {
            "id": owner.pk,
            **names,
            "prior": prior,
            "before": _standing(prior, old, context, config),
            "after": _standing(prior, new, context, config),
        }

    target, used, edge = lesson
    start = (edge.source.key if edge.source else START) if edge else START
    direction = moved("direction", target, key=target.key, title=target.title)
    assert direction is not None
    return MemoryChange(
        direction=direction,
        strategy=moved("strategy", used, key=used.key, title=used.title) if used else None,
        edge=moved("edge", edge, source=start, target=target.key),
        evidence_id=evidence.pk if evidence else None,
        **flags,
    )


def _around(
    subject: str, owner: int, evidence: Evidence | None, before: list[EvidenceTotals] | None
) -> tuple[list[BucketTotals], list[BucketTotals]]:
    """Totals of one part without and with the evidence."""
    if before is not None and evidence is not None:
        rows = [row for row in before if getattr(row, f"{subject}_id") == owner]
        sign = 1
    else:
        rows = list(EvidenceTotals.objects.filter(**{f"{subject}_id": owner}))
        sign = -1
    known = {place_in(row): sums_in(row) for row in rows}
    other = dict(known)
    if evidence is not None and not evidence.excluded:
        for place in places_of(evidence):
            if place.subject == subject and place.owner == owner:
                other[place] = known.get(place, Sums()).plus(sums_of(evidence), sign)
    pair = [[bucket_of(place, sums) for place, sums in side.items() if sums.tries] for side in (known, other)]
    return (pair[0], pair[1]) if sign > 0 else (pair[1], pair[0])


def _standing(
    prior: float, totals: Sequence[BucketTotals], context: EvidenceContext, config: PolicyConfig
) -> dict[str, Any]:
    value = posterior(prior, totals, context, config)
    return {"utility": value.mean, "n": value.n, "tries": value.tries}
