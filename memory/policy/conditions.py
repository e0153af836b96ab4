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
# Every fact that the loop and the recipes report about the state. Bank files and forms are checked against
# it.
FACTS = frozenset(
    {
        "family", "dtype", "device_kind", "has_plan", "bottleneck", "bandwidth_fraction", "flop_fraction",
        "launches", "kernels", "fused", "vector_width", "items_per_thread", "block_size", "row_strategy",
        "row_length", "rows", "elements", "occupancy", "registers", "spill_bytes", "shared_bytes",
        "last_verdict", "last_direction", "failures_in_a_row", "steps_left", "step_index", "transcendental",
        "has_broadcast", "has_reduction", "has_softmax", "has_moments", "small", "divisible", "streaming",
        "fast_math", "uses_library",
    }
)  # fmt: skip


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
