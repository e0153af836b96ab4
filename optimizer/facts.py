"""Facts of the state s_t that an evaluation or a graph shows, for the loop and the recorder. Plain Python."""

from __future__ import annotations

from typing import Any

SMALL_LAUNCH_DISTANCE = 8.0  # eager time under this many empty launches: the launch dominates
DIRECT_FACTS = ("registers", "spill_bytes", "shared_bytes", "occupancy")


def measured_facts(result: dict[str, Any]) -> dict[str, Any]:
    """What the evaluation of a plan (gpu_eval.results.Evaluation as JSON) showed of the device's use.

    What is not known is left out.
    """
    device = result.get("device") or {}
    kernels = result.get("kernels") or []
    found: dict[str, Any] = {
        "bottleneck": result.get("bottleneck") or "unknown",
        "bandwidth_fraction": share(result.get("achieved_gbs"), device.get("peak_bandwidth_gbs")),
        "flop_fraction": share(result.get("achieved_gflops"), device.get("peak_fp32_gflops")),
        "launches": sum(kernel["launches"] for kernel in kernels) + len(result.get("library_calls") or []),
        "kernels": len(kernels),
        "uses_library": bool(result.get("library_calls")),
    }
    for name in DIRECT_FACTS:
        values = [kernel[name] for kernel in kernels if kernel.get(name) is not None]
        if values:
            found[name] = min(values) if name == "occupancy" else max(values)
    return {name: value for name, value in found.items() if value is not None}


def share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def dtype_of(graph: dict[str, Any]) -> str:
    """The dtype of the first floating-point input of a captured graph; of the first input where none is."""
    dtypes = [item["dtype"] for item in graph["inputs"] if item.get("dtype")]
    floating = [dtype for dtype in dtypes if "float" in dtype]
    return (floating or dtypes or ["float32"])[0]
