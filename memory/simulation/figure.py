"""The comparison as one SVG: best-so-far curves with their intervals, and each policy beside the full one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1040, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 600, 48, 400  # of the curves
BARS_LEFT, BARS_RIGHT = 740, 1010
# Okabe and Ito's colours: told apart by people who see colours differently.
COLOURS = {
    "full": "#0072b2", "no-hierarchy": "#d55e00", "no-prefix": "#009e73", "no-local-memory": "#cc79a7",
    "frozen": "#e69f00", "random": "#555555", "uniform": "#999999",
}  # fmt: skip


def draw(summary: dict[str, Any], title: str) -> str:
    """The figure of `memory.simulation.curves.summarise`."""
    policies = summary["policies"]
    curves = {name: policy["curve"] for name, policy in policies.items()}
    top = max(point["high"] for curve in curves.values() for point in curve)
    bottom = min(1.0, min(point["low"] for curve in curves.values() for point in curve))
    steps = len(next(iter(curves.values()))) - 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 26, title, weight="600"),
        *axes(bottom, top, steps),
    ]
    for name, curve in curves.items():
        parts += lines(name, curve, bottom, top, steps)
    parts += labels(curves, bottom, top)
    parts += bars(policies)
    return "\n".join([*parts, "</svg>"]) + "\n"


def axes(bottom: float, top: float, steps: int) -> list[str]:
    found = []
    for value in ticks(bottom, top):
        y = height(value, bottom, top)
        found.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        found.append(text(LEFT - 8, y + 4, f"{value:g}x", anchor="end"))
    for step in range(steps + 1):
        found.append(text(across(step, steps), BOTTOM + 20, str(step), anchor="middle"))
    found.append(text((LEFT + RIGHT) / 2, BOTTOM + 42, "steps of a run", anchor="middle"))
    return found


def lines(name: str, curve: Sequence[dict[str, float]], bottom: float, top: float, steps: int) -> list[str]:
    colour = COLOURS.get(name, "#000000")

    def points(field: str) -> list[str]:
        return [
            f"{across(point['step'], steps):.1f},{height(point[field], bottom, top):.1f}" for point in curve
        ]

    band = [*points("high"), *reversed(points("low"))]
    dashes = "" if name == "full" else ' stroke-dasharray="6 3"' if name in {"random", "uniform"} else ""
    return [
        f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity="0.18"/>',
        f'<polyline points="{" ".join(points("speedup"))}" fill="none" stroke="{colour}" '
        f'stroke-width="{2.6 if name == "full" else 1.6}"{dashes}/>',
    ]


def labels(curves: dict[str, Sequence[dict[str, float]]], bottom: float, top: float) -> list[str]:
    """The policies' names at the ends of their curves, moved apart where they would touch."""
    wanted = sorted((height(curve[-1]["speedup"], bottom, top), name) for name, curve in curves.items())
    found, last = [], -math.inf
    for y, name in wanted:
        last = max(y, last + 15)
        found.append(text(RIGHT + 6, last + 4, name, colour=COLOURS.get(name, "#000000")))
    return found


def bars(policies: dict[str, Any]) -> list[str]:
    """Dots with intervals over operators: each policy's final speed-up over the full policy's."""
    rows = [(name, policy["against"]["final"]) for name, policy in policies.items() if "against" in policy]
    if not rows:
        return []
    low = min([0.98, *(row["low"] for _, row in rows)])
    high = max([1.02, *(row["high"] for _, row in rows)])

    def x(value: float) -> float:
        return BARS_LEFT + (value - low) / (high - low) * (BARS_RIGHT - BARS_LEFT)

    found = [
        text(BARS_LEFT, TOP - 4, "final speed-up over that of full", weight="600"),
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{TOP + 6}" y2="{BOTTOM}" stroke="#0072b2"/>',
    ]
    for index, (name, row) in enumerate(rows):
        y = TOP + 40 + index * (BOTTOM - TOP - 60) / max(len(rows) - 1, 1)
        colour = COLOURS.get(name, "#000000")
        found += [
            f'<line x1="{x(row["low"]):.1f}" x2="{x(row["high"]):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-width="2"/>',
            f'<circle cx="{x(row["ratio"]):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>',
            text(
                BARS_LEFT, y - 9, f"{name} {row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]", size=12
            ),
        ]
    for value in (low, 1.0, high):
        found.append(text(x(value), BOTTOM + 20, f"{value:.2f}", anchor="middle"))
    found.append(text((BARS_LEFT + BARS_RIGHT) / 2, BOTTOM + 42, "95 % over operators", anchor="middle"))
    return found


def text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#222222", weight: str = "400",
    size: int = 13,
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}" '
        f'font-size="{size}">{escape(words)}</text>'
    )


def ticks(bottom: float, top: float) -> list[float]:
    """Four to nine round values within the range."""
    raw = (top - bottom) / 6 or 1.0
    size = 10 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    first = math.ceil(bottom / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(top / step + 1e-9) + 1)]


def across(step: float, steps: int) -> float:
    return LEFT + step / steps * (RIGHT - LEFT)


def height(value: float, bottom: float, top: float) -> float:
    return BOTTOM - (value - bottom) / ((top - bottom) or 1.0) * (BOTTOM - TOP)
