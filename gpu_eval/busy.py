"""How long this process had to wait for a core: what tells a slow kernel from a busy machine."""

from __future__ import annotations

import os


def waited_us(process: str = "self") -> float:
    """Microseconds that a process's threads have spent runnable but not running; 0 where the system does
    not say.

    Read from ``/proc/PID/task/*/schedstat``; only differences mean anything, and only while the threads
    live.
    """
    total = 0
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/schedstat") as file:
                total += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return total / 1e3


def waited_us_of(pids: list[int]) -> float:
    """The same of other processes, together; those that are gone have waited for nothing."""
    return sum(waited_us(str(pid)) for pid in pids)
