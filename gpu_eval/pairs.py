"""Timed pairs: a call of the candidate next to one of PyTorch, and which of them count."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_eval.candidates import Call
from gpu_eval.limits import MIN_TIMED_CALLS

WARM_UPS = 3
DISTURBED_SHARE = 0.05
MOST_CALLS = 2  # times the wanted calls, quiet or not
PATIENCE = 2.0  # times the budget, while other work keeps disturbing the calls


@dataclass(frozen=True)
class Pair:
    """Times on the same input; ``disturbed`` when one of the two calls waited for a core."""

    candidate_us: float
    baseline_us: float
    disturbed: bool


def is_disturbed(call: Call) -> bool:
    """Whether a timed call spent a noticeable part of its time waiting for a core.

    Device events do not see the host wait, as long as the queue is never empty.
    """
    return call.waited_us > DISTURBED_SHARE * call.us


def enough(pairs: list[Pair], wanted: int, elapsed_s: float, budget_s: float) -> bool:
    """Whether to stop timing: all calls made, or the budget spent with the least number made."""
    counted = pairs[WARM_UPS:]
    quiet = sum(not pair.disturbed for pair in counted)
    if quiet >= wanted or len(counted) >= MOST_CALLS * wanted:
        return True
    if elapsed_s < budget_s:
        return False
    if quiet >= MIN_TIMED_CALLS:
        return True
    return len(counted) >= MIN_TIMED_CALLS and elapsed_s >= PATIENCE * budget_s


def quiet_pairs(pairs: list[Pair]) -> list[Pair]:
    """The pairs that count: those that nothing disturbed, or all where too few were left alone."""
    counted = pairs[WARM_UPS:]
    quiet = [pair for pair in counted if not pair.disturbed]
    return quiet if len(quiet) >= MIN_TIMED_CALLS else counted
