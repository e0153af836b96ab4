"""Where the elements of a value lie: axes merged where memory allows it, offsets as C text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Neighbouring axes walked as one. ``size`` in elements."""

    axes: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Access:
    """A tensor as one kernel reads or writes it: pointer name and a stride for each axis (absent: 0)."""

    pointer: str
    dtype: str
    strides: Mapping[int, int]
    offset: int = 0

    def stride(self, span: Span) -> int:
        """The step between neighbours along a span of merged axes."""
        return self.strides.get(span.axes[-1], 0) if span.axes else 0


def merged(axes: Sequence[int], sizes: Mapping[int, int], accesses: Sequence[Access]) -> tuple[Span, ...]:
    """Axes joined into as few spans as every access allows."""
    spans: list[Span] = []
    for axis in axes:
        if spans and all(_adjacent(access, spans[-1].axes[-1], axis, sizes) for access in accesses):
            spans[-1] = Span((*spans[-1].axes, axis), spans[-1].size * sizes[axis])
        else:
            spans.append(Span((axis,), sizes[axis]))
    return tuple(spans)


def _adjacent(access: Access, outer: int, inner: int, sizes: Mapping[int, int]) -> bool:
    return access.strides.get(outer, 0) == access.strides.get(inner, 0) * sizes[inner]


def span_strides(access: Access, spans: Sequence[Span]) -> tuple[int, ...]:
    return tuple(access.stride(span) for span in spans)


def is_linear(access: Access, spans: Sequence[Span]) -> bool:
    """Whether the flat index over all spans is the element's offset."""
    step = 1
    for span in reversed(spans):
        if access.stride(span) != step:
            return False
        step *= span.size
    return access.offset == 0


def offset_text(access: Access, spans: Sequence[Span], coordinates: Sequence[str]) -> str:
    """Offset of an element as C."""
    terms = [
        coordinate if stride == 1 else f"{coordinate} * {stride}"
        for stride, coordinate in zip(span_strides(access, spans), coordinates, strict=True)
        if stride != 0
    ]
    if access.offset:
        terms.append(str(access.offset))
    return " + ".join(terms) or "0"


def coordinate_texts(index: str, spans: Sequence[Span]) -> list[str]:
    """Each span's coordinate from a flat row-major index."""
    texts: list[str] = []
    step = math.prod(span.size for span in spans)
    for position, span in enumerate(spans):
        step = max(step // max(span.size, 1), 1)
        text = index if step == 1 else f"{index} / {step}"
        if position:
            text = f"{text} % {max(span.size, 1)}"
        texts.append(text)
    return texts


def largest_power(limit: int, *counts: int) -> int:
    """The largest power of two up to ``limit`` that divides every count."""
    width = limit
    while width > 1 and any(count % width for count in counts):
        width //= 2
    return width
