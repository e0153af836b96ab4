"""The parent's side: a child process in its sandbox, asked by length-prefixed JSON over two pipes, killed
as a tree.

Every request carries a random id that its answer must repeat, so that nothing written ahead passes for an
answer. The child's own output goes to a thread that keeps its head and tail and drops the rest, so a flood
neither blocks the child nor fills anything. Results never come from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO, Any, NoReturn

from gpu_eval import tree
from gpu_eval.exchange import Exchange
from gpu_eval.folders import make_scratch
from gpu_eval.limits import MAX_MESSAGE_BYTES, STDERR_BYTES, Limits, Profile
from gpu_eval.sandbox import NONE, Sandbox, sandbox_level
from gpu_eval.watch import Watch

WATCH_S = 0.05  # how often the machine is looked at while an answer is awaited
FREEZE_S = 2.0
ENV_MARK_BYTES = 16


class ChildTimeout(RuntimeError):
    """The child did not answer by its deadline; its tree has been killed."""


class ChildDied(RuntimeError):
    """The child ended or broke the protocol; its tree is gone.

    ``signal`` is set when one ended it. ``cause`` says which limit it passed: "memory", "processes" or
    "scratch"; "protocol" when it answered what nobody asked; empty when it ended by itself.
    """

    def __init__(self, message: str, signal_number: int | None = None, cause: str = "") -> None:
        super().__init__(message)
        self.signal = signal_number
        self.cause = cause


class ChildFailure(RuntimeError):
    """The child answered with an error: ``kind`` says which, ``data`` holds its evidence."""

    def __init__(self, kind: str, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data


class Child:
    """One child process running ``python -m MODULE`` in a sandbox, bounded as its ``profile`` says.

    With ``exchange`` it inherits that memory, and ``settings["exchange"]`` is the path to open it by. Raises
    OSError when the process cannot be started.
    """

    def __init__(
        self,
        module: str,
        profile: Profile,
        limits: Limits,
        settings: dict[str, Any],
        exchange: Exchange | None = None,
    ) -> None:
        self.module = module
        self.limits = limits
        self.bounds = limits.bounds(profile)
        self.scratch = make_scratch()
        self.mark = secrets.token_hex(ENV_MARK_BYTES)
        self.sandbox = Sandbox(sandbox_level(), self.bounds, self.scratch, self.mark)
        self.last_wall_us = 0.0  # from the last request that was sent to the end of its answer
        self.answered_ns = 0  # when the last answer had been read, by `time.monotonic_ns`
        self.standstill_us = 0.0  # from the last request that was sent to when `freeze` saw it stopped
        self.frozen = False
        self._pending: deque[str] = deque()
        self._sent = time.monotonic_ns()
        request_read, self._write_fd = os.pipe()
        self._read_fd, answer_write = os.pipe()
        fds = (request_read, answer_write)
        shared = () if exchange is None else (exchange.fd,)
        message = json.dumps(self._all_settings(settings, profile, exchange))
        command = [sys.executable, "-m", module, *map(str, fds), message]
        try:
            self.process = subprocess.Popen(
                self.sandbox.command(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(*fds, *shared),
                env=self.sandbox.environment(),
                cwd=self.scratch,
                start_new_session=True,
            )
        except OSError:
            self._close_fds()
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise
        finally:
            for fd in fds:
                os.close(fd)
        assert self.process.stdout is not None
        self.output = OutputTail(self.process.stdout)
        self.watch = Watch(self.process.pid, self.bounds, self.sandbox, shared_bytes=self._shared(exchange))
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)

    def _all_settings(
        self, settings: dict[str, Any], profile: Profile, exchange: Exchange | None
    ) -> dict[str, Any]:
        """What the child is told at its start: the caller's settings, its limits, where shared memory is."""
        added: dict[str, Any] = {
            "harden": {
                "memory_bytes": self.bounds.memory_bytes,
                "file_bytes": self.bounds.file_bytes,
                "open_files": self.bounds.open_files,
                "processes": self.bounds.tasks,
            },
            # See `gpu_eval.child.stand_by` for both reasons.
            "stand_by": profile is Profile.JUDGE or self.sandbox.level == NONE,
        }
        if exchange is not None:
            added["exchange"] = exchange.path
        return {**settings, **added}

    @staticmethod
    def _shared(exchange: Exchange | None) -> int:
        return 0 if exchange is None else exchange.most_bytes

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def call(self, method: str, *, deadline_s: float, **params: Any) -> Any:
        """Ask and wait. Raises ChildTimeout, ChildDied or ChildFailure."""
        self.send(method, **params)
        return self.receive(method, deadline_s)

    def send(self, method: str, **params: Any) -> None:
        """Put a request on the pipe. Raises ChildDied when nobody reads it, or when an answer is there before
        any request.
        """
        self.thaw()
        if not self._pending and self._readable():
            self._break("answered before it was asked")
        name = secrets.token_hex(16)
        body = json.dumps({"id": name, "method": method, "params": params}).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        self._pending.append(name)
        self._sent = time.monotonic_ns()
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except OSError as error:
            raise self._died() from error

    def _readable(self) -> bool:
        """Whether bytes wait to be read (and not only the end of the stream)."""
        return any(event & select.POLLIN for _, event in self._poll.poll(0))

    def receive(self, method: str, deadline_s: float) -> Any:
        """The answer to the oldest request. Raises as `call` does."""
        end = time.monotonic() + deadline_s
        (size,) = struct.unpack(">I", self._read_exactly(4, method, end))
        if size > MAX_MESSAGE_BYTES:
            self._break("sent an oversized answer")
        body = self._read_exactly(size, method, end)
        self.answered_ns = time.monotonic_ns()
        self.last_wall_us = (self.answered_ns - self._sent) / 1e3
        answer = self._parsed(body)
        if (excess := self.watch.after_answer()) is not None:
            self._exceeded(excess.cause, excess.sentence)
        if "error" in answer:
            failure = answer["error"]
            if not isinstance(failure, dict):
                self._break("sent an error that says nothing")
            raise ChildFailure(str(failure.get("kind")), str(failure.get("message")), failure)
        return answer.get("result")

    def _parsed(self, body: bytes) -> dict[str, Any]:
        """An answer to the oldest request; whoever took the child over may have written anything."""
        try:
            answer = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self._break("sent an answer that is not JSON")
        if not isinstance(answer, dict) or not self._pending or answer.get("id") != self._pending.popleft():
            self._break("sent an answer to no request")
        return answer

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
        """Return once there is something to read; meanwhile watch the deadline and what the tree takes."""
        while True:
            left = end - time.monotonic()
            if left <= 0:
                self.kill()
                raise ChildTimeout(f"{method} did not finish in time")
            if self._poll.poll(1000 * min(left, WATCH_S)):
                return
            if self.process.poll() is not None and not self._readable():
                raise self._died()  # a process it left behind may hold the pipe open
            if (excess := self.watch.look()) is not None:
                self._exceeded(excess.cause, excess.sentence)

    def _exceeded(self, cause: str, sentence: str) -> NoReturn:
        self.kill()
        raise ChildDied(sentence, cause=cause)

    def _break(self, what: str) -> NoReturn:
        """End a child that does not keep to the protocol."""
        self.kill()
        raise ChildDied(what, cause="protocol")

    def _died(self) -> ChildDied:
        """What became of a child whose pipe closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        number = death_signal(self.process.returncode)
        self.kill()
        if number is not None:
            short = number == signal.SIGKILL and self.watch.peak_bytes > self.bounds.memory_bytes // 2
            return ChildDied(f"ended by {signal_name(number)}", number, "memory" if short else "")
        return ChildDied(f"ended with status {self.process.returncode}")

    def freeze(self) -> None:
        """Stop all its threads until `thaw` or the next request. Raises ChildDied when some go on.

        Whoever reads shared memory afterwards knows that nobody writes to it meanwhile.
        """
        if not self.frozen and not tree.freeze(self.process.pid, FREEZE_S):
            self._break("could not be stopped")
        self.standstill_us = (time.monotonic_ns() - self._sent) / 1e3
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on. Does nothing to a child that is not frozen."""
        if self.frozen:
            tree.thaw(self.process.pid)
        self.frozen = False

    def kill(self) -> None:
        """End the whole tree and forget it. Safe to call twice."""
        if self._write_fd < 0:
            return
        tree.end(self.process.pid, self.mark if self.sandbox.level == NONE else "")
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


def _refuse(constant: str) -> NoReturn:
    """JSON has no NaN and no infinity."""
    raise ValueError(f"{constant} is not JSON")


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
