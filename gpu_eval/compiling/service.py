"""The parent's side of compiling: processes warmed up ahead, each used for one candidate, and the cache."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from gpu_eval.candidates import CandidateFailure, Left
from gpu_eval.compiling.cache import cache_key, kernel_cache
from gpu_eval.compiling.messages import code_message, code_of
from gpu_eval.content_cache import ContentCache, Entry
from gpu_eval.devices.base import CompiledCode, clean_log
from gpu_eval.devices.cuda_compile import MAX_CUBIN_BYTES, too_large
from gpu_eval.errors import EvaluatorFault
from gpu_eval.limits import GIB, Limits, Profile
from gpu_eval.process import Child, ChildDied, ChildFailure, ChildTimeout
from gpu_eval.results import LibraryPolicy, Verdict

MODULE = "gpu_eval.compiling"
KEPT = 1
_NO_MEMORY = re.compile(r"bad_alloc|out of memory|cannot allocate memory|memory exhausted", re.IGNORECASE)
SIGKILL = 9  # the system's own way to end a process that takes too much


@dataclass(frozen=True)
class Compiled:
    """A candidate's code, and whether it was at hand already."""

    candidate_hash: str
    code: CompiledCode
    cached: bool


class CompilerProcess:
    """One compiler in its sandbox, for one plan. It starts in the background."""

    def __init__(self, arch: str, limits: Limits) -> None:
        self.limits = limits
        self.child = Child(MODULE, Profile.COMPILER, limits, {"arch": arch})
        self.child.send("hello")

    def ready(self) -> str:
        """Wait for it; the toolkit it compiles with."""
        try:
            return str(self.child.receive("hello", self.limits.start_s)["toolkit"])
        except (ChildTimeout, ChildDied, ChildFailure) as error:
            words = self.child.output.text()[-500:]
            raise EvaluatorFault(f"The compiler did not start: {error}. {words}") from error

    def ask(self, method: str, deadline_s: float, **params: Any) -> Any:
        """One request. Raises CandidateFailure, or EvaluatorFault when it is ours."""
        try:
            return self.child.call(method, deadline_s=deadline_s, **params)
        except ChildTimeout as error:
            raise CandidateFailure(
                Verdict.TIMEOUT, f"Compiling the kernels did not finish within {deadline_s:g} seconds."
            ) from error
        except ChildDied as error:
            raise compiler_died(error, self.child.output.text(), self.limits.compiler_memory_bytes) from error
        except ChildFailure as error:
            if error.kind == "rejected":
                raise CandidateFailure(Verdict.REJECTED, error.message) from error
            if error.kind == "out_of_memory":
                raise too_much_memory(self.limits.compiler_memory_bytes) from error
            detail = error.data.get("detail", "")
            raise EvaluatorFault(f"compiling.{method}: {error.message}\n{detail}") from error

    def kill(self) -> None:
        self.child.kill()


class CompileService:
    """Compiles CUDA plans for one architecture. Not for use from several threads."""

    def __init__(
        self, arch: str, limits: Limits, kept: int = KEPT, cache: ContentCache | None = None
    ) -> None:
        self.arch = arch
        self.limits = limits
        self.kept = kept
        self.cache = cache or kernel_cache()
        self.waiting: deque[CompilerProcess] = deque()

    def refill(self) -> None:
        """Start what is missing, without waiting for it."""
        while len(self.waiting) < self.kept:
            self.waiting.append(CompilerProcess(self.arch, self.limits))

    def close(self) -> None:
        """End the compilers that nobody took."""
        while self.waiting:
            self.waiting.popleft().kill()

    def compile(self, text: str, library: LibraryPolicy, left: Left) -> Compiled:
        """Parse and compile the plan ``text``. Raises CandidateFailure with its verdict, EvaluatorFault."""
        compiler = self.waiting.popleft() if self.waiting else CompilerProcess(self.arch, self.limits)
        try:
            return self._compile(compiler, text, library, left)
        finally:
            compiler.kill()

    def _compile(self, compiler: CompilerProcess, text: str, library: LibraryPolicy, left: Left) -> Compiled:
        toolkit = compiler.ready()
        limit = self.limits.compile_s
        parsed = compiler.ask("parse", left(limit), plan=text, filename="plan", library=library)
        key = cache_key(parsed["kernels"], parsed["names"], self.arch, toolkit)
        entry = self.cache.get(key)
        if entry is not None:
            return result_of(parsed["hash"], entry, cached=True)
        entry = checked(compiler.ask("compile", left(limit)))
        self.cache.put(key, entry)
        return result_of(parsed["hash"], entry, cached=False)


def checked(answer: Any) -> Entry:
    """A compiler's answer in the form that is stored. Raises CandidateFailure for one that has no such form:
    only a source that took its compiler over makes it say that."""
    try:
        if "error" in answer:
            return {"error": clean_log(str(answer["error"])), "log": clean_log(str(answer["log"]))}
        code = code_of(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise CandidateFailure(Verdict.COMPILE_ERROR, "The compiler gave no usable answer.") from error
    if len(code.code) > MAX_CUBIN_BYTES:
        raise CandidateFailure(Verdict.COMPILE_ERROR, too_large(len(code.code)))
    return code_message(replace(code, log=clean_log(code.log)))


def result_of(candidate_hash: str, entry: Entry, cached: bool) -> Compiled:
    """An answer as code. Raises CandidateFailure for one that is a failure."""
    if "error" in entry:
        raise CandidateFailure(Verdict.COMPILE_ERROR, str(entry["error"]), str(entry.get("log", "")))
    return Compiled(candidate_hash, code_of(entry), cached)


def compiler_died(error: ChildDied, output: str, memory_bytes: int) -> CandidateFailure:
    """The verdict on kernels that took their compiler down."""
    if error.signal == SIGKILL or error.cause == "memory" or _NO_MEMORY.search(output):
        return too_much_memory(memory_bytes)
    return CandidateFailure(
        Verdict.COMPILE_ERROR, f"The compiler gave up on these kernels ({error}).", clean_log(output)
    )


def too_much_memory(memory_bytes: int) -> CandidateFailure:
    """The verdict on kernels that cannot be compiled within the limit."""
    size = memory_bytes / GIB
    return CandidateFailure(
        Verdict.OUT_OF_MEMORY, f"Compiling the kernels takes more than {size:.3g} GiB of memory."
    )
