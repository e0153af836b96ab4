"""Statistics of paired times: medians, percentiles and the bootstrap interval of a median ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_eval.results import Timing

Times = NDArray[np.float64]
RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A median ratio with the bounds of its bootstrap interval."""

    median: float
    low: float
    high: float


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones. Raises ValueError when there is none."""
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics. Raises ValueError without values."""
    if not values or not 0 <= share <= 1:
        raise ValueError("a quantile needs values and a share between 0 and 1")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    lower, upper = ordered[below], ordered[above]
    if lower == upper:
        return lower
    return lower + (upper - lower) * (position - below)


def summarise(samples_us: Sequence[float]) -> Timing:
    """Median, 10th and 90th percentile of times in microseconds."""
    return Timing(
        median_us=median(samples_us),
        p10_us=quantile(samples_us, 0.1),
        p90_us=quantile(samples_us, 0.9),
        samples_us=[round(sample, 3) for sample in samples_us],
    )


@dataclass(frozen=True)
class Unseen:
    """What differs between two processes that measure the same, and so no sample of one session shows: a share
    of the time, and microseconds."""

    share: float = 0.0
    us: float = 0.0

    def of(self, median_us: float) -> float:
        """As a share of a time."""
        return self.share + self.us / median_us


# Measured by `benchmarks/honesty.py same`: PyTorch's operations against themselves. The device's events tick in
# steps of 32 ns, and a process's memory lies better or worse; the host's clock sees threads settle on cores.
UNSEEN = {"device events": Unseen(0.005, 0.15), "wall clock": Unseen(0.03, 5.0)}


def speedup(
    baseline_us: Sequence[float],
    candidate_us: Sequence[float],
    seed: int,
    *,
    means: bool = False,
    unseen: Unseen = Unseen(),
) -> Ratio:
    """The median of the pairwise ratios baseline / candidate with a 95 % percentile bootstrap interval.

    With ``means`` it is the ratio of the mean times instead, as the public KernelBench harness reports.

    Pairs were measured next to each other, so that what slows one call slows its partner too. The interval
    resamples pairs, is widened by ``unseen`` on both sides, and depends on nothing but its arguments. Raises
    ValueError unless both are equally long, non-empty and positive.
    """
    if len(baseline_us) != len(candidate_us) or not len(baseline_us):
        raise ValueError("times must come in pairs")
    before, after = np.asarray(baseline_us, float), np.asarray(candidate_us, float)
    if min(before.min(), after.min()) <= 0:
        raise ValueError("times must be positive")
    middle = float(ratios(before, after, means))
    draws = np.random.default_rng(seed).integers(len(before), size=(RESAMPLES, len(before)))
    resampled = ratios(before[draws], after[draws], means)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    wider = 1 + unseen.of(float(np.median(after)))
    return Ratio(middle, min(float(low), middle) / wider, max(float(high), middle) * wider)


def ratios(before: Times, after: Times, means: bool) -> Times:
    """Along the last axis the median of the pairwise ratios, or the ratio of the means."""
    if means:
        return np.asarray(before.mean(-1) / after.mean(-1))
    return np.asarray(np.median(before / after, axis=-1))
