"""Limits on a whole tree, watched by the parent while it waits for an answer.

Looking at a tree costs a millisecond and more, and would disturb what is being timed. So a look at the machine's
own totals (two small files of /proc) tells whether anything grew; the tree itself is weighed when it did, and
now and then.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from gpu_eval import tree
from gpu_eval.limits import GIB, MIB, Bounds
from gpu_eval.sandbox import Sandbox

WEIGH_S = 0.5  # between two weighings of a tree on a quiet machine
GROWN_TASKS = 16
GROWN_BYTES = 256 * MIB
MOST_FILES = 50_000  # in a scratch folder
FULL_SHARE = 0.97  # of a scratch of fixed size


@dataclass(frozen=True)
class Excess:
    """A limit that was passed: ``cause`` is "memory", "processes" or "scratch"; the sentence has no subject."""

    cause: str
    sentence: str


class Watch:
    """Watches the tree below process ``root``. ``shared_bytes``: of memory it maps and need not answer for."""

    def __init__(self, root: int, bounds: Bounds, sandbox: Sandbox, shared_bytes: int = 0) -> None:
        self.root = root
        self.bounds = bounds
        self.sandbox = sandbox
        self.allowed_bytes = bounds.memory_bytes + shared_bytes
        self.peak_bytes = 0
        self._weighed = time.monotonic()
        self._tasks, self._available = totals()

    def look(self) -> Excess | None:
        """While waiting: a cheap look, and a weighing when something grew or none was made for a while."""
        tasks, available = totals()
        grown = tasks - self._tasks > GROWN_TASKS or self._available - available > GROWN_BYTES
        if not grown and time.monotonic() - self._weighed < WEIGH_S:
            return None
        self._tasks, self._available = tasks, available
        return self.weigh()

    def after_answer(self) -> Excess | None:
        """Between two requests: a weighing when none was made for a while, so that many short calls do not
        escape it."""
        return self.weigh() if time.monotonic() - self._weighed >= WEIGH_S else None

    def weigh(self) -> Excess | None:
        """The first limit that the tree has passed, or None."""
        self._weighed = time.monotonic()
        pids = tree.descendants(self.root)
        bounds, taken = self.bounds, tree.usage(pids)
        self.peak_bytes = max(self.peak_bytes, taken.memory_bytes)
        if taken.processes > bounds.processes:
            return Excess("processes", f"started more than {bounds.processes} processes")
        if taken.tasks > bounds.tasks:
            return Excess("processes", f"started more than {bounds.tasks} threads")
        if self.too_heavy(pids, taken.memory_bytes):
            return Excess("memory", f"took more than {bounds.memory_bytes / GIB:.3g} GiB of memory")
        return self.scratch_excess(pids)

    def too_heavy(self, pids: list[int], memory_bytes: int) -> bool:
        """Whether the tree takes too much memory. Pages that its processes share count once, which takes long
        to find out and so is asked only when the plain sum is too large."""
        if memory_bytes > self.allowed_bytes and tree.shared_out_bytes(pids) > self.allowed_bytes:
            return True
        return tree.unmapped_bytes(pids) > self.allowed_bytes

    def scratch_excess(self, pids: list[int]) -> Excess | None:
        """Whether its scratch is full, or has passed its limit where that has no size of its own."""
        limit = self.bounds.scratch_bytes
        taken, files = self.scratch_usage(pids)
        if taken > limit * FULL_SHARE:
            return Excess("scratch", f"filled its scratch folder of {limit // MIB} MiB")
        if files > MOST_FILES:
            return Excess("scratch", f"put more than {MOST_FILES} files into its scratch folder")
        return None

    def scratch_usage(self, pids: list[int]) -> tuple[int, int]:
        """Bytes and files in the scratch folder."""
        if not self.sandbox.private_scratch:
            return folder_usage(str(self.sandbox.scratch))
        for pid in reversed(pids):  # the last one lives inside
            with contextlib.suppress(OSError):
                facts = os.statvfs(f"/proc/{pid}/root{self.sandbox.inner_scratch}")
                if facts.f_blocks * facts.f_frsize <= self.bounds.scratch_bytes:
                    taken = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
                    return taken, facts.f_files - facts.f_ffree
        return 0, 0


def totals() -> tuple[int, int]:
    """Threads on this machine and its available memory in bytes."""
    tasks = available = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/loadavg") as file:
            tasks = int(file.read().split()[3].partition("/")[2])
        with open("/proc/meminfo") as file:
            available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    return tasks, available


def folder_usage(folder: str) -> tuple[int, int]:
    """Bytes on disk and entries below ``folder``; stops counting where there are too many."""
    taken = files = 0
    todo = [folder]
    while todo and files <= MOST_FILES:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                files += 1
                facts = entry.stat(follow_symlinks=False)
                taken += facts.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                if files > MOST_FILES:
                    break
    return taken, files
