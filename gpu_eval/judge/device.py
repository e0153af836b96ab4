"""The judge's device as torch names it: clock, flush, memory, precision switches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpu_eval.results import Precision, Protocol

KERNELBENCH_FLUSH_BYTES = 256 * 1024**2
ELEMENTS_A_THREAD = 2_000_000
THREAD_TRIALS = 5
SETTLE_S = 0.001


class TorchDevice:
    """``kind`` "cuda" or "opencl", where the reference runs on the CPU."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "cuda" if kind == "cuda" else "cpu"
        self._flush: torch.Tensor | None = None
        self.threads = torch.get_num_threads()
        self.own_threads = self.threads
        self.timed_threads = self.threads

    def use_threads_for(self, elements: int) -> None:
        """On the CPU, let the judge's own work on small tensors run in few threads.

        Threads that wait for each other at every operation stall on a busy machine.
        """
        if self.kind != "cuda":
            self.own_threads = max(1, min(self.threads, elements // ELEMENTS_A_THREAD))
            torch.set_num_threads(self.own_threads)

    def choose_timed_threads(self, call: Callable[[], float]) -> None:
        """On the CPU, time PyTorch with all threads or with one, whichever is faster by ``call``'s times
        now.

        Where other work takes a core, threads that wait for each other are far slower than one: a baseline
        that suffers from it would make every candidate look good.
        """
        if self.kind == "cuda" or self.threads == 1:
            return
        medians: dict[int, float] = {}
        for threads in (self.threads, 1):
            self.timed_threads = threads
            medians[threads] = statistics.median(call() for _ in range(THREAD_TRIALS))
        self.timed_threads = min(medians, key=lambda threads: medians[threads])

    @contextmanager
    def as_timed(self) -> Iterator[None]:
        """The threads of timed calls within."""
        if self.own_threads == self.timed_threads:
            yield
            return
        torch.set_num_threads(self.timed_threads)
        try:
            yield
        finally:
            torch.set_num_threads(self.own_threads)

    def open(self, fraction: float) -> None:
        """Make the context and bound the device memory that the operator may take."""
        if self.kind == "cuda":
            torch.cuda.init()
            torch.cuda.set_per_process_memory_fraction(fraction)
            torch.zeros(1, device="cuda")

    def set_precision(self, precision: Precision, protocol: Protocol) -> None:
        """Strict fp32 unless the operator allows TF32; the public harness leaves torch's defaults."""
        allow = precision is Precision.TF32
        torch.backends.cuda.matmul.allow_tf32 = allow
        torch.backends.cudnn.allow_tf32 = allow or protocol is Protocol.KERNELBENCH

    def prepare_flush(self, protocol: Protocol) -> None:
        """Have a buffer that evicts the cache when written, on CUDA only."""
        if self.kind != "cuda":
            return
        size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
        if protocol is Protocol.KERNELBENCH:
            size = KERNELBENCH_FLUSH_BYTES
        if self._flush is None or self._flush.numel() != size:
            self._flush = torch.empty(size, dtype=torch.uint8, device="cuda")

    def flush(self) -> None:
        """Evict what earlier work left in the device's cache."""
        if self._flush is not None:
            self._flush.zero_()
            torch.cuda.synchronize()

    def synchronise(self) -> None:
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def clock(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Microseconds of ``call`` on the device's clock (see `Runner.run`), and its result.

        On CUDA between two events around the work, elsewhere between two full synchronises.
        """
        self.synchronise()
        if self.kind == "cuda":
            return self._clock_by_events(call)
        start = time.perf_counter_ns()
        result = call()
        return (time.perf_counter_ns() - start) / 1e3, result

    def _clock_by_events(self, call: Callable[[], Any]) -> tuple[float, Any]:
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        result = call()
        after.record()
        torch.cuda.synchronize()
        return before.elapsed_time(after) * 1e3, result

    def settle(self) -> None:
        """On the CPU, wait until the threads of a call have gone to sleep."""
        if self.kind != "cuda":
            time.sleep(SETTLE_S)

    def peak_memory_bytes(self) -> int | None:
        """Device memory that torch has held at most; None on the CPU."""
        return int(torch.cuda.max_memory_allocated()) if self.kind == "cuda" else None
