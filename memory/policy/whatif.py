"""What a stored decision would have been under other priors or settings, from its own decomposition.

Nothing is read but the decision: a posterior mean (n0 prior + S) / (n0 + n) gives back the weighted evidence S that
stood behind it, so that another prior or n0 can be put in its place. Under an empty change the result is the stored
decision to the last bit.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from memory.policy.directions import pick, softmax

Pair = tuple[str, str]
SETTINGS = ("n0", "beta", "gamma", "tau")


@dataclass(frozen=True)
class Priors:
    """Priors by key: directions, edges (source, target) and strategies (direction, strategy)."""

    directions: Mapping[str, float] = field(default_factory=dict)
    edges: Mapping[Pair, float] = field(default_factory=dict)
    strategies: Mapping[Pair, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What is asked: new priors, and new settings of the policy (`SETTINGS`)."""

    priors: Priors = field(default_factory=Priors)
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """Outcome of a choice among keys. ``chosen`` is what the decision's own random number picks."""

    chosen: str
    probabilities: Mapping[str, float]

    @property
    def top(self) -> str:
        """The most probable key; of equals, the first."""
        return max(sorted(self.probabilities), key=lambda key: self.probabilities[key])


def posterior_with(mean: float, n: float, n0: float, prior: float, new_n0: float, new_prior: float) -> float:
    """The posterior mean with the same evidence and another prior: U' = (n0' prior' + S) / (n0' + n)."""
    if new_prior == prior and new_n0 == n0:
        return mean
    evidence = mean * (n0 + n) - n0 * prior
    return (new_n0 * new_prior + evidence) / (new_n0 + n)


def direction_choice(decision: Mapping[str, Any], change: Change, today: Priors) -> Choice | None:
    """The choice of a direction again, with the stored random number.

    ``today`` gives the priors of decisions that were stored before priors were. None for flat decisions: they
    hold no terms that a prior would enter.
    """
    if decision.get("mode") != "hierarchical":
        return None
    config, settings = decision["config"], change.settings
    n0, tau = config["n0"], settings.get("tau", decision["tau"])
    new_n0 = settings.get("n0", n0)
    beta, gamma = settings.get("beta", config["beta"]), settings.get("gamma", config["gamma"])
    rows = sorted(decision["scores"], key=lambda row: row["key"])
    pool = [row for row in rows if row["available"]] or rows
    totals = []
    for row in pool:
        key = row["key"]
        old = row.get("prior", today.directions.get(key, 0.0))
        new = change.priors.directions.get(key, old)
        value = posterior_with(row["value"], row["n"], n0, old, new_n0, new)
        prefix = [_contribution(term, key, n0, new_n0, change, today) for term in row["prefix_terms"]]
        totals.append(sum(prefix) + beta * value + gamma * row["match"])
    probabilities = softmax(totals, tau)
    keys = [row["key"] for row in pool]
    return Choice(pick(keys, probabilities, decision["draw"]), dict(zip(keys, probabilities, strict=True)))


def _contribution(
    term: Mapping[str, Any], key: str, n0: float, new_n0: float, change: Change, today: Priors
) -> float:
    """a_i U of one earlier direction, with the edge's new prior."""
    pair = (term["source"], key)
    old = term.get("prior", today.edges.get(pair, 0.0) if term["edge_id"] is not None else 0.0)
    new = change.priors.edges.get(pair, old)
    value = posterior_with(term["utility"], term["n"], n0, old, new_n0, new)
    return term["weight"] * value


def strategy_choice(
    direction: str,
    scores: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any],
    tau: float,
    draw: float,
    change: Change,
    today: Priors,
) -> Choice | None:
    """The choice of a strategy again: softmax over the usable ones' posterior values, with the same random number.

    ``scores`` are those that a proposer stored (key, score, n, usable); None where it stored none of that kind.
    """
    usable = [row for row in scores if row.get("usable")]
    if not usable or not all(isinstance(row.get("n"), int | float) for row in usable):
        return None
    local = config.get("use_local_memory", True)
    n0 = config["n0"]
    new_n0 = change.settings.get("n0", n0)
    values = []
    for row in usable:
        pair = (direction, row["key"])
        old = row.get("prior", today.strategies.get(pair, 0.0))
        new = change.priors.strategies.get(pair, old)
        values.append(posterior_with(row["score"], row["n"], n0, old, new_n0, new) if local else row["score"])
    probabilities = softmax(values, tau)
    keys = [row["key"] for row in usable]
    return Choice(drawn(keys, probabilities, draw), dict(zip(keys, probabilities, strict=True)))


def drawn(keys: Sequence[str], weights: Sequence[float], draw: float) -> str:
    """What `random.Random.choices` picks with this uniform number."""
    reach = list(accumulate(weights))
    return keys[bisect(reach, draw * (reach[-1] + 0.0), 0, len(keys) - 1)]


def first_draw(seed: str) -> float:
    """The first uniform number of a generator."""
    return random.Random(seed).random()
