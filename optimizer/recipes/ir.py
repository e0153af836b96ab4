"""The intermediate form that recipes transform: scalar expressions over named axes, and row reductions.

An *axis* is a dimension of size other than 1. Every node names the axes its value varies over, outermost first;
operands are broadcast by lacking an axis. Loads carry one stride for each of their axes, so views of an operator's
inputs cost nothing. ``cols`` are the reduced axes, ``rows`` all others: a node that lacks every column axis is
computed once a row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

ARITHMETIC = {"add", "sub", "mul", "div"}
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
TRANSCENDENTAL = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "erf", "erfc", "pow", "atan2", "asinh", "acosh", "atanh",
}  # fmt: skip

# Reduction kinds and the number of values one keeps for a row.
PARTS = {"sum": 1, "max": 1, "min": 1, "prod": 1, "online_softmax": 2, "moments": 2, "welford": 2}


@dataclass(frozen=True)
class Node:
    """One value. ``kind``: load, scalar, const, op, reduce (a row value) or part (one value of a reduce)."""

    id: int
    kind: str
    op: str  # the operation; for loads and scalars the leaf's id
    args: tuple[int, ...] = ()
    dtype: str = "float32"
    axes: tuple[int, ...] = ()
    origin: str = ""  # the graph node it comes from
    strides: tuple[int, ...] = ()
    offset: int = 0
    value: Any = None  # of a const; the index of a part


@dataclass(frozen=True)
class Output:
    """A result: the node stored, its axes in storage order, its shape for the plan."""

    node: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    name: str


@dataclass(frozen=True)
class Leaf:
    """An operator input or a parameter. ``expression`` is how the plan's forward names it."""

    id: str
    name: str
    kind: str  # "tensor", "param" or "scalar"
    shape: tuple[int, ...]
    dtype: str
    expression: str
    contiguous: bool = True


@dataclass(frozen=True)
class Program:
    """A whole operator. ``nodes`` is in topological order; node ids are keys, not positions."""

    nodes: dict[int, Node]
    sizes: dict[int, int]  # axis -> size
    size_names: dict[int, str]  # axis -> how the plan writes its size, where an input's dimension has it
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    outputs: tuple[Output, ...]
    leaves: dict[str, Leaf]
    input_names: tuple[str, ...]  # parameter names of the plan's forward, in order
    tuple_output: bool = False
    composites: dict[str, str] = field(default_factory=dict)  # origin -> softmax, layer_norm, ...

    def size(self, axes: Iterable[int]) -> int:
        return math.prod(self.sizes[axis] for axis in axes)

    @property
    def row_count(self) -> int:
        return self.size(self.rows)

    @property
    def row_length(self) -> int:
        return self.size(self.cols)

    @property
    def has_reduction(self) -> bool:
        return any(node.kind == "reduce" for node in self.nodes.values())

    def is_element(self, node_id: int) -> bool:
        """Whether the value varies along a row."""
        return any(axis in self.cols for axis in self.nodes[node_id].axes)

    def levels(self) -> dict[int, int]:
        """For each node the number of reductions that must finish before it can be computed."""
        found: dict[int, int] = {}
        for node in self.nodes.values():
            level = max((found[arg] for arg in node.args), default=0)
            found[node.id] = level + 1 if node.kind == "reduce" else level
        return found

    def consumers(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {node_id: [] for node_id in self.nodes}
        for node in self.nodes.values():
            for arg in dict.fromkeys(node.args):
                found[arg].append(node.id)
        return found

    def needed_for(self, targets: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
        """Ids that must be known to compute ``targets``, in order; nodes of ``stop`` are taken as known."""
        known = set(stop)
        wanted: set[int] = set()
        stack = [target for target in targets if target not in known]
        while stack:
            node_id = stack.pop()
            if node_id in wanted:
                continue
            wanted.add(node_id)
            stack.extend(arg for arg in self.nodes[node_id].args if arg not in known)
        return [node_id for node_id in self.nodes if node_id in wanted]

    def replace_nodes(self, nodes: dict[int, Node]) -> Program:
        """The same program with other nodes, sorted again and without unreachable ones."""
        ordered: dict[int, Node] = {}

        def visit(node_id: int) -> None:
            stack = [(node_id, False)]
            while stack:
                current, done = stack.pop()
                if current in ordered:
                    continue
                if done:
                    ordered[current] = nodes[current]
                    continue
                stack.append((current, True))
                stack.extend((arg, False) for arg in reversed(nodes[current].args) if arg not in ordered)

        for output in self.outputs:
            visit(output.node)
        return dataclasses.replace(self, nodes=ordered)


def merged_axes(sequences: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """One order of all axes that keeps the longest sequences' orders where they do not contradict."""
    order: list[int] = []
    for sequence in sorted(sequences, key=len, reverse=True):
        position = 0
        for axis in sequence:
            if axis in order:
                position = order.index(axis) + 1
            else:
                order.insert(position, axis)
                position += 1
    return tuple(order)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
