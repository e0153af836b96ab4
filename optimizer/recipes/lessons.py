"""What a schedule taught: the knobs that a step turned, and the recipe that would turn them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from optimizer.recipes.moves import MOVES, Move, RecipeFacts
from optimizer.recipes.schedule import Schedule
from optimizer.recipes.unsupported import Unsupported


def knobs(before: Schedule, after: Schedule) -> dict[str, Any]:
    """The knobs that differ, with their values afterwards, by name."""
    return {
        field.name: getattr(after, field.name)
        for field in sorted(dataclasses.fields(Schedule), key=lambda field: field.name)
        if getattr(before, field.name) != getattr(after, field.name)
    }


def setting(before: Schedule, after: Schedule) -> str:
    """The same as text, such as "unroll=4, vector_width=8"; "" where nothing differs."""
    return ", ".join(f"{name}={shown(value)}" for name, value in knobs(before, after).items())


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def leads_to(recipe: dict[str, Any], before: Schedule, after: Schedule, facts: RecipeFacts) -> bool:
    """Whether the recipe of a strategy turns exactly these knobs."""
    move = MOVES.get(recipe.get("move", ""))
    arguments = {name: value for name, value in recipe.items() if name != "move"}
    if move is None or any(value not in move.choices.get(name, ()) for name, value in arguments.items()):
        return False
    return _changed(move(**arguments), before, facts) == after


def recipe_between(before: Schedule, after: Schedule, facts: RecipeFacts) -> dict[str, Any] | None:
    """The recipe that leads from one schedule to the other in one move; None where no single move does."""
    for move in _bound_moves():
        if _changed(move, before, facts) == after:
            return {"move": move.name, **move.arguments}
    return None


def _bound_moves() -> Iterator[Move]:
    for move in MOVES.values():
        yield from move.variants()


def _changed(move: Move, before: Schedule, facts: RecipeFacts) -> Any:
    """What the move makes of a schedule, without generating kernels to see whether they differ."""
    values = {name: move.arguments.get(name, choices[0]) for name, choices in move.choices.items()}
    start = before
    if start.library and move.name != "library_reference":
        start = dataclasses.replace(start, library=False)
    try:
        return move.change(start, facts.program, facts.language, **values)
    except Unsupported:
        return None
