"""The seam between the loop and the judge: evaluations made now, or those of a stored run."""

from __future__ import annotations

import dataclasses
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpu_eval.devices import probe_devices
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.operators.health import OperatorReport
from gpu_eval.results import Evaluation, EvaluationPolicy
from optimizer.choices import EvaluationKind
from optimizer.loop import processes

T = TypeVar("T")
EVALUATION_MODULES = ("gpu_eval.judge", "gpu_eval.runner", "gpu_eval.compiling", "gpu_eval.foreign")

OnPhase = Callable[[str], None]  # called with "compile", "check", "time" as each begins


class EvaluationCancelled(Exception):
    """`Evaluator.cancel` ended the evaluation; there is no verdict."""


class NoDevice(RuntimeError):
    """This machine has no device of the kind that was asked for; one sentence."""


class NotRecorded(LookupError):
    """A replay asked for a verdict that the stored run does not hold."""


@dataclass(frozen=True)
class Subject:
    """What is evaluated: an operator, and how it is judged on which device kind ("cuda", "opencl" or
    "auto")."""

    name: str
    source: str
    device: str
    policy: EvaluationPolicy = field(default_factory=EvaluationPolicy)


class Evaluator(ABC):
    """Judges plans.

    Contract: a failed candidate is an `Evaluation` with its verdict, never an exception. Exceptions are
    `EvaluationCancelled`, `NoDevice`, `NotRecorded`, `gpu_eval.errors.UnusableInput` (the operator itself) and
    `EvaluatorFault`. `cancel` may be called from another thread at any time, and ends what runs then within
    about a second.
    """

    @abstractmethod
    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        """Judge one plan in a fresh runner. ``kind`` is an `EvaluationKind`."""

    @abstractmethod
    def inspect(self, subject: Subject) -> OperatorReport:
        """The operator's health report (gpu_eval OperatorReport)."""

    def default_device(self) -> str:
        """The kind that "auto" means here."""
        return "opencl"

    def cancel(self) -> None:  # noqa: B027 - nothing to end unless something runs
        """End the evaluation that runs now, if any; the next one is unaffected."""

    def close(self) -> None:  # noqa: B027
        """Free processes and devices."""

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LiveEvaluator(Evaluator):
    """Judges on a device here. The judge of one operator and device stays warm until another is asked for."""

    def __init__(self) -> None:
        self._session: EvaluationSession | None = None
        self._subject: Subject | None = None
        self._busy = threading.Event()
        self._cancelled = threading.Event()
        self._cleared: set[str] = set()

    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        return self._guarded(lambda: self._session_for(subject).evaluate(plan, on_phase=on_phase))

    def inspect(self, subject: Subject) -> OperatorReport:
        return self._guarded(lambda: self._session_for(subject).inspect())

    def default_device(self) -> str:
        return auto_device()

    def cancel(self) -> None:
        """Kill judge and runner; the thread that waits for them then finds them dead. It alone cleans up."""
        self._cancelled.set()
        if self._busy.is_set():
            kill_evaluation_processes()

    def close(self) -> None:
        session, self._session, self._subject = self._session, None, None
        if session is not None:
            session.close()

    def _guarded(self, call: Callable[[], T]) -> T:
        """Run ``call``; whatever comes of it after a cancel is an EvaluationCancelled."""
        self._cancelled.clear()
        self._busy.set()
        try:
            result = call()
        except BaseException:
            self.close()
            if self._cancelled.is_set():
                raise EvaluationCancelled from None
            raise
        finally:
            self._busy.clear()
        if self._cancelled.is_set():
            self.close()
            raise EvaluationCancelled
        return result

    def _session_for(self, subject: Subject) -> EvaluationSession:
        if subject.device == "auto":
            subject = dataclasses.replace(subject, device=auto_device())
        kinds = [facts.kind for facts in probe_devices()]
        if subject.device not in kinds:
            there = ", ".join(kinds) or "none"
            raise NoDevice(f"This worker has no usable {subject.device} device (usable: {there}).")
        self._await_clearance(subject.device)
        if self._session is None or self._subject != subject:
            self.close()
            session = EvaluationSession(
                subject.source, device=subject.device, policy=subject.policy, operator_name=subject.name
            )
            self._session, self._subject = session, subject
            session.__enter__()
        return self._session

    def _await_clearance(self, kind: str) -> None:
        """Once a kind of device: wait for the sentinels of this worker. Raises NoDevice where one failed."""
        from optimizer.loop.clearance import await_clearance

        if kind not in self._cleared:
            await_clearance(kind, self._cancelled.is_set)
            if self._cancelled.is_set():
                raise EvaluationCancelled
            self._cleared.add(kind)


def kill_evaluation_processes() -> None:
    """Kill every judge and runner below this process, with all that they started."""
    for pid in processes.descendants(os.getpid()):
        if any(name in processes.command_line(pid) for name in EVALUATION_MODULES):
            processes.kill_all([*processes.descendants(pid), pid])


class RecordedEvaluator(Evaluator):
    """Answers with the verdicts that a stored run reached, found by plan and kind; nothing is executed."""

    def __init__(self, run_id: int) -> None:
        from optimizer.models import CandidateEvaluation, Run

        self.run = Run.objects.select_related("operator").get(pk=run_id)
        rows = CandidateEvaluation.objects.filter(candidate__step__run_id=run_id).order_by("-pk")
        self._results = {
            (plan_hash, kind): result
            for plan_hash, kind, result in rows.values_list("candidate__plan_hash", "kind", "result")
        }

    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        try:
            result = self._results[plan_hash, kind]
        except KeyError:
            what = EvaluationKind(kind).label.lower()
            raise NotRecorded(f"Run {self.run.pk} holds no {what} of the plan {plan_hash[:12]}.") from None
        for phase in ("compile", "check", "time"):
            on_phase(phase)
        return Evaluation.from_json(result)

    def inspect(self, subject: Subject) -> OperatorReport:
        raise NotRecorded("A replay inspects nothing; the operator's stored report is used.")

    def default_device(self) -> str:
        return self.run.device_key.partition(":")[0] or "opencl"


def auto_device() -> str:
    """The device kind that "auto" means on this machine: cuda where a GPU answers, else opencl."""
    kinds = [facts.kind for facts in probe_devices()]
    return "cuda" if "cuda" in kinds else "opencl"
