"""A child and everything that it started: counted, weighed, stopped, ended.

Only /proc is read. A process below the child stays below it: where there is no process namespace the child's
first process takes orphans in (see `gpu_eval.child.stand_by`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "HTAM_TREE"  # variable of the environment that names the tree a process belongs to
KIB = 1024


@dataclass(frozen=True)
class Usage:
    """What a tree takes at one moment: processes, their threads, bytes of memory that are nobody else's file."""

    processes: int
    tasks: int
    memory_bytes: int


def children_of(pid: int) -> list[int]:
    """Direct children of a process, through any of its threads."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children += map(int, file.read().split())
    except OSError:
        return children
    return children


def descendants(pid: int) -> list[int]:
    """Every process below ``pid`` at this moment, parents first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        children = children_of(todo.pop())
        found += children
        todo += children
    return found


def usage(pids: list[int]) -> Usage:
    """What these processes take together; those that are gone take nothing."""
    tasks = memory = 0
    for pid in pids:
        fields = status_of(pid)
        tasks += fields.get("Threads", 0)
        memory += (fields.get("RssAnon", 0) + fields.get("RssShmem", 0) + fields.get("VmSwap", 0)) * KIB
    return Usage(len(pids), tasks, memory)


def status_of(pid: int) -> dict[str, int]:
    """The numbers of ``/proc/PID/status``, memory in KiB; empty for a process that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    wanted = ("Threads", "RssAnon", "RssShmem", "VmSwap")
    pairs = (line.partition(":") for line in lines)
    return {name: int(value.split()[0]) for name, _, value in pairs if name in wanted}


def shared_out_bytes(pids: list[int]) -> int:
    """Memory of these processes with every shared page counted once (PSS). Slow: it walks their page tables."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:", "SwapPss:")):
                    total += int(line.split()[1]) * KIB
    return total


def unmapped_bytes(pids: list[int]) -> int:
    """Bytes of files without a name (memfd, deleted) that these processes hold open, each file once."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    facts = entry.stat()
                    if facts.st_nlink == 0:
                        sizes[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(sizes.values())


# Stopping.


def freeze(root: int, seconds: float) -> bool:
    """Stop every process below ``root``; True once every thread of each was seen stopped within ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        pids = descendants(root)
        running = [pid for pid in pids if not is_stopped(pid)]
        if not running:
            return True
        send(running, signal.SIGSTOP)
        if time.monotonic() > end:
            return False
        os.sched_yield()


def thaw(root: int) -> None:
    """Let every process below ``root`` go on."""
    send(descendants(root), signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process can run: stopped, dead, or gone."""
    try:
        return all(task_state(pid, task) in "TtZXx" for task in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True


def task_state(pid: int, task: str) -> str:
    """The letter of a thread's state; X when it is gone."""
    try:
        with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1].decode() or "X"
    except OSError:
        return "X"


# Ending.


def end(root: int, mark: str, seconds: float = 3.0) -> bool:
    """Kill every process below ``root`` and every other that carries ``mark``; whether none was left.

    They are stopped first, so that none can start another while the rest is being killed.
    """
    until = time.monotonic() + seconds
    while True:
        pids = [*descendants(root), *marked(mark)]
        alive = [pid for pid in pids if not is_dead(pid)]
        if not alive:
            return True
        send(alive, signal.SIGSTOP)
        send([*descendants(root), *alive], signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(0.001)


def marked(mark: str) -> list[int]:
    """Other processes that were started with ``mark`` in their environment; none for an empty mark."""
    if not mark:
        return []
    word = f"{MARK}={mark}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if word in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found


def is_dead(pid: int) -> bool:
    """Whether a process is gone or waits to be collected only. Its first thread may end before others do."""
    try:
        return all(task_state(pid, task) in "ZXx" for task in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True


def send(pids: list[int], number: signal.Signals) -> None:
    """One signal to each; those that are gone or not ours are left out."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
