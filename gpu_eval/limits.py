"""Every deadline and size of an evaluation in one place: an inner limit stays below its outer one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

MAX_OPERATOR_BYTES = 1_000_000
MAX_PLAN_BYTES = 1_000_000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # one RPC message, either way
STDERR_BYTES = 16 * 1024  # kept of a child's output: half its head, half its tail

MIN_TIMED_CALLS = 10
GUARD_BYTES = 4096  # before, between and after the tensors of the exchange arena
ALIGNMENT = 4096
GIB = 1024**3


def share_of_memory(share: float, most: int) -> int:
    """``share`` of this machine's memory in bytes, at least 4 GiB and at most ``most``."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(most, max(4 * GIB, int(total * share)))


@dataclass(frozen=True)
class Limits:
    """Deadlines in seconds, sizes in bytes. Raises ValueError when an inner limit reaches its outer one."""

    start_s: float = 120.0  # a child process until it answers, torch imported and the device's context made
    operator_stage_s: float = 30.0  # each of: executing the file, Model(), get_inputs(), the first forward
    judge_call_s: float = 60.0  # one request to the judge within an evaluation
    inspect_s: float = 120.0  # one request of `inspect`
    compile_baseline_s: float = 240.0  # torch.compile, its compilation included
    compile_s: float = 60.0  # the candidate's kernels
    bind_s: float = 60.0  # shapes bound, memory allocated, `prepare` run
    run_s: float = 20.0  # one call of the candidate
    timing_budget_s: float = (
        4.0  # after this much timing no further call is started once the minimum is reached
    )
    evaluation_s: float = 400.0  # everything from compile to verdict
    task_s: float = 900.0  # what a queue must grant the task around one evaluation and its confirmation

    judge_memory_bytes: int = field(default_factory=lambda: share_of_memory(0.6, 64 * GIB))
    runner_memory_bytes: int = field(default_factory=lambda: share_of_memory(0.4, 32 * GIB))
    exchange_bytes: int = field(default_factory=lambda: share_of_memory(0.5, 64 * GIB))
    device_fraction: float = 0.6  # of the GPU's memory that the operator itself may take
    runner_file_bytes: int = GIB
    open_files: int = 1024
    processes: int = 512  # threads count: torch and PoCL start one a core and more

    def __post_init__(self) -> None:
        inner = ("compile_s", "bind_s", "run_s", "judge_call_s", "operator_stage_s", "timing_budget_s")
        for name in inner:
            if getattr(self, name) >= self.evaluation_s:
                raise ValueError(f"{name} must be below evaluation_s")
        for name in ("evaluation_s", "inspect_s", "compile_baseline_s", "start_s"):
            if getattr(self, name) >= self.task_s:
                raise ValueError(f"{name} must be below task_s")


DEFAULT_LIMITS = Limits()
