"""Collects nodes while a graph is read, and finds out which dimensions are the same axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimizer.recipes import views
from optimizer.recipes.ir import COMPARISONS, Leaf, Node, Output, Program, merged_axes
from optimizer.recipes.unsupported import Unsupported
from optimizer.recipes.views import Strided

FLOATS = ("float16", "bfloat16", "float32", "float64")
SUPPORTED_DTYPES = ("float32", "float64", "int32", "int64", "bool")
_RANK = {"bool": 0, "int32": 1, "int64": 2, "float32": 3, "float64": 4}


@dataclass(frozen=True)
class Handle:
    """A graph value being built: a view of a leaf that nobody has loaded yet, or a node.

    ``dims`` has an axis for each dimension, None where the size is 1. ``weak`` marks numbers, which never
    decide a result's type.
    """

    shape: tuple[int, ...]
    dtype: str
    node: int = -1
    dims: tuple[int | None, ...] = ()
    view: Strided | None = None
    weak: bool = False


class Builder:
    """One program under construction. Every method raises Unsupported naming the current operation."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.composites: dict[str, str] = {}
        self.origin = ""
        self.op_name = ""
        self._ids = itertools.count()
        self._parent: list[int] = []
        self._size: list[int] = []
        self._name: list[str] = []
        self._node_dims: dict[int, tuple[int | None, ...]] = {}
        self._reduced: dict[int, tuple[int, ...]] = {}
        self._loads: dict[Strided, Handle] = {}

    def refuse(self, reason: str) -> Unsupported:
        return Unsupported(self.op_name or "the graph", reason)

    # axes

    def _new_axis(self, size: int, name: str = "") -> int:
        self._parent.append(len(self._parent))
        self._size.append(size)
        self._name.append(name)
        return len(self._parent) - 1

    def _find(self, axis: int) -> int:
        while self._parent[axis] != axis:
            self._parent[axis] = self._parent[self._parent[axis]]
            axis = self._parent[axis]
        return axis

    def _unite(self, left: int, right: int) -> int:
        left, right = sorted((self._find(left), self._find(right)))
        if left != right:
            self._parent[right] = left
            names = [name for name in (self._name[left], self._name[right]) if name]
            self._name[left] = min(names, key=lambda name: name.startswith("params["), default="")
        return left

    def _fresh_dims(self, shape: Sequence[int], names: Sequence[str] = ()) -> tuple[int | None, ...]:
        names = names or [""] * len(shape)
        return tuple(
            None if size == 1 else self._new_axis(size, name) for size, name in zip(shape, names, strict=True)
        )

    # nodes

    def _add(self, node: Node, dims: tuple[int | None, ...]) -> int:
        self.nodes[node.id] = node
        self._node_dims[node.id] = dims
        return node.id

    def constant(self, value: float | int | bool, dtype: str) -> Handle:
        value = {"bool": bool, "int32": int, "int64": int}.get(dtype, float)(value)
        node = Node(next(self._ids), "const", "const", dtype=dtype, value=value, origin=self.origin)
        return Handle((), dtype, self._add(node, ()), (), weak=True)

    def scalar(self, leaf: str, dtype: str) -> Handle:
        node = Node(next(self._ids), "scalar", leaf, dtype=dtype, origin=self.origin)
        return Handle((), dtype, self._add(node, ()), (), weak=True)

    def loaded(self, handle: Handle) -> Handle:
        """A node for the handle. Every use of one view is the same load, so its axes are the same too."""
        if handle.view is None:
            return handle
        view = handle.view
        if view in self._loads:
            return self._loads[view]
        dims = self._fresh_dims(view.shape, view.names)
        strides = tuple(stride for stride, size in zip(view.strides, view.shape, strict=True) if size != 1)
        node = Node(
            next(self._ids),
            "load",
            view.leaf,
            dtype=view.dtype,
            strides=strides,
            offset=view.offset,
            origin=self.origin,
        )
        self._loads[view] = Handle(view.shape, view.dtype, self._add(node, dims), dims)
        return self._loads[view]

    def lift(self, value: Any, dtype: str) -> Handle:
        """A handle of ``dtype`` from a handle or a number."""
        if isinstance(value, Handle):
            return self.cast(value, dtype)
        if isinstance(value, (bool, int, float)):
            return self.constant(value, dtype)
        raise self.refuse(f"has the argument {value!r}, which no recipe understands")

    def cast(self, handle: Handle, dtype: str) -> Handle:
        handle = self.loaded(handle)
        if handle.dtype == dtype:
            return handle
        if dtype not in SUPPORTED_DTYPES:
            raise self.refuse(f"computes in {dtype}; recipes know {', '.join(SUPPORTED_DTYPES)}")
        source = self.nodes[handle.node]
        if source.kind == "const":
            return self.constant(source.value, dtype)
        if source.kind == "scalar":
            return self.scalar(source.op, dtype)
        return self._op("cast", [handle], dtype)

    def promoted(self, *values: Any) -> str:
        """torch's type promotion: tensors with dimensions decide, then 0-d tensors, then numbers."""
        best = ""
        for group in self._priorities(values):
            for dtype in group:
                if dtype not in _RANK:
                    raise self.refuse(f"computes in {dtype}; recipes know {', '.join(SUPPORTED_DTYPES)}")
            top = max(group, key=_RANK.__getitem__, default="")
            if top and (not best or _category(top) > _category(best)):
                best = top
        return best or "float32"

    @staticmethod
    def _priorities(values: Sequence[Any]) -> list[list[str]]:
        handles = [value for value in values if isinstance(value, Handle)]
        numbers = [value for value in values if isinstance(value, (bool, int, float))]
        number_types = [
            "bool" if isinstance(v, bool) else "int64" if isinstance(v, int) else "float32" for v in numbers
        ]
        weak = ["float32" if handle.dtype == "float64" else handle.dtype for handle in handles if handle.weak]
        return [
            [handle.dtype for handle in handles if handle.shape and not handle.weak],
            [handle.dtype for handle in handles if not handle.shape and not handle.weak],
            number_types + weak,
        ]

    def op(self, name: str, *values: Any, dtype: str | None = None) -> Handle:
        """Apply a point-wise operation. Operands are brought to ``dtype`` (default: promoted); comparisons and
        logic yield bool."""
        if name in COMPARISONS:
            common = self.promoted(*values)
            return self._op(name, [self.lift(value, common) for value in values], "bool")
        if name in ("and", "or", "xor", "not"):
            return self._op(name, [self.lift(value, "bool") for value in values], "bool")
        if name in ("isnan", "isinf"):
            return self._op(name, [self.loaded(value) for value in values], "bool")
        dtype = dtype or self.promoted(*values)
        if name == "where":
            condition, *branches = values
            operands = [self.lift(condition, "bool"), *(self.lift(branch, dtype) for branch in branches)]
            return self._op("where", operands, dtype)
        return self._op(name, [self.lift(value, dtype) for value in values], dtype)

    def _op(self, name: str, operands: list[Handle], dtype: str) -> Handle:
        operands = [self.loaded(operand) for operand in operands]
        ndim = max((len(operand.shape) for operand in operands), default=0)
        dims: list[int | None] = [None] * ndim
        shape = [1] * ndim
        for operand in operands:
            for back in range(1, len(operand.shape) + 1):
                axis = operand.dims[-back]
                if axis is None:
                    continue
                mine = dims[-back]
                if mine is not None and self._size[mine] != self._size[axis]:
                    raise self.refuse("has operands whose shapes do not broadcast")
                dims[-back] = axis if mine is None else self._unite(mine, axis)
                shape[-back] = operand.shape[-back]
        node = Node(next(self._ids), "op", name, tuple(o.node for o in operands), dtype, origin=self.origin)
        weak = all(operand.weak for operand in operands)
        return Handle(tuple(shape), dtype, self._add(node, tuple(dims)), tuple(dims), weak=weak)

    def full(self, handle: Handle) -> Handle:
        """A node that varies over each of the handle's axes, also over those it is only expanded along."""
        handle = self.loaded(handle)
        own = self._node_dims[handle.node]
        if self.nodes[handle.node].kind == "op" and {a for a in own if a is not None} == {
            axis for axis in handle.dims if axis is not None
        }:
            return handle
        node = Node(next(self._ids), "op", "copy", (handle.node,), handle.dtype, origin=self.origin)
        return replace(handle, node=self._add(node, handle.dims))

    def reduce(self, kind: str, handle: Handle, dims: Sequence[int], keepdim: bool) -> Handle:
        """A row reduction over ``dims`` (non-negative). Over dimensions of size 1 it is the value itself."""
        handle = self.loaded(handle)
        reduced = [handle.dims[dim] for dim in dims if handle.dims[dim] is not None]
        node = handle.node
        if reduced:
            missing = set(reduced) - set(self._node_dims[node])
            if missing:
                handle = self.full(handle)
                node = handle.node
            kept = tuple(None if index in dims else axis for index, axis in enumerate(handle.dims))
            made = Node(next(self._ids), "reduce", kind, (node,), handle.dtype, origin=self.origin)
            node = self._add(made, kept)
            self._reduced[node] = tuple(axis for axis in reduced if axis is not None)
        keep = [index for index in range(len(handle.shape)) if keepdim or index not in dims]
        shape = tuple(1 if index in dims else handle.shape[index] for index in keep)
        axes = tuple(None if index in dims else handle.dims[index] for index in keep)
        return Handle(shape, handle.dtype, node, axes)

    # views

    def permute(self, handle: Handle, order: Sequence[int]) -> Handle:
        if handle.view is not None:
            return self.from_view(views.permuted(handle.view, order))
        return replace(
            handle,
            shape=tuple(handle.shape[dim] for dim in order),
            dims=tuple(handle.dims[dim] for dim in order),
        )

    def expand(self, handle: Handle, shape: Sequence[int]) -> Handle:
        if handle.view is not None:
            return self.from_view(views.expanded(handle.view, shape))
        extra = len(shape) - len(handle.shape)
        dims: list[int | None] = []
        sizes: list[int] = []
        for position, wanted in enumerate(shape):
            own = handle.shape[position - extra] if position >= extra else 1
            size = own if wanted == -1 else wanted
            axis = handle.dims[position - extra] if position >= extra else None
            dims.append(axis if own == size else self._new_axis(size))
            sizes.append(size)
        return replace(handle, shape=tuple(sizes), dims=tuple(dims), weak=False)

    def reshape(self, handle: Handle, shape: Sequence[int]) -> Handle:
        shape = tuple(shape)
        if handle.view is not None:
            view = views.reshaped(handle.view, shape)
            if view is not None:
                return self.from_view(view)
            handle = self.loaded(handle)
        own = [(size, axis) for size, axis in zip(handle.shape, handle.dims, strict=True) if size != 1]
        if [size for size, _ in own] != [size for size in shape if size != 1]:
            raise self.refuse("reshapes an intermediate result, which no recipe covers")
        axes = iter(axis for _, axis in own)
        return replace(
            handle, shape=shape, dims=tuple(None if size == 1 else next(axes) for size in shape), weak=False
        )

    def slice(self, handle: Handle, dim: int, start: int, length: int, step: int = 1) -> Handle:
        if handle.view is None:
            if length == handle.shape[dim]:
                return handle
            raise self.refuse("cuts a piece out of an intermediate result, which no recipe covers")
        return self.from_view(views.sliced(handle.view, dim, start, length, step))

    def select(self, handle: Handle, dim: int, index: int) -> Handle:
        if handle.view is None:
            raise self.refuse("takes an entry of an intermediate result, which no recipe covers")
        return self.from_view(views.selected(handle.view, dim, index % max(handle.shape[dim], 1)))

    @staticmethod
    def from_view(view: Strided) -> Handle:
        return Handle(view.shape, view.dtype, view=view)

    # the end

    def finish(
        self,
        results: Sequence[tuple[str, Handle]],
        leaves: dict[str, Leaf],
        input_names: Sequence[str],
        tuple_output: bool,
    ) -> Program:
        """The program with axes resolved. Raises Unsupported where two axes of one value turned out to be one."""
        handles: list[tuple[str, Handle]] = []
        stored: dict[int, tuple[int | None, ...]] = {}
        for name, handle in results:
            handle = self._result(name, handle)
            axes = tuple(axis for axis in handle.dims if axis is not None)
            if stored.setdefault(handle.node, axes) != axes:  # the same values in another order
                handle = self._op("copy", [handle], handle.dtype)
            handles.append((name, handle))
        self._unite_reductions()
        resolved = {node_id: self._resolve(node) for node_id, node in self.nodes.items()}
        outputs = tuple(
            Output(
                handle.node,
                tuple(self._find(axis) for axis in handle.dims if axis is not None),
                handle.shape,
                handle.dtype,
                name,
            )
            for name, handle in handles
        )
        cols = self._columns(resolved)
        computed = [node.axes for node in resolved.values() if node.kind != "load"]
        order = merged_axes([*computed, *(node.axes for node in resolved.values())])
        program = Program(
            nodes=resolved,
            sizes={axis: self._size[axis] for axis in order},
            size_names={axis: self._name[axis] for axis in order},
            rows=tuple(axis for axis in order if axis not in cols),
            cols=cols,
            outputs=outputs,
            leaves=leaves,
            input_names=tuple(input_names),
            tuple_output=tuple_output,
            composites=dict(self.composites),
        )
        return _without_duplicates(program)

    def _unite_reductions(self) -> None:
        """Reductions of equal sizes walk the same columns, also where nothing else relates their operands."""
        reductions = list(self._reduced.values())
        for axes in reductions[1:]:
            if [self._size[axis] for axis in axes] == [self._size[axis] for axis in reductions[0]]:
                for mine, first in zip(axes, reductions[0], strict=True):
                    self._unite(mine, first)

    def _result(self, name: str, handle: Handle) -> Handle:
        self.origin, self.op_name = name, "the output"
        if handle.dtype not in SUPPORTED_DTYPES:
            raise self.refuse(f"is {handle.dtype}; recipes know {', '.join(SUPPORTED_DTYPES)}")
        handle = self.loaded(handle)
        kind = self.nodes[handle.node].kind
        own = {axis for axis in self._node_dims[handle.node] if axis is not None}
        if kind in ("op", "reduce") and own == {axis for axis in handle.dims if axis is not None}:
            return handle
        return self.full(handle)

    def _resolve(self, node: Node) -> Node:
        axes = tuple(self._find(axis) for axis in self._node_dims[node.id] if axis is not None)
        if len(set(axes)) != len(axes):
            raise Unsupported(
                node.origin or node.op, "combines two dimensions of one value, which no recipe covers"
            )
        return replace(node, axes=axes)

    def _columns(self, resolved: dict[int, Node]) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for node_id, axes in self._reduced.items():
            node = resolved[node_id]
            reduced = {self._find(axis) for axis in axes}
            argument = resolved[node.args[0]]
            ordered = tuple(axis for axis in argument.axes if axis in reduced)
            if found and set(found) != reduced:
                raise Unsupported(node.origin, "reduces over other dimensions than the reduction before it")
            if argument.axes[len(argument.axes) - len(ordered) :] != ordered:
                raise Unsupported(node.origin, "reduces over dimensions that are not the last ones")
            found = found or ordered
        return found


def _category(dtype: str) -> int:
    return {"bool": 0, "int32": 1, "int64": 1}.get(dtype, 2)


def _without_duplicates(program: Program) -> Program:
    """Equal loads, numbers and expressions become one node. Their axes are known only at the end."""
    same: dict[int, int] = {}
    seen: dict[tuple[Any, ...], int] = {}
    nodes: dict[int, Node] = {}
    for node in program.nodes.values():
        args = tuple(same[arg] for arg in node.args)
        value = repr(node.value) if isinstance(node.value, float) and math.isnan(node.value) else node.value
        key = (
            node.kind, node.op, args, node.dtype, node.axes, node.strides, node.offset, type(node.value), value,
        )  # fmt: skip
        same[node.id] = seen.setdefault(key, node.id)
        if same[node.id] == node.id:
            nodes[node.id] = replace(node, args=args)
    outputs = tuple(replace(output, node=same[output.node]) for output in program.outputs)
    return replace(program, outputs=outputs).replace_nodes(nodes)
