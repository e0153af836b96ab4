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

from memory.policy.conditions import Facts, match
from memory.policy.config import PolicyConfig
from memory.policy.decisions import Decision, DirectionScore, DirectionView, EdgeView, PrefixTerm
from memory.policy.evidence import BucketWeights, EvidenceContext, posterior_mean
from memory.policy.strategies import StrategyView, rank_strategies

UNSEEN_TRANSITION_PRIOR = 0.0  # U of a pair of directions that has no edge yet


class NoDirection(ValueError):
    """There is nothing to choose from."""


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
    chosen = pick([score.key for score in scores], [score.probability for score in scores], draw)
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
                prior=direction.prior,
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
                prior=direction.prior,
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
    term = PrefixTerm._make  # half the cost of the constructor, and this runs for every pair
    for source, weight in positions:
        edge = edges.get((source, key))
        if edge is None:
            value = UNSEEN_TRANSITION_PRIOR
            terms.append(term((source, weight, value, weight * value, 0.0, 0, None, value)))
        else:
            value, n, tries = posterior_mean(edge.prior, edge.totals, weights, n0)
            terms.append(term((source, weight, value, weight * value, n, tries, edge.id, edge.prior)))
    return terms


def _assign_probabilities(scores: list[DirectionScore], tau: float) -> None:
    """Softmax over the available directions; over all of them when none is available."""
    pool = [score for score in scores if score.available] or scores
    for score, probability in zip(pool, softmax([score.score for score in pool], tau), strict=True):
        score.probability = probability


def pick(keys: Sequence[str], probabilities: Sequence[float], draw: float) -> str:
    """The key whose stretch of the cumulated probabilities holds ``draw``, a uniform number in [0, 1)."""
    reached = 0.0
    chosen = keys[0]
    for key, probability in zip(keys, probabilities, strict=True):
        if probability > 0.0:
            chosen = key
            reached += probability
            if draw < reached:
                break
    return chosen
