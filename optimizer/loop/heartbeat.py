"""Keeping a run's lease while a step is worked on, and noticing within a second that it is no longer ours."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, connection
from django.utils import timezone

from optimizer.choices import RunStatus
from optimizer.loop.transitions import LEASE
from optimizer.models import Run

log = logging.getLogger(__name__)
LOOK_EVERY = 0.4  # seconds: how soon a cancel is seen
RENEW_EVERY = 5.0


class Watch:
    """Around the work on a run: a thread that renews the lease and calls ``on_lost`` when the run was
    cancelled or taken. ``on_lost`` is called again at every look until the work ends, since work may start
    anew meanwhile."""

    def __init__(self, run_id: int, owner: str, on_lost: Callable[[], None]) -> None:
        self.run_id = run_id
        self.owner = owner
        self.on_lost = on_lost
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch-run-{run_id}", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        renewed = time.monotonic()
        try:
            while not self._done.wait(LOOK_EVERY):
                due = time.monotonic() - renewed >= RENEW_EVERY
                try:
                    held = self._renew() if due else self._held()
                except DatabaseError as error:  # locked or away for a moment; the lease outlasts that
                    log.warning("The lease of run %s could not be looked at: %s", self.run_id, error)
                    continue
                if due:
                    renewed = time.monotonic()
                if not held and not self._done.is_set():
                    self.on_lost()
        finally:
            connection.close()

    def _held(self) -> bool:
        return self._ours().exists()

    def _renew(self) -> bool:
        return bool(self._ours().update(lease_expires_at=timezone.now() + LEASE))

    def _ours(self):  # type: ignore[no-untyped-def]
        return Run.objects.filter(pk=self.run_id, lease_owner=self.owner, status=RunStatus.RUNNING)
