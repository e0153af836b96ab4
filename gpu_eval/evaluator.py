"""Evaluations of one operator on one device: a judge that holds the operator, and runners warmed up ahead.

This process drives them (see `gpu_eval.trial`) and imports neither torch nor a device library.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any

from gpu_eval.baselines import BaselineKey, CompiledBaselines
from gpu_eval.candidates import CandidateProcess
from gpu_eval.choice import AUTO, choose_device, choose_preset
from gpu_eval.compiling.service import CompileService
from gpu_eval.devices.cuda_compile import native_arch
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.exchange import Exchange
from gpu_eval.foreign.limits import foreign_limits
from gpu_eval.foreign.process import ForeignProcess
from gpu_eval.foreign.trial import ForeignTrial
from gpu_eval.limits import DEFAULT_LIMITS, Limits
from gpu_eval.operators.health import OperatorReport
from gpu_eval.operators.source import OperatorSource, parse_operator
from gpu_eval.results import DeviceFacts, Evaluation, EvaluationPolicy, Timing
from gpu_eval.trial import Bench, Trial
from gpu_eval.warm import KEPT, WarmRunners
from gpu_eval.workers import JudgeProcess, PlanRunner

__all__ = ["EvaluationSession", "EvaluatorFault", "OperatorReport", "UnusableInput", "ignore"]

DEFAULT_POLICY = EvaluationPolicy()
LIBRARY_WORD = "lib."  # in a plan's text: it will probably call torch


def ignore(phase: str) -> None:
    """The default listener: nobody wants to know the phase."""


class EvaluationSession:
    """Evaluates candidates of one operator on one device. A context manager; not for use from several
    threads.

    ``kept``: how many runners wait ready, without and with torch. Raises UnusableInput when the operator cannot
    be used, EvaluatorFault when the evaluator itself fails.
    """

    def __init__(
        self,
        operator_source: str,
        *,
        device: str = AUTO,
        policy: EvaluationPolicy = DEFAULT_POLICY,
        operator_name: str = "operator",
        limits: Limits = DEFAULT_LIMITS,
        kept: tuple[int, int] | None = None,
    ) -> None:
        name = operator_name if operator_name.endswith(".py") else f"{operator_name}.py"
        self.source: OperatorSource = parse_operator(operator_source, name)
        self.policy = policy
        self.limits = limits
        self.device: DeviceFacts = choose_device(device)
        self.preset = choose_preset(self.source, policy.preset, self.device.kind)
        self.runners = WarmRunners(self._start_runner, kept or KEPT[self.device.kind])
        # A GPU's code is made without one; PoCL's for the process that runs it, in the runner.
        self.compilers: CompileService | None = None
        if self.device.kind == "cuda":
            self.compilers = CompileService(native_arch(self.device.architecture), limits)
        self.layout: dict[str, Any] = {}
        self.launch_us: float | None = None
        self.compiled: Timing | None = None
        self._exchange: Exchange | None = None
        self._judge: JudgeProcess | None = None
        self._judge_versions: dict[str, str] = {}
        self._build_seed = 0

    def __enter__(self) -> EvaluationSession:
        try:
            self.renew_exchange()
            self.refill()
            self.open_judge()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and drop the shared memory. Safe to call twice."""
        self.runners.close()
        if self.compilers is not None:
            self.compilers.close()
        if self._judge is not None:
            self._judge.kill()
        self._judge = None
        if self._exchange is not None:
            self._exchange.close()
        self._exchange = None

    def evaluate(
        self,
        plan: str,
        *,
        seed: int | None = None,
        on_phase: Callable[[str], None] = ignore,
        foreign: bool = False,
        filename: str = "foreign.py",
    ) -> Evaluation:
        """Judge one plan. ``on_phase`` hears "compile", "check" and "time" as each begins.

        Without ``seed`` one is drawn, after the candidate has been loaded. With ``foreign`` the text is a Python
        module with a class `ModelNew`, called ``filename`` in sentences; its result is marked untrusted.
        """
        judge = self.ready_judge()  # a new one brings new shared memory, and new runners with it
        if foreign:
            return self._judged_foreign(judge, plan, filename, seed, on_phase)
        try:
            candidate = self.runners.take(LIBRARY_WORD in plan)
            return self._judged(Trial, candidate, self.limits, plan, seed, on_phase)
        finally:
            self.refill()

    def refill(self) -> None:
        """Start the processes that the next candidates will find ready."""
        if self.compilers is not None:
            self.compilers.refill()
        self.runners.refill()

    def _judged(
        self,
        trial: type[Trial],
        candidate: CandidateProcess,
        limits: Limits,
        text: str,
        seed: int | None,
        on_phase: Callable[[str], None],
    ) -> Evaluation:
        """One trial; the candidate's process ends with it."""
        try:
            bench = Bench(
                judge=self.ready_judge(),
                layout=self.layout,
                device=self.device,
                policy=self.policy,
                limits=limits,
                operator_hash=self.source.content_hash,
                compiled=self.compiled,
            )
            return trial(bench, candidate, seed, dict(self._judge_versions)).run(text, on_phase)
        finally:
            candidate.kill()

    def _judged_foreign(
        self,
        judge: JudgeProcess,
        text: str,
        filename: str,
        seed: int | None,
        on_phase: Callable[[str], None],
    ) -> Evaluation:
        """One trial of somebody else's module, in a process of its own kind."""
        limits = foreign_limits(self.limits)
        stage = limits.operator_stage_s
        candidate = ForeignProcess(
            self.device.kind,
            self.exchange,
            limits,
            self.policy,
            layout=self.layout,
            init=judge.ask("init_inputs", "get_init_inputs()", stage, seed=self._build_seed),
            filename=filename,
            evict=lambda: judge.ask("evict", "the operator", limits.judge_call_s),
        )
        return self._judged(ForeignTrial, candidate, limits, text, seed, on_phase)

    def inspect(self, *, compile_baseline: bool | None = None) -> OperatorReport:
        """The health report and the captured graph. torch.compile is timed on CUDA or when asked for."""
        from gpu_eval.inspection import inspect_operator

        wanted = self.device.kind == "cuda" if compile_baseline is None else compile_baseline
        return inspect_operator(self, wanted)

    def measure_launch(self) -> float:
        """Once a session: microseconds that launching nothing costs."""
        if self.launch_us is None:
            runner = self.runners.take(False)
            try:
                runner.ready()
                self.launch_us = runner.launch_us()
            finally:
                self.runners.waiting[False].appendleft(runner)
        return self.launch_us

    def ready_judge(self) -> JudgeProcess:
        """The judge; a new one when the last request ended it."""
        if self._judge is None or not self._judge.alive:
            self.open_judge()
        assert self._judge is not None
        return self._judge

    def open_judge(self) -> None:
        """Start a judge and bring the operator to life in it."""
        if self.exchange.sealed:
            self.renew_exchange()
        self._judge = JudgeProcess(self.device.kind, self.exchange, self.limits, self.source.filename)
        self._build_seed = secrets.randbits(32)
        self._judge_versions, self.layout = self._judge.open(
            self.source, self.preset, self.policy, self._build_seed
        )
        self.compiled = CompiledBaselines().get(self.baseline_key())

    def baseline_key(self) -> BaselineKey:
        """By what torch.compile's time is kept. Needs a judge: its versions count."""
        return BaselineKey(
            self.source.content_hash, self.preset or "", self.policy, self.device, self._judge_versions
        )

    @property
    def exchange(self) -> Exchange:
        """The memory that judge and runners share."""
        if self._exchange is None:
            raise EvaluatorFault("The session is closed.")
        return self._exchange

    def renew_exchange(self) -> None:
        """Other shared memory, for a judge that is not there yet; runners that hold the old one end."""
        self.runners.close()
        if self._exchange is not None:
            self._exchange.close()
        self._exchange = Exchange(self.limits.exchange_bytes)

    def _start_runner(self, library: bool) -> PlanRunner:
        return PlanRunner(self.device.kind, self.exchange, self.limits, self.policy, library, self.compilers)
