"""The parent's side: a child process in its sandbox, asked by length-prefixed JSON over two pipes, killed
as a tree.

The child's own output goes to a thread that keeps its head and tail and drops the rest, so a flood neither
blocks the child nor fills anything. Results never come from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from gpu_eval.folders import make_scratch
from gpu_eval.limits import MAX_MESSAGE_BYTES, STDERR_BYTES, Limits
from gpu_eval.sandbox import Sandbox, sandbox_level

WATCH_S = 0.1  # how often the tree is counted while an answer is awaited


class ChildTimeout(RuntimeError):
    """The child did not answer by its deadline; its tree has been killed."""


class ChildDied(RuntimeError):
    """The child ended or broke the protocol; its tree is gone. ``signal`` is set when one ended it."""

    def __init__(self, message: str, signal_number: int | None = None) -> None:
        super().__init__(message)
        self.signal = signal_number


class ChildFailure(RuntimeError):
    """The child answered with an error: ``kind`` says which, ``data`` holds its evidence."""

    def __init__(self, kind: str, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data


class Child:
    """One child process running ``python -m MODULE`` in a sandbox."""

    def __init__(self, module: str, exchange: Path, limits: Limits, settings: dict[str, Any]) -> None:
        self.module = module
        self.limits = limits
        self.scratch = make_scratch()
        self.sandbox = Sandbox(sandbox_level(), exchange, self.scratch)
        request_read, self._write_fd = os.pipe()
        self._read_fd, answer_write = os.pipe()
        fds = (request_read, answer_write)
        command = [sys.executable, "-m", module, *map(str, fds), json.dumps(settings)]
        try:
            self.process = subprocess.Popen(
                self.sandbox.command(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=fds,
                env=self.sandbox.environment(),
                cwd=self.scratch,
                start_new_session=True,
            )
        except OSError:
            self._close_fds()
            raise
        finally:
            for fd in fds:
                os.close(fd)
        assert self.process.stdout is not None
        self.output = OutputTail(self.process.stdout)
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def call(self, method: str, *, deadline_s: float, **params: Any) -> Any:
        """Ask and wait. Raises ChildTimeout, ChildDied or ChildFailure."""
        self.send(method, **params)
        return self.receive(method, deadline_s)

    def send(self, method: str, **params: Any) -> None:
        """Put a request on the pipe. Raises ChildDied when nobody reads it."""
        body = json.dumps({"method": method, "params": params}).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except OSError as error:
            raise self._died() from error

    def receive(self, method: str, deadline_s: float) -> Any:
        """The answer to the oldest request. Raises as `call` does."""
        end = time.monotonic() + deadline_s
        (size,) = struct.unpack(">I", self._read_exactly(4, method, end))
        if size > MAX_MESSAGE_BYTES:
            self.kill()
            raise ChildDied(f"{self.module} sent an oversized answer")
        try:
            answer = json.loads(self._read_exactly(size, method, end))
        except ValueError as error:
            self.kill()
            raise ChildDied(f"{self.module} sent an answer that is not JSON") from error
        if "error" in answer:
            failure = answer["error"]
            raise ChildFailure(str(failure.get("kind")), str(failure.get("message")), failure)
        return answer.get("result")

    def _read_exactly(self, size: int, method: str, end: float) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            self._await_bytes(method, end)
            part = os.read(self._read_fd, min(size, 1 << 20))
            if not part:
                raise self._died()
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _await_bytes(self, method: str, end: float) -> None:
        """Return once there is something to read; meanwhile watch the deadline and the size of the tree."""
        while True:
            left = end - time.monotonic()
            if left <= 0:
                self.kill()
                raise ChildTimeout(f"{method} did not finish in time")
            if self._poll.poll(1000 * min(left, WATCH_S)):
                return
            if count_descendants(self.process.pid) > self.limits.processes:
                self.kill()
                raise ChildDied(f"{self.module} started more than {self.limits.processes} processes")

    def _died(self) -> ChildDied:
        """What became of a child whose pipe closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        number = death_signal(self.process.returncode)
        self.kill()
        if number is not None:
            return ChildDied(f"ended by {signal_name(number)}", number)
        return ChildDied(f"ended with status {self.process.returncode}")

    def kill(self) -> None:
        """End the whole tree and forget it. Safe to call twice."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._close_fds()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _close_fds(self) -> None:
        for name in ("_read_fd", "_write_fd"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)


class OutputTail:
    """Reads a stream to its end in a thread and keeps the first and last bytes of it."""

    def __init__(self, stream: IO[bytes], keep: int = STDERR_BYTES) -> None:
        self._half = keep // 2
        self._head = b""
        self._tail = b""
        self._dropped = False
        self._thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
        self._thread.start()

    def _drain(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), stream:
            while data := os.read(stream.fileno(), 1 << 16):
                room = self._half - len(self._head)
                self._head += data[:room]
                rest = self._tail + data[room:]
                self._dropped = self._dropped or len(rest) > self._half
                self._tail = rest[-self._half :]

    def text(self) -> str:
        """What is kept, decoded; waits briefly for a dead child's last words."""
        self._thread.join(0.2)
        middle = b"\n[... cut ...]\n" if self._dropped else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


def death_signal(status: int | None) -> int | None:
    """The signal behind an exit status: ours is negative, a wrapper's is 128 and more."""
    if status is None:
        return None
    if status < 0:
        return -status
    return status - 128 if 128 < status < 128 + 65 else None


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for an unknown one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def descendants(pid: int) -> list[int]:
    """Every process below ``pid`` at this moment."""
    found: list[int] = []
    todo = [pid]
    while todo:
        children = children_of(todo.pop())
        found += children
        todo += children
    return found


def count_descendants(pid: int) -> int:
    """How many processes there are below ``pid``."""
    return len(descendants(pid))


def children_of(pid: int) -> list[int]:
    """Direct children of a process, through any of its threads."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
            children += [int(word) for word in text.split()]
    except OSError:
        return children
    return children
