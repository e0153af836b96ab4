"""Every deadline and size of an evaluation in one place: an inner limit stays below its outer one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

MAX_OPERATOR_BYTES = 1_000_000
MAX_PLAN_BYTES = 1_000_000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # one RPC message, either way
STDERR_BYTES = 16 * 1024  # kept of a child's output: half its head, half its tail

MIN_TIMED_CALLS = 10
GUARD_BYTES = 4096  # before, between and after the tensors of the exchange arena
ALIGNMENT = 4096
GIB = 1024**3


MIB = 1024**2
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def share_of_memory(share: float, most: int) -> int:
    """``share`` of this machine's (or container's) memory in bytes, at least 4 GiB and at most ``most``."""
    return min(most, max(4 * GIB, int(usable_memory() * share)))


def usable_memory() -> int:
    """Bytes of memory that this machine has, or that its container may use where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in CGROUP_LIMITS:
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total


def threads_of_cores(fixed: int, per_core: int) -> int:
    """Room for ``fixed`` processes and threads and ``per_core`` more for each core of this machine."""
    return fixed + per_core * (os.cpu_count() or 1)


class Profile(StrEnum):
    """What a child is for, which decides what it may take."""

    JUDGE = "judge"
    RUNNER = "runner"
    COMPILER = "compiler"
    FOREIGN = "foreign"  # somebody else's Python module with host code


@dataclass(frozen=True)
class Bounds:
    """What one child and everything that it starts may take. Sizes in bytes.

    ``memory_bytes``: of each process by the system's own limit, and of all together by the parent's watch.
    ``scratch_bytes``: all files in its scratch folder; ``file_bytes``: one file. ``tasks``: processes and
    threads together. ``device``: whether it sees the GPU's device files. ``exchange``: whether it maps the
    memory that judge and candidate share.
    """

    memory_bytes: int
    file_bytes: int
    scratch_bytes: int
    processes: int
    tasks: int
    open_files: int
    device: bool
    exchange: bool


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
    judge_scratch_bytes: int = GIB  # torch.compile writes its kernels there
    runner_memory_bytes: int = field(default_factory=lambda: share_of_memory(0.4, 32 * GIB))
    runner_scratch_bytes: int = 256 * MIB
    foreign_scratch_bytes: int = 2 * GIB  # load_inline and Triton build there
    exchange_bytes: int = field(default_factory=lambda: share_of_memory(0.5, 64 * GIB))
    device_fraction: float = 0.6  # of the GPU's memory that the operator itself may take
    compiler_memory_bytes: int = 4 * GIB
    compiler_file_bytes: int = 256 * MIB
    compiler_scratch_bytes: int = GIB
    open_files: int = 1024
    # Processes below the sandbox's own. A runner needs one, and PoCL one linker beside it; nvcc runs a chain of
    # five; torch.compile and load_inline start compilers, at most one a core.
    runner_processes: int = 16
    compiler_processes: int = 32
    processes: int = field(default_factory=lambda: threads_of_cores(64, 2))
    # Threads of all of them. On 2 cores torch and PoCL were seen with 4 and 7; each starts at most a few a core.
    tasks: int = field(default_factory=lambda: threads_of_cores(256, 8))

    def bounds(self, profile: Profile) -> Bounds:
        """What a child of this kind may take."""
        memory, file_bytes, scratch, processes = {
            Profile.JUDGE: (
                self.judge_memory_bytes,
                self.judge_scratch_bytes,
                self.judge_scratch_bytes,
                self.processes,
            ),
            Profile.RUNNER: (
                self.runner_memory_bytes,
                self.runner_scratch_bytes,
                self.runner_scratch_bytes,
                min(self.runner_processes, self.processes),
            ),
            Profile.COMPILER: (
                self.compiler_memory_bytes,
                self.compiler_file_bytes,
                self.compiler_scratch_bytes,
                min(self.compiler_processes, self.processes),
            ),
            Profile.FOREIGN: (
                self.runner_memory_bytes,
                self.foreign_scratch_bytes,
                self.foreign_scratch_bytes,
                self.processes,
            ),
        }[profile]
        compiler = profile is Profile.COMPILER
        return Bounds(
            memory_bytes=memory,
            file_bytes=file_bytes,
            scratch_bytes=scratch,
            processes=processes,
            tasks=self.tasks,
            open_files=self.open_files,
            device=not compiler,
            exchange=not compiler,
        )

    def __post_init__(self) -> None:
        inner = ("compile_s", "bind_s", "run_s", "judge_call_s", "operator_stage_s", "timing_budget_s")
        for name in inner:
            if getattr(self, name) >= self.evaluation_s:
                raise ValueError(f"{name} must be below evaluation_s")
        for name in ("evaluation_s", "inspect_s", "compile_baseline_s", "start_s"):
            if getattr(self, name) >= self.task_s:
                raise ValueError(f"{name} must be below task_s")


DEFAULT_LIMITS = Limits()
