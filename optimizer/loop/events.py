"""The append-only event log of a run. Sequence numbers have no gaps, because the run's counter and the rows
change in one transaction and the counter's row lock orders writers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F

from gpu_eval.results import refuse_non_finite
from optimizer.models import Run, RunEvent

Event = tuple[str, dict[str, Any]]  # kind, payload
PAGE = 500


def append(run_id: int, events: Sequence[Event]) -> list[RunEvent]:
    """Append events, all or none, and return their rows. Raises ValueError on a non-finite number."""
    if not events:
        return []
    for _, payload in events:
        refuse_non_finite(payload)
    with transaction.atomic():
        Run.objects.filter(pk=run_id).update(event_seq=F("event_seq") + len(events))
        return insert(run_id, events)


def insert(run_id: int, events: Sequence[Event]) -> list[RunEvent]:
    """Write the rows of events that the caller has counted on the run already, in the same transaction."""
    last = Run.objects.values_list("event_seq", flat=True).get(pk=run_id)
    first = last - len(events) + 1
    return RunEvent.objects.bulk_create(
        RunEvent(run_id=run_id, seq=first + offset, kind=kind, payload=payload)
        for offset, (kind, payload) in enumerate(events)
    )


def after(run_id: int, seq: int, limit: int = PAGE) -> list[RunEvent]:
    """Up to ``limit`` events with a greater sequence number, in order."""
    return list(RunEvent.objects.filter(run_id=run_id, seq__gt=seq).order_by("seq")[:limit])


def last_seq(rows: Iterable[RunEvent], default: int) -> int:
    return max((row.seq for row in rows), default=default)
