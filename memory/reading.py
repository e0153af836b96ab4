"""From rows to the views that the selection policy reads, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet

from memory.models import GRID, START, EvidenceTotals, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.policy import BucketTotals, DirectionView, EdgeView, StrategyView
from memory.statistics import buckets

TotalsByOwner = dict[int, list[BucketTotals]]


def totals_by_owner(rows: QuerySet[EvidenceTotals], subject: str) -> TotalsByOwner:
    """Totals of directions, strategies or edges, keyed by the owner's id."""
    columns = (
        f"{subject}_id", "device", "dtype", "family", "tries", "utility_units", "square_units", "compiled",
        "correct", "improved",
    )  # fmt: skip
    grouped: TotalsByOwner = defaultdict(list)
    counted = rows.filter(**{f"{subject}__isnull": False}).values_list(*columns)
    for owner_id, device, dtype, family, tries, units, squares, compiled, correct, improved in counted:
        grouped[owner_id].append(
            BucketTotals(
                device, dtype, family, tries, units / GRID, squares / GRID**2, compiled, correct, improved
            )
        )
    return grouped


def live_directions(bank: MemoryBank) -> list[GlobalNode]:
    """The directions that can be chosen, by key."""
    rows = GlobalNode.objects.filter(bank=bank, retired=False)
    return list(rows.only("id", "key", "title", "triggers", "prior_utility", "bank_id").order_by("key"))


def live_strategies(bank: MemoryBank) -> list[LocalNode]:
    """The strategies that can be chosen, without their texts."""
    rows = LocalNode.objects.filter(direction__bank=bank, direction__retired=False, retired=False)
    fields = ("id", "key", "title", "conditions", "prior_utility", "recipe", "direction_id")
    return list(rows.only(*fields).order_by("direction_id", "key"))


def direction_view(node: GlobalNode, totals: Sequence[BucketTotals], reason: str) -> DirectionView:
    return DirectionView(
        node.key, node.title, node.prior_utility, node.triggers, totals, available=not reason,
        unavailable_reason=reason,
    )  # fmt: skip


def strategy_view(node: LocalNode, direction_key: str, totals: Sequence[BucketTotals]) -> StrategyView:
    return StrategyView(node.key, node.title, direction_key, node.prior_utility, node.conditions, totals)


def edge_views(bank: MemoryBank, sources: Sequence[str]) -> dict[tuple[str, str], EdgeView]:
    """Edges out of the given directions (keys, `START` among them), keyed (source, target). Two queries."""
    wanted = Q(source__key__in=[key for key in sources if key != START])
    if START in sources:
        wanted |= Q(source__isnull=True)
    rows = TransitionEdge.objects.filter(wanted, bank=bank, retired=False)
    edges = list(rows.values_list("id", "source__key", "target__key", "prior_utility"))
    totals = totals_by_owner(
        EvidenceTotals.objects.filter(edge__in=rows.values("id")),
        "edge",
    )
    return {
        (source or START, target): EdgeView(prior, totals.get(edge_id, ()), edge_id)
        for edge_id, source, target, prior in edges
    }


def totals_of(owner: GlobalNode | LocalNode | TransitionEdge) -> list[BucketTotals]:
    """The stored totals of one node or edge."""
    rows: Any = owner.totals  # type: ignore[union-attr]
    return buckets(rows.all())
