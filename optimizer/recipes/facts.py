"""Facts of an operator under a schedule, by the names that the memory's triggers use."""

from __future__ import annotations

from typing import Any

from optimizer.recipes.api import program_of
from optimizer.recipes.ir import TRANSCENDENTAL, Program
from optimizer.recipes.partition import partition
from optimizer.recipes.rewrite import moment_pairs, softmax_pairs
from optimizer.recipes.schedule import Schedule
from optimizer.recipes.unsupported import Unsupported


def schedule_facts(graph: dict[str, Any], schedule: Schedule | None) -> dict[str, Any]:
    """Shapes and structure of the operator, and of the schedule where there is one. {} for uncovered graphs."""
    try:
        program = program_of(graph)
    except Unsupported:
        return {}
    return operator_facts(program) | (knob_facts(program, schedule) if schedule is not None else {})


def operator_facts(program: Program) -> dict[str, Any]:
    """What no schedule changes."""
    whole = [output.axes for output in program.outputs]
    elements = max([program.size(axes) for axes in whole] + [program.row_count * program.row_length])
    inner = program.row_length if program.has_reduction else _inner(program)
    return {
        "family": "row_reduction" if program.has_reduction else "pointwise",
        "elements": elements,
        "rows": program.row_count if program.has_reduction else None,
        "row_length": program.row_length if program.has_reduction else None,
        "has_reduction": program.has_reduction,
        "has_softmax": bool(softmax_pairs(program)),
        "has_moments": bool(moment_pairs(program)),
        "has_broadcast": _has_broadcast(program),
        "transcendental": any(node.op in TRANSCENDENTAL for node in program.nodes.values()),
        "divisible": inner % 4 == 0,
    }


def _inner(program: Program) -> int:
    axes = max((output.axes for output in program.outputs), key=len, default=())
    if not axes:
        return 1
    return program.sizes[axes[-1]] if _has_broadcast(program) else program.size(axes)


def _has_broadcast(program: Program) -> bool:
    """Whether some operand lacks an axis that the result has (0-d operands do not count)."""
    everything = {axis for output in program.outputs for axis in output.axes} | set(program.cols)
    loads = [node for node in program.nodes.values() if node.kind == "load"]
    return any(node.axes and (set(node.axes) != everything or 0 in node.strides) for node in loads)


def knob_facts(program: Program, schedule: Schedule) -> dict[str, Any]:
    """What the schedule sets."""
    kernels = len(partition(program, schedule).kernels)
    return {
        "kernels": kernels,
        "launches": kernels,
        "fused": kernels == 1,
        "vector_width": schedule.vector_width,
        "items_per_thread": schedule.items_per_thread,
        "block_size": schedule.block_size,
        "row_strategy": schedule.row_strategy if program.has_reduction else "none",
        "streaming": schedule.streaming_loads or schedule.streaming_stores,
        "fast_math": schedule.fast_math,
        "uses_library": schedule.library,
    }
