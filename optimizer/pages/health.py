"""What pages read out of a health report: JSON of the evaluator, so every field may be missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from htam_site import figures
from optimizer.models import HealthReport
from optimizer.recipes import coverage

GATE_TITLES = {
    "zeros_pass": "An all-zero output fails",
    "constant_pass": "A constant output fails",
    "input_passes": "An input itself fails as output",
    "depends_on_input": "The output depends on the input",
    "deterministic": "The reference is deterministic",
    "mutates_inputs": "Forward leaves its inputs unchanged",
    "finite": "The outputs are finite",
    "well_conditioned": "PyTorch's own rounding is small",
    "own_inputs_tell": "Its own inputs tell right from wrong",
    "inputs_matter": "Every input changes the output",
    "fresh_inputs": "Inputs are drawn anew each time",
    "live_work": "All work reaches the output",
}


def shape_of(tensor: dict[str, Any]) -> str:
    """``512x1024``, ``scalar`` for 0-d."""
    return "x".join(str(size) for size in tensor.get("shape") or []) or "scalar"


def shapes_of(tensors: list[dict[str, Any]]) -> str:
    """Distinct shapes with how often they come: ``512x1024 (2), 1024``."""
    counts = Counter(shape_of(tensor) for tensor in tensors)
    return ", ".join(shape if count == 1 else f"{shape} ({count})" for shape, count in counts.items())


def summary(reports: Iterable[HealthReport]) -> dict[str, Any]:
    """What the operator table shows of the newest report; empty where there is none."""
    newest = next(iter(reports), None)
    if newest is None:
        return {}
    report = newest.report
    tensors = [item for item in report.get("inputs", []) if item.get("shape") is not None]
    return {
        "shapes": shapes_of(tensors),
        "dtype": ", ".join(sorted({tensor.get("dtype", "") for tensor in tensors})),
        "eager_us": report.get("eager_us"),
        "floor_us": report.get("floor_us"),
        "device": newest.device_key,
    }


def device_panel(stored: HealthReport) -> dict[str, Any]:
    """One device's health report, ready for the page."""
    report = stored.report
    device = report.get("device") or {}
    return {
        "title": device.get("name") or stored.device_key,
        "kind": stored.device_kind,
        "created_at": stored.created_at,
        "preset": report.get("preset") or "",
        "times": time_rows(report),
        "facts": fact_rows(report),
        "inputs": [tensor_row(item) for item in report.get("inputs", [])],
        "outputs": [tensor_row(item) for item in report.get("outputs", [])],
        "gates": [gate_row(gate) for gate in report.get("gates", [])],
        "sentence": report.get("sentence", ""),
        "coverage": coverage(stored.graph, stored.graph_reason),
    }


FLOOR_HINT = "No kernel can be faster: bytes over bandwidth, FLOPs over rate"


def time_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Eager, torch.compile and the floor, each with its width as a part of the longest."""
    eager, compiled, floor = (report.get(name) for name in ("eager_us", "compile_us", "floor_us"))
    longest = max((value for value in (eager, compiled, floor) if value), default=None)
    return [
        time_row("PyTorch eager", eager, longest),
        time_row("torch.compile", compiled, longest, missing=report.get("compile_note") or figures.DASH),
        time_row("Roofline floor", floor, longest, hint=FLOOR_HINT),
    ]


def time_row(
    label: str, value: float | None, longest: float | None, *, missing: str = figures.DASH, hint: str = ""
) -> dict[str, Any]:
    percent = max(1, round(100 * value / longest)) if value and longest else 0
    text = figures.duration_us(value) if value else missing
    return {"label": label, "text": text, "hint": hint, "percent": percent}


def fact_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    distance = report.get("launch_distance")
    return [
        (
            "Parameters",
            f"{report.get('params_count') or 0:,} ({figures.size_bytes(report.get('params_bytes'))})",
        ),
        ("Work", figures.quantity(report.get("flops"), "FLOP")),
        ("Traffic", figures.size_bytes(report.get("bytes"))),
        ("Memory need", figures.size_bytes(report.get("memory_bytes"))),
        ("Against an empty launch", f"{figures.significant(distance)}x" if distance else figures.DASH),
        ("Precision", report.get("precision") or figures.DASH),
    ]


def tensor_row(item: dict[str, Any]) -> dict[str, str]:
    return {
        "name": item.get("name") or "",
        "shape": shape_of(item) if item.get("shape") is not None else "",
        "dtype": item.get("dtype") or item.get("kind") or "",
    }


def gate_row(gate: dict[str, Any]) -> dict[str, Any]:
    name = gate.get("name", "")
    return {
        "title": GATE_TITLES.get(name, name.replace("_", " ").capitalize()),
        "passed": bool(gate.get("passed")),
        "sentence": gate.get("sentence", ""),
    }
