"""Random walks through the moves, and schedules with every knob drawn at random."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from optimizer.recipes import MOVES, RecipeFacts, Schedule

CHOICES: dict[str, tuple[Any, ...]] = {
    "vector_width": (1, 2, 4, 8, 16), "items_per_thread": (1, 2, 4), "block_size": (32, 64, 96, 256, 512),
    "waves": (1, 4), "row_strategy": ("thread", "warp", "block", "split"), "split_parts": (2, 3, 8),
    "rows_per_block": (1, 2, 4), "row_storage": ("reload", "registers", "shared"), "unroll": (1, 4),
    "moments": ("two_pass", "single_pass", "welford"), "accumulators": (1, 2, 4),
}  # fmt: skip


def random_schedule(rng: random.Random, *, fast: bool = False) -> Schedule:
    """Every knob at random; moves could lead here in some order. ``fast``: fast maths allowed."""
    values: dict[str, Any] = {name: rng.choice(choices) for name, choices in CHOICES.items()}
    for field in dataclasses.fields(Schedule):
        if field.name not in values and field.type == "bool":
            values[field.name] = rng.random() < 0.5
    values["fast_math"] = fast and values["fast_math"]
    values["library"] = False
    return Schedule(**values)


def walk(graph: dict[str, Any], device: dict[str, Any], steps: int, rng: random.Random) -> list[Schedule]:
    """The schedules that ``steps`` random applicable moves lead through, fast maths left out."""
    facts = RecipeFacts(graph, device)
    schedule, found = Schedule(), [Schedule()]
    names = [name for name in MOVES if name not in ("fast_math", "library_reference")]
    for _ in range(steps):
        move = rng.choice(rng.choice([MOVES[name].variants() for name in names]))
        after = move.apply(schedule, facts)
        if isinstance(after, Schedule):
            schedule = after
            found.append(after)
    return found
