"""Which workers live, and which devices they bring."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from optimizer.models import WorkerHeartbeat

ALIVE_FOR = timedelta(seconds=12)  # a worker beats every 3 s
NAME_VARIABLE = "HTAM_WORKER_NAME"  # set by the worker command for the processes below it


def is_alive(worker: WorkerHeartbeat, now: datetime) -> bool:
    return now - worker.seen_at < ALIVE_FOR


def live_workers() -> list[WorkerHeartbeat]:
    return list(WorkerHeartbeat.objects.filter(seen_at__gt=timezone.now() - ALIVE_FOR))


def offered_devices() -> list[dict[str, Any]]:
    """Every device that a live worker offers, once, with the names of the workers that offer it."""
    devices: dict[str, dict[str, Any]] = {}
    for worker in live_workers():
        facts = worker.device
        if not facts:
            continue
        key = f"{facts['kind']}:{facts['name']}"
        entry = devices.setdefault(
            key,
            {
                "key": key,
                "kind": facts["kind"],
                "name": facts["name"],
                "workers": [],
                "facts": facts,
                "sentinels": {},
            },
        )
        entry["workers"].append(worker.name)
        found = worker.sentinels.get(facts["kind"], {})
        if not entry["sentinels"] or found.get("state") == "failed":  # the worst that any of them saw
            entry["sentinels"] = found
    return list(devices.values())


def set_activity(text: str) -> None:
    """Say on this worker's row what it is doing; a process that is no worker has no row."""
    if name := os.environ.get(NAME_VARIABLE):
        WorkerHeartbeat.objects.filter(name=name).update(activity=text[:120])
