"""Local strategy selection: strategies of a direction ranked by posterior utility and applicability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memory.policy.conditions import Condition, Facts, explain_unmet, holds
from memory.policy.config import PolicyConfig
from memory.policy.evidence import BucketTotals, BucketWeights, EvidenceContext, posterior_mean


@dataclass(frozen=True, slots=True)
class StrategyView:
    """What selection reads of a local node."""

    key: str
    title: str = ""
    direction: str = ""  # key of its direction
    prior: float = 0.0
    conditions: Sequence[Condition] = ()
    totals: Sequence[BucketTotals] = ()


@dataclass(frozen=True, slots=True)
class StrategyScore:
    """One strategy's standing. ``score`` = value + gamma * applicability."""

    key: str
    title: str
    direction: str
    value: float  # posterior mean utility
    n: float  # effective evidence
    tries: int
    applicability: float  # share of conditions that hold; 1 without conditions
    applicable: bool  # all conditions hold
    reason: str  # what stands in the way, in a sentence
    score: float
    probability: float  # softmax(score / tau) over the applicable ones; 0 for the others

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def rank_strategies(
    strategies: Sequence[StrategyView], facts: Facts, context: EvidenceContext, config: PolicyConfig
) -> list[StrategyScore]:
    """Best first: applicable strategies before the others, then by score, then by key.

    Without local memory every strategy has value 0 and counts as applicable: nothing that the bank knows
    about strategies is used.
    """
    weights = BucketWeights(context, config)
    rows = [_standing(strategy, facts, weights, config) for strategy in strategies]
    top = max((row.score for row in rows if row.applicable), default=0.0)
    raised = [math.exp((row.score - top) / config.tau) if row.applicable else 0.0 for row in rows]
    total = sum(raised) or 1.0
    ranked = [
        StrategyScore(strategy.key, strategy.title, strategy.direction, *row, probability=value / total)
        for strategy, row, value in zip(strategies, rows, raised, strict=True)
    ]
    ranked.sort(key=lambda item: (not item.applicable, -item.score, item.direction, item.key))
    return ranked


def is_applicable(strategy: StrategyView, facts: Facts, config: PolicyConfig) -> bool:
    """Whether all conditions hold (without local memory: always)."""
    return not config.use_local_memory or all(holds(condition, facts) for condition in strategy.conditions)


class _Standing(NamedTuple):
    """The fields of a StrategyScore between its names and its probability, in order."""

    value: float
    n: float
    tries: int
    applicability: float
    applicable: bool
    reason: str
    score: float


def _standing(
    strategy: StrategyView, facts: Facts, weights: BucketWeights, config: PolicyConfig
) -> _Standing:
    if not config.use_local_memory:
        return _Standing(0.0, 0.0, 0, 1.0, True, "", config.gamma)
    value, n, tries = posterior_mean(strategy.prior, strategy.totals, weights, config.n0)
    conditions = strategy.conditions
    held = sum(holds(condition, facts) for condition in conditions)
    applicability = held / len(conditions) if conditions else 1.0
    applicable = held == len(conditions)
    reason = "" if applicable else explain_unmet(conditions, facts)
    return _Standing(value, n, tries, applicability, applicable, reason, value + config.gamma * applicability)
