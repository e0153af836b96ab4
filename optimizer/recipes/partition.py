"""Which values are stored, and which kernels compute them."""

from __future__ import annotations

from dataclasses import dataclass, field

from optimizer.recipes.ir import Program
from optimizer.recipes.schedule import Schedule


@dataclass(frozen=True)
class KernelSpec:
    """One kernel: it computes ``roots`` from leaves and from the stored values in ``loads``.

    ``kind``: "pointwise", "rows" (reduces each row), "partial" and "combine" (the two stages of split rows).
    """

    kind: str
    roots: tuple[int, ...]
    loads: frozenset[int]


@dataclass(frozen=True)
class Partition:
    kernels: tuple[KernelSpec, ...]
    intermediates: tuple[int, ...]  # stored values that are not outputs, in order of creation
    fused: bool = field(default=False)


def partition(program: Program, schedule: Schedule) -> Partition:
    """Kernels in launch order."""
    if program.has_reduction and schedule.row_strategy == "split":
        return _split(program)
    if program.has_reduction and schedule.fuse_all:
        fused = _fused_rows(program)
        if fused is not None:
            return fused
    return _staged(program, schedule)


def _outputs(program: Program) -> list[int]:
    return list(dict.fromkeys(output.node for output in program.outputs))


def _required(program: Program, schedule: Schedule) -> set[int]:
    """Values that some other kernel reads from memory."""
    levels, consumers = program.levels(), program.consumers()
    reducing = {node.origin for node in program.nodes.values() if node.kind == "reduce"}
    required: set[int] = set()
    for node in program.nodes.values():
        if node.kind in ("reduce", "part"):
            if node.op not in ("online_softmax", "moments", "welford"):
                required.add(node.id)
            continue
        if node.kind != "op" or (not node.axes and levels[node.id] == 0):
            continue
        readers = [program.nodes[reader] for reader in consumers[node.id]]
        outside = {reader.origin for reader in readers if reader.origin != node.origin}
        if not outside:
            continue
        edges = {_edge(origin in reducing, levels[node.id]) for origin in outside}
        fusable = all(any(getattr(schedule, flag) for flag in _allowing(edge)) for edge in edges)
        several = len(outside) > 1 and any(origin in reducing for origin in outside)
        if not fusable or (several and not schedule.recompute and not schedule.fuse_all):
            required.add(node.id)
    return required


def _edge(into_reduction: bool, level: int) -> str:
    if into_reduction:
        return "prologue" if level == 0 else "between"
    return "pointwise" if level == 0 else "epilogue"


def _allowing(edge: str) -> tuple[str, ...]:
    return {
        "prologue": ("fuse_prologue", "fuse_all"),
        "pointwise": ("fuse_pointwise", "fuse_all"),
        "epilogue": ("fuse_epilogue", "fuse_all"),
        "between": ("fuse_all",),
    }[edge]


def _staged(program: Program, schedule: Schedule) -> Partition:
    required = _required(program, schedule)
    outputs = _outputs(program)
    levels = program.levels()
    groups: dict[tuple[object, ...], list[int]] = {}
    for node_id in program.nodes:
        node = program.nodes[node_id]
        if node_id in required and node.kind in ("reduce", "part"):
            together = node.args[0] if node.kind == "part" else node.origin
            groups.setdefault(("rows", together, levels[node_id]), []).append(node_id)
        elif node_id in required:
            groups.setdefault(("pointwise", node.origin, frozenset(node.axes), levels[node_id]), []).append(
                node_id
            )
        elif node_id in outputs:
            together = schedule.fuse_pointwise or schedule.fuse_all
            origin = "" if together else node.origin
            axes = frozenset(_output_axes(program, node_id))
            groups.setdefault(("result", origin, axes, levels[node_id]), []).append(node_id)
    kernels = []
    for key, roots in groups.items():
        loads = frozenset(required - set(roots))
        kind = "rows" if key[0] == "rows" else "pointwise"
        kernels.append(KernelSpec(kind, tuple(roots), _used(program, roots, loads)))
    kernels = _ordered(program, kernels)
    kept = tuple(node_id for node_id in program.nodes if node_id in required and node_id not in outputs)
    return Partition(tuple(kernels), kept)


def _output_axes(program: Program, node_id: int) -> tuple[int, ...]:
    return next(output.axes for output in program.outputs if output.node == node_id)


def _used(program: Program, roots: list[int], stored: frozenset[int]) -> frozenset[int]:
    """The stored values that computing ``roots`` reads."""
    needed = program.needed_for(roots, stop=stored)
    read = {arg for node_id in needed for arg in program.nodes[node_id].args}
    return frozenset(read & stored)


def _ordered(program: Program, kernels: list[KernelSpec]) -> list[KernelSpec]:
    """Each kernel after those whose results it reads."""
    maker = {root: index for index, kernel in enumerate(kernels) for root in kernel.roots}
    done: list[int] = []

    def place(index: int) -> None:
        if index in done:
            return
        for stored in sorted(kernels[index].loads):
            if maker[stored] != index:
                place(maker[stored])
        done.append(index)

    for index in range(len(kernels)):
        place(index)
    return [kernels[index] for index in done]


def _fused_rows(program: Program) -> Partition | None:
    """Everything that belongs to the rows in one kernel, or None where reductions do not share their rows."""
    reduces = [node for node in program.nodes.values() if node.kind == "reduce"]
    rows = {frozenset(node.axes) for node in reduces}
    if len(rows) != 1:
        return None
    (row_axes,) = rows
    joined: list[int] = []
    apart: list[int] = []
    for node_id in _outputs(program):
        axes = set(_output_axes(program, node_id))
        fits = axes <= row_axes | set(program.cols) and row_axes <= axes
        (joined if fits and _complete(program, axes) else apart).append(node_id)
    if not joined:
        return None
    levels = program.levels()
    if any(levels[node_id] > 0 for node_id in apart):
        return None
    kernels = [KernelSpec("rows", tuple(joined), frozenset())]
    kernels += [KernelSpec("pointwise", (node_id,), frozenset()) for node_id in apart]
    return Partition(tuple(kernels), (), fused=True)


def _complete(program: Program, axes: set[int]) -> bool:
    """A row's output has all of the row's elements or one value."""
    inside = axes & set(program.cols)
    return not inside or inside == set(program.cols)


def _split(program: Program) -> Partition:
    """Two stages for each level of reductions, then point-wise kernels over whole tensors."""
    levels, consumers = program.levels(), program.consumers()
    outputs = _outputs(program)
    frontier: dict[int, None] = {}
    for node in program.nodes.values():
        if levels[node.id] == 0 or program.is_element(node.id) or node.kind not in ("op", "reduce", "part"):
            continue
        if node.kind == "reduce" and node.op in ("online_softmax", "moments", "welford"):
            continue
        readers = [program.nodes[reader] for reader in consumers[node.id]]
        if (
            any(program.is_element(reader.id) or reader.kind == "reduce" for reader in readers)
            or node.id in outputs
        ):
            frontier[node.id] = None
    kernels: list[KernelSpec] = []
    known: set[int] = set()
    for level in range(1, max(levels.values(), default=0) + 1):
        roots = tuple(node_id for node_id in frontier if levels[node_id] == level)
        reduces = _reduces_at(program, roots, known, levels, level)
        if not reduces:
            continue
        kernels.append(KernelSpec("partial", reduces, _used(program, list(reduces), frozenset(known))))
        kernels.append(KernelSpec("combine", roots, _used(program, list(roots), frozenset(known))))
        known |= set(roots)
    rest = [node_id for node_id in outputs if node_id not in known]
    groups: dict[frozenset[int], list[int]] = {}
    for node_id in rest:
        groups.setdefault(frozenset(_output_axes(program, node_id)), []).append(node_id)
    for roots_list in groups.values():
        kernels.append(
            KernelSpec("pointwise", tuple(roots_list), _used(program, roots_list, frozenset(known)))
        )
    kept = tuple(node_id for node_id in program.nodes if node_id in known and node_id not in outputs)
    return Partition(tuple(kernels), kept)


def _reduces_at(
    program: Program, roots: tuple[int, ...], known: set[int], levels: dict[int, int], level: int
) -> tuple[int, ...]:
    needed = program.needed_for(roots, stop=known)
    return tuple(
        node_id for node_id in needed if program.nodes[node_id].kind == "reduce" and levels[node_id] == level
    )
