"""The ledger of a bank: who changed what, from what to what, and why."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class ChangeKind(models.TextChoices):
    """What was done. The value is stored, the label is shown."""

    OPENED = "opened", "Bank created"
    IMPORTED = "imported", "Bank imported"
    CLONED = "cloned", "Bank cloned"
    BANK = "bank", "Bank settings"
    CREATED = "created", "Created"
    EDITED = "edited", "Edited"
    PLACED = "placed", "Placed on the graph"
    RETIRED = "retired", "Retired"
    UNRETIRED = "unretired", "Taken back"
    MERGED = "merged", "Merged"
    SPLIT = "split", "Split"
    MOVED = "moved", "Moved"
    EXCLUDED = "excluded", "Evidence excluded"
    INCLUDED = "included", "Evidence taken back in"
    LEARNED = "learned", "A run taught"
    TRAVERSED = "traversed", "New transition"
    PROPOSED = "proposed", "A run proposed"
    ACCEPTED = "accepted", "Proposal accepted"
    REJECTED = "rejected", "Proposal rejected"
    REVERTED = "reverted", "Reverted"
    PARTLY_IMPORTED = "partly_imported", "Imported in part"
    BANK_MERGED = "bank_merged", "Merged from another bank"


class Change(models.Model):
    """One change of a bank, by a person or a run; whatever it touched is undone together.

    Changes and evidence of a bank are written under a lock on its row, so numbers of both follow the order
    in which they happened: (``id``, ``evidence_seen``) is a moment in the bank's life.
    """

    bank = models.ForeignKey("memory.MemoryBank", on_delete=models.CASCADE, related_name="changes")
    kind = models.CharField(max_length=20, choices=ChangeKind)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    run_id = models.BigIntegerField(null=True, blank=True, help_text="The run that made it; null for people.")
    step_id = models.BigIntegerField(null=True, blank=True)
    reason = models.TextField(blank=True, help_text="Why, in the words of who made it.")
    facts = models.JSONField(default=dict, help_text="What the kind of change adds, for its sentence.")
    at = models.DateTimeField(default=timezone.now)
    evidence_seen = models.BigIntegerField(
        default=0, help_text="The bank's newest evidence row at that time."
    )
    reverts = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="reverted_by"
    )
    proposal = models.ForeignKey(
        "memory.Proposal", on_delete=models.SET_NULL, null=True, blank=True, related_name="applied"
    )

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["bank", "-id"], name="changes_of_a_bank"),
            models.Index(fields=["run_id"], name="changes_of_a_run"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["bank", "run_id"],
                condition=models.Q(kind="learned"),
                name="one_lesson_per_run",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.pk}) in {self.bank}"


class ChangeItem(models.Model):
    """One part before and after: only the fields that changed; a part that came or went in full.

    ``before`` is null for a part that the change created, ``after`` for one that it removed. References are
    ids (``direction_id``, ``source_id``, ``target_id``, ``merged_into_id``).
    """

    change = models.ForeignKey(Change, on_delete=models.CASCADE, related_name="items")
    kind = models.CharField(max_length=10, help_text="bank, direction, strategy or edge.")
    part = models.BigIntegerField(help_text="Its id.")
    label = models.CharField(max_length=250, help_text="Its name at that time.")
    version = models.PositiveIntegerField(help_text="The part's version after the change.")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["kind", "part", "-id"], name="changes_of_a_part")]

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"


class EvidenceMark(models.Model):
    """A curation of many evidence rows at once: what they had in common before, and have after.

    Rows point to their newest mark, marks to the one before: a chain that takes a row back to any moment
    without a copy of it. ``before`` and ``after`` hold the same columns of `Evidence`.
    """

    change = models.ForeignKey(Change, on_delete=models.CASCADE, related_name="marks")
    previous = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="followers"
    )
    before = models.JSONField()
    after = models.JSONField()
    count = models.PositiveIntegerField(default=0, help_text="Rows that it was put on.")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.count} rows: {self.before} -> {self.after}"
