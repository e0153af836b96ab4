"""How long this process had to wait for a core: what tells a slow kernel from a busy machine."""

from __future__ import annotations

import os


def waited_us() -> float:
    """Microseconds that this process's threads have spent runnable but not running; 0 where the system does
    not say.

    Read from ``/proc/self/task/*/schedstat``; only differences mean anything, and only while the threads
    live.
    """
    total = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat") as file:
                total += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return total / 1e3
