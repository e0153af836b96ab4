"""What people ask of a live run's next steps."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from optimizer.choices import SteerKind, SteerScope, SteerStatus


class Steer(models.Model):
    """One wish for a live run. It waits until a step begins; that step takes it up in one transaction.

    Directions and strategies are named by key, so that the record outlives them.
    """

    run = models.ForeignKey("optimizer.Run", on_delete=models.CASCADE, related_name="steers")
    kind = models.CharField(max_length=20, choices=SteerKind)
    scope = models.CharField(max_length=8, choices=SteerScope, default=SteerScope.NEXT)
    direction = models.CharField(max_length=60, blank=True)
    strategy = models.CharField(max_length=80, blank=True, help_text="Of that direction.")
    text = models.TextField(blank=True, help_text="A hint's words, or a plan.")
    status = models.CharField(max_length=10, choices=SteerStatus, default=SteerStatus.WAITING)
    note = models.TextField(blank=True, help_text="One sentence, where it could not be followed.")
    used_by = models.ForeignKey(
        "optimizer.Step", on_delete=models.SET_NULL, null=True, blank=True, related_name="+",
        help_text="The first step that took it up.",
    )  # fmt: skip
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["run", "status"])]

    def __str__(self) -> str:
        return f"{self.kind} for {self.run}"
