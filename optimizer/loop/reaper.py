"""Finding runs that nobody works on and putting them back on the queue."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from optimizer.choices import RunStatus
from optimizer.loop import processes
from optimizer.models import Run
from optimizer.services.queue import enqueue_step

log = logging.getLogger(__name__)
QUEUED_FOR = timedelta(seconds=30)  # a run launched a moment ago is being queued or claimed right now


def reap() -> list[int]:
    """Queue every run whose worker is gone, and every queued run that lost its task. Returns their ids.

    A run that waits for its turn already is not queued twice, so calling this often does no harm.
    """
    now = timezone.now()
    free_dead_leases()
    unheld = Q(lease_owner="") | Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=now)
    abandoned = Q(status=RunStatus.RUNNING) & unheld
    forgotten = Q(status=RunStatus.QUEUED, created_at__lt=now - QUEUED_FOR)
    ids = list(Run.objects.filter(abandoned | forgotten).order_by("pk").values_list("pk", flat=True))
    with transaction.atomic():
        for run_id in ids:
            enqueue_step(run_id)
    return ids


def free_dead_leases() -> None:
    """End leases of processes of this host that are gone, without waiting for them to expire."""
    held = Run.objects.filter(status=RunStatus.RUNNING).exclude(lease_owner="")
    for run_id, owner in held.values_list("pk", "lease_owner"):
        if processes.is_dead(owner):
            log.info("Run %s was cut short; it goes on from its last stage.", run_id)
            Run.objects.filter(pk=run_id, lease_owner=owner).update(lease_owner="", lease_expires_at=None)
