"""Results that are judged again, since a newer checker may see what an older one missed."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from optimizer.choices import ReverificationStatus

OPEN = (ReverificationStatus.WAITING, ReverificationStatus.RUNNING)


class Reverification(models.Model):
    """One stored verdict, and the one that the present checker reaches on the same plan.

    Neither replaces the other: ``result`` is a further evaluation of the same candidate.
    """

    evaluation = models.ForeignKey(
        "optimizer.CandidateEvaluation", on_delete=models.CASCADE, related_name="reverifications"
    )
    result = models.OneToOneField(
        "optimizer.CandidateEvaluation",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="reverifies",
    )
    status = models.CharField(
        max_length=10, choices=ReverificationStatus, default=ReverificationStatus.WAITING, db_index=True
    )
    error = models.TextField(blank=True, help_text="One sentence, where it could not be judged.")
    owner = models.CharField(max_length=80, blank=True, help_text="The process that judges it now.")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["evaluation"],
                condition=models.Q(status__in=[status.value for status in OPEN]),
                name="one_open_reverification",
            )
        ]

    def __str__(self) -> str:
        return f"re-verification of {self.evaluation}"
