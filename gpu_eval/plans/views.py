"""Views as arithmetic on (offset, shape, strides). A ViewRefused has one sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from gpu_eval.plans.program import SlotView
from gpu_eval.plans.specs import contiguous_strides


class ViewRefused(ValueError):
    """A view that does not exist."""


def whole(slot: int, shape: tuple[int, ...], dtype: str) -> SlotView:
    """The contiguous view of a whole slot."""
    return SlotView(slot, 0, shape, contiguous_strides(shape), dtype)


def transpose(view: SlotView, first: int, second: int) -> SlotView:
    """``view`` with two dimensions exchanged; negative ones count from the end."""
    first, second = _dimension(view, first), _dimension(view, second)
    order = list(range(len(view.shape)))
    order[first], order[second] = order[second], order[first]
    shape = tuple(view.shape[index] for index in order)
    return dataclasses.replace(view, shape=shape, strides=tuple(view.strides[index] for index in order))


def slice_dim(view: SlotView, dim: int, start: int | None, stop: int | None) -> SlotView:
    """Elements ``start`` to ``stop`` of one dimension, clamped and counted from the end as in Python."""
    dim = _dimension(view, dim)
    low, high, _ = slice(start, stop).indices(view.shape[dim])
    shape = list(view.shape)
    shape[dim] = max(high - low, 0)
    return dataclasses.replace(view, offset=view.offset + low * view.strides[dim], shape=tuple(shape))


def reshape(view: SlotView, shape: Sequence[int]) -> SlotView:
    """The same elements in another shape, without a copy; one size may be -1."""
    target = _resolve(view, shape)
    strides = _viewed_strides(view, target)
    if strides is None:
        raise ViewRefused(
            f"a view of shape {tuple(view.shape)} with strides {view.strides} cannot be reshaped to {target} "
            "without a copy; call contiguous() first"
        )
    return dataclasses.replace(view, shape=target, strides=strides)


def _dimension(view: SlotView, dim: int) -> int:
    ndim = len(view.shape)
    if not -ndim <= dim < ndim:
        raise ViewRefused(f"dimension {dim} does not exist in a tensor of {ndim} dimensions")
    return dim % ndim


def _resolve(view: SlotView, shape: Sequence[int]) -> tuple[int, ...]:
    unknown = [index for index, size in enumerate(shape) if size == -1]
    if len(unknown) > 1 or any(size < -1 for size in shape):
        raise ViewRefused(f"reshape to {tuple(shape)}: sizes are not negative, and one may be -1")
    target = list(shape)
    if unknown:
        rest = math.prod(size for size in shape if size != -1)
        if rest == 0 or view.numel % rest:
            raise ViewRefused(f"{view.numel} elements cannot take the shape {tuple(shape)}")
        target[unknown[0]] = view.numel // rest
    if math.prod(target) != view.numel:
        raise ViewRefused(f"{view.numel} elements cannot take the shape {tuple(shape)}")
    return tuple(target)


def _viewed_strides(view: SlotView, target: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of ``target`` over the same elements, or None where that needs a copy."""
    if view.numel == 0 or view.contiguous:
        return contiguous_strides(target)
    merged = _merged(view)
    strides: list[int] = []
    block, left = len(merged) - 1, merged[-1][0]
    step = merged[-1][1]
    for size in reversed(target):
        if size == 1:
            strides.append(step)
            continue
        if left == 1:
            block -= 1
            left, step = merged[block]
        if left % size:
            return None
        strides.append(step)
        step, left = step * size, left // size
    return tuple(reversed(strides))


def _merged(view: SlotView) -> list[tuple[int, int]]:
    """(size, stride) of the view's dimensions, neighbours joined where they lie without a gap."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged or [(1, 1)]


def coalesced(view: SlotView) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the view with as few dimensions as its layout allows, for copying."""
    merged = _merged(view)
    return tuple(size for size, _ in merged), tuple(stride for _, stride in merged)
