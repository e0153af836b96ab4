"""What callers use: does a recipe cover this graph, which schedule to start from, and the plan of a schedule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from optimizer.recipes.build import build_program
from optimizer.recipes.ir import Program
from optimizer.recipes.library import library_plan
from optimizer.recipes.plan import write_plan
from optimizer.recipes.schedule import Schedule
from optimizer.recipes.unsupported import Unsupported


@dataclass(frozen=True)
class Coverage:
    """Whether recipes can write this operator's kernels. ``sentence`` is shown to the user."""

    covered: bool
    family: str  # "pointwise", "row_reduction" or "other"
    unsupported: tuple[str, ...]
    sentence: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"unsupported": list(self.unsupported)}


def program_of(graph: dict[str, Any]) -> Program:
    """The graph's intermediate form, cached. Raises Unsupported."""
    return _program(graph_key(graph))


def graph_key(graph: dict[str, Any]) -> str:
    """The graph as text: what caches go by."""
    return json.dumps(graph, sort_keys=True)


@lru_cache(maxsize=256)
def plan_text(key: str, schedule: Schedule, language: str, compute_units: int) -> str:
    """The plan of `graph_key`'s graph, without notes. Cached: moves compare plans."""
    if schedule.library:
        return library_plan(json.loads(key), language)
    return write_plan(_program(key), schedule, language, {"compute_units": compute_units}, ())


@lru_cache(maxsize=64)
def _program(text: str) -> Program:
    return build_program(json.loads(text))


def coverage(graph: dict[str, Any] | None, graph_reason: str = "") -> Coverage:
    """Say which family covers the graph, or which operation has no recipe and why."""
    if graph is None:
        reason = graph_reason or "no graph of it was captured."
        return Coverage(False, "other", (), f"No recipe covers this operator: {reason}")
    try:
        program = program_of(graph)
    except Unsupported as error:
        return Coverage(
            False, "other", (error.op,), f"No recipe covers this operator: {error.op} {error.reason}."
        )
    if program.has_reduction:
        return Coverage(
            True, "row_reduction", (), f"Row reduction over {program.row_length} elements in each of "
            f"{program.row_count} rows, with point-wise work around it."
        )  # fmt: skip
    return Coverage(True, "pointwise", (), "Point-wise operations with broadcasting.")


def naive_schedule(language: str) -> Schedule:
    """One kernel for each operation (for each phase of a reduction), scalar accesses, 256 threads a block.

    A row is reduced by a block on a GPU, where a thread for each row would not coalesce a single load, and by
    a work-item on a CPU: what an engineer writes first on either.
    """
    return Schedule(row_strategy="block") if language == "cuda" else Schedule()


def generate_plan(
    graph: dict[str, Any],
    schedule: Schedule,
    language: str,
    device: dict[str, Any],
    notes: Sequence[str] = (),
) -> str:
    """The plan's text in ``language`` ("cuda" or "opencl"). Raises Unsupported for a graph no recipe covers."""
    if schedule.library:
        return "".join(f"# {note}\n" for note in notes) + library_plan(graph, language)
    return write_plan(program_of(graph), schedule, language, device, notes)
