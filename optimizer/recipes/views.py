"""Strided views of operator inputs: the same rules as torch's, on plain tuples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.recipes.ir import contiguous_strides


@dataclass(frozen=True)
class Strided:
    """A view of a leaf. ``names`` says how the plan writes each dimension's size, "" where it cannot."""

    leaf: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str
    names: tuple[str, ...]


def whole(leaf: str, shape: Sequence[int], dtype: str, expression: str) -> Strided:
    names = (
        tuple(f"{expression}.shape[{index}]" for index in range(len(shape)))
        if expression
        else ("",) * len(shape)
    )
    return Strided(leaf, tuple(shape), contiguous_strides(shape), 0, dtype, names)


def permuted(view: Strided, order: Sequence[int]) -> Strided:
    return Strided(
        view.leaf,
        tuple(view.shape[dim] for dim in order),
        tuple(view.strides[dim] for dim in order),
        view.offset,
        view.dtype,
        tuple(view.names[dim] for dim in order),
    )


def sliced(view: Strided, dim: int, start: int, length: int, step: int = 1) -> Strided:
    shape, strides, names = list(view.shape), list(view.strides), list(view.names)
    offset = view.offset + start * strides[dim]
    if length != shape[dim]:
        names[dim] = ""
    shape[dim], strides[dim] = length, strides[dim] * step
    return Strided(view.leaf, tuple(shape), tuple(strides), offset, view.dtype, tuple(names))


def selected(view: Strided, dim: int, index: int) -> Strided:
    keep = [position for position in range(len(view.shape)) if position != dim]
    return permuted(
        Strided(
            view.leaf,
            view.shape,
            view.strides,
            view.offset + index * view.strides[dim],
            view.dtype,
            view.names,
        ),
        keep,
    )


def expanded(view: Strided, shape: Sequence[int]) -> Strided:
    """Broadcast to ``shape`` (-1 keeps a size)."""
    extra = len(shape) - len(view.shape)
    sizes: list[int] = []
    strides: list[int] = []
    names: list[str] = []
    for position, wanted in enumerate(shape):
        own = position - extra
        same = own >= 0 and wanted in (-1, view.shape[own])
        sizes.append(view.shape[own] if same else wanted)
        strides.append(view.strides[own] if same else 0)
        names.append(view.names[own] if same else "")
    return Strided(view.leaf, tuple(sizes), tuple(strides), view.offset, view.dtype, tuple(names))


def reshaped(view: Strided, shape: Sequence[int]) -> Strided | None:
    """The view with another shape, or None where strides cannot say it (torch would copy)."""
    if math.prod(shape) == 0:
        return Strided(
            view.leaf, tuple(shape), contiguous_strides(shape), view.offset, view.dtype, ("",) * len(shape)
        )
    chunks = _contiguous_chunks(view)
    strides = [0] * len(shape)
    names = [""] * len(shape)
    dim = len(shape) - 1
    for size, stride, sources in reversed(chunks):
        covered = 1
        while dim >= 0 and (covered < size or shape[dim] == 1):
            strides[dim] = covered * stride
            match = [name for own, name in sources if own == shape[dim]]
            names[dim] = match[0] if len(match) == 1 else ""
            covered *= shape[dim]
            dim -= 1
        if covered != size:
            return None
    if any(shape[position] != 1 for position in range(dim + 1)):
        return None
    return Strided(view.leaf, tuple(shape), tuple(strides), view.offset, view.dtype, tuple(names))


def _contiguous_chunks(view: Strided) -> list[tuple[int, int, list[tuple[int, str]]]]:
    """Runs of dimensions that lie as one: (elements, innermost stride, sizes with names), outermost first."""
    chunks: list[tuple[int, int, list[tuple[int, str]]]] = []
    for size, stride, name in zip(view.shape, view.strides, view.names, strict=True):
        if size == 1:
            continue
        if chunks and chunks[-1][1] == stride * size:
            before, _, sources = chunks[-1]
            chunks[-1] = (before * size, stride, [*sources, (size, name)])
        else:
            chunks.append((size, stride, [(size, name)]))
    return chunks
