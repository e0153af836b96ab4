"""How numbers read: three significant digits, a unit, doubt beside a ratio. `static/js/format.js` matches."""

from __future__ import annotations

import math

DASH = "\N{EN DASH}"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1230."""
    if not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{places}f}"


def duration_us(microseconds: float | None) -> str:
    """A time given in microseconds, as us, ms or s."""
    if microseconds is None:
        return DASH
    if microseconds < 999.5:
        return f"{significant(microseconds)} us"
    if microseconds < 999_500:
        return f"{significant(microseconds / 1e3)} ms"
    return f"{significant(microseconds / 1e6)} s"


def ratio(value: float | None) -> str:
    """A speed-up: ``1.84x``."""
    return DASH if value is None else f"{ratio_digits(value)}x"


def ratio_digits(value: float) -> str:
    return f"{value:.2f}" if value < 100 else significant(value)


def interval(low: float | None, high: float | None) -> str:
    """``[1.79, 1.90]``, or nothing when unknown."""
    if low is None or high is None:
        return ""
    return f"[{ratio_digits(low)}, {ratio_digits(high)}]"


def inside_noise(low: float | None, high: float | None) -> bool:
    """Whether the interval of a speed-up contains 1, so that it says nothing."""
    return low is None or high is None or low <= 1.0 <= high


def size_bytes(count: float | None) -> str:
    """Bytes in binary units: ``1.50 MiB``."""
    if count is None:
        return DASH
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{significant(count)} {unit}"
        count /= 1024
    return f"{significant(count)} TiB"


def quantity(value: float | None, unit: str = "") -> str:
    """A large count with an SI prefix: ``67.1 MFLOP``, ``1.20 T``."""
    if value is None:
        return DASH
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{significant(value / scale)} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def percent(share: float | None) -> str:
    """0..1 as ``42 %``; one decimal below ten per cent."""
    if share is None:
        return DASH
    hundred = share * 100
    return f"{hundred:.1f} %" if 0 < hundred < 10 else f"{hundred:.0f} %"


def ago(seconds: float) -> str:
    """Time since something, coarse: ``12 s ago``, ``5 min ago``, ``3 h ago``, ``2 d ago``."""
    if seconds < 5:
        return "just now"
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    return f"{seconds // 86_400:.0f} d ago"
