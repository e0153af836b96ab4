"""The append-only log of a run that pages follow. The database is the bus."""

from __future__ import annotations

from django.db import models


class RunEvent(models.Model):
    """One delta. ``seq`` counts from 1 within its run without gaps; pages resume from the last one they saw."""

    run = models.ForeignKey("optimizer.Run", on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["run_id", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_event_per_seq")]

    def __str__(self) -> str:
        return f"{self.kind} #{self.seq} of run {self.run_id}"
