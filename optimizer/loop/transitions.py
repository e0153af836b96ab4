"""State changes of runs and steps: compare-and-set updates that say whether they took.

A run is worked on by whoever holds its lease. Every write of a worker goes through `fence` first, in the same
transaction: a worker that lost its lease, or whose run was cancelled meanwhile, cannot write a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from optimizer.choices import TERMINAL_RUN_STATUSES, RunStatus, Stage
from optimizer.loop import events
from optimizer.models import Run, Step

LEASE = timedelta(seconds=30)
ACTIVE = (RunStatus.QUEUED, RunStatus.RUNNING)


class LostLease(Exception):
    """This worker no longer holds the run: it was cancelled, or its lease expired and went to another."""


def claim(run_id: int, owner: str) -> bool:
    """Take the run's lease where it is free, expired or our own, and set the run going. False: leave it
    alone."""
    now = timezone.now()
    free = (
        Q(lease_owner="")
        | Q(lease_owner=owner)
        | Q(lease_expires_at__isnull=True)
        | Q(lease_expires_at__lt=now)
    )
    lease = {"lease_owner": owner, "lease_expires_at": now + LEASE}
    with transaction.atomic():
        started = Run.objects.filter(free, pk=run_id, status=RunStatus.QUEUED).update(
            status=RunStatus.RUNNING, started_at=Coalesce("started_at", now), **lease
        )
        if started:
            announce(run_id)
            return True
        return bool(Run.objects.filter(free, pk=run_id, status=RunStatus.RUNNING).update(**lease))


def fence(run_id: int, owner: str, events_coming: int = 0) -> None:
    """Renew the lease inside the caller's transaction; raise LostLease unless the run is running and ours.

    ``events_coming`` counts events that the caller inserts next, so that one update does for both.
    """
    held = Run.objects.filter(pk=run_id, lease_owner=owner, status=RunStatus.RUNNING)
    changed = held.update(lease_expires_at=timezone.now() + LEASE, event_seq=F("event_seq") + events_coming)
    if not changed:
        raise LostLease(f"run {run_id} is no longer held by {owner}")


def release(run_id: int, owner: str) -> bool:
    return bool(
        Run.objects.filter(pk=run_id, lease_owner=owner).update(lease_owner="", lease_expires_at=None)
    )


def move_run(run_id: int, from_: Iterable[str], to: str, **fields: Any) -> bool:
    """Compare-and-set of a run's status, with its event. Terminal states are left by nothing."""
    sources = [status for status in from_ if status not in TERMINAL_RUN_STATUSES]
    if to in TERMINAL_RUN_STATUSES:
        fields = {"finished_at": timezone.now(), "lease_owner": "", "lease_expires_at": None, **fields}
    with transaction.atomic():
        if not Run.objects.filter(pk=run_id, status__in=sources).update(status=to, **fields):
            return False
        announce(run_id)
    return True


def ask(run_id: int, request: str, from_: Iterable[str]) -> bool:
    """Leave a request for the worker of a running run, with its event."""
    with transaction.atomic():
        changed = Run.objects.filter(pk=run_id, status__in=list(from_)).exclude(request=request)
        if not changed.update(request=request):
            return False
        announce(run_id)
    return True


def move_step(step: Step, to: Stage, **fields: Any) -> None:
    """Compare-and-set of a step's stage. Raises LostLease where another worker moved it first."""
    if not Step.objects.filter(pk=step.pk, stage=step.stage).update(stage=to, **fields):
        raise LostLease(f"step {step.pk} has left {step.stage}")


def announce(run_id: int) -> None:
    """Append the run's status as an event."""
    run = Run.objects.only("status", "request", "error").get(pk=run_id)
    events.append(
        run_id, [("run.status", {"status": run.status, "request": run.request, "error": run.error})]
    )
