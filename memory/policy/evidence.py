"""Evidence: step utilities, sums of them per bucket, and the posterior mean utility of a node or edge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from memory.policy.config import PolicyConfig

PRIOR_VARIANCE = (
    0.25  # spread of one prior pseudo-observation: a typical step utility lies within +-0.5 of its mean
)


def utility(
    t_before: float | None, t_after: float | None, correct: bool, *, failure_utility: float = -0.5
) -> float:
    """Utility u of one step: clip(log2(t_before / t_after), -1, 1) when correct, ``failure_utility``
    otherwise.

    Times are medians in one unit, the same for both. u = 1 means at least twice as fast, u = -1 at least
    twice as slow. Raises ValueError when a correct step lacks a positive time.
    """
    if not correct:
        return failure_utility
    if t_before is None or t_after is None or not (t_before > 0 and t_after > 0):
        raise ValueError(f"a correct step needs two positive times, not {t_before!r} and {t_after!r}")
    return max(-1.0, min(1.0, math.log2(t_before / t_after)))


class BucketTotals(NamedTuple):
    """Sums over the evidence of one node or edge within one (device, dtype, family) bucket."""

    device: str  # DeviceFacts.key: "cuda:NVIDIA H200", "opencl:..."
    dtype: str
    family: str  # operator family
    tries: int
    utility_sum: float
    utility_square_sum: float = 0.0
    compiled: int = 0
    correct: int = 0
    improved: int = 0


@dataclass(frozen=True)
class EvidenceContext:
    """Where a decision is made. An empty field means "anywhere": evidence is not discounted by it."""

    device: str = ""
    dtype: str = ""
    family: str = ""


POOLED = EvidenceContext()


class BucketWeights:
    """w_j: how much evidence from a bucket counts in a context. A product of factors, each 1 for "the same".

    - device: ``same_kind_weight`` (0.6) on another one of the same kind, else ``other_kind_weight`` (0.25);
    - dtype: ``other_dtype_weight`` (0.7);
    - operator family: ``other_family_weight`` (0.4).
    """

    def __init__(self, context: EvidenceContext, config: PolicyConfig) -> None:
        self.context = context
        self.config = config
        self.known: dict[tuple[str, ...], float] = {}  # by (device, dtype, family)

    def of(self, device: str, dtype: str, family: str) -> float:
        key = (device, dtype, family)
        weight = self.known.get(key)
        if weight is None:
            weight = self.known[key] = self._device(device) * self._dtype(dtype) * self._family(family)
        return weight

    def _device(self, device: str) -> float:
        wanted = self.context.device
        if not wanted or device == wanted:
            return 1.0
        same_kind = device.partition(":")[0] == wanted.partition(":")[0]
        return self.config.same_kind_weight if same_kind else self.config.other_kind_weight

    def _dtype(self, dtype: str) -> float:
        wanted = self.context.dtype
        return 1.0 if not wanted or dtype == wanted else self.config.other_dtype_weight

    def _family(self, family: str) -> float:
        wanted = self.context.family
        return 1.0 if not wanted or family == wanted else self.config.other_family_weight


class Posterior(NamedTuple):
    """Posterior mean utility with its doubt."""

    mean: float
    n: float  # effective evidence: sum of w_j
    tries: int  # evidence as counted, unweighted
    low: float  # bounds of the central 95 % of a normal with the posterior's standard error, within -1..1
    high: float


def posterior_mean(
    prior: float, totals: Iterable[BucketTotals], weights: BucketWeights, n0: float
) -> tuple[float, float, int]:
    """(n0 prior + sum_j w_j u_j) / (n0 + sum_j w_j), with sum_j w_j and the unweighted count.

    HTAM's node and edge utility: the prior counts as ``n0`` observations, so it rules while there is no
    evidence and fades as evidence comes in.
    """
    n = 0.0
    total = 0.0
    tries = 0
    known = weights.known
    for (
        bucket
    ) in totals:  # the innermost loop of selection: by position, and without a call for a known bucket
        weight = known.get(bucket[:3])
        if weight is None:
            weight = weights.of(*bucket[:3])
        count = bucket[3]
        n += weight * count
        total += weight * bucket[4]
        tries += count
    return (n0 * prior + total) / (n0 + n), n, tries


def posterior(
    prior: float,
    totals: Iterable[BucketTotals],
    context: EvidenceContext = POOLED,
    config: PolicyConfig | None = None,
) -> Posterior:
    """`posterior_mean` with an interval.

    The variance pools the weighted evidence with ``n0`` pseudo-observations at the prior of variance
    `PRIOR_VARIANCE`; the standard error divides it by n0 + n.
    """
    config = config or PolicyConfig()
    rows = list(totals)
    weights = BucketWeights(context, config)
    mean, n, tries = posterior_mean(prior, rows, weights, config.n0)
    squares = config.n0 * (PRIOR_VARIANCE + (prior - mean) ** 2)
    for row in rows:
        weight = weights.of(row.device, row.dtype, row.family)
        spread = row.utility_square_sum - 2 * mean * row.utility_sum + mean * mean * row.tries
        squares += weight * max(0.0, spread)
    count = config.n0 + n
    reach = 1.96 * math.sqrt(squares / count / count)
    return Posterior(mean, n, tries, max(-1.0, mean - reach), min(1.0, mean + reach))
