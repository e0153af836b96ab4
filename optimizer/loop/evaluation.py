"""The seam between the loop and the judge: evaluations made now, or those of a stored run."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_eval.results import Evaluation, EvaluationPolicy
from optimizer.choices import EvaluationKind

OnPhase = Callable[[str], None]  # called with "compile", "check", "time" as each begins


class EvaluationCancelled(Exception):
    """`Evaluator.cancel` ended the evaluation; there is no verdict."""


class NotRecorded(LookupError):
    """A replay asked for a verdict that the stored run does not hold."""


@dataclass(frozen=True)
class Subject:
    """What is evaluated: an operator, and how it is judged on which device kind ("cuda", "opencl" or "auto")."""

    name: str
    source: str
    device: str
    policy: EvaluationPolicy = field(default_factory=EvaluationPolicy)


class Evaluator(ABC):
    """Judges plans.

    Contract: a failed candidate is an `Evaluation` with its verdict, never an exception. Exceptions are
    `EvaluationCancelled`, `NotRecorded`, `gpu_eval.errors.UnusableInput` (the operator itself) and `EvaluatorFault`.
    `cancel` may be called from another thread at any time, and ends what runs then within about a second.
    """

    @abstractmethod
    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        """Judge one plan in a fresh runner. ``kind`` is an `EvaluationKind`."""

    @abstractmethod
    def inspect(self, subject: Subject) -> Any:
        """The operator's health report (gpu_eval OperatorReport)."""

    def default_device(self) -> str:
        """The kind that "auto" means here."""
        return "opencl"

    def cancel(self) -> None:
        """End the evaluation that runs now, if any; the next one is unaffected."""

    def close(self) -> None:
        """Free processes and devices."""

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LiveEvaluator(Evaluator):
    """Judges on a device here. The judge of one operator and device stays warm until another is asked for."""

    def __init__(self) -> None:
        self._session: Any = None
        self._subject: Subject | None = None
        self._busy = threading.Event()
        self._cancelled = threading.Event()

    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        return self._guarded(lambda: self._session_for(subject).evaluate(plan, on_phase=on_phase))

    def inspect(self, subject: Subject) -> Any:
        return self._guarded(lambda: self._session_for(subject).inspect())

    def default_device(self) -> str:
        return auto_device()

    def cancel(self) -> None:
        self._cancelled.set()
        session = self._session
        if self._busy.is_set() and session is not None:
            session.kill()

    def close(self) -> None:
        session, self._session, self._subject = self._session, None, None
        if session is not None:
            session.__exit__(None, None, None)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Run ``call``; whatever comes of it after a cancel is an EvaluationCancelled."""
        self._cancelled.clear()
        self._busy.set()
        try:
            result = call()
        except Exception:
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

    def _session_for(self, subject: Subject) -> Any:
        if self._session is None or self._subject != subject:
            from gpu_eval.evaluator import EvaluationSession

            self.close()
            session = EvaluationSession(
                subject.source, device=subject.device, policy=subject.policy, operator_name=subject.name
            )
            self._session, self._subject = session, subject
            session.__enter__()
        return self._session


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
            raise NotRecorded(
                f"Run {self.run.pk} holds no {EvaluationKind(kind).label.lower()} of the plan {plan_hash[:12]}."
            ) from None
        for phase in ("compile", "check", "time"):
            on_phase(phase)
        return Evaluation.from_json(result)

    def inspect(self, subject: Subject) -> Any:
        raise NotRecorded("A replay inspects nothing; the operator's stored report is used.")

    def default_device(self) -> str:
        return self.run.device_key.partition(":")[0] or "opencl"


def auto_device() -> str:
    """The device kind that "auto" means on this machine: cuda where a GPU answers, else opencl."""
    from gpu_eval.devices import probe_devices

    kinds = [facts.kind for facts in probe_devices()]
    return "cuda" if "cuda" in kinds else "opencl"
