"""Conditions on the state s_t: the machine-readable form of triggers and of "applies when".

A condition is ``{"fact": NAME, "op": OP, "value": VALUE}``. A fact that the state lacks meets no
condition: what is not known is not assumed. A trigger may carry ``"required": true``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Condition = Mapping[str, Any]
Facts = Mapping[str, Any]

OPERATORS = ("in", "eq", "ge", "le", "true", "false")
# Every fact that the loop and the recipes report. Bank files and forms are checked against them.
FACTS: dict[str, str] = {
    "family": "operator family: pointwise, row_reduction or other",
    "dtype": "dtype of the first floating-point input",
    "device_kind": "cuda or opencl",
    "has_plan": "a correct plan of this run exists; otherwise PyTorch itself is the start",
    "bottleneck": "of the best plan: memory, compute, launch, latency or unknown",
    "bandwidth_fraction": "achieved over peak memory bandwidth, 0..1",
    "flop_fraction": "achieved over peak fp32 rate, 0..1",
    "launches": "kernel launches and library calls of one forward",
    "kernels": "kernels of our own in one forward",
    "fused": "one kernel computes everything",
    "vector_width": "elements of one load or store",
    "items_per_thread": "vectors that a thread handles",
    "block_size": "threads of a block",
    "row_strategy": "who reduces a row: thread, warp, block, split, or none",
    "row_length": "elements of a reduced row",
    "rows": "number of reduced rows",
    "elements": "elements of the largest tensor that is walked over",
    "occupancy": "active warps over the device's maximum, 0..1, lowest of the kernels",
    "registers": "per thread, highest of the kernels",
    "spill_bytes": "per thread, highest of the kernels",
    "shared_bytes": "per block, highest of the kernels",
    "last_verdict": "outcome of the step before: faster, correct, slower, wrong, compile_error, ...",
    "last_direction": "key of the direction of the step before",
    "failures_in_a_row": "steps without a correct kernel since the last one with",
    "steps_left": "including this one",
    "step_index": "1..T",
    "transcendental": "exp, log, tanh, erf and the like occur",
    "has_broadcast": "some operand lacks an axis of the result",
    "has_reduction": "a row reduction occurs",
    "has_softmax": "a maximum is followed by a sum of exponentials relative to it",
    "has_moments": "a mean is followed by a sum of squares around it",
    "small": "eager time is within a few empty launches",
    "divisible": "the innermost extent is a multiple of four",
    "streaming": "the plan loads or stores around the cache already",
    "fast_math": "the plan uses fast intrinsics already",
    "uses_library": "the plan calls library operations",
}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def holds(condition: Condition, facts: Facts) -> bool:
    """Whether the state meets the condition. With an absent fact or a wrong type it does not."""
    fact = facts.get(condition["fact"])
    if fact is None:
        return False
    op = condition["op"]
    if op == "true":
        return fact is True
    if op == "false":
        return fact is False
    value = condition.get("value")
    if op == "in":
        return isinstance(value, list | tuple) and fact in value
    if op == "eq":
        return fact == value
    if not (is_number(fact) and is_number(value)):
        return False
    return fact >= value if op == "ge" else op == "le" and fact <= value


def describe(condition: Condition) -> str:
    """The condition in words: "vector_width is at most 2"."""
    fact, op, value = condition["fact"], condition["op"], condition.get("value")
    if op == "true":
        return f"{fact} holds"
    if op == "false":
        return f"{fact} does not hold"
    if op == "in" and isinstance(value, list | tuple):
        return f"{fact} is {' or '.join(str(item) for item in value)}"
    return f"{fact} is {({'ge': 'at least ', 'le': 'at most '}).get(op, '')}{value}"


def unmet(conditions: Sequence[Condition], facts: Facts) -> list[Condition]:
    return [condition for condition in conditions if not holds(condition, facts)]


def explain_unmet(conditions: Sequence[Condition], facts: Facts) -> str:
    """One sentence on what stands in the way; "" when every condition holds."""
    parts = []
    for condition in unmet(conditions, facts):
        fact = facts.get(condition["fact"])
        known = "not known" if fact is None else f"it is {fact}"
        parts.append(f"{describe(condition)} ({known})")
    return f"Needs: {'; '.join(parts)}." if parts else ""


def match(triggers: Sequence[Condition], facts: Facts) -> tuple[float, list[Condition], list[Condition]]:
    """match(h, s_t) with the triggers that hold and those that do not.

    The share of triggers that hold, 0..1; -1 when a required one does not. Without triggers it is 0:
    nothing speaks for or against.
    """
    held: list[Condition] = []
    unheld: list[Condition] = []
    for trigger in triggers:
        (held if holds(trigger, facts) else unheld).append(trigger)
    if any(trigger.get("required") for trigger in unheld):
        return -1.0, held, unheld
    return (len(held) / len(triggers) if triggers else 0.0), held, unheld
