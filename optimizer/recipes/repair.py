"""After a failed plan: the nearest schedule without what most likely broke it."""

from __future__ import annotations

import dataclasses
from typing import Any

from optimizer.recipes.schedule import Schedule

_ACCURACY: tuple[tuple[str, Any], ...] = (
    ("fast_math", False), ("flush_denormals", False), ("moments", "two_pass"), ("online_softmax", False),
    ("reciprocal_multiply", False), ("fma_contract", False),
)  # fmt: skip
_RISK: tuple[tuple[str, Any], ...] = (
    ("streaming_stores", False), ("broadcast_in_shared", False), ("hoist_broadcast", False), ("exact_tile", False),
    ("read_only_loads", False), ("row_storage", "reload"),
)  # fmt: skip
_RESOURCES: tuple[tuple[str, Any], ...] = (
    ("row_storage", "reload"), ("accumulators", 1), ("unroll", 1), ("items_per_thread", 1), ("rows_per_block", 1),
)  # fmt: skip


def repair(schedule: Schedule, failure: Any) -> Schedule | None:
    """A more careful schedule after a verdict (a string, or an object with ``verdict``), or None.

    Wrong results undo arithmetic shortcuts first; compile errors, crashes and launch errors halve the vector and
    undo what depends on alignment; shortage of memory, registers or time gives resources back.
    """
    verdict = str(getattr(failure, "verdict", failure))
    order = {
        "wrong": (*_ACCURACY, *_RISK),
        "nondeterministic": (*_RISK, *_ACCURACY),
        "spills": _RESOURCES,
        "out_of_memory": (("row_strategy", "block"), *_RESOURCES),
        "timeout": _RESOURCES,
        "rejected": (("library", False),),
    }.get(verdict)
    if order is None:
        order = (*_RISK[:1], ("vector_width", max(schedule.vector_width // 2, 1)), *_RISK[1:], *_RESOURCES)
    if verdict == "out_of_memory" and schedule.row_strategy != "split":
        order = order[1:]
    for name, safe in order:
        if getattr(schedule, name) != safe:
            return dataclasses.replace(schedule, **{name: safe})
    return None
