"""Judge and runner as the evaluator sees them: their failures turned into what they mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpu_eval.candidates import Bound, Call, CandidateFailure, CandidateProcess, Layout, Left, Loaded
from gpu_eval.compiling.messages import code_message
from gpu_eval.compiling.service import CompileService, compiler_died
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.exchange import Exchange
from gpu_eval.limits import GIB, Limits, Profile
from gpu_eval.operators.source import OperatorSource
from gpu_eval.process import Child, ChildDied, ChildFailure, ChildTimeout
from gpu_eval.results import EvaluationPolicy, KernelReport, Precision, Protocol, Verdict

VERDICT_OF_KIND = {
    "rejected": Verdict.REJECTED,
    "compile_error": Verdict.COMPILE_ERROR,
    "launch_error": Verdict.LAUNCH_ERROR,
    "out_of_memory": Verdict.OUT_OF_MEMORY,
    "crashed": Verdict.CRASHED,
    "wrong": Verdict.WRONG,
}


COMPILING = "Compiling the kernels"
# Kernels on a CPU are native code in the runner, which may have taken it over: what it says about time must agree
# with what this process saw. Our own clock is noisy (a wake-up late by milliseconds is common on a busy machine).
# So the fastest of its calls is held against the median of requests that launch nothing, made among them; and one
# call's time is lifted only where the two clocks are far apart.
EMPTY_TRIPS, CALLS_A_TRIP = 7, 8
LIFT_SHARE, LIFT_US = 0.5, 10_000.0


class JudgeProcess:
    """The judge with one operator open. It fails by UnusableInput, or EvaluatorFault when it is ours."""

    def __init__(self, device: str, exchange: Exchange, limits: Limits, filename: str) -> None:
        self.limits = limits
        self.exchange = exchange
        self.filename = filename
        settings = {
            "device": device,
            "exchange_bytes": limits.exchange_bytes,
            "device_fraction": limits.device_fraction,
        }
        self.child = Child("gpu_eval.judge", Profile.JUDGE, limits, settings, exchange)
        self.child.send("hello")

    def open(
        self, source: OperatorSource, preset: str | None, policy: EvaluationPolicy, seed: int
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Bring the operator to life, stage by stage. Returns versions and the layout."""
        try:
            versions = self.child.receive("hello", self.limits.start_s)["versions"]
        except (ChildTimeout, ChildDied, ChildFailure) as error:
            raise EvaluatorFault(
                f"The judge did not start: {error}. {self.child.output.text()[-500:]}"
            ) from error
        stage = self.limits.operator_stage_s
        self.ask(
            "load",
            "the file",
            stage,
            source=source.text,
            filename=source.filename,
            preset=preset,
            precision=policy.precision,
            protocol=policy.protocol,
        )
        self.ask("build", "Model()", stage, seed=seed)
        self.ask("draw", "get_inputs()", stage, seed=seed)
        layout = self.ask("layout", "Model.forward()", stage, seed=seed)
        try:
            self.exchange.seal(int(layout["exchange_bytes"]))
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise UnusableInput(f"{self.filename}: its process gave a layout that cannot be used.") from error
        return versions, layout

    def ask(self, method: str, what: str, deadline_s: float, **params: Any) -> Any:
        """One request; ``what`` names in a sentence the operator's code that it runs."""
        try:
            return self.child.call(method, deadline_s=deadline_s, **params)
        except ChildTimeout as error:
            raise UnusableInput(
                f"{self.filename}: {what} did not finish within {deadline_s:g} seconds."
            ) from error
        except ChildDied as error:
            if error.cause == "memory":
                raise self.too_much_memory(what) from error
            raise UnusableInput(f"{self.filename}: {what} took its process down ({error}).") from error
        except ChildFailure as error:
            if error.kind == "operator":
                raise UnusableInput(error.message) from error
            if error.kind == "out_of_memory":
                raise self.too_much_memory(what) from error
            if error.kind == "fault":
                raise EvaluatorFault(
                    f"judge.{method}: {error.message}\n{error.data.get('detail', '')}"
                ) from error
            raise

    def too_much_memory(self, what: str) -> UnusableInput:
        """The operator takes more than the judge may."""
        return UnusableInput(f"{self.filename}: {what} asks for more memory than is allowed.")

    @property
    def alive(self) -> bool:
        return self.child.alive

    def kill(self) -> None:
        self.child.kill()


class PlanRunner(CandidateProcess):
    """A runner for one plan. Its failures are verdicts (CandidateFailure) or ours (EvaluatorFault).

    ``tf32``: whether library calls may round to TF32 in matrix products and in convolutions. With
    ``library`` torch is imported at the start, which takes seconds and only library calls need. Without
    ``compilers`` the runner compiles itself.
    """

    def __init__(
        self,
        device: str,
        exchange: Exchange,
        limits: Limits,
        policy: EvaluationPolicy,
        library: bool = False,
        compilers: CompileService | None = None,
    ) -> None:
        self.limits = limits
        self.compilers = compilers
        self.policy = policy
        self.clock = "device events" if device == "cuda" else "wall clock"
        settings = {"device": device, "torch": library}
        self.child = Child("gpu_eval.runner", Profile.RUNNER, limits, settings, exchange)
        self.child.send("hello")
        self.collects = False
        self.native = device != "cuda"  # the candidate's code runs in the runner's own process
        self.empty_trips: list[float] = []  # microseconds that requests take beside their kernels
        self.least_trip_us = math.inf  # of the candidate's calls
        self.calls = 0
        self._versions: dict[str, str] | None = None

    def ready(self) -> dict[str, str]:
        if self._versions is None:
            try:
                self._versions = self.child.receive("hello", self.limits.start_s)["versions"]
            except ChildFailure as error:
                raise EvaluatorFault(f"The device cannot be used: {error.message}") from error
            except (ChildTimeout, ChildDied) as error:
                raise EvaluatorFault(
                    f"The runner did not start: {error}. {self.child.output.text()[-500:]}"
                ) from error
        return self._versions

    def launch_us(self) -> float:
        return float(self.ask("empty_launch_us", "An empty launch", self.limits.run_s))

    def load(self, text: str, left: Left) -> Loaded:
        """Through the compile service where there is one; else the runner compiles."""
        params: dict[str, Any] = {"plan": text, "filename": "plan", "library": self.policy.library}
        compiled = self.compilers and self.compilers.compile(text, self.policy.library, left)
        if compiled:
            params["code"] = code_message(compiled.code)
        if self.native:
            for _ in range(EMPTY_TRIPS):
                self.empty_trip()
        limit = self.limits.compile_s
        answer = self.ask("load", COMPILING, left(limit), **params)
        if not compiled:
            return Loaded(answer["hash"], answer["log"], answer["compiler"])
        code = compiled.code
        return Loaded(
            compiled.candidate_hash, code.log, code.compiler, compiled.cached, list(code.device_globals)
        )

    def reload(self, deadline_s: float) -> None:
        self.ask("reload", "Loading the code again", deadline_s)

    def bind(self, layout: Layout, left: Left) -> Bound:
        products = self.policy.precision is Precision.TF32
        convolutions = products or self.policy.protocol is Protocol.KERNELBENCH
        answer = self.ask(
            "bind",
            "Preparing the plan",
            left(self.limits.bind_s),
            lanes=layout["lanes"],
            params=layout["params"],
            tf32=[products, convolutions],
        )
        with understood():
            self.collects = bool(answer["collects"])
            return Bound(
                prepare_us=number(answer["prepare_us"]),
                launches=int(answer["launches"]),
                kernels=[KernelReport(**kernel) for kernel in answer["kernels"]],
                library_calls=[str(name) for name in answer["library_calls"]],
            )

    def prepare(self, deadline_s: float) -> float:
        answer = self.ask("prepare", "The plan's prepare", deadline_s)
        with understood():
            return number(answer)

    def run(self, lane: int, deadline_s: float) -> Call:
        self.calls += 1
        if self.native and self.calls % CALLS_A_TRIP == 0:  # before: afterwards outputs wait to be looked at
            self.empty_trip()
        what = "A call of the kernels"
        answer = self.ask("run", what, deadline_s, lane=lane)
        self.hold(what)
        with understood():
            us, wall_us = number(answer["us"]), number(answer["wall_us"])
            waited_us, lead_us = number(answer["waited_us"]), number(answer["lead_us"])
        if not self.native:
            return Call(us, wall_us, waited_us, wall_us - us - lead_us if lead_us else 0.0)
        return self.seen_call(us, waited_us)

    def seen_call(self, us: float, waited_us: float) -> Call:
        """A call of native code: the time it claims beside what this process saw."""
        trip_us = self.child.standstill_us - us
        self.least_trip_us = min(self.least_trip_us, trip_us)
        usual_us = statistics.median(self.empty_trips)
        if trip_us - usual_us > LIFT_SHARE * us + LIFT_US:
            us = trip_us + us - usual_us
        return Call(us, us, waited_us, self.least_trip_us - usual_us)

    def empty_trip(self) -> None:
        """Note what a request takes here beside its kernels, the standstill after it included."""
        what = "An empty call"
        answer = self.ask("run_nothing", what, self.limits.run_s)
        self.hold(what)
        with understood():
            self.empty_trips.append(self.child.standstill_us - number(answer["us"]))

    def hold(self, what: str) -> None:
        """Stop a process that the candidate's native code may have threads in, until the next request: the
        judge looks at the outputs as they are now."""
        if self.native:
            with self.died(what):
                self.child.freeze()

    def collect(self, lane: int, deadline_s: float) -> None:
        """Kernels write to the lane itself; results that torch allocated are copied there now."""
        if self.collects:
            self.ask("collect", "Collecting the results", deadline_s, lane=lane)
            self.hold("Collecting the results")

    def run_without(self, kernels: list[str], lane: int, deadline_s: float) -> None:
        self.ask("run_without", "A call without its kernels", deadline_s, lane=lane, kernels=kernels)
        self.hold("A call without its kernels")

    def poison(self, deadline_s: float) -> None:
        self.ask("poison", "Filling the temporary tensors", deadline_s)

    def broken_guards(self, deadline_s: float) -> list[str]:
        answer = self.ask("broken_guards", "Checking the guard bytes", deadline_s)
        with understood():
            return [str(name) for name in answer]

    def ask(self, method: str, what: str, deadline_s: float, **params: Any) -> Any:
        """One request; ``what`` names in a sentence what the candidate does meanwhile."""
        try:
            with self.died(what):
                return self.child.call(method, deadline_s=deadline_s, **params)
        except ChildTimeout as error:
            raise CandidateFailure(
                Verdict.TIMEOUT, f"{what} did not finish within {deadline_s:g} seconds."
            ) from error
        except ChildFailure as error:
            verdict = VERDICT_OF_KIND.get(error.kind)
            if verdict is None:
                detail = error.data.get("detail", "")
                raise EvaluatorFault(f"runner.{method}: {error.message}\n{detail}") from error
            raise CandidateFailure(verdict, error.message, str(error.data.get("log", ""))) from error

    @contextmanager
    def died(self, what: str) -> Iterator[None]:
        """A verdict for a process that is gone."""
        try:
            yield
        except ChildDied as error:
            output = self.child.output.text()
            if what == COMPILING:
                raise compiler_died(error, output, self.limits.runner_memory_bytes) from error
            if error.cause == "memory":
                size = self.limits.runner_memory_bytes / GIB
                message = f"{what} takes more than {size:.3g} GiB of memory."
                raise CandidateFailure(Verdict.OUT_OF_MEMORY, message, output) from error
            if error.cause:
                message = f"{what} was ended: its process {error}."
                raise CandidateFailure(Verdict.CRASHED, message, output) from error
            message = f"{what} took its process down ({error})."
            raise CandidateFailure(Verdict.CRASHED, message, output) from error

    def kill(self) -> None:
        self.child.kill()


@contextmanager
def understood() -> Iterator[None]:
    """Reading a runner's answer. One that makes no sense is the doing of native code that took it over."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = "The candidate's process gave an answer that makes no sense."
        raise CandidateFailure(Verdict.CRASHED, message) from error


def number(value: Any) -> float:
    """A time that is one. Raises ValueError or TypeError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise ValueError(f"{value!r} is no time")
    return float(value)
