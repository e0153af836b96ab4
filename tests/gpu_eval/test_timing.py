"""The arithmetic of speed-ups, limits and roofline floors."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_eval import timing
from gpu_eval.limits import DEFAULT_LIMITS, Limits
from gpu_eval.results import DeviceFacts
from gpu_eval.roofline import Work, bottleneck, floor_us, too_fast

times = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40)
pairs = st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=40)
DEVICE = DeviceFacts("cuda", "test", 100, peak_bandwidth_gbs=1000.0, peak_fp32_gflops=10000.0)


@given(pairs, st.integers(0, 9), st.booleans())
@settings(max_examples=25, deadline=None)
def test_interval_holds_the_ratio_and_repeats(
    data: list[tuple[float, float]], seed: int, means: bool
) -> None:
    """Protects "faster": the interval encloses the ratio and depends on the data and seed alone."""
    before, after = zip(*data, strict=True)
    ratio = timing.speedup(before, after, seed, means=means)
    assert 0 < ratio.low <= ratio.median <= ratio.high
    assert ratio == timing.speedup(before, after, seed, means=means)


@given(times, st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_equal_times_are_no_speed_up(values: list[float], seed: int) -> None:
    """Protects against calling a copy of the baseline faster."""
    ratio = timing.speedup(values, values, seed)
    assert (ratio.low, ratio.median, ratio.high) == (1.0, 1.0, 1.0)


@given(pairs, st.floats(1.5, 8))
@settings(max_examples=25, deadline=None)
def test_speed_up_scales_with_the_baseline(data: list[tuple[float, float]], factor: float) -> None:
    """Protects the direction of the ratio: a slower baseline means a larger speed-up."""
    before, after = zip(*data, strict=True)
    plain = timing.speedup(before, after, 1)
    slower = timing.speedup([value * factor for value in before], after, 1)
    assert slower.median == pytest.approx(plain.median * factor)
    assert slower.low == pytest.approx(plain.low * factor)


@given(times)
def test_median_lies_between_the_extremes(values: list[float]) -> None:
    """Protects the summary: percentiles are ordered and inside the data."""
    summary = timing.summarise(values)
    assert min(values) <= summary.p10_us <= summary.median_us <= summary.p90_us <= max(values)


def test_noise_around_one_does_not_clear_one() -> None:
    """Protects against noise taken for progress."""
    before = [10.0, 12.0, 9.0, 11.0, 10.5, 8.0, 13.0, 10.0, 9.5, 11.5]
    after = [10.5, 10.0, 11.0, 9.0, 10.0, 9.5, 12.0, 11.0, 10.0, 10.2]
    ratio = timing.speedup(before, after, 0)
    assert ratio.low < 1 < ratio.high


@pytest.mark.parametrize(("before", "after"), [([], []), ([1.0], []), ([1.0], [0.0]), ([-1.0], [1.0])])
def test_times_that_make_no_ratio_are_refused(before: list[float], after: list[float]) -> None:
    """Protects stored results from infinities and zeros."""
    with pytest.raises(ValueError, match="times must"):
        timing.speedup(before, after, 0)


def test_inner_limits_stay_below_outer_ones() -> None:
    """Protects against two deadlines of which the outer one is shorter."""
    assert DEFAULT_LIMITS.evaluation_s < DEFAULT_LIMITS.task_s
    with pytest.raises(ValueError, match="run_s"):
        Limits(run_s=500.0)
    with pytest.raises(ValueError, match="evaluation_s"):
        dataclasses.replace(DEFAULT_LIMITS, evaluation_s=1000.0)


def test_floor_is_the_slower_of_memory_and_arithmetic() -> None:
    """Protects the floor's units: bytes over GB/s and FLOPs over GFLOP/s, in microseconds."""
    assert floor_us(Work(500_000, 500_000, 0), DEVICE) == pytest.approx(1.0)
    assert floor_us(Work(0, 0, 50_000_000), DEVICE) == pytest.approx(5.0)
    assert floor_us(Work(1, 1, 1), dataclasses.replace(DEVICE, peak_bandwidth_gbs=None)) == pytest.approx(
        1e-7
    )


def test_impossible_times_are_quarantined() -> None:
    """Protects "best" from times that no device can reach, and honest times near the floor from suspicion."""
    work = Work(500_000_000, 500_000_000, 0)
    assert too_fast(100.0, 3000.0, work, DEVICE, False)
    assert too_fast(0.0, 3000.0, work, DEVICE, False)
    assert not too_fast(950.0, 3000.0, work, DEVICE, False)
    assert not too_fast(
        100.0, 200.0, work, DEVICE, False
    )  # PyTorch is below the floor too: the floor is wrong


def test_fast_units_are_not_held_to_the_fp32_peak() -> None:
    """Protects TF32 and half-precision work from a floor that only fp32 has."""
    work = Work(1000, 1000, 10_000_000_000)
    assert too_fast(500.0, 3000.0, work, DEVICE, False)
    assert not too_fast(500.0, 3000.0, work, DEVICE, True)


def test_bottleneck_in_words() -> None:
    """Protects the state that directions are chosen by."""
    memory, compute = Work(10**9, 0, 0), Work(0, 0, 10**10)
    assert bottleneck(1100.0, 5.0, 1, memory, DEVICE) == "memory"
    assert bottleneck(1100.0, 5.0, 1, compute, DEVICE) == "compute"
    assert bottleneck(9000.0, 5.0, 1, memory, DEVICE) == "latency"
    assert bottleneck(9.0, 5.0, 1, Work(1000, 0, 0), DEVICE) == "launch"
    assert bottleneck(900.0, 5.0, 1, memory, DeviceFacts("opencl", "x", 1)) == "unknown"
