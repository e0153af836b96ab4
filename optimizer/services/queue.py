"""Putting work on the queue, after the transaction that asks for it has committed.

The queue is first in, first out. Steps of runs are tasks of their own; everything else (inspections,
re-verifications, samples) is background work: rows say what is asked for, and one task does one piece and queues
itself again behind whatever waits by then. So a run that starts or resumes waits for one piece at most, however
many were asked for.
"""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

BACKGROUND = "background"


def enqueue_step(run_id: int) -> None:
    """Queue the next step of a run, unless a task for it waits already.

    A second task for the same run would do no harm, since the lease lets one through; it would only wait in
    vain.
    """
    transaction.on_commit(partial(_enqueue, "optimizer.tasks.run_step", step_task_name(run_id), run_id))


def enqueue_background() -> None:
    """Queue the next piece of background work, unless the task for it waits already."""
    transaction.on_commit(partial(_enqueue, "optimizer.tasks.background", BACKGROUND))


def _enqueue(function: str, name: str, *arguments: int) -> None:
    if name not in waiting_task_names():
        async_task(function, *arguments, task_name=name)


def step_task_name(run_id: int) -> str:
    return f"run-{run_id}"


def waiting_task_names() -> set[str]:
    """Names of the tasks that no worker has taken yet."""
    return {task.name() for task in OrmQ.objects.filter(lock__lte=timezone.now())}


def background_is_queued() -> bool:
    """Whether the task for background work waits or is being done."""
    return any(task.name() == BACKGROUND for task in OrmQ.objects.all())
