"""What the optimisation loop asks of a memory bank: choose, list options, record what a step showed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory.exporting import export_bank
from memory.history import exclude_evidence, include_evidence, set_excluded
from memory.importing import BankError, import_bank
from memory.learning import MemoryChange, record_evidence
from memory.models import (
    START,
    EvidenceTotals,
    LocalNode,
    MemoryBank,
)
from memory.policy import (
    BucketTotals,
    Decision,
    EvidenceContext,
    PolicyConfig,
    StrategyScore,
    is_applicable,
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
)
from memory.seeding import ensure_seed_bank
from memory.statistics import recompute_totals

__all__ = [
    "BankError",
    "MemoryChange",
    "StrategyOption",
    "choose_direction",
    "ensure_seed_bank",
    "exclude_evidence",
    "export_bank",
    "import_bank",
    "include_evidence",
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
