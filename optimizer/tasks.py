"""What the queue runs. Each task checks first whether it has anything to do, so a repeated task does
nothing."""

from __future__ import annotations

import atexit

from django.db import transaction

from optimizer.loop import engine, processes, transitions
from optimizer.loop.evaluation import LiveEvaluator
from optimizer.models import RunEvent
from optimizer.services import background as work
from optimizer.services import workers
from optimizer.services.queue import enqueue_background, enqueue_step

_evaluator: LiveEvaluator | None = None


def run_step(run_id: int) -> None:
    """One step of a run; queues the next one while the run goes on."""
    progress = engine.run_step(run_id, evaluator(), follow)
    workers.set_activity("")
    if progress is engine.Progress.MORE:
        with transaction.atomic():
            transitions.release(run_id, processes.this_process())
            enqueue_step(run_id)


def background() -> None:
    """One piece of work beside the runs, then this again: steps that wait by then come in between."""
    work.work_one(evaluator())
    if work.waits():
        enqueue_background()


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
