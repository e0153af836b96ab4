"""One candidate before the judge: loaded, checked, timed, tried without its kernels; then the verdict."""

from __future__ import annotations

import dataclasses
import random
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpu_eval import timing
from gpu_eval.candidates import Bound, Call, CandidateFailure, CandidateProcess, Layout, Loaded
from gpu_eval.conditions import read_conditions
from gpu_eval.device_slot import device_slot
from gpu_eval.errors import EvaluatorFault
from gpu_eval.limits import MAX_PLAN_BYTES, MIN_TIMED_CALLS, Limits
from gpu_eval.pairs import Pair, enough, is_disturbed, quiet_pairs
from gpu_eval.results import (
    CHECKER_VERSION,
    Check,
    Conditions,
    DeviceFacts,
    Evaluation,
    EvaluationPolicy,
    KernelReport,
    Precision,
    Protocol,
    Timing,
    Verdict,
)
from gpu_eval.roofline import Work, bottleneck, floor_us, too_fast
from gpu_eval.sandbox import sandbox_level
from gpu_eval.workers import JudgeProcess

MIN_ROUNDS = 2
MORE_CALLS = 0.1  # of the wanted calls: their number is drawn, so that no candidate can count to the last
CLOCK_SLACK = 1.05  # the device's clock and the host's are two crystals
HIDDEN_SHARE, HIDDEN_US = 0.5, 200.0  # what the host's clock may show beyond the device's events

OnPhase = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Bench:
    """What every candidate of a session meets."""

    judge: JudgeProcess
    layout: Layout
    device: DeviceFacts
    policy: EvaluationPolicy
    limits: Limits
    operator_hash: str
    compiled: Timing | None = None  # torch.compile, where it was measured

    @property
    def work(self) -> Work:
        return Work(**self.layout["work"])

    @property
    def lanes(self) -> int:
        return len(self.layout["lanes"])


class Trial:
    """The evaluation of one candidate. Used once; ``run`` gives the verdict."""

    def __init__(
        self, bench: Bench, candidate: CandidateProcess, seed: int | None, versions: dict[str, str]
    ) -> None:
        self.bench = bench
        self.candidate = candidate
        self.seed = seed
        self.versions = versions
        self.deadline = time.monotonic() + bench.limits.evaluation_s
        self.checks: list[Check] = []
        self.loaded = Loaded("")
        self.bound = Bound(0.0)
        self.kernels: list[KernelReport] = []
        self.pairs: list[Pair] = []
        self.hidden_us: list[float] = []
        self.last_lane = 0
        self.before: Conditions | None = None
        self.after: Conditions | None = None
        self.launch_us: float | None = None
        self.phase_seconds: dict[str, float] = {}

    def run(self, text: str, on_phase: OnPhase) -> Evaluation:
        """Judge ``text``. Raises EvaluatorFault or UnusableInput where it is not the candidate's failure."""
        try:
            with self.phase("compile", on_phase):
                self.load(text)
            with self.slot():
                with self.phase("check", on_phase):
                    self.check()
                with self.phase("time", on_phase):
                    self.time()
                self.try_without_kernels()
                self.check_guards()
        except CandidateFailure as failure:
            return self.failed(failure)
        return self.timed_verdict()

    # Deadlines.

    def left(self, limit_s: float) -> float:
        """A deadline for the next request: its own limit, or what is left of the whole evaluation's."""
        return max(0.1, min(limit_s, self.deadline - time.monotonic()))

    @contextmanager
    def phase(self, name: str, on_phase: OnPhase) -> Iterator[None]:
        """Announce a phase and note how long it took, also when it fails."""
        on_phase(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.phase_seconds[name] = round(time.monotonic() - start, 4)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """The device for us alone; waiting for it does not count against the candidate."""
        with device_slot(self.bench.device.kind) as waited:
            self.deadline += waited
            if waited > 0.01:
                self.phase_seconds["wait"] = round(waited, 4)
            yield

    # The stages.

    def load(self, text: str) -> None:
        """Compile, load, bind to every lane. Only then is the seed drawn."""
        if len(text.encode("utf-8", "replace")) > MAX_PLAN_BYTES:
            raise CandidateFailure(Verdict.REJECTED, f"The plan is larger than {MAX_PLAN_BYTES // 1000} kB.")
        self.versions |= self.candidate.ready()
        self.loaded = self.candidate.load(text, self.left)
        self.bind()
        self.launch_us = self.candidate.launch_us()
        if self.seed is None:
            self.seed = secrets.randbits(32)

    def bind(self) -> None:
        self.bound = self.candidate.bind(self.bench.layout, self.left)
        self.kernels = self.bound.kernels

    def check(self) -> None:
        """Fresh inputs, poisoned outputs, one call, verify; the first input twice."""
        self.checks += self.bound.checks
        rounds = max(self.bench.policy.correctness_rounds, MIN_ROUNDS)
        self.ask("begin", seed=self.seed, move_weights=self.bound.takes_weights, rounds=rounds)
        for index in range(rounds):
            lane = index % self.bench.lanes
            prepared = self.ask("prepare", index=index, lane=lane)
            if prepared["new_weights"] or index == 0:  # `bind` prepared it before the weights were in place
                self.candidate.prepare(self.left(self.bench.limits.bind_s))
            self.candidate.poison(self.left(self.bench.limits.run_s))
            self.call(lane)
            self.verify(f"round {index + 1}", lane)
            if index == 0:
                self.check_repeat(lane)
        self.check_guards()
        self.reload()

    def check_repeat(self, lane: int) -> None:
        """The same input again must give the same output."""
        self.ask("repeat", lane=lane)
        self.candidate.poison(self.left(self.bench.limits.run_s))
        self.call(lane)
        answer = self.ask("verify", lane=lane, repeated=True)
        detail = "bit for bit" if answer.get("identical") else "up to the order of additions"
        self.checks.append(Check("deterministic", answer["passed"], answer["message"] or detail))
        if not answer["passed"]:
            raise CandidateFailure(Verdict.NONDETERMINISTIC, answer["message"])

    def check_guards(self) -> None:
        """No kernel may have written past the candidate's own tensors."""
        broken = self.candidate.broken_guards(self.left(self.bench.limits.run_s))
        message = f'A kernel wrote outside the tensor "{broken[0]}".' if broken else ""
        self.checks = [check for check in self.checks if check.name != "guard bytes"]
        self.checks.append(Check("guard bytes", not broken, message))
        if broken:
            raise CandidateFailure(Verdict.WRONG, message)

    def reload(self) -> None:
        """Where kernels have variables that outlive a launch, begin the timing with fresh ones."""
        if not self.loaded.device_globals:
            return
        names = ", ".join(self.loaded.device_globals[:5])
        detail = f"{names}: values outlive a launch, so the code was loaded afresh before the timing"
        self.checks.append(Check("device variables", True, detail))
        self.candidate.reload(self.left(self.bench.limits.compile_s))
        self.bind()

    def time(self) -> None:
        """Candidate and PyTorch in turns on the same fresh inputs; every timed output is verified too."""
        policy, limits = self.bench.policy, self.bench.limits
        rng = random.Random(f"order/{self.seed}")
        wanted = max(policy.timed_calls, MIN_TIMED_CALLS)
        wanted += rng.randrange(int(wanted * MORE_CALLS) + 1)
        self.before = read_conditions(self.bench.device.kind)
        start = time.monotonic()
        while not enough(self.pairs, wanted, time.monotonic() - start, limits.timing_budget_s):
            lane = self.next_lane(rng)
            self.ask("prepare", index=len(self.pairs), lane=lane, timed=True)
            self.pairs.append(self.timed_pair(lane, candidate_first=rng.random() < 0.5))
            self.verify(f"timed call {len(self.pairs)}", lane, keep=False)
        self.after = read_conditions(self.bench.device.kind)
        counted, disturbed = len(self.counted), sum(pair.disturbed for pair in self.pairs)
        detail = f"every one of {len(self.pairs)} timed calls was verified; {counted} count"
        self.checks.append(Check("timed calls", True, detail, {"disturbed": disturbed}))

    def next_lane(self, rng: random.Random) -> int:
        """Any lane but the last call's, so that its lines are not in the cache."""
        if self.bench.lanes == 1:
            return 0
        self.last_lane = (self.last_lane + 1 + rng.randrange(self.bench.lanes - 1)) % self.bench.lanes
        return self.last_lane

    def timed_pair(self, lane: int, candidate_first: bool) -> Pair:
        """One call of the candidate and one of eager PyTorch."""
        if candidate_first:
            call = self.call(lane)
            baseline = self.baseline(lane)
        else:
            baseline = self.baseline(lane)
            call = self.call(lane)
        self.hidden_us.append(call.hidden_us)
        return Pair(call.us, baseline.us, is_disturbed(call) or is_disturbed(baseline))

    def baseline(self, lane: int) -> Call:
        """One eager call on the lane's inputs, by the clock that the candidate is held to."""
        answer = self.ask("baseline", lane=lane, wall=self.candidate.clock == "wall clock")
        return Call(answer["us"], answer["wall_us"], answer["waited_us"])

    def call(self, lane: int) -> Call:
        """One call of the candidate, its outputs in the lane's memory.

        Raises EvaluatorFault when the device claims more time than passed: then neither clock can be trusted.
        """
        call = self.candidate.run(lane, self.left(self.bench.limits.run_s))
        if call.us > CLOCK_SLACK * call.wall_us:
            raise EvaluatorFault(
                f"The device's clock says {call.us:.1f} us where {call.wall_us:.1f} us passed."
            )
        self.candidate.collect(lane, self.left(self.bench.limits.run_s))
        return call

    def verify(self, name: str, lane: int, keep: bool = True) -> None:
        """Let the judge look at the outputs. A failure is the verdict."""
        answer = self.ask("verify", lane=lane)
        detail = answer["message"] or f"{answer['variant']} inputs"
        if keep or not answer["passed"]:
            self.checks.append(Check(name, answer["passed"], detail, answer["numbers"]))
        if not answer["passed"]:
            raise CandidateFailure(Verdict.WRONG, answer["message"])

    def try_without_kernels(self) -> None:
        """Leave launches out and see whether the outputs miss them.

        Kernels that decorate library calls would pass for an own implementation. This comes last: what a
        call does with memory that nobody wrote may end the candidate's process.
        """
        names = [kernel.name for kernel in self.kernels]
        if not names:
            return
        self.ask("prepare", index=0, lane=0)
        needed = self.misses(names)
        if len(names) > 1:
            each = {name: self.misses([name]) for name in names} if needed else dict.fromkeys(names, False)
        else:
            each = {names[0]: needed}
        self.kernels = [dataclasses.replace(kernel, matters=each[kernel.name]) for kernel in self.kernels]
        idle = [name for name, matters in each.items() if not matters]
        if not needed:
            message = (
                "Its own kernels do nothing: without them the library calls alone give the right answer."
            )
        elif idle:
            message = f"without {', '.join(idle)} the answer is the same"
        else:
            message = "without any one of them the answer is wrong"
        self.checks.append(Check("kernels matter", needed, message))
        if not needed:
            raise CandidateFailure(Verdict.REJECTED, message)

    def misses(self, kernels: list[str]) -> bool:
        """Whether the outputs are wrong, or none come, without the launches of ``kernels``."""
        self.ask("repeat", lane=0)
        try:
            self.candidate.run_without(kernels, 0, self.left(self.bench.limits.run_s))
        except CandidateFailure:
            return True
        return not self.ask("verify", lane=0)["passed"]

    def ask(self, method: str, **params: Any) -> Any:
        """One request to the judge."""
        limit = self.left(self.bench.limits.judge_call_s)
        return self.bench.judge.ask(method, "the operator", limit, **params)

    # Verdicts.

    @property
    def counted(self) -> list[Pair]:
        """The pairs that make the times."""
        return quiet_pairs(self.pairs)

    def failed(self, failure: CandidateFailure) -> Evaluation:
        """A status with its evidence, and no numbers."""
        log = failure.log or self.loaded.log
        return self.evaluation(verdict=failure.verdict, message=failure.message, compiler_log=log)

    def timed_verdict(self) -> Evaluation:
        """Correct, or quarantined where the times cannot be true."""
        bench, work = self.bench, self.bench.work
        candidate_us = [pair.candidate_us for pair in self.counted]
        baseline_us = [pair.baseline_us for pair in self.counted]
        candidate, baseline = timing.summarise(candidate_us), timing.summarise(baseline_us)
        means = bench.policy.protocol is Protocol.KERNELBENCH
        unseen = timing.UNSEEN[self.candidate.clock]
        ratio = timing.speedup(baseline_us, candidate_us, self.seed or 0, means=means, unseen=unseen)
        fast_units = (
            bench.policy.precision is not Precision.FP32
            or bool(self.bound.library_calls)
            or self.candidate.untrusted
        )
        suspicion = too_fast(candidate.median_us, baseline.median_us, work, bench.device, fast_units)
        suspicion = suspicion or self.hidden_work(candidate.median_us)
        return self.evaluation(
            verdict=Verdict.QUARANTINED if suspicion else Verdict.CORRECT,
            message=suspicion,
            candidate=candidate,
            baseline=baseline,
            compiled_baseline=bench.compiled,
            speedup=ratio.median,
            speedup_low=ratio.low,
            speedup_high=ratio.high,
            faster=ratio.low > 1 and not suspicion,
            achieved_gbs=work.bytes / candidate.median_us / 1e3,
            achieved_gflops=work.flops / candidate.median_us / 1e3,
            bottleneck=bottleneck(
                candidate.median_us, self.launch_us, self.bound.launches, work, bench.device
            ),
            compiler_log=self.loaded.log,
        )

    def hidden_work(self, median_us: float) -> str:
        """A sentence when the host's clock saw much that the device's events did not, else nothing."""
        hidden = statistics.median(self.hidden_us)
        agree = hidden <= HIDDEN_SHARE * median_us + HIDDEN_US
        numbers: dict[str, float | int | str | None] = {"outside_the_events_us": round(hidden, 1)}
        self.checks.append(Check("clocks agree", agree, "", numbers))
        if agree:
            return ""
        return (
            f"The device's events say {median_us:.1f} us, and the host's clock {hidden:.0f} us more: work was "
            "done outside of them."
        )

    def evaluation(self, **fields: Any) -> Evaluation:
        """An Evaluation with everything that is known whatever the verdict."""
        bench = self.bench
        return Evaluation(
            device=bench.device,
            checks=self.checks,
            floor_us=floor_us(bench.work, bench.device),
            kernels=self.kernels,
            library_calls=self.bound.library_calls,
            policy=bench.policy,
            phase_seconds=self.phase_seconds,
            versions=self.versions,
            sandbox=sandbox_level(),
            untrusted=self.candidate.untrusted,
            checker=CHECKER_VERSION,
            compiler=self.loaded.compiler,
            compile_cached=self.loaded.cached,
            device_globals=self.loaded.device_globals,
            prepare_us=self.bound.prepare_us,
            launch_us=self.launch_us,
            clock=self.candidate.clock,
            before=self.before,
            after=self.after,
            operator_hash=bench.operator_hash,
            candidate_hash=self.loaded.candidate_hash,
            seed=self.seed or 0,
            **fields,
        )
