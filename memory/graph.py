"""A bank's graph as JSON: directions, strategies and edges with their standing; six queries at any size, and
a few more for an earlier moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from memory.history.moments import Moment, Parts, parts_at, totals_at
from memory.models import START, EvidenceTotals, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.policy import POOLED, BucketTotals, EvidenceContext, PolicyConfig
from memory.reading import totals_by_owner
from memory.statistics import SUBJECTS, Totals, bucket_of
from memory.summaries import summarise

Row = dict[str, Any]
ByOwner = Mapping[int, list[BucketTotals]]
DIRECTION_FIELDS = (
    "id", "key", "title", "intent", "prior_utility", "retired", "version", "merged_into_id", "x", "y",
)  # fmt: skip
STRATEGY_FIELDS = (
    "id", "key", "title", "direction__key", "prior_utility", "retired", "version", "merged_into_id", "recipe",
)  # fmt: skip
EDGE_FIELDS = (
    "id", "source__key", "target__key", "prior_utility", "retired", "version", "merged_into_id",
)  # fmt: skip


def graph_json(
    bank: MemoryBank,
    context: EvidenceContext = POOLED,
    config: PolicyConfig | None = None,
    moment: Moment | None = None,
) -> dict[str, Any]:
    """Everything the graph page draws; texts are fetched on click.

    ``utility`` is the posterior mean seen from ``context``. Edges name directions by key; out of START,
    ``source`` is null and ``source_key`` is "START". With ``moment`` the graph is as it stood then, and
    ``version`` is null: nothing of it can be saved.
    """
    config = config or PolicyConfig()
    if moment is None:
        directions, strategies, edges = _rows_now(bank)
        rows = EvidenceTotals.objects.filter(bank=bank)
        totals: dict[str, ByOwner] = {subject: totals_by_owner(rows, subject) for subject in SUBJECTS}
    else:
        directions, strategies, edges = _rows_then(parts_at(bank, moment))
        totals = owners(totals_at(bank, moment))

    def standing(row: Row, subject: str) -> Row:
        found = totals[subject].get(row["id"], ())
        return {**row, **summarise(row["prior_utility"], found, context, config).to_json()}

    return {
        "bank": {"id": bank.pk, "name": bank.name, "frozen": bank.frozen, "version": bank.version},
        "at": moment.to_json() if moment else None,
        "context": {"device": context.device, "dtype": context.dtype, "family": context.family},
        "n0": config.n0,
        "directions": [standing(row, "direction") for row in directions],
        "strategies": [standing(row, "strategy") for row in strategies],
        "edges": [standing(row, "edge") for row in edges],
    }


def owners(totals: Totals) -> dict[str, ByOwner]:
    """Sums as the policy reads them, by subject and owner."""
    grouped: dict[str, dict[int, list[BucketTotals]]] = {subject: defaultdict(list) for subject in SUBJECTS}
    for place, sums in totals.items():
        grouped[place.subject][place.owner].append(bucket_of(place, sums))
    return {subject: dict(rows) for subject, rows in grouped.items()}


def _rows_now(bank: MemoryBank) -> tuple[list[Row], list[Row], list[Row]]:
    directions = GlobalNode.objects.filter(bank=bank).order_by()
    strategies = LocalNode.objects.filter(direction__bank=bank).order_by()
    edges = TransitionEdge.objects.filter(bank=bank).order_by()
    return _in_order(
        list(directions.values(*DIRECTION_FIELDS)),
        [_strategy(*row) for row in strategies.values_list(*STRATEGY_FIELDS)],
        [_edge(*row) for row in edges.values_list(*EDGE_FIELDS)],
    )


def _rows_then(parts: Parts) -> tuple[list[Row], list[Row], list[Row]]:
    """The same rows in the same order, from snapshots."""
    keys = {pk: part["key"] for pk, part in parts["direction"].items()}
    directions = [
        {"id": pk, "version": None, **{name: part[name] for name in DIRECTION_FIELDS if name in part}}
        for pk, part in parts["direction"].items()
    ]
    strategies = [
        _strategy(pk, part["key"], part["title"], keys[part["direction_id"]], part["prior_utility"],
                  part["retired"], None, part["merged_into_id"], part["recipe"])
        for pk, part in parts["strategy"].items()
    ]  # fmt: skip
    edges = [
        _edge(pk, keys.get(part["source_id"]), keys[part["target_id"]], part["prior_utility"],
              part["retired"], None, part["merged_into_id"])
        for pk, part in parts["edge"].items()
    ]  # fmt: skip
    return _in_order(directions, strategies, edges)


def _in_order(
    directions: list[Row], strategies: list[Row], edges: list[Row]
) -> tuple[list[Row], list[Row], list[Row]]:
    """By key, START first. Databases differ in where they put nulls and hyphens, so none of them sorts."""
    return (
        sorted(directions, key=lambda row: row["key"]),
        sorted(strategies, key=lambda row: (row["direction"], row["key"])),
        sorted(edges, key=lambda row: (row["source"] or "", row["target"])),
    )


def _strategy(
    pk: int, key: str, title: str, direction: str, prior: float, retired: bool, version: int | None,
    merged: int | None, recipe: Any,
) -> Row:  # fmt: skip
    return {
        "id": pk, "key": key, "title": title, "direction": direction, "prior_utility": prior,
        "retired": retired, "version": version, "merged_into_id": merged, "executable": recipe is not None,
    }  # fmt: skip


def _edge(
    pk: int, source: str | None, target: str, prior: float, retired: bool, version: int | None,
    merged: int | None,
) -> Row:  # fmt: skip
    return {
        "id": pk, "source": source, "source_key": source or START, "target": target, "prior_utility": prior,
        "retired": retired, "version": version, "merged_into_id": merged,
    }  # fmt: skip
