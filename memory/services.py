"""What the optimisation loop asks of a memory bank: choose, list options, record what a step showed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from memory.exporting import export_bank
from memory.importing import BankError, import_bank
from memory.models import (
    START,
    Evidence,
    EvidenceTotals,
    GlobalNode,
    LocalNode,
    MemoryBank,
    TransitionEdge,
)
from memory.policy import (
    BucketTotals,
    Decision,
    EvidenceContext,
    PolicyConfig,
    StrategyScore,
    is_applicable,
    posterior,
    rank_strategies,
    select_direction,
)
from memory.reading import (
    direction_view,
    edge_views,
    live_directions,
    live_strategies,
    strategy_view,
    totals_by_owner,
    totals_of,
)
from memory.seeding import ensure_seed_bank
from memory.statistics import add_to_totals, recompute_totals, set_excluded, without

__all__ = [
    "BankError",
    "MemoryChange",
    "StrategyOption",
    "choose_direction",
    "ensure_seed_bank",
    "export_bank",
    "import_bank",
    "recompute_totals",
    "record_evidence",
    "set_excluded",
    "strategy_options",
]

Usable = Callable[[LocalNode], bool]


@dataclass(frozen=True)
class StrategyOption:
    """A strategy as a proposer sees it: its text, its standing, and whether it applies now."""

    id: int
    key: str
    title: str
    direction_id: int
    direction: str  # key of its direction
    edit_pattern: str
    applies_when: str
    checks: list[str]
    risks: list[str]
    recipe: dict[str, Any] | None
    posterior: float
    n: float  # effective evidence, weighted by device, dtype and family
    tries: int
    applicable: bool
    reason: str
    score: float
    probability: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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


def choose_direction(
    bank: MemoryBank,
    prefix: Sequence[str],
    facts: Mapping[str, Any],
    context: EvidenceContext,
    config: PolicyConfig,
    rng: random.Random,
    *,
    usable: Usable | None = None,
    banned: Mapping[str, str] | None = None,
) -> Decision:
    """Choose the next direction; see `memory.policy.select_direction`. Five queries whatever the bank's size.

    ``prefix`` holds keys of earlier directions, newest first; `START` is appended when missing. A
    direction none of whose strategies applies is unavailable; ``usable`` narrows that to strategies that
    the proposer can carry out, and ``banned`` maps keys of directions to why they must not be chosen.
    Raises NoDirection on an empty bank.
    """
    path = list(prefix) if START in prefix else [*prefix, START]
    nodes = live_directions(bank)
    keys = {node.pk: node.key for node in nodes}
    strategies = live_strategies(bank)
    strategy_totals: Mapping[int, Sequence[BucketTotals]] = {}
    if not config.use_hierarchy:
        strategy_totals = totals_by_owner(EvidenceTotals.objects.filter(bank=bank), "strategy")
    views = [
        (node, strategy_view(node, keys[node.direction_id], strategy_totals.get(node.pk, ())))
        for node in strategies
        if node.direction_id in keys
    ]
    if usable is not None:
        views = [(node, view) for node, view in views if usable(node)]
    open_directions = {view.direction for _, view in views if is_applicable(view, facts, config)}
    totals = totals_by_owner(EvidenceTotals.objects.filter(bank=bank), "direction")
    reasons = _unavailable(keys.values(), open_directions, banned or {}, config, usable)
    return select_direction(
        [direction_view(node, totals.get(node.pk, ()), reasons.get(node.key, "")) for node in nodes],
        edge_views(bank, path[: config.prefix_length]),
        path,
        facts,
        context,
        config,
        rng,
        [view for _, view in views],
    )


def strategy_options(
    bank: MemoryBank,
    direction_key: str,
    facts: Mapping[str, Any],
    context: EvidenceContext,
    config: PolicyConfig,
) -> list[StrategyOption]:
    """The strategies of a direction, best first, with what speaks for and against each now.

    Without the hierarchy the direction is ignored and the whole bank competes in one flat list.
    """
    rows = LocalNode.objects.filter(direction__bank=bank, direction__retired=False, retired=False)
    if config.use_hierarchy:
        rows = rows.filter(direction__key=direction_key)
    nodes = {(node.direction.key, node.key): node for node in rows.select_related("direction")}
    totals = totals_by_owner(EvidenceTotals.objects.filter(strategy__in=rows.values("id")), "strategy")
    views = [strategy_view(node, keys[0], totals.get(node.pk, ())) for keys, node in nodes.items()]
    ranked = rank_strategies(views, facts, context, config)
    return [_option(nodes[score.direction, score.key], score) for score in ranked]


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
    frozen: bool = False,
    config: PolicyConfig | None = None,
) -> MemoryChange:
    """Record what one step showed and count it, in one transaction.

    ``source`` is the direction before (None or `START` at the first step); an edge that the bank lacks is
    created on its first traversal. A step that has taught already is not counted again. A frozen bank, or
    ``frozen``, records nothing. Utilities in the result are those of the step's own device, dtype and family.
    """
    config = config or PolicyConfig()
    context = EvidenceContext(device, dtype, family)
    target = _node(bank, direction)
    previous = None if source is None or source == START else _node(bank, source)
    if frozen or config.frozen or MemoryBank.objects.filter(pk=bank.pk, frozen=True).exists():
        edge = TransitionEdge.objects.filter(bank=bank, source=previous, target=target).first()
        return _change(target, strategy, edge, None, context, config, frozen=True)
    with transaction.atomic():
        edge, _ = TransitionEdge.objects.get_or_create(bank=bank, source=previous, target=target)
        fields = {
            "bank": bank, "direction": target, "strategy": strategy, "edge": edge, "run_id": run_id,
            "verdict": verdict, "compiled": compiled, "correct": correct, "improved": improved,
            "utility": utility, "speedup": speedup, "device": device, "dtype": dtype, "family": family,
            "proposer": proposer, "model": model, "human_touched": human_touched, "note": note,
        }  # fmt: skip
        if step_id is None:
            evidence, created = Evidence.objects.create(**fields), True
        else:
            evidence, created = Evidence.objects.get_or_create(step_id=step_id, defaults=fields)
        if created:
            add_to_totals(evidence)
        return _change(target, strategy, edge, evidence, context, config, repeated=not created)


def _unavailable(
    keys: Any,
    open_directions: set[str],
    banned: Mapping[str, str],
    config: PolicyConfig,
    usable: Usable | None,
) -> dict[str, str]:
    """Why directions cannot be chosen. Without local memory, strategies do not decide unless a proposer
    must."""
    reasons = dict(banned)
    if config.use_local_memory or usable is not None:
        for key in keys:
            if key not in open_directions:
                reasons.setdefault(key, "None of its strategies applies now.")
    return reasons


def _option(node: LocalNode, score: StrategyScore) -> StrategyOption:
    return StrategyOption(
        id=node.pk,
        key=node.key,
        title=node.title,
        direction_id=node.direction_id,
        direction=score.direction,
        edit_pattern=node.edit_pattern,
        applies_when=node.applies_when,
        checks=node.checks,
        risks=node.risks,
        recipe=node.recipe,
        posterior=score.value,
        n=score.n,
        tries=score.tries,
        applicable=score.applicable,
        reason=score.reason,
        score=score.score,
        probability=score.probability,
    )


def _node(bank: MemoryBank, direction: GlobalNode | str) -> GlobalNode:
    if isinstance(direction, GlobalNode):
        return direction
    return GlobalNode.objects.get(bank=bank, key=direction)


def _change(
    direction: GlobalNode,
    strategy: LocalNode | None,
    edge: TransitionEdge | None,
    evidence: Evidence | None,
    context: EvidenceContext,
    config: PolicyConfig,
    **flags: bool,
) -> MemoryChange:
    def moved(owner: GlobalNode | LocalNode | TransitionEdge, **names: Any) -> dict[str, Any]:
        after = totals_of(owner)
        before = without(after, evidence) if evidence is not None and not evidence.excluded else after
        return {
            "id": owner.pk,
            **names,
            "prior": owner.prior_utility,
            "before": _standing(owner.prior_utility, before, context, config),
            "after": _standing(owner.prior_utility, after, context, config),
        }

    return MemoryChange(
        direction=moved(direction, key=direction.key, title=direction.title),
        strategy=moved(strategy, key=strategy.key, title=strategy.title) if strategy else None,
        edge=moved(edge, source=edge.source.key if edge.source else START, target=direction.key)
        if edge
        else None,
        evidence_id=evidence.pk if evidence else None,
        **flags,
    )


def _standing(
    prior: float, totals: Sequence[BucketTotals], context: EvidenceContext, config: PolicyConfig
) -> dict[str, Any]:
    value = posterior(prior, totals, context, config)
    return {"utility": value.mean, "n": value.n, "tries": value.tries}
