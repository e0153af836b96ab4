"""One evaluation, top to bottom: compile, bind, check, time, verdict.

The session keeps a judge (which holds the operator) and always one runner warmed up ahead. This process
drives both and imports neither torch nor a device library.
"""

from __future__ import annotations

import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from gpu_eval import timing
from gpu_eval.choice import AUTO, choose_device, choose_preset
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.folders import make_exchange
from gpu_eval.limits import DEFAULT_LIMITS, MAX_PLAN_BYTES, MIN_TIMED_CALLS, Limits
from gpu_eval.operators.health import OperatorReport
from gpu_eval.operators.source import OperatorSource, parse_operator
from gpu_eval.pairs import Pair, enough, is_disturbed, quiet_pairs
from gpu_eval.results import (
    Check,
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
from gpu_eval.workers import CandidateFailure, JudgeProcess, RunnerProcess

__all__ = ["EvaluationSession", "EvaluatorFault", "OperatorReport", "UnusableInput", "ignore"]

DEFAULT_POLICY = EvaluationPolicy()
CLOCK_SLACK = 1.05  # the device's clock and the host's are two crystals


def ignore(phase: str) -> None:
    """The default listener: nobody wants to know the phase."""


@dataclass
class Record:
    """What is known of one candidate so far."""

    seed: int
    deadline: float
    checks: list[Check] = field(default_factory=list)
    kernels: list[KernelReport] = field(default_factory=list)
    library_calls: list[str] = field(default_factory=list)
    launches: int = 0
    compiler_log: str = ""
    candidate_hash: str = ""
    candidate_us: list[float] = field(default_factory=list)
    baseline_us: list[float] = field(default_factory=list)
    phase_seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def left(self, limit_s: float) -> float:
        """A deadline for the next request: its own limit, or what is left of the whole evaluation's."""
        return max(0.1, min(limit_s, self.deadline - time.monotonic()))

    @contextmanager
    def phase(self, name: str, on_phase: Callable[[str], None]) -> Iterator[None]:
        """Announce a phase and note how long it took, also when it fails."""
        on_phase(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.phase_seconds[name] = round(time.monotonic() - start, 4)


class EvaluationSession:
    """Evaluates candidates of one operator on one device. A context manager; not for use from several
    threads.

    Raises UnusableInput when the operator cannot be used, EvaluatorFault when the evaluator itself fails.
    """

    def __init__(
        self,
        operator_source: str,
        *,
        device: str = AUTO,
        policy: EvaluationPolicy = DEFAULT_POLICY,
        operator_name: str = "operator",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        name = operator_name if operator_name.endswith(".py") else f"{operator_name}.py"
        self.source: OperatorSource = parse_operator(operator_source, name)
        self.policy = policy
        self.limits = limits
        self.device: DeviceFacts = choose_device(device)
        self.preset = choose_preset(self.source, policy.preset, self.device.kind)
        self._exchange = Path()
        self._judge: JudgeProcess | None = None
        self._runner: RunnerProcess | None = None
        self._layout: dict[str, Any] = {}
        self._judge_versions: dict[str, str] = {}
        self._launch_us: float | None = None
        self._compiled: Timing | None = None

    def __enter__(self) -> EvaluationSession:
        self._exchange = make_exchange()
        try:
            self._warm_next_runner()
            self._open_judge()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End both processes and drop the shared memory. Safe to call twice."""
        for process in (self._judge, self._runner):
            if process is not None:
                process.kill()
        self._judge = self._runner = None
        if self._exchange != Path():
            shutil.rmtree(self._exchange, ignore_errors=True)

    def evaluate(
        self, plan: str, *, seed: int | None = None, on_phase: Callable[[str], None] = ignore
    ) -> Evaluation:
        """Judge one candidate. ``on_phase`` hears "compile", "check" and "time" as each begins.

        Without ``seed`` one is drawn; the seed is first used after the candidate has been loaded.
        """
        record = Record(
            seed=secrets.randbits(32) if seed is None else seed,
            deadline=time.monotonic() + self.limits.evaluation_s,
        )
        judge = self._ready_judge()
        runner = self._take_runner()
        try:
            record.versions = {**self._judge_versions, **runner.ready()}
            with record.phase("compile", on_phase):
                self._compile(runner, plan, record)
                self._bind(runner, record)
            with record.phase("check", on_phase):
                self._check(judge, runner, record)
            with record.phase("time", on_phase):
                self._time(judge, runner, record)
        except CandidateFailure as failure:
            return self._failed(record, failure)
        finally:
            runner.kill()
            self._warm_next_runner()
        return self._timed_verdict(record)

    # The stages of an evaluation.

    def _compile(self, runner: RunnerProcess, plan: str, record: Record) -> None:
        """Parse the plan and compile its kernels, in the runner."""
        if len(plan.encode("utf-8", "replace")) > MAX_PLAN_BYTES:
            raise CandidateFailure(Verdict.REJECTED, f"The plan is larger than {MAX_PLAN_BYTES // 1000} kB.")
        answer = runner.ask(
            "compile",
            "Compiling the kernels",
            record.left(self.limits.compile_s),
            plan=plan,
            filename="plan",
            library=self.policy.library,
        )
        record.candidate_hash = answer["hash"]
        record.compiler_log = answer["log"]

    def _bind(self, runner: RunnerProcess, record: Record) -> None:
        """Fix the plan's shapes and tie it to the judge's memory."""
        layout = {name: self._layout[name] for name in ("inputs", "params", "outputs")}
        answer = runner.ask("bind", "Preparing the plan", record.left(self.limits.bind_s), **layout)
        record.kernels = [KernelReport(**kernel) for kernel in answer["kernels"]]
        record.library_calls = answer["library_calls"]
        record.launches = answer["launches"]

    def _check(self, judge: JudgeProcess, runner: RunnerProcess, record: Record) -> None:
        """Fresh inputs, poisoned outputs, one call, verify; then the same input once more."""
        self._ask_judge(judge, record, "begin", seed=record.seed)
        for index in range(max(self.policy.correctness_rounds, 2)):
            prepared = self._ask_judge(judge, record, "prepare", index=index)
            if prepared["new_weights"] or index == 0:  # `bind` ran it before the weights were in place
                runner.ask("prepare", "The plan's prepare", record.left(self.limits.bind_s))
            self._run(runner, record)
            self._verify(judge, record, f"round {index + 1}")
            if index == 0:
                self._check_repeat(judge, runner, record)
        self._check_guards(runner, record)

    def _check_repeat(self, judge: JudgeProcess, runner: RunnerProcess, record: Record) -> None:
        """The same input again must give the same output."""
        self._ask_judge(judge, record, "repeat")
        self._run(runner, record)
        answer = self._ask_judge(judge, record, "verify", repeated=True)
        detail = "bit for bit" if answer.get("identical") else "up to the order of additions"
        record.checks.append(Check("deterministic", answer["passed"], answer["message"] or detail))
        if not answer["passed"]:
            raise CandidateFailure(Verdict.NONDETERMINISTIC, answer["message"])

    def _check_guards(self, runner: RunnerProcess, record: Record) -> None:
        """No kernel may have written past the plan's own tensors."""
        broken = runner.ask("broken_guards", "Checking the guard bytes", record.left(self.limits.run_s))
        message = f'A kernel wrote outside the tensor "{broken[0]}".' if broken else ""
        record.checks.append(Check("guard bytes", not broken, message))
        if broken:
            raise CandidateFailure(Verdict.WRONG, message)

    def _time(self, judge: JudgeProcess, runner: RunnerProcess, record: Record) -> None:
        """Candidate and PyTorch in turns on the same fresh inputs; every timed output is verified too."""
        order = random.Random(f"order/{record.seed}")
        pairs: list[Pair] = []
        wanted = max(self.policy.timed_calls, MIN_TIMED_CALLS)
        start = time.monotonic()
        while not enough(pairs, wanted, time.monotonic() - start, self.limits.timing_budget_s):
            self._ask_judge(judge, record, "prepare", index=len(pairs), timed=True)
            pairs.append(self._timed_pair(judge, runner, record, order.random() < 0.5))
            self._verify(judge, record, f"timed call {len(pairs)}", keep=False)
        chosen = quiet_pairs(pairs)
        record.candidate_us = [pair.candidate_us for pair in chosen]
        record.baseline_us = [pair.baseline_us for pair in chosen]
        detail = f"every one of {len(pairs)} timed calls was verified; {len(chosen)} count"
        record.checks.append(
            Check("timed calls", True, detail, {"disturbed": sum(p.disturbed for p in pairs)})
        )

    def _timed_pair(
        self, judge: JudgeProcess, runner: RunnerProcess, record: Record, candidate_first: bool
    ) -> Pair:
        """One call of the candidate and one of eager PyTorch."""
        if candidate_first:
            candidate = self._run(runner, record)
            baseline = self._ask_judge(judge, record, "baseline")
        else:
            baseline = self._ask_judge(judge, record, "baseline")
            candidate = self._run(runner, record)
        return Pair(candidate["us"], baseline["us"], is_disturbed(candidate) or is_disturbed(baseline))

    def _run(self, runner: RunnerProcess, record: Record) -> dict[str, float]:
        """One call of the candidate: its microseconds, the wall clock's, and those spent waiting for a core.

        Raises EvaluatorFault when the device claims more time than passed: then neither clock can be trusted.
        """
        answer = dict(runner.ask("run", "A call of the kernels", record.left(self.limits.run_s)))
        if answer["us"] > CLOCK_SLACK * answer["wall_us"]:
            raise EvaluatorFault(
                f"The device's clock says {answer['us']:.1f} us where {answer['wall_us']:.1f} us passed."
            )
        return answer

    def _verify(self, judge: JudgeProcess, record: Record, name: str, keep: bool = True) -> None:
        """Let the judge look at the outputs. A failure is the verdict."""
        answer = self._ask_judge(judge, record, "verify")
        detail = answer["message"] or f"{answer['variant']} inputs"
        if keep or not answer["passed"]:
            record.checks.append(Check(name, answer["passed"], detail, answer["numbers"]))
        if not answer["passed"]:
            raise CandidateFailure(Verdict.WRONG, answer["message"])

    def _ask_judge(self, judge: JudgeProcess, record: Record, method: str, **params: Any) -> Any:
        return judge.ask(method, "the operator", record.left(self.limits.judge_call_s), **params)

    # Verdicts.

    def _failed(self, record: Record, failure: CandidateFailure) -> Evaluation:
        """A status with its evidence, and no numbers."""
        return self._evaluation(
            record,
            verdict=failure.verdict,
            message=failure.message,
            compiler_log=failure.log or record.compiler_log,
        )

    def _timed_verdict(self, record: Record) -> Evaluation:
        """Correct, or quarantined when it is faster than the device can be."""
        work = self._work()
        candidate, baseline = timing.summarise(record.candidate_us), timing.summarise(record.baseline_us)
        strict = self.policy.protocol is Protocol.STRICT
        ratio = timing.speedup(record.baseline_us, record.candidate_us, record.seed, means=not strict)
        fast_units = self.policy.precision is not Precision.FP32 or bool(record.library_calls)
        suspicion = too_fast(candidate.median_us, baseline.median_us, work, self.device, fast_units)
        return self._evaluation(
            record,
            verdict=Verdict.QUARANTINED if suspicion else Verdict.CORRECT,
            message=suspicion,
            candidate=candidate,
            baseline=baseline,
            compiled_baseline=self._compiled,
            speedup=ratio.median,
            speedup_low=ratio.low,
            speedup_high=ratio.high,
            faster=ratio.low > 1 and not suspicion,
            achieved_gbs=work.bytes / candidate.median_us / 1e3,
            achieved_gflops=work.flops / candidate.median_us / 1e3,
            bottleneck=bottleneck(candidate.median_us, self._launch_us, record.launches, work, self.device),
        )

    def _evaluation(self, record: Record, **fields: Any) -> Evaluation:
        """An Evaluation with everything that is known whatever the verdict."""
        fields.setdefault("compiler_log", record.compiler_log)
        return Evaluation(
            device=self.device,
            checks=record.checks,
            floor_us=floor_us(self._work(), self.device),
            kernels=record.kernels,
            library_calls=record.library_calls,
            policy=self.policy,
            phase_seconds=record.phase_seconds,
            versions=record.versions,
            sandbox=sandbox_level(),
            operator_hash=self.source.content_hash,
            candidate_hash=record.candidate_hash,
            seed=record.seed,
            **fields,
        )

    def _work(self) -> Work:
        return Work(**self._layout["work"])

    # The operator itself.

    def inspect(self, *, compile_baseline: bool | None = None) -> OperatorReport:
        """The health report and the captured graph. torch.compile is timed on CUDA or when asked for."""
        from gpu_eval.inspection import inspect_operator

        wanted = self.device.kind == "cuda" if compile_baseline is None else compile_baseline
        return inspect_operator(self, wanted)

    # The two processes.

    def _open_judge(self) -> None:
        """Start a judge and bring the operator to life in it."""
        self._judge = JudgeProcess(self.device.kind, self._exchange, self.limits, self.source.filename)
        self._judge_versions, self._layout = self._judge.open(
            self.source, self.preset, self.policy, secrets.randbits(32)
        )

    def _ready_judge(self) -> JudgeProcess:
        """The judge; a new one when the last request ended it."""
        if self._judge is None or not self._judge.alive:
            self._open_judge()
        assert self._judge is not None
        return self._judge

    def _take_runner(self) -> RunnerProcess:
        """The runner that was warmed up, for one candidate."""
        if self._runner is None:
            self._warm_next_runner()
        assert self._runner is not None
        runner, self._runner = self._runner, None
        runner.ready()
        self._measure_launch(runner)
        return runner

    def _measure_launch(self, runner: RunnerProcess) -> None:
        """Once a session: what launching nothing costs."""
        if self._launch_us is None:
            self._launch_us = runner.ask("empty_launch_us", "An empty launch", self.limits.compile_s)

    def _warm_next_runner(self) -> None:
        """Start the next candidate's runner, so that it is ready when the candidate is."""
        if self._exchange.is_dir() and self._exchange != Path():
            self._runner = RunnerProcess(self.device.kind, self._exchange, self.limits)
