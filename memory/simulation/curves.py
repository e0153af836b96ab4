"""Replays summed up: best-so-far curves with intervals, and each policy beside the full one.

Two kinds of doubt are kept apart. Over replays: how sure is the mean on these operators (it shrinks with more
replays). Over operators: how sure is a difference for operators like these (it does not).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from memory.simulation.replay import Replays
from memory.simulation.tables import Tables

Z = 1.96
RESAMPLES = 4000
NEAR = 0.95  # of the best recorded log speed-up: reached


def summarise(tables: Tables, results: Mapping[str, Replays], baseline: str = "full") -> dict[str, Any]:
    """Curves, final figures and differences from ``baseline`` for every policy, as JSON types."""
    names = sorted(tables.operators)
    ceiling = np.log2([tables.operators[name].best_speedup() for name in names])
    found = {name: summary_of(replays, ceiling) for name, replays in results.items()}
    if baseline in results:
        for name, replays in results.items():
            if name != baseline:
                found[name]["against"] = {"policy": baseline, **compared(replays, results[baseline])}
    return {
        "operators": names,
        "best_recorded": geometric(ceiling),
        "policies": found,
    }


def summary_of(replays: Replays, ceiling: np.ndarray) -> dict[str, Any]:
    """One policy. Speed-ups are geometric means over operators."""
    per_replay = replays.best.mean(axis=1)  # replay, step
    count = replays.best.shape[1]
    third = max(count // 3, 1)
    late = replays.position >= count - third
    early = replays.position < third
    return {
        "replays": len(per_replay),
        "curve": [{"step": 0, "speedup": 1.0, "low": 1.0, "high": 1.0}]
        + [{"step": step + 1, **interval(per_replay[:, step])} for step in range(per_replay.shape[1])],
        "final": interval(per_replay[:, -1]),
        "area": interval(per_replay.mean(axis=1)),
        "reached": reached(replays.best, ceiling),
        "unseen": [float(share) for share in replays.unseen.mean(axis=(0, 1))],
        "lost": float((replays.unseen == 1.0).mean()),
        "early": masked(replays.best, early),
        "late": masked(replays.best, late),
    }


def interval(logs: np.ndarray) -> dict[str, float]:
    """Mean of log2 speed-ups with its 95 % interval over replays, as speed-ups."""
    mean = float(logs.mean())
    reach = Z * float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return {"speedup": 2**mean, "low": 2 ** (mean - reach), "high": 2 ** (mean + reach)}


def masked(best: np.ndarray, mask: np.ndarray) -> list[float]:
    """The curve over those runs only: operators early or late in their replay."""
    return [float(2 ** best[:, :, step][mask].mean()) for step in range(best.shape[2])]


def reached(best: np.ndarray, ceiling: np.ndarray) -> list[float]:
    """After each step, the share of runs within `NEAR` of the best that was recorded of their operator."""
    near = best >= NEAR * ceiling[None, :, None] - 1e-12
    return [float(share) for share in near.mean(axis=(0, 1))]


def compared(replays: Replays, baseline: Replays) -> dict[str, Any]:
    """The ratio to another policy's speed-ups at the end and over all steps; below 1: worse than it.

    ``low`` and ``high`` are bootstrapped over operators, each with its mean over replays.
    """
    return {
        "final": ratio((replays.best - baseline.best)[:, :, -1].mean(axis=0)),
        "area": ratio((replays.best - baseline.best).mean(axis=(0, 2))),
        "by_step": [ratio((replays.best - baseline.best)[:, :, step].mean(axis=0))
                    for step in range(replays.best.shape[2])],
    }  # fmt: skip


def ratio(differences: np.ndarray) -> dict[str, float]:
    """Mean difference of log2 speed-ups over operators as a ratio, with its bootstrap interval."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(differences), (RESAMPLES, len(differences)))
    means = differences[picks].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"ratio": 2 ** float(differences.mean()), "low": 2 ** float(low), "high": 2 ** float(high)}


def geometric(logs: np.ndarray) -> float:
    return float(2 ** logs.mean())
