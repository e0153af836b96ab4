"""Evaluations read aloud: sentences and shares, also of old results that lack most fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_eval.results import Check, Conditions, DeviceFacts, Evaluation, KernelReport, Timing, Verdict
from optimizer.reading import failing_check, reading

H200 = DeviceFacts("cuda", "NVIDIA H200", 132, peak_bandwidth_gbs=4800.0, peak_fp32_gflops=60_000.0)
TIMED = Evaluation(
    Verdict.CORRECT,
    "",
    H200,
    candidate=Timing(10.0, 9.8, 10.4, [10.0] * 100),
    baseline=Timing(20.0, 19.0, 21.0, [20.0] * 100),
    speedup=2.0,
    speedup_low=1.9,
    speedup_high=2.1,
    faster=True,
    floor_us=8.0,
    achieved_gbs=3900.0,
    achieved_gflops=1200.0,
    bottleneck="memory",
    launch_us=2.5,
)


def read(evaluation: Evaluation = TIMED, **changes: Any) -> dict[str, Any]:
    return reading(replace(evaluation, **changes).to_json())


@pytest.mark.parametrize(
    ("bottleneck", "sentence"),
    [
        ("memory", "Memory-bound: 3.90 TB/s, 81 % of the 4.80 TB/s peak."),
        ("compute", "Compute-bound: 1.20 TFLOP/s, 2.0 % of the 60.0 TFLOP/s peak."),
        ("launch", "Launch-bound: its 10.0 us are hardly more than a launch of 2.50 us."),
        (
            "latency",
            "Latency-bound: memory reaches 81 % of its peak and arithmetic 2.0 % of its peak; "
            "neither is kept busy.",
        ),
        ("unknown", "The bottleneck is unknown, since the device tells no peaks."),
    ],
)
def test_the_bottleneck_is_a_sentence(bottleneck: str, sentence: str) -> None:
    """A number with its unit and its share of the peak, for people and proposers alike."""
    assert read(bottleneck=bottleneck)["bottleneck"] == sentence


def test_peaks_and_floor() -> None:
    """Bars: what was reached, what the device could do, and the share between the two."""
    found = read()
    assert [(row["achieved"], round(row["share"], 3)) for row in found["peaks"]] == [
        ("3.90 TB/s", 0.812),
        ("1.20 TFLOP/s", 0.02),
    ]
    assert (found["peaks"][0]["peak"], found["peaks"][0]["kind"]) == ("4.80 TB/s", "theoretical")
    assert found["floor"]["sentence"] == "1.25 times the roofline floor of 8.00 us."
    assert "cache" in read(floor_us=12.0)["floor"]["sentence"]


def test_a_device_without_peaks() -> None:
    """No share is made up where the device tells no peak."""
    found = read(device=DeviceFacts("opencl", "CPU", 2), floor_us=None)
    assert [row["share"] for row in found["peaks"]] == [None, None]
    assert found["floor"] is None
    assert found["bottleneck"] == "Memory-bound: 3.90 TB/s."


def test_kernels_in_words() -> None:
    """Registers, spills, shared memory, occupancy, and whether the kernel matters."""
    kernel = KernelReport("gelu", 1, [8], [256], 32, 16, 1024, 0.75, False)
    said = (
        "gelu: 32 registers, 16 B spilled, 1.00 KiB shared memory, occupancy 75 %; the outputs are the same"
    )
    assert read(kernels=[kernel])["kernels"] == [said + " without it"]
    unknown = KernelReport("gelu", 1, [8], [256])
    assert read(kernels=[unknown])["kernels"] == ["gelu: the device tells nothing of it"]


def test_conditions_and_what_disturbed() -> None:
    """Clocks before and after side by side; a fall of the clock and other processes are said."""
    found = read(
        before=Conditions(sm_clock_mhz=1980, temperature_c=40, other_processes=0),
        after=Conditions(sm_clock_mhz=1500, temperature_c=61, other_processes=1),
    )
    assert {"name": "Core clock", "before": "1980 MHz", "after": "1500 MHz"} in found["conditions"]
    assert found["disturbance"] == "Other processes used the device meanwhile. The core clock fell by 24 %."
    assert read()["conditions"] == []


def test_how_it_was_judged() -> None:
    """Checker, compiler and cache, sandbox, seed and versions stand beside the verdict."""
    found = read(
        checker=3,
        compiler="nvrtc 13.0",
        compile_cached=True,
        sandbox="none",
        seed=7,
        versions={"torch": "2.11"},
    )
    facts = {row["name"]: row["text"] for row in found["facts"]}
    assert facts["Checker"] == "version 3"
    assert facts["Compiler"] == "nvrtc 13.0, from the cache"
    assert facts["Sandbox"].startswith("none: ")
    assert (facts["Seed"], facts["Versions"]) == ("7", "torch 2.11")
    assert "foreign" in {row["name"]: row["text"] for row in read(untrusted=True)["facts"]}["Host code"]


@pytest.mark.parametrize(
    "stored",
    [
        {"verdict": "correct", "message": ""},
        {"verdict": "wrong", "message": "No.", "checks": [], "device": None, "policy": {}},
        {
            "verdict": "correct",
            "message": "",
            "candidate": {"median_us": 1.0, "p10_us": 1, "p90_us": 1, "samples_us": []},
        },
    ],
)
def test_old_results_still_show(stored: dict[str, Any]) -> None:
    """A result stored before a field existed is read without it."""
    assert reading(stored)["facts"]


def test_the_failing_check_is_found() -> None:
    """The first check that did not hold is what a proposer must mend."""
    checks = [Check("round 1", True), Check("round 2", False, "Off by 3.", {"error": 3.0}), Check("x", False)]
    judged = Evaluation(Verdict.WRONG, "Off by 3.", H200, checks)
    found = failing_check(judged.to_json())
    assert found is not None
    assert (found["name"], found["numbers"]) == ("round 2", {"error": 3.0})
    assert failing_check(TIMED.to_json()) is None
