"""Statistics of paired times: medians, percentiles and the bootstrap interval of a median ratio."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_eval.results import Timing

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


def speedup(
    baseline_us: Sequence[float], candidate_us: Sequence[float], seed: int, *, means: bool = False
) -> Ratio:
    """The median of the pairwise ratios baseline / candidate with a 95 % percentile bootstrap interval.

    With ``means`` it is the ratio of the mean times instead, as the public KernelBench harness reports.

    Pairs were measured next to each other, so that what slows one call slows its partner too. The interval
    resamples pairs and depends on nothing but its arguments. Raises ValueError unless both are equally
    long, non-empty and positive.
    """
    if len(baseline_us) != len(candidate_us) or not baseline_us:
        raise ValueError("times must come in pairs")
    if min(*baseline_us, *candidate_us) <= 0:
        raise ValueError("times must be positive")
    pairs = list(zip(baseline_us, candidate_us, strict=True))
    statistic = ratio_of_means if means else median_of_ratios
    middle = statistic(pairs)
    low, high = bootstrap_interval(pairs, statistic, random.Random(seed))
    return Ratio(middle, min(low, middle), max(high, middle))


def median_of_ratios(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of first over second."""
    return median([before / after for before, after in pairs])


def ratio_of_means(pairs: Sequence[tuple[float, float]]) -> float:
    """The mean of the firsts over the mean of the seconds."""
    return sum(before for before, _ in pairs) / sum(after for _, after in pairs)


def bootstrap_interval(
    pairs: Sequence[tuple[float, float]],
    statistic: Callable[[Sequence[tuple[float, float]]], float],
    rng: random.Random,
) -> tuple[float, float]:
    """The central 95 % of a statistic over `RESAMPLES` resamples."""
    values = [statistic(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    return quantile(values, tail), quantile(values, 1 - tail)
