"""Putting work on the queue, after the transaction that asks for it has committed."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task


def enqueue_step(run_id: int) -> None:
    """Queue the next step of a run, unless a task for it waits already.

    A second task for the same run would do no harm, since the lease lets one through; it would only wait in
    vain.
    """
    transaction.on_commit(partial(_enqueue_step, run_id))


def _enqueue_step(run_id: int) -> None:
    name = step_task_name(run_id)
    if name not in waiting_task_names():
        async_task("optimizer.tasks.run_step", run_id, task_name=name)


def enqueue_inspection(operator_id: int, device: str = "auto") -> None:
    transaction.on_commit(
        partial(
            async_task,
            "optimizer.tasks.inspect_operator",
            operator_id,
            device,
            task_name=f"inspect-{operator_id}",
        )
    )


def enqueue_samples() -> None:
    """Queue the inspection of the next sample that waits for one."""
    transaction.on_commit(partial(async_task, "optimizer.tasks.inspect_samples", task_name="inspect-samples"))


def step_task_name(run_id: int) -> str:
    return f"run-{run_id}"


def waiting_task_names() -> set[str]:
    """Names of the tasks that no worker has taken yet."""
    return {task.name() for task in OrmQ.objects.filter(lock__lte=timezone.now())}
