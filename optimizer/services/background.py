"""Work beside runs, a piece at a time: inspections that people asked for, re-verifications, then samples."""

from __future__ import annotations

import logging
import uuid

from django.db.models import Q, QuerySet

from gpu_eval.errors import UnusableInput
from optimizer.choices import OperatorStatus, ReverificationStatus
from optimizer.loop.evaluation import Evaluator, NoDevice
from optimizer.models import Operator, Reverification
from optimizer.services import operators, verification, workers
from optimizer.services.queue import background_is_queued, enqueue_background

log = logging.getLogger(__name__)


def work_one(evaluator: Evaluator) -> bool:
    """Do the piece that is first in line. False where nothing waits."""
    try:
        return inspect_asked(evaluator) or judge_again(evaluator) or inspect_sample(evaluator)
    finally:
        workers.set_activity("")


def waits() -> bool:
    """Whether there is a piece to do."""
    waiting = Reverification.objects.filter(status=ReverificationStatus.WAITING)
    return asked().exists() or waiting.exists() or samples().exists()


def revive() -> None:
    """Queue background work whose task was lost: with a database restored from a copy, say."""
    if waits() and not background_is_queued():
        enqueue_background()


def asked() -> QuerySet[Operator]:
    """Operators whose inspection somebody asked for, the first first."""
    return Operator.objects.filter(inspect_asked_at__isnull=False).order_by("inspect_asked_at", "pk")


def samples() -> QuerySet[Operator]:
    """Sample operators that were never inspected; one that says why it waits is left alone."""
    waiting = Q(is_sample=True, status=OperatorStatus.PENDING, status_reason="")
    return Operator.objects.filter(waiting, inspect_asked_at__isnull=True).order_by("name")


def inspect_asked(evaluator: Evaluator) -> bool:
    operator = asked().first()
    if operator is None:
        return False
    asked_at = operator.inspect_asked_at
    inspect(operator, operator.inspect_on or "auto", evaluator)
    done = Operator.objects.filter(pk=operator.pk, inspect_asked_at=asked_at)
    done.update(inspect_asked_at=None, inspect_on="")  # not where it was asked for anew meanwhile
    return True


def inspect_sample(evaluator: Evaluator) -> bool:
    operator = samples().first()
    if operator is None:
        return False
    inspect(operator, "auto", evaluator)
    return True


def inspect(operator: Operator, device: str, evaluator: Evaluator) -> None:
    """Run the operator in the sandbox and store its health report, or why there is none."""
    workers.set_activity(f"inspecting {operator.name}")
    try:
        operators.apply_inspection(operator, evaluator.inspect(operators.subject_of(operator, device)))
    except UnusableInput as error:
        operators.mark_invalid(operator, str(error))
    except NoDevice as error:
        operators.mark_not_inspected(operator, str(error))
    except Exception:
        error_id = uuid.uuid4().hex[:12]
        log.exception("Inspecting operator %s broke, error %s", operator.pk, error_id)
        operators.mark_not_inspected(operator, f"Inspection broke on our side; the log has it as {error_id}.")


def judge_again(evaluator: Evaluator) -> bool:
    def say(row: Reverification, phase: str) -> None:
        step = row.evaluation.candidate.step
        workers.set_activity(f"judging again ({phase}): run {step.run_id}, step {step.index}")

    return verification.judge_next(evaluator, say)
