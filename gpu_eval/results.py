"""What an evaluation says: verdicts, checks, times. Plain dataclasses that every layer shares.

Nothing here imports torch, a device library or Django, so the web process can read results cheaply.
A failure is a status with evidence, never a number: the time fields of a failed evaluation are ``None``.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# Raised by one whenever a verdict could come out differently than before for the same candidate; stored with
# every evaluation, so that results of an older checker can be told and re-verified.
CHECKER_VERSION = 2


class Verdict(StrEnum):
    """The end of one evaluation. Only ``CORRECT`` carries times."""

    CORRECT = "correct"
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    WRONG = "wrong"
    NONDETERMINISTIC = "nondeterministic"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"


class Precision(StrEnum):
    """Arithmetic that the operator allows; the baseline gets the same."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


class LibraryPolicy(StrEnum):
    """Whether a plan may call torch's library operations (``lib.<op>``)."""

    ALLOW = "allow"
    FORBID = "forbid"


class Protocol(StrEnum):
    """How correctness and time are judged: our own, or the public KernelBench harness's figures."""

    STRICT = "strict"
    KERNELBENCH = "kernelbench"


@dataclass(frozen=True)
class EvaluationPolicy:
    """What one evaluation is allowed and how long it looks. The defaults are the command line's."""

    precision: Precision = Precision.FP32
    library: LibraryPolicy = LibraryPolicy.ALLOW
    protocol: Protocol = Protocol.STRICT
    preset: str = "auto"  # "auto": the operator's "cpu" preset on OpenCL, its own sizes on CUDA
    correctness_rounds: int = 5
    timed_calls: int = 100  # the upper bound; slow operators get fewer, never under 10


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, with the numbers that decided it."""

    name: str
    passed: bool
    detail: str = ""
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Timing:
    """Times of one thing, in microseconds."""

    median_us: float
    p10_us: float
    p90_us: float
    samples_us: list[float]


@dataclass(frozen=True)
class KernelReport:
    """What the compiler and the device say of one of our kernels. ``None`` where a backend cannot know."""

    name: str
    launches: int
    grid: list[int]
    block: list[int]
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None  # active warps over the device's maximum, 0..1
    matters: bool | None = None  # whether the outputs are wrong without its launches; None: not tried


@dataclass(frozen=True)
class Conditions:
    """What the machine was like around the timing. ``None`` where it cannot be read."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    other_processes: int | None = None  # on the device, besides judge and runner
    load: float | None = None  # runnable threads a core, over the last minute


@dataclass(frozen=True)
class DeviceFacts:
    """The device an evaluation ran on. Peaks are theoretical unless ``peaks_measured``."""

    kind: str  # "cuda" or "opencl"
    name: str
    compute_units: int
    architecture: str = ""  # "sm_90", or the OpenCL device's version
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    shared_bytes_per_block: int | None = None
    max_threads_per_block: int | None = None
    warp_size: int | None = None
    peak_bandwidth_gbs: float | None = None
    peak_fp32_gflops: float | None = None
    peaks_measured: bool = False

    @property
    def key(self) -> str:
        """A stable name for statistics: evidence is bucketed by it."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Evaluation:
    """One candidate judged once.

    ``speedup`` is the median of eager time over candidate time; ``speedup_low`` and ``speedup_high`` bound
    its 95 % bootstrap interval. ``faster`` holds only when the whole interval lies above 1. Times are None
    unless the verdict is ``correct`` (or ``quarantined``, where they are shown but never count).
    """

    verdict: Verdict
    message: str  # one sentence; "" when correct
    device: DeviceFacts | None = None
    checks: list[Check] = field(default_factory=list)
    candidate: Timing | None = None
    baseline: Timing | None = None
    compiled_baseline: Timing | None = None  # torch.compile, where measured
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    faster: bool = False
    floor_us: float | None = None  # roofline: max(bytes / bandwidth, FLOPs / rate)
    achieved_gbs: float | None = None
    achieved_gflops: float | None = None
    bottleneck: str = "unknown"  # memory | compute | launch | latency | unknown
    kernels: list[KernelReport] = field(default_factory=list)
    library_calls: list[str] = field(default_factory=list)
    compiler_log: str = ""
    policy: EvaluationPolicy = field(default_factory=EvaluationPolicy)
    phase_seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    sandbox: str = "none"  # "bubblewrap", "unshare" or "none": what contained the candidate
    untrusted: bool = False  # a foreign module: its own host code ran beside its kernels
    checker: int = 0  # CHECKER_VERSION of the code that judged; 0 before versions were kept
    compiler: str = ""  # "nvrtc 13.0", "nvcc 13.0", "PoCL 6.0"...
    compile_cached: bool = False
    device_globals: list[str] = field(default_factory=list)  # writable `__device__` variables
    prepare_us: float | None = (
        None  # the plan's `prepare`, run once a set of weights, outside the timed calls
    )
    launch_us: float | None = None  # an empty launch on this device
    clock: str = ""  # what the times are: "device events", "wall clock"
    before: Conditions | None = None
    after: Conditions | None = None
    operator_hash: str = ""
    candidate_hash: str = ""
    seed: int = 0

    @property
    def correct(self) -> bool:
        return self.verdict is Verdict.CORRECT

    def to_json(self) -> dict[str, Any]:
        """As JSON types. Raises ValueError on a non-finite number: those never leave this layer."""
        data = dataclasses.asdict(self)
        refuse_non_finite(data)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Evaluation:
        """The inverse of `to_json`. Raises KeyError or ValueError on data of another shape."""
        data = dict(data)
        data["verdict"] = Verdict(data["verdict"])
        data["checks"] = [Check(**check) for check in data.get("checks", [])]
        data["kernels"] = [KernelReport(**kernel) for kernel in data.get("kernels", [])]
        for name in ("candidate", "baseline", "compiled_baseline"):
            data[name] = Timing(**data[name]) if data.get(name) else None
        data["device"] = DeviceFacts(**data["device"]) if data.get("device") else None
        for name in ("before", "after"):
            data[name] = Conditions(**data[name]) if data.get(name) else None
        policy = dict(data.get("policy") or {})
        for name, kind in (("precision", Precision), ("library", LibraryPolicy), ("protocol", Protocol)):
            if name in policy:
                policy[name] = kind(policy[name])
        data["policy"] = EvaluationPolicy(**policy)
        return cls(**data)


def refuse_non_finite(value: Any, path: str = "$") -> None:
    """Raise ValueError naming the first NaN or infinity inside ``value`` (nested dicts and lists)."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"non-finite number at {path}")
    if isinstance(value, dict):
        for key, item in value.items():
            refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            refuse_non_finite(item, f"{path}[{index}]")


def dump_json(value: Any) -> str:
    """One line of strict JSON: no NaN, no infinity."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
