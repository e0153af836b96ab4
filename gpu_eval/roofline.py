"""The fastest time physics allows, how near a measurement comes to it, and what holds it back."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_eval.results import DeviceFacts

LAUNCH_FACTOR = 2.0  # within this factor of an empty launch nothing but the launch is being timed
BUSY = 0.5  # a peak is the bottleneck from this fraction of it on
QUARANTINE_KNOWN = 0.9  # of the floor, where peaks are the maker's
QUARANTINE_MEASURED = 0.2  # where they were measured on this machine, perhaps while it was busy
QUARANTINE_CACHED = 0.05  # measured peaks, and data that fits the cache: memory bandwidth says little


@dataclass(frozen=True)
class Work:
    """What an operator must do at least: bytes in and out of memory once, FLOPs."""

    input_bytes: int
    output_bytes: int
    flops: int

    @property
    def bytes(self) -> int:
        return self.input_bytes + self.output_bytes


def floor_us(work: Work, device: DeviceFacts) -> float | None:
    """max(bytes / peak bandwidth, FLOPs / peak rate), in microseconds; None when no peak is known."""
    times = [
        time for time in (memory_us(work.bytes, device), compute_us(work.flops, device)) if time is not None
    ]
    return max(times) if times else None


def memory_us(count: float, device: DeviceFacts) -> float | None:
    """Time to move ``count`` bytes at the peak bandwidth."""
    return count / device.peak_bandwidth_gbs / 1e3 if device.peak_bandwidth_gbs else None


def compute_us(flops: float, device: DeviceFacts) -> float | None:
    """Time to do ``flops`` operations at the peak fp32 rate."""
    return flops / device.peak_fp32_gflops / 1e3 if device.peak_fp32_gflops else None


def too_fast(
    median_us: float, baseline_us: float, work: Work, device: DeviceFacts, fast_math_units: bool
) -> str:
    """A sentence when a time is below what the device can do, else nothing.

    Writes that fit the cache need not reach memory within the call. FLOPs are not held against precisions
    whose units outrun the fp32 peak (``fast_math_units``). Where PyTorch itself is below the floor, the
    floor is wrong.
    """
    fits_cache = bool(device.l2_bytes) and work.bytes <= 2 * (device.l2_bytes or 0)
    writes = 0 if work.output_bytes <= (device.l2_bytes or 0) else work.output_bytes
    memory = memory_us(work.input_bytes + writes, device) or 0.0
    compute = 0.0 if fast_math_units else (compute_us(work.flops, device) or 0.0)
    if device.peaks_measured:
        memory *= QUARANTINE_CACHED if fits_cache else QUARANTINE_MEASURED
        bound = max(memory, compute * QUARANTINE_MEASURED)
    else:
        bound = QUARANTINE_KNOWN * max(memory, compute)
    if median_us <= 0:
        return "The measured time is zero."
    if median_us >= bound or baseline_us < bound:
        return ""
    return (
        f"The measured {median_us:.3g} us is below the {bound:.3g} us that this device needs for the "
        f"operator's {work.bytes / 1e6:.3g} MB and {work.flops / 1e6:.3g} MFLOP."
    )


def bottleneck(
    median_us: float, launch_us: float | None, launches: int, work: Work, device: DeviceFacts
) -> str:
    """``memory``, ``compute``, ``launch``, ``latency``, or ``unknown`` without the device's peaks."""
    if launch_us and median_us <= LAUNCH_FACTOR * launch_us * max(launches, 1):
        return "launch"
    memory, compute = memory_us(work.bytes, device), compute_us(work.flops, device)
    if memory is None and compute is None:
        return "unknown"
    memory_share, compute_share = (memory or 0.0) / median_us, (compute or 0.0) / median_us
    if max(memory_share, compute_share) < BUSY:
        return "latency"
    return "memory" if memory_share >= compute_share else "compute"
