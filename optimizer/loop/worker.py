"""The worker: a django-q2 cluster below one supervising process that beats, reaps, and ends everything at a
signal.

Ending means killing: every stage of a step is durable, so nothing is lost, and nothing has to be waited for.
The supervisor then frees the leases of what it killed, and the next worker goes on at once.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import socket
import threading
import time
from datetime import timedelta
from types import FrameType
from typing import Any

from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ

from optimizer.loop import clearance, processes, reaper
from optimizer.models import WorkerHeartbeat
from optimizer.services import background, workers
from optimizer.services.workers import ALIVE_FOR, NAME_VARIABLE

log = logging.getLogger(__name__)
BEAT_EVERY = 3.0  # seconds
FORGOTTEN_AFTER = timedelta(days=1)  # rows of workers that were killed


class Worker:
    """Runs until SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}"[:80]
        self.queue = Conf.CLUSTER_NAME
        self.started_at = timezone.now()
        self.device: dict[str, Any] = {}
        self.sentinels: dict[str, clearance.Clearance] = {}
        self.stopping = False
        self.recovered = False

    def run(self) -> None:
        processes.adopt_orphans()
        os.environ[NAME_VARIABLE] = self.name
        cluster = self.start_cluster()
        threading.Thread(target=self.find_devices, daemon=True).start()
        try:
            while not self.stopping and cluster.sentinel.is_alive():
                self.beat()
                self.rest()
        finally:
            self.end()
        if not self.stopping:
            raise RuntimeError("The queue's processes ended by themselves.")

    def start_cluster(self) -> Any:
        """Fork the queue's processes. They die with this one, and the database is opened only after the
        fork."""
        from django_q.cluster import Cluster

        connections.close_all()
        os.register_at_fork(after_in_child=processes.die_with_parent)
        cluster = Cluster()
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)
        cluster.start()
        return cluster

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

    def rest(self) -> None:
        deadline = time.monotonic() + BEAT_EVERY
        while not self.stopping and time.monotonic() < deadline:
            time.sleep(0.1)

    def beat(self) -> None:
        """Say that this worker lives, and queue what others left behind."""
        close_old_connections()
        fields = {
            "queue": self.queue,
            "device": self.device,
            "sentinels": self.sentinels,
            "seen_at": timezone.now(),
        }
        try:
            WorkerHeartbeat.objects.update_or_create(
                name=self.name, defaults=fields, create_defaults={**fields, "started_at": self.started_at}
            )
            WorkerHeartbeat.objects.filter(seen_at__lt=timezone.now() - FORGOTTEN_AFTER).delete()
            self.recover_tasks()
            reaper.reap()
            background.revive()
        except DatabaseError:
            log.exception("The worker could not write its heartbeat; it tries again")

    def recover_tasks(self) -> None:
        """Once no other worker of this queue lives: free the tasks that earlier workers took to their
        graves."""
        if self.recovered:
            return
        seen = WorkerHeartbeat.objects.filter(queue=self.queue, seen_at__gt=timezone.now() - ALIVE_FOR)
        if seen.exclude(name=self.name).exists():
            return
        taken_before = self.started_at + timedelta(seconds=Conf.RETRY)
        taken = OrmQ.objects.filter(key=self.queue, lock__gt=timezone.now(), lock__lt=taken_before)
        taken.update(lock=timezone.now())
        self.recovered = True

    def find_devices(self) -> None:
        """Learn which devices there are, then try the sentinel plans on each, the default device first."""
        from gpu_eval.devices import probe_devices

        devices = probe_devices()
        if devices:
            self.device = dataclasses.asdict(devices[0])
        kinds = list(dict.fromkeys(facts.kind for facts in devices))
        self.sentinels = {kind: clearance.under_way() for kind in kinds}
        while kinds and not self.stopping:
            for kind in kinds:
                self.clear(kind)
            workers.set_activity("")
            connections.close_all()
            kinds = [kind for kind in kinds if self.sentinels[kind]["state"] == clearance.FAILED]
            if kinds:
                time.sleep(clearance.AGAIN_EVERY)

    def clear(self, kind: str) -> None:
        """Try the sentinel plans on one device and keep what became of them for the next beat."""
        workers.set_activity(f"trying known plans on {kind}")
        found = clearance.examine(kind)
        if found["state"] == clearance.FAILED:
            log.error("This worker does not judge on %s: %s", kind, found["sentence"])
        self.sentinels = {**self.sentinels, kind: found}

    def end(self) -> None:
        if not processes.end_descendants():
            log.error("Some processes of this worker could not be ended")
        try:
            reaper.free_dead_leases()
            WorkerHeartbeat.objects.filter(name=self.name).delete()
        except DatabaseError:
            log.exception("The worker could not sign off")
