"""An evaluation read aloud: what its numbers mean, in sentences and shares of the device's peaks.

Works on stored results (gpu_eval.results.Evaluation as JSON) of any age: what an old one lacks is left out. The
evaluation panel, REST and the state that proposers read all say it in these words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from htam_site.figures import duration_us, percent, quantity, significant, size_bytes

Result = dict[str, Any]

SANDBOXES = {
    "bubblewrap": "bubblewrap: no network, read-only system, own processes, scratch only",
    "unshare": "unshare: no network and own processes, without a file system of its own",
    "none": "none: the candidate ran with this user's rights",
}
CONDITIONS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("sm_clock_mhz", "Core clock", lambda value: f"{value:.0f} MHz"),
    ("memory_clock_mhz", "Memory clock", lambda value: f"{value:.0f} MHz"),
    ("temperature_c", "Temperature", lambda value: f"{value:.0f} °C"),
    ("power_w", "Power", lambda value: f"{value:.0f} W"),
    ("other_processes", "Other processes on the device", lambda value: f"{value:.0f}"),
    ("load", "Load a core", lambda value: f"{value:.2f}"),
)
THROTTLED = 0.95  # of the clock before: below this the device slowed down while it was measured
CROWDED = 1.0  # runnable threads a core from which a timing on a CPU shares it


def reading(result: Result) -> dict[str, Any]:
    """What the panel shows beside the bare numbers."""
    return {
        "bottleneck": bottleneck_sentence(result),
        "peaks": peaks(result),
        "floor": floor(result),
        "spread": spread_sentence(result),
        "kernels": [kernel_sentence(kernel) for kernel in result.get("kernels") or []],
        "conditions": conditions(result),
        "disturbance": disturbance(result),
        "facts": facts(result),
    }


def peaks(result: Result) -> list[dict[str, Any]]:
    """Achieved bandwidth and rate beside the device's peaks: ``{"name", "achieved", "peak", "kind", "share"}``;
    ``kind`` is "measured" or "theoretical", ``share`` is None where the device tells no peak."""
    device = result.get("device") or {}
    measured = "measured" if device.get("peaks_measured") else "theoretical"
    found = []
    for name, achieved, peak, unit in (
        ("Memory bandwidth", result.get("achieved_gbs"), device.get("peak_bandwidth_gbs"), "B/s"),
        ("fp32 rate", result.get("achieved_gflops"), device.get("peak_fp32_gflops"), "FLOP/s"),
    ):
        if achieved is not None:
            found.append(
                {
                    "name": name,
                    "achieved": quantity(achieved * 1e9, unit),
                    "peak": quantity(peak * 1e9, unit) if peak else "",
                    "kind": measured,
                    "share": share(achieved, peak),
                }
            )
    return found


def bottleneck_sentence(result: Result) -> str:
    """``Memory-bound: 3.90 TB/s, 81 % of the 4.80 TB/s peak.``; "" where nothing was timed."""
    if not result.get("candidate"):
        return ""
    device = result.get("device") or {}
    gbs, gflops = result.get("achieved_gbs"), result.get("achieved_gflops")
    kind = result.get("bottleneck") or "unknown"
    if kind == "memory" and gbs is not None:
        return f"Memory-bound: {of_peak(gbs, device.get('peak_bandwidth_gbs'), 'B/s')}."
    if kind == "compute" and gflops is not None:
        return f"Compute-bound: {of_peak(gflops, device.get('peak_fp32_gflops'), 'FLOP/s')}."
    if kind == "launch":
        return launch_sentence(result)
    if kind == "latency":
        busy = [
            f"{what} {percent(part)} of its peak"
            for what, part in (
                ("memory reaches", share(gbs, device.get("peak_bandwidth_gbs"))),
                ("arithmetic", share(gflops, device.get("peak_fp32_gflops"))),
            )
            if part is not None
        ]
        reached = f": {' and '.join(busy)}" if busy else ""
        return f"Latency-bound{reached}; neither is kept busy."
    return "The bottleneck is unknown, since the device tells no peaks."


def launch_sentence(result: Result) -> str:
    median = duration_us(result["candidate"]["median_us"])
    launches = sum(kernel["launches"] for kernel in result.get("kernels") or [])
    cost = result.get("launch_us")
    if cost is None:
        return f"Launch-bound: its {median} are hardly more than launching costs."
    calls = f"{launches} launches" if launches > 1 else "a launch"
    each = " each" if launches > 1 else ""
    return f"Launch-bound: its {median} are hardly more than {calls} of {duration_us(cost)}{each}."


def of_peak(achieved: float, peak: float | None, unit: str) -> str:
    """``3.90 TB/s, 81 % of the 4.80 TB/s peak``; both in giga-units a second."""
    reached = quantity(achieved * 1e9, unit)
    if not peak:
        return reached
    return f"{reached}, {percent(achieved / peak)} of the {quantity(peak * 1e9, unit)} peak"


def floor(result: Result) -> dict[str, Any] | None:
    """The roofline floor and how far the candidate is from it; None where no peak is known."""
    floor_us = result.get("floor_us")
    if not floor_us:
        return None
    median = (result.get("candidate") or {}).get("median_us")
    if not median:
        return {"us": floor_us, "distance": None, "sentence": f"The floor is {duration_us(floor_us)}."}
    distance = median / floor_us
    sentence = f"{significant(distance)} times the roofline floor of {duration_us(floor_us)}"
    if distance < 1:
        sentence = f"Below the roofline floor of {duration_us(floor_us)}: the data stay in a cache"
    return {"us": floor_us, "distance": distance, "sentence": f"{sentence}."}


def spread_sentence(result: Result) -> str:
    """How far the timed calls lie apart, and what the interval of the ratio says."""
    timing = result.get("candidate")
    if not timing:
        return ""
    width = (timing["p90_us"] - timing["p10_us"]) / timing["median_us"] if timing["median_us"] else 0.0
    count = len(timing["samples_us"])
    said = f"{count} timed calls; the middle 80 % of them lie within {percent(width)} of the median."
    low, high = result.get("speedup_low"), result.get("speedup_high")
    if low is None or high is None:
        return said
    if low > 1:
        return f"{said} The whole interval of the ratio lies above 1: faster than PyTorch."
    if high < 1:
        return f"{said} The whole interval of the ratio lies below 1: slower than PyTorch."
    return f"{said} The interval of the ratio contains 1: no difference from PyTorch is shown."


def kernel_sentence(kernel: dict[str, Any]) -> str:
    """``bias_gelu: 32 registers, no spills, 1 KiB shared, occupancy 75 %; the outputs need it``."""
    known = []
    if kernel.get("registers") is not None:
        known.append(f"{kernel['registers']} registers")
    if kernel.get("spill_bytes") is not None:
        spilled = kernel["spill_bytes"]
        known.append(f"{size_bytes(spilled)} spilled" if spilled else "no spills")
    if kernel.get("shared_bytes"):
        known.append(f"{size_bytes(kernel['shared_bytes'])} shared memory")
    if kernel.get("occupancy") is not None:
        known.append(f"occupancy {percent(kernel['occupancy'])}")
    said = ", ".join(known) or "the device tells nothing of it"
    matters = kernel.get("matters")
    need = "" if matters is None else f"; the outputs {'need it' if matters else 'are the same without it'}"
    return f"{kernel['name']}: {said}{need}"


def conditions(result: Result) -> list[dict[str, str]]:
    """Rows of ``{"name", "before", "after"}``; what could not be read at either time is left out."""
    before, after = result.get("before") or {}, result.get("after") or {}
    rows = []
    for name, label, text in CONDITIONS:
        values = [moment.get(name) for moment in (before, after)]
        if any(value is not None for value in values):
            texts = ["" if value is None else text(value) for value in values]
            rows.append({"name": label, "before": texts[0], "after": texts[1]})
    return rows


def disturbance(result: Result) -> str:
    """What around the timing may have spoilt it, else ""."""
    before, after = result.get("before") or {}, result.get("after") or {}
    said = []
    if max(before.get("other_processes") or 0, after.get("other_processes") or 0):
        said.append("Other processes used the device meanwhile.")
    clocks = before.get("sm_clock_mhz"), after.get("sm_clock_mhz")
    if clocks[0] and clocks[1] and clocks[1] < THROTTLED * clocks[0]:
        said.append(f"The core clock fell by {percent(1 - clocks[1] / clocks[0])}.")
    on_cpu = (result.get("device") or {}).get("kind") == "opencl"
    if on_cpu and (before.get("load") or 0) > CROWDED:
        said.append("Other programs kept the processor busy.")
    return " ".join(said)


def failing_check(result: Result) -> dict[str, Any] | None:
    """The check that decided a failure: the first that did not pass."""
    return next((check for check in result.get("checks") or [] if not check["passed"]), None)


def facts(result: Result) -> list[dict[str, str]]:
    """How the verdict was reached, as rows of ``{"name", "text"}``."""
    device, policy = result.get("device") or {}, result.get("policy") or {}
    rows = [
        ("Device", device.get("name")),
        ("Sandbox", SANDBOXES.get(result.get("sandbox") or "", result.get("sandbox"))),
        ("Host code", "a foreign module: untrusted host code ran" if result.get("untrusted") else None),
        ("Checker", f"version {result['checker']}" if result.get("checker") else "before versions were kept"),
        ("Compiler", compiler(result)),
        ("Clock", result.get("clock")),
        ("Launch of nothing", optional_us(result.get("launch_us"))),
        ("prepare", optional_us(result.get("prepare_us"))),
        ("Library calls", library(result, policy)),
        ("Device globals", ", ".join(result.get("device_globals") or [])),
        ("Precision", policy.get("precision")),
        ("Protocol", policy.get("protocol")),
        ("Sizes", policy.get("preset")),
        ("Asked for", wanted(policy)),
        ("Seed", str(result["seed"]) if "seed" in result else None),
        ("Phases", joined(result.get("phase_seconds"), lambda value: f"{value:.2f} s")),
        ("Versions", joined(result.get("versions"), str)),
        ("Operator hash", (result.get("operator_hash") or "")[:12]),
        ("Plan hash", (result.get("candidate_hash") or "")[:12]),
    ]
    return [{"name": name, "text": text} for name, text in rows if text]


def compiler(result: Result) -> str:
    name = result.get("compiler") or ""
    if not name:
        return ""
    return f"{name}, {'from the cache' if result.get('compile_cached') else 'compiled afresh'}"


def library(result: Result, policy: dict[str, Any]) -> str:
    if calls := result.get("library_calls"):
        return ", ".join(calls)
    return "forbidden" if policy.get("library") == "forbid" else "none"


def wanted(policy: dict[str, Any]) -> str:
    if "correctness_rounds" not in policy:
        return ""
    return f"{policy['correctness_rounds']} rounds of checks, up to {policy.get('timed_calls')} timed calls"


def joined(values: dict[str, Any] | None, text: Callable[[Any], str]) -> str:
    return ", ".join(f"{name} {text(value)}" for name, value in (values or {}).items())


def optional_us(value: float | None) -> str:
    return "" if value is None else duration_us(value)


def share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
