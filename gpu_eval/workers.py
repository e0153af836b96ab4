"""Judge and runner as the evaluator sees them: their failures turned into what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.limits import Limits
from gpu_eval.operators.source import OperatorSource
from gpu_eval.process import Child, ChildDied, ChildFailure, ChildTimeout
from gpu_eval.results import EvaluationPolicy, Verdict

VERDICT_OF_KIND = {
    "rejected": Verdict.REJECTED,
    "compile_error": Verdict.COMPILE_ERROR,
    "launch_error": Verdict.LAUNCH_ERROR,
    "out_of_memory": Verdict.OUT_OF_MEMORY,
    "crashed": Verdict.CRASHED,
    "wrong": Verdict.WRONG,
}


class CandidateFailure(Exception):
    """The candidate ended with a verdict other than correct."""

    def __init__(self, verdict: Verdict, message: str, log: str = "") -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.log = log


class JudgeProcess:
    """The judge with one operator open. It fails by UnusableInput, or EvaluatorFault when it is ours."""

    def __init__(self, device: str, exchange: Path, limits: Limits, filename: str) -> None:
        self.limits = limits
        self.filename = filename
        settings = {
            "device": device,
            "exchange": str(exchange),
            "exchange_bytes": limits.exchange_bytes,
            "device_fraction": limits.device_fraction,
            "harden": {
                "memory_bytes": limits.judge_memory_bytes,
                "file_bytes": limits.exchange_bytes,
                "open_files": limits.open_files,
                "processes": limits.processes,
            },
        }
        self.child = Child("gpu_eval.judge", exchange, limits, settings)
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
        return versions, self.ask("layout", "Model.forward()", stage, seed=seed)

    def ask(self, method: str, what: str, deadline_s: float, **params: Any) -> Any:
        """One request; ``what`` names in a sentence the operator's code that it runs."""
        try:
            return self.child.call(method, deadline_s=deadline_s, **params)
        except ChildTimeout as error:
            raise UnusableInput(
                f"{self.filename}: {what} did not finish within {deadline_s:g} seconds."
            ) from error
        except ChildDied as error:
            raise UnusableInput(f"{self.filename}: {what} took its process down ({error}).") from error
        except ChildFailure as error:
            if error.kind == "operator":
                raise UnusableInput(error.message) from error
            if error.kind == "out_of_memory":
                raise UnusableInput(
                    f"{self.filename}: {what} asks for more memory than is allowed."
                ) from error
            if error.kind == "fault":
                raise EvaluatorFault(
                    f"judge.{method}: {error.message}\n{error.data.get('detail', '')}"
                ) from error
            raise

    @property
    def alive(self) -> bool:
        return self.child.alive

    def kill(self) -> None:
        self.child.kill()


class RunnerProcess:
    """A runner for one candidate. Its failures are verdicts (CandidateFailure) or ours (EvaluatorFault)."""

    def __init__(self, device: str, exchange: Path, limits: Limits) -> None:
        self.limits = limits
        settings = {
            "device": device,
            "harden": {
                "memory_bytes": limits.runner_memory_bytes,
                "file_bytes": limits.runner_file_bytes,
                "open_files": limits.open_files,
                "processes": limits.processes,
            },
        }
        self.child = Child("gpu_eval.runner", exchange, limits, settings)
        self.child.send("hello")
        self._versions: dict[str, str] | None = None

    def ready(self) -> dict[str, str]:
        """Wait until it has its device. Returns versions; raises EvaluatorFault when it cannot start."""
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

    def ask(self, method: str, what: str, deadline_s: float, **params: Any) -> Any:
        """One request; ``what`` names in a sentence what the candidate does meanwhile."""
        try:
            return self.child.call(method, deadline_s=deadline_s, **params)
        except ChildTimeout as error:
            raise CandidateFailure(
                Verdict.TIMEOUT, f"{what} did not finish within {deadline_s:g} seconds."
            ) from error
        except ChildDied as error:
            raise CandidateFailure(
                Verdict.CRASHED, f"{what} took its process down ({error}).", self.child.output.text()
            ) from error
        except ChildFailure as error:
            verdict = VERDICT_OF_KIND.get(error.kind)
            if verdict is None:
                detail = error.data.get("detail", "")
                raise EvaluatorFault(f"runner.{method}: {error.message}\n{detail}") from error
            raise CandidateFailure(verdict, error.message, str(error.data.get("log", ""))) from error

    def kill(self) -> None:
        self.child.kill()
