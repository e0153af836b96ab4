"""Thousands of replays: operators in random order, one run each, the memory learning from each step as it goes.

A replay begins with the bank's priors and no evidence. When an operator's turn comes, the memory holds what the
operators before it taught and, step by step, what its own run teaches: an operator never learns from an earlier run
of its own, so what is measured is what carries over to an operator that was not seen before.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory.simulation.episode import Episode
from memory.simulation.memory import SimulatedBank
from memory.simulation.policies import POLICIES, SearchPolicy
from memory.simulation.tables import OperatorTable, Tables

DEVICE = "simulated"


@dataclass(frozen=True)
class Setup:
    """What is replayed."""

    tables: Tables
    document: Mapping[str, Any]  # the bank, as a bank file
    steps: int
    seed: int

    @property
    def names(self) -> list[str]:
        return sorted(self.tables.operators)


@dataclass
class Replays:
    """``best[r, o, t]``: log2 of the best speed-up so far of operator ``o`` after step ``t``, in replay ``r``;
    ``position[r, o]``: how many operators came before it; ``unseen[r, o, t]``: share of the strategies at step ``t``
    that the tables do not hold, 1 where they held none and the step was lost."""

    best: np.ndarray
    position: np.ndarray
    unseen: np.ndarray


Curve = list[tuple[float, float]]  # best speed-up so far and share unseen, a step


def play(setup: Setup, policy: SearchPolicy, number: int, name: str) -> tuple[list[Curve], list[int]]:
    """One replay. All policies meet the operators of replay ``number`` in the same order."""
    order = list(setup.names)
    random.Random(f"order:{setup.seed}:{number}").shuffle(order)
    rng = random.Random(f"play:{setup.seed}:{number}:{name}")
    bank = SimulatedBank(setup.document)
    curves = {
        operator: run(setup.tables.operators[operator], setup.steps, policy, bank, rng) for operator in order
    }
    return [curves[operator] for operator in setup.names], [order.index(operator) for operator in setup.names]


def run(
    table: OperatorTable, steps: int, policy: SearchPolicy, bank: SimulatedBank, rng: random.Random
) -> Curve:
    """One run."""
    episode = Episode(table, steps)
    bucket = (DEVICE, table.dtype, table.family)
    curve = []
    for _ in range(steps):
        unseen = share_unseen(episode)
        choice = policy.choose(episode, bank, rng)
        if choice is None:
            unseen = 1.0
            episode.skip()
        else:
            source = episode.prefix[0]
            played = episode.take(*choice)
            if policy.learns:
                bank.teach(choice[0], source, bucket, played.utility, played.outcome.correct, played.improved)
        curve.append((episode.best, unseen))
    return curve


def share_unseen(episode: Episode) -> float:
    """Of the strategies that apply at the plan being edited, those whose plans were not evaluated."""
    missing = episode.table.states[episode.parent].missing
    return missing / (missing + len(episode.options())) if missing else 0.0


def replay(setup: Setup, name: str, numbers: Sequence[int]) -> Replays:
    """The replays of these numbers under the policy of this name."""
    policy = POLICIES[name][1]
    played = [play(setup, policy, number, name) for number in numbers]
    figures = np.array([curves for curves, _ in played])
    position = np.array([position for _, position in played])
    return Replays(np.log2(figures[..., 0]), position, figures[..., 1])


def replay_all(setup: Setup, policies: Sequence[str], replays: int, jobs: int = 1) -> dict[str, Replays]:
    """Every policy's replays, in ``jobs`` processes. The result does not depend on their number."""
    if jobs <= 1:
        return {name: replay(setup, name, range(replays)) for name in policies}
    size = -(-replays // (4 * jobs))
    parts = [range(start, min(start + size, replays)) for start in range(0, replays, size)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {name: [pool.submit(replay, setup, name, part) for part in parts] for name in policies}
        return {name: joined([future.result() for future in futures]) for name, futures in waiting.items()}


def joined(parts: Sequence[Replays]) -> Replays:
    return Replays(
        np.concatenate([part.best for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.unseen for part in parts]),
    )
