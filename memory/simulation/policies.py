"""What can be compared: the product's policy, each of its ablations, and two ways of choosing at random."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from memory.policy import (
    DirectionView,
    EvidenceContext,
    PolicyConfig,
    holds,
    rank_strategies,
    select_direction,
    softmax,
)
from memory.simulation.episode import Episode
from memory.simulation.memory import SimulatedBank

STRATEGY_TAU = 0.12  # of the recipe proposer's softmax over posterior utilities
Choice = tuple[str, str]  # strategy ("direction/key"), the state it leads to


class SearchPolicy(ABC):
    """Chooses the next strategy. Contract: one of the episode's applicable options, or None where there is none;
    all randomness comes from ``rng``."""

    learns = False  # whether steps teach the bank

    @abstractmethod
    def choose(self, episode: Episode, bank: SimulatedBank, rng: random.Random) -> Choice | None: ...


@dataclass(frozen=True)
class MemoryPolicy(SearchPolicy):
    """The product's: a direction by `select_direction`, a strategy by its posterior utility."""

    config: PolicyConfig

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return not self.config.frozen

    def choose(self, episode: Episode, bank: SimulatedBank, rng: random.Random) -> Choice | None:
        facts = episode.facts()
        options = applicable(episode, bank, facts if self.config.use_local_memory else None)
        if not options:
            return None
        context = context_of(episode)
        open_directions = {name.partition("/")[0] for name in options}
        decision = select_direction(
            [
                DirectionView(
                    view.key, view.title, view.prior, view.triggers, view.totals, view.key in open_directions
                )
                for view in bank.directions.values()
            ],
            bank.edges,
            episode.prefix,
            facts,
            context,
            self.config,
            rng,
            [bank.strategies[name] for name in options],
        )
        own = [name for name in options if name.partition("/")[0] == decision.chosen]
        ranked = rank_strategies([bank.strategies[name] for name in own], facts, context, self.config)
        probabilities = softmax([score.value for score in ranked], STRATEGY_TAU)
        chosen = rng.choices(ranked, probabilities)[0]
        name = f"{chosen.direction}/{chosen.key}"
        return name, options[name]


class RandomPolicy(SearchPolicy):
    """A direction with something to offer at random, then one of its strategies at random."""

    def choose(self, episode: Episode, bank: SimulatedBank, rng: random.Random) -> Choice | None:
        options = applicable(episode, bank, episode.facts())
        if not options:
            return None
        direction = rng.choice(sorted({name.partition("/")[0] for name in options}))
        name = rng.choice(sorted(name for name in options if name.partition("/")[0] == direction))
        return name, options[name]


class UniformPolicy(SearchPolicy):
    """Any applicable strategy with the same probability."""

    def choose(self, episode: Episode, bank: SimulatedBank, rng: random.Random) -> Choice | None:
        options = applicable(episode, bank, episode.facts())
        if not options:
            return None
        name = rng.choice(sorted(options))
        return name, options[name]


def applicable(episode: Episode, bank: SimulatedBank, facts: Mapping[str, object] | None) -> dict[str, str]:
    """The episode's options whose conditions hold; all of them without ``facts``."""
    found = {}
    for name, state in episode.options().items():
        view = bank.strategies.get(name)
        if view is None:  # the bank has retired it since the recording
            continue
        if facts is None or all(holds(condition, facts) for condition in view.conditions):
            found[name] = state
    return found


def context_of(episode: Episode) -> EvidenceContext:
    """Evidence is weighed as on the tables' one device."""
    return EvidenceContext("", episode.table.dtype, episode.table.family)


POLICIES: dict[str, tuple[str, SearchPolicy]] = {
    "full": ("the whole policy", MemoryPolicy(PolicyConfig())),
    "no-hierarchy": ("strategies compete in one flat list", MemoryPolicy(PolicyConfig(use_hierarchy=False))),
    "no-prefix": ("no transition term", MemoryPolicy(PolicyConfig(use_prefix=False))),
    "no-local-memory": (
        "strategies lose value and conditions",
        MemoryPolicy(PolicyConfig(use_local_memory=False)),
    ),
    "frozen": ("priors only: steps teach nothing", MemoryPolicy(PolicyConfig(frozen=True))),
    "random": ("a direction at random, then a strategy of it", RandomPolicy()),
    "uniform": ("any applicable strategy", UniformPolicy()),
}
