"""Which workers live, so that a page can say that none does."""

from __future__ import annotations

from django.db import models


class WorkerHeartbeat(models.Model):
    """One row a worker process, refreshed every few seconds while it lives."""

    name = models.CharField(max_length=80, unique=True)
    queue = models.CharField(max_length=40)
    device = models.JSONField(
        default=dict, help_text="gpu_eval.results.DeviceFacts of its default device, or {}."
    )
    sentinels = models.JSONField(
        default=dict,
        help_text="Device kind to what became of its sentinel plans (optimizer.loop.clearance.Clearance).",
    )
    activity = models.CharField(max_length=120, blank=True, help_text='e.g. "timing run 14, step 3"')
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
