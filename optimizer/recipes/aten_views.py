"""ATen operations that only look at a tensor in another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optimizer.recipes.builder import Builder, Handle

Entry = Callable[..., Any]


def reshape(b: Builder, x: Handle, *_: Any, shape: Sequence[int]) -> Handle:
    return b.reshape(x, shape)


def expand(b: Builder, x: Handle, *_: Any, shape: Sequence[int], **__: Any) -> Handle:
    return b.expand(x, shape)


def permute(b: Builder, x: Handle, order: Sequence[int], *, shape: Sequence[int]) -> Handle:
    return b.permute(x, [dim % len(x.shape) for dim in order])


def transpose(b: Builder, x: Handle, first: int, second: int, *, shape: Sequence[int]) -> Handle:
    order = list(range(len(x.shape)))
    first, second = first % len(order), second % len(order)
    order[first], order[second] = order[second], order[first]
    return b.permute(x, order)


def t(b: Builder, x: Handle, *, shape: Sequence[int]) -> Handle:
    return b.permute(x, list(reversed(range(len(x.shape)))))


def slice_(
    b: Builder,
    x: Handle,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
    *,
    shape: Sequence[int],
) -> Handle:
    dim %= len(x.shape)
    begin = max(0, _from_end(start or 0, x.shape[dim]))
    return b.slice(x, dim, min(begin, x.shape[dim]), shape[dim], step)


def narrow(b: Builder, x: Handle, dim: int, start: int, length: int, *, shape: Sequence[int]) -> Handle:
    dim %= len(x.shape)
    return b.slice(x, dim, _from_end(start, x.shape[dim]), length)


def select(b: Builder, x: Handle, dim: int, index: int, *, shape: Sequence[int]) -> Handle:
    return b.select(x, dim % len(x.shape), index)


def _from_end(position: int, size: int) -> int:
    return position + size if position < 0 else position


def split(b: Builder, x: Handle, lengths: Any, dim: int = 0, *, shape: Any = None) -> list[Handle]:
    dim %= len(x.shape)
    size = x.shape[dim]
    if isinstance(lengths, int):
        lengths = [min(lengths, size - start) for start in range(0, size, max(lengths, 1))]
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    return [b.slice(x, dim, start, length) for start, length in zip(starts, lengths, strict=True)]


def chunk(b: Builder, x: Handle, pieces: int, dim: int = 0, *, shape: Any = None) -> list[Handle]:
    return split(b, x, -(-x.shape[dim % len(x.shape)] // pieces), dim)


def unbind(b: Builder, x: Handle, dim: int = 0, *, shape: Any = None) -> list[Handle]:
    dim %= len(x.shape)
    return [b.select(x, dim, index) for index in range(x.shape[dim])]


def broadcast_tensors(b: Builder, tensors: list[Handle], *, shape: Sequence[int]) -> list[Handle]:
    return [b.expand(tensor, shape) for tensor in tensors]


VIEWS: dict[str, Entry] = {
    "view": reshape, "reshape": reshape, "_unsafe_view": reshape, "flatten": reshape, "unflatten": reshape,
    "unsqueeze": reshape, "squeeze": reshape, "expand": expand, "expand_as": expand, "broadcast_to": expand,
    "permute": permute, "transpose": transpose, "swapaxes": transpose, "t": t, "numpy_T": t, "slice": slice_,
    "narrow": narrow, "select": select,
}  # fmt: skip
MULTI_VIEWS: dict[str, Entry] = {
    "split": split, "split_with_sizes": split, "chunk": chunk, "unbind": unbind, "broadcast_tensors": broadcast_tensors,
}  # fmt: skip
