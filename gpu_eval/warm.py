"""Runners started ahead, so that a candidate finds one ready: a process takes seconds to get its device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gpu_eval.workers import PlanRunner

# (without torch, with it) kept ready a kind of device. On a CPU a start takes the cores that a timing needs.
KEPT = {"cuda": (2, 1), "opencl": (1, 0)}


class WarmRunners:
    """``start(library)`` makes a runner; each is handed out once."""

    def __init__(self, start: Callable[[bool], PlanRunner], kept: tuple[int, int]) -> None:
        self.start = start
        self.kept = {False: kept[0], True: kept[1]}
        self.waiting: dict[bool, deque[PlanRunner]] = {False: deque(), True: deque()}

    def refill(self) -> None:
        """Start what is missing, without waiting for it."""
        for library, count in self.kept.items():
            waiting = self.waiting[library]
            while len(waiting) < count:
                waiting.append(self.start(library))

    def take(self, library: bool) -> PlanRunner:
        """The runner that was started first; one without torch will do where none with it is kept."""
        for kind in (library, not library) if not self.kept[library] else (library,):
            if self.waiting[kind]:
                return self.waiting[kind].popleft()
        return self.start(library)

    def settle(self) -> None:
        """Wait until all are ready, where a start would disturb a measurement."""
        for waiting in self.waiting.values():
            for runner in waiting:
                runner.ready()

    def close(self) -> None:
        """End those that nobody took."""
        for waiting in self.waiting.values():
            while waiting:
                waiting.popleft().kill()
