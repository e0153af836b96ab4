"""The child's side of a conversation: limits on itself, then requests answered one by one until the pipe
closes.

A message is four bytes of length (big endian) and that much UTF-8 JSON. Requests are ``{"id": random, "method":
name, "params": {...}}``; answers ``{"id": the same, "result": ...}`` or with ``"error": {"kind", "message",
"detail"}``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gpu_eval import tree
from gpu_eval.limits import MAX_MESSAGE_BYTES

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MAX_FD = 65_536
DETAIL_CHARS = 4000

Handler = Callable[..., Any]


class ExpectedFailure(Exception):
    """A failure that is an answer: ``kind`` says which one, ``data`` carries evidence."""

    def __init__(self, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data


class Server(Protocol):
    """What answers requests."""

    def handlers(self) -> Mapping[str, Handler]: ...


def harden(memory_bytes: int, file_bytes: int, open_files: int, processes: int) -> None:
    """Tie this process's life to its parent's and bound its memory, file sizes, files and processes.

    Memory is bounded as writable data, not as address space: CUDA reserves far more addresses than it uses.
    """
    die_with_parent()
    limits = {
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: open_files,
        resource.RLIMIT_CORE: 0,
    }
    if os.geteuid() != 0:  # root is not bound by it, and elsewhere it counts the user's other processes too
        limits[resource.RLIMIT_NPROC] = processes + count_user_threads()
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (bound, bound))


def die_with_parent() -> None:
    """Have the system kill this process when the one that started it ends."""
    libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stand_by() -> None:
    """Go on in a forked child; the original only waits for it, ends what it leaves behind and ends as it does.

    Two reasons. Without a process namespace a grandchild whose parent ends would fall to the system's first
    process and be lost to whoever ends the tree; the original takes it in. And CUDA tells the exporter of a
    memory handle by its process id: judge and runner each live in a process namespace of their own, where both
    would have the same small id, and opening the judge's handle in the runner fails as if it were opened in the
    process that made it ("invalid device context").
    """
    die_with_parent()
    libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        return
    os.closerange(3, MAX_FD)  # the pipe closes when the child ends
    code = os.waitstatus_to_exitcode(wait_for(child))
    tree.end(os.getpid(), "")
    os._exit(code if code >= 0 else 128 - code)


def wait_for(child: int) -> int:
    """The wait status of ``child``; others that end meanwhile are collected."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def count_user_threads() -> int:
    """Threads of this user already running, as far as this process can see."""
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == os.getuid():
                    total += len(os.listdir(f"/proc/{entry.name}/task"))
            except OSError:
                continue
    return total


def serve(server: Server, read_fd: int, write_fd: int) -> None:
    """Answer requests until the parent closes its end."""
    handlers = server.handlers()
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    owner = os.getpid()
    while (request := read_message(read_fd)) is not None:
        reply = answer(handlers, request)
        if os.getpid() != owner:
            os._exit(0)  # foreign code forked: only the original answers
        write_message(write_fd, {"id": request.get("id"), **reply})


def answer(handlers: Mapping[str, Handler], request: dict[str, Any]) -> dict[str, Any]:
    """The response to one request. No exception leaves here but SystemExit of our own making."""
    handler = handlers.get(str(request.get("method")))
    if handler is None:
        return failure("fault", f"no method {request.get('method')!r}")
    try:
        return {"result": handler(**request.get("params", {}))}
    except ExpectedFailure as error:
        return failure(error.kind, error.message, **error.data)
    except MemoryError:
        return failure("out_of_memory", "The process ran out of its memory limit.")
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        detail = traceback.format_exc()[-DETAIL_CHARS:]
        return failure("fault", f"{type(error).__name__}: {error}"[:DETAIL_CHARS], detail=detail)


def failure(kind: str, message: str, **data: Any) -> dict[str, Any]:
    """An error answer."""
    return {"error": {"kind": kind, "message": message, **data}}


def read_message(fd: int) -> dict[str, Any] | None:
    """One request, or None at the end of the stream."""
    head = read_exactly(fd, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">I", head)
    body = read_exactly(fd, size)
    return None if body is None else json.loads(body)


def read_exactly(fd: int, size: int) -> bytes | None:
    """``size`` bytes, or None when the stream ends first."""
    parts: list[bytes] = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_message(fd: int, message: dict[str, Any]) -> None:
    """Send one answer; one that is too large or holds a non-finite number becomes an error."""
    try:
        body = json.dumps(message, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        problem = failure("fault", f"the answer is not JSON: {error}")
        body = json.dumps({"id": message.get("id"), **problem}).encode()
    if len(body) > MAX_MESSAGE_BYTES:
        problem = failure("fault", "the answer is too large")
        body = json.dumps({"id": message.get("id"), **problem}).encode()
    data = memoryview(struct.pack(">I", len(body)) + body)
    while data:
        data = data[os.write(fd, data) :]


def child_arguments() -> tuple[int, int, dict[str, Any]]:
    """The two pipe ends and the settings that the parent put on the command line.

    Comes before threads and heavy imports: the process may go on as another (see `stand_by`).
    """
    read_fd, write_fd, settings = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    if settings.pop("stand_by", False):
        stand_by()
    return read_fd, write_fd, settings
