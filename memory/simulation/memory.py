"""A memory bank in plain Python: the views that the policy reads, and totals that grow with each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.policy import BucketTotals, DirectionView, EdgeView, StrategyView

Bucket = tuple[str, str, str]  # device, dtype, operator family


class Totals:
    """Sums of one node or edge per bucket; ``rows`` is what the policy reads."""

    __slots__ = ("by_bucket", "rows")

    def __init__(self) -> None:
        self.by_bucket: dict[Bucket, BucketTotals] = {}
        self.rows: list[BucketTotals] = []

    def add(self, bucket: Bucket, utility: float, correct: bool, improved: bool) -> None:
        old = self.by_bucket.get(bucket) or BucketTotals(*bucket, 0, 0.0)
        new = BucketTotals(
            *bucket,
            old.tries + 1,
            old.utility_sum + utility,
            old.utility_square_sum + utility * utility,
            old.compiled + 1,
            old.correct + correct,
            old.improved + improved,
        )
        self.by_bucket[bucket] = new
        self.rows[:] = self.by_bucket.values()


class SimulatedBank:
    """A bank document (`memory/schema/bank-1.json`) with statistics of its own, empty at first.

    Views keep a reference to their totals, so what a step teaches is seen by the next decision. Retired parts are
    left out, as is everything that no recipe carries out.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.directions: dict[str, DirectionView] = {}
        self.strategies: dict[str, StrategyView] = {}  # by "direction/key"
        self.edges: dict[tuple[str, str], EdgeView] = {}
        self._direction_totals: dict[str, Totals] = {}
        self._strategy_totals: dict[str, Totals] = {}
        self._edge_totals: dict[tuple[str, str], Totals] = {}
        for item in document["directions"]:
            if not item.get("retired"):
                self._add_direction(item)
        for item in document["edges"]:
            if not item.get("retired"):
                self._add_edge((item["source"], item["target"]), item["prior"])

    def _add_direction(self, item: Mapping[str, Any]) -> None:
        key = item["key"]
        totals = self._direction_totals[key] = Totals()
        self.directions[key] = DirectionView(key, item["title"], item["prior"], item["triggers"], totals.rows)
        for strategy in item["strategies"]:
            if strategy.get("retired") or not strategy["recipe"]:
                continue
            name = f"{key}/{strategy['key']}"
            own = self._strategy_totals[name] = Totals()
            self.strategies[name] = StrategyView(
                strategy["key"], strategy["title"], key, strategy["prior"], strategy["conditions"], own.rows
            )

    def _add_edge(self, pair: tuple[str, str], prior: float) -> None:
        totals = self._edge_totals[pair] = Totals()
        self.edges[pair] = EdgeView(prior, totals.rows, len(self.edges))

    def teach(
        self, strategy: str, source: str, bucket: Bucket, utility: float, correct: bool, improved: bool
    ) -> None:
        """Count one step in its direction, strategy and transition; a new transition begins with prior 0."""
        direction = strategy.partition("/")[0]
        pair = (source, direction)
        if pair not in self.edges:
            self._add_edge(pair, 0.0)
        for totals in (
            self._direction_totals[direction],
            self._strategy_totals[strategy],
            self._edge_totals[pair],
        ):
            totals.add(bucket, utility, correct, improved)
