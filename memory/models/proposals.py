"""What runs propose to change, and what people made of it."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from memory.models.evidence import Evidence
from memory.models.graph import GlobalNode, LocalNode, MemoryBank, TransitionEdge


class ProposalKind(models.TextChoices):
    STRATEGY = "strategy", "New strategy"
    EDIT = "edit", "Edit"
    EDGE = "edge", "New edge"


class ProposalStatus(models.TextChoices):
    PENDING = "pending", "Waiting"
    ACCEPTED = "accepted", "Accepted"
    EDITED = "edited", "Accepted with edits"
    REJECTED = "rejected", "Rejected"
    WITHDRAWN = "withdrawn", "Withdrawn"  # the proposing itself was undone


class Proposal(models.Model):
    """One suggested change with the evidence for it. Deciding it is a compare-and-set on ``status``."""

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="proposals")
    kind = models.CharField(max_length=10, choices=ProposalKind)
    title = models.CharField(max_length=200)
    rationale = models.TextField(help_text="Why, with the figures that speak for it.")
    direction = models.ForeignKey(
        GlobalNode,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="proposals",
        help_text="Of a new strategy, or edited.",
    )
    strategy = models.ForeignKey(
        LocalNode, on_delete=models.CASCADE, null=True, blank=True, related_name="proposals"
    )
    edge = models.ForeignKey(
        TransitionEdge, on_delete=models.CASCADE, null=True, blank=True, related_name="proposals"
    )
    changes = models.JSONField(help_text="Fields of the new part, or of the edited one, as REST takes them.")
    decided_changes = models.JSONField(null=True, blank=True, help_text="What was applied, where edited.")
    evidence = models.ManyToManyField(Evidence, blank=True, related_name="proposals")
    status = models.CharField(max_length=10, choices=ProposalStatus, default=ProposalStatus.PENDING)
    proposer = models.CharField(max_length=40, blank=True)
    run_id = models.BigIntegerField(null=True, blank=True, db_index=True)
    step_id = models.BigIntegerField(null=True, blank=True)
    fingerprint = models.CharField(
        max_length=200, help_text="What makes two proposals the same: nothing is proposed twice."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.TextField(blank=True)
    auto = models.BooleanField(default=False, help_text="Accepted by the run's own policy.")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["bank", "status", "-id"], name="proposals_by_status")]
        constraints = [
            models.UniqueConstraint(fields=["bank", "fingerprint"], name="one_proposal_per_fingerprint")
        ]

    def __str__(self) -> str:
        return self.title
