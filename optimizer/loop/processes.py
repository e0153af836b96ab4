"""Naming a process so that others can tell whether it still lives, and ending everything below one."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@cache
def host_tag() -> str:
    """Names this host, boot and process namespace: within one tag a process id means one process."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id",):
        with suppress(OSError):
            parts.append(Path(path).read_text().strip())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(":".join(parts).encode()).hexdigest()[:12]


def this_process() -> str:
    """A lease owner: ``tag:pid:start``; the start time tells a reused process id apart."""
    return f"{host_tag()}:{os.getpid()}:{start_time(os.getpid()) or 0}"


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which a process started; None where there is none or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def is_dead(owner: str) -> bool:
    """Whether a lease owner surely lives no more. False for a process of another host: only its lease
    tells."""
    tag, _, rest = owner.partition(":")
    pid, _, started = rest.partition(":")
    if tag != host_tag() or not pid.isdecimal():
        return False
    return start_time(int(pid)) != int(started or 0)


def descendants(pid: int) -> list[int]:
    """Every living process below ``pid`` at this moment, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in {"Z", "X"}:
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def command_line(pid: int) -> str:
    """The process's command line, arguments separated by spaces; "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_descendants(patience: float = 5.0) -> bool:
    """Kill everything below this process until nothing is left. True when nothing is."""
    deadline = time.monotonic() + patience
    while pids := descendants(os.getpid()):
        kill_all(pids)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none escapes `end_descendants`."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """End this process when the one that forked it ends, however that ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(option, value, 0, 0, 0)
