"""Small tools for writing C: indented lines, expressions with precedence, names that C does not own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ATOM, UNARY, PRODUCT, SUM, COMPARE, EQUAL, BIT_AND, BIT_XOR, BIT_OR, TERNARY = 10, 9, 8, 7, 6, 5, 4, 3, 2, 1

C_NAMES = set(
    "auto break case char const continue default do double else enum extern float for goto half if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "bool true false kernel global local constant private size_t uint uchar ushort ulong this class new delete "
    "template typename operator public protected namespace and or xor not "
    "abs acos acosh asin asinh atan atan2 atanh ceil clamp copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma "
    "fmax fmin fmod gelu log log10 log1p log2 max min mix normalize pow remainder rint round rsqrt select sign sin "
    "sinh sqrt step tan tanh trunc isnan isinf length distance dot cross mad any all signbit threadIdx blockIdx "
    "blockDim gridDim NAN INFINITY M_PI main near far vec_step mul24 mad24 prefetch barrier index y0 y1 j0 j1 gamma "
    "row rows col cols lane i j j0 k n a c e p t v item first last first_row last_row start stop stride part parts "
    "piece unit units warp there kept scratch base state row0 row1 row2 row3".split()
)


@dataclass(frozen=True)
class Expr:
    """C text with its binding strength. ``uniform``: the same for every element of a vector; ``kind``: dtype."""

    text: str
    strength: int = ATOM
    uniform: bool = False

    def at(self, strength: int) -> str:
        """The text, in parentheses where it binds less tightly than ``strength``."""
        return self.text if self.strength >= strength else f"({self.text})"


class Code:
    """Lines at the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def add(self, line: str = "") -> None:
        self.lines.append("    " * self._depth + line if line else "")

    def comment(self, text: str) -> None:
        self.add(f"// {text}")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.add(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.add(tail)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        return "\n".join(self.lines)


class Names:
    """Hands out C identifiers, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, wish: str) -> str:
        name = re.sub(r"\W", "_", wish, flags=re.ASCII).strip("_") or "value"
        if name[0].isdigit():
            name = f"v{name}"
        if name in C_NAMES:
            name = f"{name}_v"
        candidate, count = name, 2
        while candidate in self._taken:
            candidate, count = f"{name}_{count}", count + 1
        self._taken.add(candidate)
        return candidate

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names handed out inside are free again afterwards: a C block."""
        before = set(self._taken)
        yield
        self._taken = before


def number(value: float | int | bool, dtype: str) -> str:
    """A literal that reads back as the nearest value of ``dtype``."""
    if dtype == "bool":
        return "1" if value else "0"
    if dtype in ("int32", "int64"):
        return str(int(value)) + ("L" if dtype == "int64" else "")
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float64":
        return _with_point(repr(value))
    return _shortest_float32(value) + "f"


def _with_point(text: str) -> str:
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _shortest_float32(value: float) -> str:
    import struct

    try:
        target = struct.pack("f", value)
    except OverflowError:  # beyond float32: C rounds the literal to infinity as torch does
        return _with_point(repr(value))
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("f", float(text)) == target:
                return _with_point(text)
        except OverflowError:
            continue
    return _with_point(f"{value:.9g}")
