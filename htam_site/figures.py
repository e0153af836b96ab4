"""How numbers read: three significant digits, a unit, doubt beside every ratio.

`static/js/shared/format.js` is the same for the browser; a test compares the two.
"""

from __future__ import annotations

import math
from datetime import datetime

DASH = "\N{EN DASH}"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1230."""
    if not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def duration_us(microseconds: float | None) -> str:
    """A time given in microseconds: ``12.3 µs``, ``4.56 ms``, ``1.20 s``."""
    if microseconds is None:
        return DASH
    if microseconds < 1e3:
        return f"{significant(microseconds)} µs"
    if microseconds < 1e6:
        return f"{significant(microseconds / 1e3)} ms"
    return f"{significant(microseconds / 1e6)} s"


def speedup(value: float | None) -> str:
    """``1.84x``."""
    return DASH if value is None else f"{value:.{_ratio_places(value)}f}x"


def speedup_interval(low: float | None, high: float | None, value: float) -> str:
    """``[1.79, 1.90]`` with the decimals of its ratio ``value``, or nothing when unknown."""
    if low is None or high is None:
        return ""
    places = _ratio_places(value)
    return f"[{low:.{places}f}, {high:.{places}f}]"


def _ratio_places(value: float) -> int:
    return 2 if value < 10 else 1


def inside_noise(low: float | None, high: float | None) -> bool:
    """Whether the interval of a speed-up contains 1, so that it says nothing."""
    return low is None or high is None or low <= 1.0 <= high


def size_bytes(count: float | None) -> str:
    """Bytes in powers of 1000, as device peaks are given: ``1.50 MB``."""
    if count is None:
        return DASH
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{significant(count)} {unit}"
        count /= 1000
    return f"{significant(count)} TB"


def quantity(value: float | None, unit: str = "") -> str:
    """A large count with an SI prefix: ``67.1 MFLOP``, ``1.20 T``."""
    if value is None:
        return DASH
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{significant(value / scale)} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def relative(moment: datetime, now: datetime) -> str:
    """``just now``, ``12 s ago``, ``5 min ago``, ``3 h ago``, or the date."""
    seconds = (now - moment).total_seconds()
    if seconds < 10:
        return "just now"
    if seconds < 60:
        return f"{int(seconds)} s ago"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h ago"
    return f"{moment:%Y-%m-%d}"
