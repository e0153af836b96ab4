"""The judge's device as torch names it: clock, memory, precision switches."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gpu_eval.devices.cuda_clock import CudaClock
from gpu_eval.results import Precision, Protocol

# Where in memory a buffer lies can make a kernel faster or slower by a tenth; over several places it evens out.
MIN_LANES, MAX_LANES = 6, 16
CPU_LANES = 2
CPU_LANE_BYTES = 256 * 1024**2
ELEMENTS_A_THREAD = 2_000_000
THREAD_TRIALS = 4
SETTLE_S = 0.001


class Timed(NamedTuple):
    """Microseconds of one call: ``us`` counts, ``wall_us`` is the host's clock around it and its lead-in."""

    us: float
    wall_us: float


class ThreadCounts:
    """Which numbers of threads to time: all of them at first and now and then, else the one that wins most."""

    def __init__(self, counts: list[int]) -> None:
        self.wins = dict.fromkeys(counts, 0)

    def to_try(self) -> list[int]:
        calls = sum(self.wins.values())
        if calls < THREAD_TRIALS or calls % THREAD_TRIALS == 0:
            return list(self.wins)
        return [max(self.wins, key=lambda count: self.wins[count])]

    def won(self, count: int) -> None:
        self.wins[count] += 1


class TorchDevice:
    """``kind`` "cuda" or "opencl", where the reference runs on the CPU."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "cuda" if kind == "cuda" else "cpu"
        self._clock: CudaClock | None = None
        self.threads = torch.get_num_threads()
        self.own_threads = self.threads
        self.thread_counts = ThreadCounts([self.threads, 1])

    def use_threads_for(self, elements: int) -> None:
        """On the CPU, let the judge's own work on small tensors run in few threads.

        Threads that wait for each other at every operation stall on a busy machine.
        """
        if self.kind != "cuda":
            self.own_threads = max(1, min(self.threads, elements // ELEMENTS_A_THREAD))
            torch.set_num_threads(self.own_threads)

    def fastest(self, call: Callable[[], tuple[Timed, Any]]) -> tuple[Timed, Any]:
        """One timed ``call``; on the CPU the faster of one with all threads and one with a single thread.

        Where other work takes a core, threads that wait for each other are far slower than one: a baseline
        that suffers from it would make every candidate look good.
        """
        if self.kind == "cuda" or self.threads == 1:
            return call()
        answers = {}
        for threads in self.thread_counts.to_try():
            torch.set_num_threads(threads)
            try:
                answers[threads] = call()
            finally:
                torch.set_num_threads(self.own_threads)
        best = min(answers, key=lambda threads: answers[threads][0].us)
        self.thread_counts.won(best)
        return answers[best]

    def open(self, fraction: float) -> None:
        """Make the context and bound the device memory that the operator may take."""
        if self.kind == "cuda":
            torch.cuda.init()
            torch.cuda.set_per_process_memory_fraction(fraction)
            torch.zeros(1, device="cuda")
            import pycuda.driver as driver

            driver.init()
            context = driver.Device(torch.cuda.current_device()).retain_primary_context()
            context.push()  # torch's own, for PyCUDA's calls; it stays until the process ends
            atexit.register(context.pop)
            self._clock = CudaClock(driver)

    def set_precision(self, precision: Precision, protocol: Protocol) -> None:
        """Strict fp32 unless the operator allows TF32; the public harness leaves torch's defaults."""
        allow = precision is Precision.TF32
        torch.backends.cuda.matmul.allow_tf32 = allow
        torch.backends.cudnn.allow_tf32 = allow or protocol is Protocol.KERNELBENCH

    def lanes(self, nbytes: int) -> int:
        """How many sets of buffers calls rotate over, where one takes ``nbytes``: together at least twice the cache,
        and several where memory allows."""
        if self.kind != "cuda":
            return CPU_LANES if nbytes <= CPU_LANE_BYTES else 1
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        wanted = -(-2 * cache // max(nbytes, 1))
        affordable = torch.cuda.get_device_properties(0).total_memory // 8 // max(nbytes, 1)
        return max(1, min(max(wanted, MIN_LANES), MAX_LANES, affordable))

    def synchronise(self) -> None:
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def clock(self, call: Callable[[], Any]) -> tuple[Timed, Any]:
        """Time ``call`` as a plan is timed (see `DeviceBackend.time`), and give its result.

        On CUDA between two events around the work, with a lead-in written right before and not waited for;
        elsewhere the host's clock between two full synchronises.
        """
        if self._clock is None:
            return self.wall_clock(call)
        elapsed, result = self._clock.time(call, lead_in=True)
        assert elapsed.device_us is not None
        return Timed(elapsed.device_us, elapsed.wall_us), result

    def wall_clock(self, call: Callable[[], Any]) -> tuple[Timed, Any]:
        """Time ``call`` by the host's clock between two full synchronises, the cache evicted before."""
        if self._clock is not None:
            self._clock.time(lambda: None, lead_in=True)
        self.synchronise()
        start = time.perf_counter_ns()
        result = call()
        self.synchronise()
        wall_us = (time.perf_counter_ns() - start) / 1e3
        return Timed(wall_us, wall_us), result

    def settle(self) -> None:
        """On the CPU, wait until the threads of a call have gone to sleep."""
        if self.kind != "cuda":
            time.sleep(SETTLE_S)

    def peak_memory_bytes(self) -> int | None:
        """Device memory that torch has held at most; None on the CPU."""
        return int(torch.cuda.max_memory_allocated()) if self.kind == "cuda" else None
