"""A bank's graph as JSON: directions, strategies and edges with their standing; six queries at any size."""

from __future__ import annotations

from typing import Any

from memory.models import START, EvidenceTotals, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.policy import POOLED, EvidenceContext, PolicyConfig
from memory.reading import totals_by_owner
from memory.summaries import summarise


def graph_json(
    bank: MemoryBank, context: EvidenceContext = POOLED, config: PolicyConfig | None = None
) -> dict[str, Any]:
    """Everything the graph page draws; texts are fetched on click.

    ``utility`` is the posterior mean seen from ``context``. Edges name directions by key; out of START,
    ``source`` is null and ``source_key`` is "START".
    """
    config = config or PolicyConfig()
    rows = EvidenceTotals.objects.filter(bank=bank)

    def standing(prior: float, totals: Any) -> dict[str, Any]:
        return summarise(prior, totals, context, config).to_json()

    directions = list(GlobalNode.objects.filter(bank=bank).order_by("key").values(*DIRECTION_FIELDS))
    strategies = LocalNode.objects.filter(direction__bank=bank).order_by("direction__key", "key")
    edges = TransitionEdge.objects.filter(bank=bank).order_by("source__key", "target__key")
    by_direction = totals_by_owner(rows, "direction")
    by_strategy = totals_by_owner(rows, "strategy")
    by_edge = totals_by_owner(rows, "edge")
    return {
        "bank": {"id": bank.pk, "name": bank.name, "frozen": bank.frozen},
        "context": {"device": context.device, "dtype": context.dtype, "family": context.family},
        "n0": config.n0,
        "directions": [
            {**row, **standing(row["prior_utility"], by_direction.get(row["id"], ()))} for row in directions
        ],
        "strategies": [
            {
                "id": pk,
                "key": key,
                "title": title,
                "direction": direction,
                "prior_utility": prior,
                "retired": retired,
                "version": version,
                "executable": recipe is not None,
                **standing(prior, by_strategy.get(pk, ())),
            }
            for pk, key, title, direction, prior, retired, version, recipe in strategies.values_list(
                "id", "key", "title", "direction__key", "prior_utility", "retired", "version", "recipe"
            )
        ],
        "edges": [
            {
                "id": pk,
                "source": source,
                "source_key": source or START,
                "target": target,
                "prior_utility": prior,
                "retired": retired,
                "version": version,
                **standing(prior, by_edge.get(pk, ())),
            }
            for pk, source, target, prior, retired, version in edges.values_list(
                "id", "source__key", "target__key", "prior_utility", "retired", "version"
            )
        ],
    }


DIRECTION_FIELDS = ("id", "key", "title", "intent", "prior_utility", "retired", "version", "x", "y")
