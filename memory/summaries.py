"""Statistics of a node or edge as shown: posterior utility with its interval, tries and rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from memory.policy import POOLED, BucketTotals, EvidenceContext, PolicyConfig, posterior


class Summary(NamedTuple):
    """Rates are shares of all tries and None before the first one; ``utility`` is the posterior mean."""

    utility: float
    utility_low: float
    utility_high: float
    n: float  # evidence weighted by its distance from the context
    tries: int
    compile_rate: float | None
    correct_rate: float | None
    improve_rate: float | None
    evidence_utility: float | None  # plain mean of the evidence, without the prior

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def summarise(
    prior: float,
    totals: Iterable[BucketTotals],
    context: EvidenceContext = POOLED,
    config: PolicyConfig | None = None,
) -> Summary:
    """Sum up the buckets of one node or edge as seen from ``context`` (by default: all evidence alike)."""
    rows = list(totals)
    value = posterior(prior, rows, context, config)
    tries = value.tries

    def rate(count: float) -> float | None:
        return count / tries if tries else None

    return Summary(
        utility=value.mean,
        utility_low=value.low,
        utility_high=value.high,
        n=value.n,
        tries=tries,
        compile_rate=rate(sum(row.compiled for row in rows)),
        correct_rate=rate(sum(row.correct for row in rows)),
        improve_rate=rate(sum(row.improved for row in rows)),
        evidence_utility=rate(sum(row.utility_sum for row in rows)),
    )
