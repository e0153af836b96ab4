"""Working a run off: `run_step` does one step for the queue, `advance` does all of them in the foreground."""

from __future__ import annotations

import logging
import uuid
from enum import Enum

from django.db import transaction
from django.utils import timezone

from gpu_eval.errors import EvaluatorFault, UnusableInput
from memory.policy import NoDirection
from optimizer.choices import OperatorStatus, RunRequest, RunStatus, Stage
from optimizer.loop import events, processes, transitions
from optimizer.loop.context import Listener, StepContext, ignore
from optimizer.loop.evaluation import EvaluationCancelled, Evaluator, NoDevice, NotRecorded
from optimizer.loop.heartbeat import Watch
from optimizer.loop.stages import STAGES
from optimizer.loop.transitions import LostLease
from optimizer.models import HealthReport, Run, Step
from optimizer.proposers import Proposer, get_proposer
from optimizer.services.operators import Refused, apply_inspection, first_line, mark_invalid, subject_of

log = logging.getLogger(__name__)


class Progress(Enum):
    """What became of a run after one call."""

    MORE = "more"  # another step is due; the lease is still held
    DONE = "done"  # finished, failed, stopped, cancelled or paused
    NOT_OURS = "not ours"  # another worker has it, or it waits for nobody


def advance(
    run_id: int, evaluator: Evaluator, listener: Listener = ignore, proposer: Proposer | None = None
) -> Progress:
    """Do steps until none is due."""
    while True:
        progress = run_step(run_id, evaluator, listener, proposer)
        if progress is not Progress.MORE:
            return progress


def run_step(
    run_id: int, evaluator: Evaluator, listener: Listener = ignore, proposer: Proposer | None = None
) -> Progress:
    """Claim the run, finish the step that was cut or do the next one, and settle what follows.

    Never raises for what a run can meet: the run's status and error say it.
    """
    owner = processes.this_process()
    if not transitions.claim(run_id, owner):
        return Progress.NOT_OURS
    try:
        progress = settle(run_id)
        if progress is not Progress.MORE:
            return progress
        with Watch(run_id, owner, evaluator.cancel):
            perform(prepare(run_id, evaluator, owner, listener, proposer))
        return settle(run_id)
    except (LostLease, EvaluationCancelled):
        return Progress.NOT_OURS
    except (UnusableInput, Refused, NoDevice, NotRecorded, NoDirection) as error:
        fail(run_id, str(error))
    except EvaluatorFault as error:
        log.exception("The evaluator failed in run %s", run_id)
        fail(run_id, f"The evaluator failed: {first_line(str(error))}")
    except Exception:
        error_id = uuid.uuid4().hex[:12]
        log.exception("Run %s failed, error %s", run_id, error_id)
        fail(run_id, f"Something broke on our side; the log has it as {error_id}.")
    return Progress.DONE


def perform(ctx: StepContext) -> None:
    """Do the stages that are left of a step."""
    while ctx.step.stage != Stage.DONE:
        STAGES[ctx.step.stage](ctx)


def prepare(
    run_id: int, evaluator: Evaluator, owner: str, listener: Listener, proposer: Proposer | None = None
) -> StepContext:
    """Everything a step needs. Raises Refused or UnusableInput where the run cannot go on."""
    run = Run.objects.select_related("operator", "bank", "best_candidate").get(pk=run_id)
    proposer = proposer or get_proposer(run.proposer)
    report = report_of(run, evaluator)
    if reason := proposer.refuses(report.graph, report.graph_reason):
        raise Refused(reason)
    if not run.device_key:
        Run.objects.filter(pk=run_id, lease_owner=owner).update(device_key=report.device_key)
        run.device_key = report.device_key
    step = open_step(run, owner, listener)
    return StepContext(run, step, report, proposer, evaluator, owner, listener)


def report_of(run: Run, evaluator: Evaluator) -> HealthReport:
    """The operator's inspection on the run's device kind, made now where there is none."""
    kind = run.device_key.partition(":")[0] or (
        run.device if run.device != "auto" else evaluator.default_device()
    )
    report = run.operator.health_reports.filter(device_kind=kind).first()
    if report is not None:
        return report
    try:
        seen = evaluator.inspect(subject_of(run.operator, kind))
    except UnusableInput as error:
        mark_invalid(run.operator, str(error))
        raise
    report = apply_inspection(run.operator, seen)
    if run.operator.status == OperatorStatus.BLOCKED and not run.operator.override_reason:
        raise Refused(f"A gate blocks this operator: {run.operator.status_reason}")
    return report


def open_step(run: Run, owner: str, listener: Listener = ignore) -> Step:
    """The step that was cut, or a new one."""
    last = run.steps.select_related("direction", "strategy", "parent__step").order_by("-index").first()
    if last is not None and last.stage != Stage.DONE:
        return last
    index = last.index + 1 if last else 1
    with transaction.atomic():
        transitions.fence(run.pk, owner)
        step = Step.objects.create(run=run, index=index, started_at=timezone.now())
        rows = events.append(run.pk, [("step.started", {"step": step.pk, "index": index})])
    for row in rows:
        listener(row)
    return step


def settle(run_id: int) -> Progress:
    """Between steps: finish, stop or pause the run where that is due."""
    run = Run.objects.get(pk=run_id)
    if run.status != RunStatus.RUNNING:
        return Progress.DONE
    running = [RunStatus.RUNNING]
    last = run.steps.only("index", "stage").order_by("-index").first()
    if last is not None and last.stage != Stage.DONE:
        return Progress.MORE
    if last is not None and last.index >= run.steps_total:
        transitions.move_run(run_id, running, RunStatus.FINISHED, request=RunRequest.NONE)
    elif run.request == RunRequest.STOP:
        transitions.move_run(run_id, running, RunStatus.STOPPED)
    elif run.request == RunRequest.PAUSE:
        transitions.move_run(
            run_id, running, RunStatus.PAUSED, request=RunRequest.NONE, lease_owner="", lease_expires_at=None
        )
    else:
        return Progress.MORE
    return Progress.DONE


def fail(run_id: int, sentence: str) -> None:
    transitions.move_run(run_id, [RunStatus.RUNNING, RunStatus.QUEUED], RunStatus.FAILED, error=sentence)
