"""Global direction selection: the transition-aware score of every direction, its softmax, and the choice.

HTAM (arXiv 2605.29734), section on transition-aware selection:

    score(h) = sum_{i=1..K} a_i U(g_{t-i} -> h)  +  beta V(h)  +  gamma match(h, s_t)
    a_i      = decay^(i-1) / sum_j decay^(j-1)
    U, V     = posterior mean utilities of the edge and of the direction
    pi       = softmax(score / tau)
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memory.policy.conditions import Condition, Facts, match
from memory.policy.config import PolicyConfig
from memory.policy.evidence import BucketTotals, BucketWeights, EvidenceContext, posterior_mean
from memory.policy.strategies import StrategyView, rank_strategies

START = "START"  # the virtual node that opens every prefix
UNSEEN_TRANSITION_PRIOR = 0.0  # U of a pair of directions that has no edge yet


class NoDirection(ValueError):
    """There is nothing to choose from."""


@dataclass(frozen=True, slots=True)
class DirectionView:
    """What selection reads of a global node. An unavailable one is scored but gets no probability."""

    key: str
    title: str = ""
    prior: float = 0.0
    triggers: Sequence[Condition] = ()
    totals: Sequence[BucketTotals] = ()
    available: bool = True
    unavailable_reason: str = ""


@dataclass(frozen=True, slots=True)
class EdgeView:
    """What selection reads of a transition edge."""

    prior: float = 0.0
    totals: Sequence[BucketTotals] = ()
    id: int | None = None


class PrefixTerm(NamedTuple):
    """a_i U(g_{t-i} -> h): what one earlier direction says about the candidate."""

    source: str
    weight: float  # a_i
    utility: float  # U
    contribution: float  # a_i U
    n: float  # effective evidence on the edge
    tries: int
    edge_id: int | None  # None: the bank has no such edge

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(slots=True)
class DirectionScore:
    """The score of one direction, term by term: score = sum of contributions + value_term + match_term."""

    key: str
    title: str
    prefix_terms: list[PrefixTerm]
    value: float  # V
    value_term: float  # beta V
    match: float
    match_term: float  # gamma match
    matched_triggers: list[Condition]  # the direction's triggers that hold
    unmatched_triggers: list[Condition]
    score: float
    n: float  # effective evidence on the direction
    tries: int
    available: bool
    unavailable_reason: str
    probability: float = 0.0

    @property
    def prefix_term(self) -> float:
        return sum(term.contribution for term in self.prefix_terms)

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        data["prefix_terms"] = [term.to_json() for term in self.prefix_terms]
        data["prefix_term"] = self.prefix_term
        return data


@dataclass(frozen=True)
class Decision:
    """The chosen direction with everything that led to it. ``draw`` is the uniform number that picked it."""

    chosen: str
    mode: str  # "hierarchical", or "flat" without the hierarchy
    draw: float
    prefix: list[str]  # newest first, as far as the policy looked
    scores: list[DirectionScore]  # most probable first
    context: EvidenceContext
    config: PolicyConfig = field(default_factory=PolicyConfig)

    def score_of(self, key: str) -> DirectionScore:
        return next(score for score in self.scores if score.key == key)

    @property
    def probability(self) -> float:
        return self.score_of(self.chosen).probability

    def to_json(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "probability": self.probability,
            "mode": self.mode,
            "draw": self.draw,
            "tau": self.config.tau,
            "config": self.config.to_json(),
            "context": {
                "device": self.context.device,
                "dtype": self.context.dtype,
                "family": self.context.family,
            },
            "prefix": self.prefix,
            "scores": [score.to_json() for score in self.scores],
        }


def position_weights(length: int, decay: float) -> list[float]:
    """a_1..a_length: decaying with distance, summing to 1. Empty for an empty prefix."""
    raw = [decay**index for index in range(length)]
    total = sum(raw)
    return [weight / total for weight in raw]


def softmax(scores: Sequence[float], tau: float) -> list[float]:
    """exp(score / tau), normalised; shifted by the maximum so that it cannot overflow."""
    if not scores:
        return []
    top = max(scores)
    raised = [math.exp((score - top) / tau) for score in scores]
    total = sum(raised)
    return [value / total for value in raised]


def select_direction(
    directions: Sequence[DirectionView],
    edges: Mapping[tuple[str, str], EdgeView],
    prefix: Sequence[str],
    facts: Facts,
    context: EvidenceContext,
    config: PolicyConfig,
    rng: random.Random,
    strategies: Sequence[StrategyView] = (),
) -> Decision:
    """Score every direction, choose one by softmax with one draw from ``rng``, keep the decomposition.

    ``prefix`` holds earlier directions, newest first, with `START` last. ``edges`` is keyed (source, target).
    ``strategies`` is read only without the hierarchy (see `flat_scores`). The outcome depends neither on
    the order of ``directions`` nor on that of the evidence. Raises NoDirection without directions.
    """
    if not directions:
        raise NoDirection("The memory bank has no direction to choose from.")
    ordered = sorted(directions, key=lambda direction: direction.key)
    seen = list(prefix[: config.prefix_length])
    if config.use_hierarchy:
        scores = hierarchical_scores(ordered, edges, seen, facts, context, config)
    else:
        scores = flat_scores(ordered, strategies, facts, context, config)
    _assign_probabilities(scores, config.tau)
    draw = rng.random()
    chosen = _pick(scores, draw)
    scores.sort(key=lambda score: (-score.probability, -score.score, score.key))
    mode = "hierarchical" if config.use_hierarchy else "flat"
    return Decision(chosen, mode, draw, seen, scores, context, config)


def hierarchical_scores(
    directions: Sequence[DirectionView],
    edges: Mapping[tuple[str, str], EdgeView],
    prefix: Sequence[str],
    facts: Facts,
    context: EvidenceContext,
    config: PolicyConfig,
) -> list[DirectionScore]:
    """The score of each direction in the given order, without probabilities."""
    weights = BucketWeights(context, config)
    positions = list(zip(prefix, position_weights(len(prefix), config.decay), strict=True))
    if not config.use_prefix:
        positions = []
    scores = []
    for direction in directions:
        terms = _prefix_terms(direction.key, positions, edges, weights, config.n0)
        value, n, tries = posterior_mean(direction.prior, direction.totals, weights, config.n0)
        value_term = config.beta * value
        matched, held, unheld = match(direction.triggers, facts)
        match_term = config.gamma * matched
        total = sum([term[3] for term in terms]) + value_term + match_term
        scores.append(
            DirectionScore(
                direction.key,
                direction.title,
                terms,
                value,
                value_term,
                matched,
                match_term,
                held,
                unheld,
                total,
                n,
                tries,
                direction.available,
                direction.unavailable_reason,
            )
        )
    return scores


def flat_scores(
    directions: Sequence[DirectionView],
    strategies: Sequence[StrategyView],
    facts: Facts,
    context: EvidenceContext,
    config: PolicyConfig,
) -> list[DirectionScore]:
    """Without the hierarchy: strategies compete in one flat list, and a direction is only a name for its own.

    A direction's score is tau log sum exp(s / tau) over its strategies' scores s, so its softmax
    probability is exactly the sum of theirs. Transition, value and match terms of directions are absent. A
    direction without a strategy is unavailable.
    """
    by_direction: dict[str, list[float]] = {}
    for option in rank_strategies(strategies, facts, context, config):
        if option.applicable:
            by_direction.setdefault(option.direction, []).append(option.score)
    scores = []
    for direction in directions:
        own = by_direction.get(direction.key, [])
        available = direction.available and bool(own)
        reason = direction.unavailable_reason or ("" if own else "None of its strategies applies.")
        total = _log_sum_exp(own, config.tau) if own else 0.0
        scores.append(
            DirectionScore(
                direction.key,
                direction.title,
                [],
                0.0,
                0.0,
                0.0,
                0.0,
                [],
                [],
                total,
                0.0,
                0,
                available,
                reason,
            )
        )
    return scores


def _log_sum_exp(scores: Sequence[float], tau: float) -> float:
    top = max(scores)
    return top + tau * math.log(sum(math.exp((score - top) / tau) for score in scores))


def _prefix_terms(
    key: str,
    positions: Sequence[tuple[str, float]],
    edges: Mapping[tuple[str, str], EdgeView],
    weights: BucketWeights,
    n0: float,
) -> list[PrefixTerm]:
    terms = []
    for source, weight in positions:
        edge = edges.get((source, key))
        if edge is None:
            value = UNSEEN_TRANSITION_PRIOR
            terms.append(PrefixTerm(source, weight, value, weight * value, 0.0, 0, None))
        else:
            value, n, tries = posterior_mean(edge.prior, edge.totals, weights, n0)
            terms.append(PrefixTerm(source, weight, value, weight * value, n, tries, edge.id))
    return terms


def _assign_probabilities(scores: list[DirectionScore], tau: float) -> None:
    """Softmax over the available directions; over all of them when none is available."""
    pool = [score for score in scores if score.available] or scores
    for score, probability in zip(pool, softmax([score.score for score in pool], tau), strict=True):
        score.probability = probability


def _pick(scores: Sequence[DirectionScore], draw: float) -> str:
    reached = 0.0
    chosen = scores[0].key
    for score in scores:
        if score.probability > 0.0:
            chosen = score.key
            reached += score.probability
            if draw < reached:
                break
    return chosen
