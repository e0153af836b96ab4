"""What the queue runs. Each task checks first whether it has anything to do, so a repeated task does
nothing."""

from __future__ import annotations

import atexit
import logging
import uuid

from django.db import transaction

from gpu_eval.errors import UnusableInput
from optimizer.choices import OperatorStatus
from optimizer.loop import engine, processes, transitions
from optimizer.loop.evaluation import LiveEvaluator, NoDevice
from optimizer.models import Operator, RunEvent
from optimizer.services import operators, workers
from optimizer.services.queue import enqueue_samples, enqueue_step

log = logging.getLogger(__name__)
_evaluator: LiveEvaluator | None = None


def run_step(run_id: int) -> None:
    """One step of a run; queues the next one while the run goes on."""
    progress = engine.run_step(run_id, evaluator(), follow)
    workers.set_activity("")
    if progress is engine.Progress.MORE:
        with transaction.atomic():
            transitions.release(run_id, processes.this_process())
            enqueue_step(run_id)


def inspect_operator(operator_id: int, device: str = "auto") -> None:
    """Run the operator in the sandbox and store its health report, or why there is none."""
    operator = Operator.objects.filter(pk=operator_id).first()
    if operator is None:
        return
    workers.set_activity(f"inspecting {operator.name}"[:120])
    try:
        operators.apply_inspection(operator, evaluator().inspect(operators.subject_of(operator, device)))
    except UnusableInput as error:
        operators.mark_invalid(operator, str(error))
    except NoDevice as error:
        operators.mark_not_inspected(operator, str(error))
    except Exception:
        error_id = uuid.uuid4().hex[:12]
        log.exception("Inspecting operator %s broke, error %s", operator_id, error_id)
        operators.mark_not_inspected(operator, f"Inspection broke on our side; the log has it as {error_id}.")
    finally:
        workers.set_activity("")


def inspect_samples() -> None:
    """Inspect one waiting sample, then queue this again: what people ask for meanwhile comes in between."""
    waiting = Operator.objects.filter(is_sample=True, status=OperatorStatus.PENDING, status_reason="")
    operator = waiting.order_by("name").first()
    if operator is None:
        return
    inspect_operator(operator.pk)
    enqueue_samples()


def evaluator() -> LiveEvaluator:
    """This process's evaluator: its judge stays warm from step to step."""
    global _evaluator
    if _evaluator is None:
        _evaluator = LiveEvaluator()
        atexit.register(_evaluator.close)
    return _evaluator


def follow(event: RunEvent) -> None:
    """Tell the worker's row what it is at."""
    if event.kind == "step.stage":
        payload = event.payload
        workers.set_activity(f"{payload['stage']}: run {event.run_id}, step {payload['index']}")
