"""The evidence log and the sums over it.

Statistics are never written by hand: `EvidenceTotals` rows are sums over `Evidence`, kept up to date by
`memory.statistics` and recomputable from the log at any time.
"""

from __future__ import annotations

import math
from typing import Any

from django.db import models
from django.utils import timezone

from memory.models.graph import UTILITY_RANGE, GlobalNode, LocalNode, MemoryBank, TransitionEdge

GRID = 1 << 20  # utilities are summed in units of 2^-20, as whole numbers


def to_units(utility: float) -> int:
    """A utility in whole units of 2^-20 (1e-6, far below what a measurement can tell apart).

    Sums of whole numbers are exact in any order: a total kept up to date equals one summed anew, and what is
    taken out leaves no trace, not even one of rounding.
    """
    return math.floor(utility * GRID + 0.5)


class UnitsField(models.BigIntegerField):  # wide, as its square is summed
    """``utility`` in units, worked out on every insert, bulk inserts included."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        units = to_units(getattr(model_instance, "utility"))  # noqa: B009 (the type checker knows no such field)
        setattr(model_instance, self.attname, units)
        return units


class Evidence(models.Model):
    """What one step showed about one direction, strategy and transition.

    A log: rows are appended and what they say never changes. Where they count (direction, strategy, edge) and
    whether (excluded) moves by curation only, each time under a new `EvidenceMark`, so that it can be undone.

    ``utility`` is u = clip(log2(t_before / t_after), -1, 1) for a correct step and the run's failure penalty
    for a failed one. ``step_id`` refers to optimizer.Step without a foreign key: the memory does not depend
    on runs, and evidence outlives them. The unique constraint is what makes a resumed step unable to teach
    twice.
    """

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="evidence", db_index=False)
    direction = models.ForeignKey(
        GlobalNode, on_delete=models.CASCADE, related_name="evidence", db_index=False
    )
    strategy = models.ForeignKey(
        LocalNode, on_delete=models.CASCADE, related_name="evidence", null=True, db_index=False
    )
    edge = models.ForeignKey(
        TransitionEdge, on_delete=models.CASCADE, related_name="evidence", null=True, db_index=False
    )
    run_id = models.BigIntegerField(null=True, blank=True, db_index=True)
    step_id = models.BigIntegerField(null=True, blank=True)
    verdict = models.CharField(max_length=20)
    compiled = models.BooleanField()
    correct = models.BooleanField()
    improved = models.BooleanField()
    utility = models.FloatField(validators=UTILITY_RANGE)
    speedup = models.FloatField(null=True, blank=True, help_text="t_before / t_after of this step.")
    device = models.CharField(max_length=160)
    dtype = models.CharField(max_length=20)
    family = models.CharField(max_length=40)
    proposer = models.CharField(max_length=40)
    model = models.CharField(max_length=80, blank=True, help_text="The LLM, where one wrote the kernel.")
    human_touched = models.BooleanField(default=False)
    note = models.TextField(blank=True)
    operator_id = models.BigIntegerField(
        null=True, blank=True, help_text="optimizer.Operator, by number as for steps."
    )
    setting = models.CharField(
        max_length=160, blank=True, help_text='The knob that the step turned, such as "vector_width=8".'
    )
    excluded = models.BooleanField(default=False)
    excluded_reason = models.TextField(blank=True)
    exclusion = models.ForeignKey(
        "memory.Change",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="The change that excluded it: who and when.",
    )
    mark = models.ForeignKey(
        "memory.EvidenceMark",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="rows",
        db_index=False,
        help_text="The newest curation of this row; null while it stands as recorded.",
    )
    utility_units = UnitsField(editable=False, default=0)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "evidence"
        indexes = [
            models.Index(fields=["bank", "-id"]),
            models.Index(fields=["direction", "-id"]),
            models.Index(fields=["strategy", "-id"]),
            models.Index(fields=["edge", "-id"]),
            models.Index(fields=["mark"], condition=models.Q(mark__isnull=False), name="evidence_by_mark"),
            models.Index(
                fields=["bank", "family", "setting"],
                condition=models.Q(improved=True) & ~models.Q(setting=""),
                name="evidence_winning_settings",
            ),
        ]
        constraints = [models.UniqueConstraint(fields=["step_id", "bank"], name="one_evidence_per_step")]

    def __str__(self) -> str:
        return f"{self.direction} {self.verdict} u={self.utility:+.2f}"


class EvidenceTotals(models.Model):
    """Sums over the evidence of one node or edge within one bucket of (device, dtype, family).

    Exactly one of ``direction``, ``strategy``, ``edge`` is set. Selection reads these few rows instead of
    the log, and weighs each bucket by how near it is to the run's own device, dtype and family.
    """

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="totals")
    direction = models.ForeignKey(
        GlobalNode, on_delete=models.CASCADE, related_name="totals", null=True, db_index=False
    )
    strategy = models.ForeignKey(
        LocalNode, on_delete=models.CASCADE, related_name="totals", null=True, db_index=False
    )
    edge = models.ForeignKey(
        TransitionEdge, on_delete=models.CASCADE, related_name="totals", null=True, db_index=False
    )
    device = models.CharField(max_length=160)
    dtype = models.CharField(max_length=20)
    family = models.CharField(max_length=40)
    tries = models.PositiveIntegerField(default=0)
    compiled = models.PositiveIntegerField(default=0)
    correct = models.PositiveIntegerField(default=0)
    improved = models.PositiveIntegerField(default=0)
    utility_units = models.BigIntegerField(default=0, help_text="Sum of utilities in units of 2^-20.")
    square_units = models.BigIntegerField(default=0, help_text="Sum of squared utilities, units of 2^-40.")

    class Meta:
        verbose_name_plural = "evidence totals"
        constraints = [
            *(
                models.UniqueConstraint(
                    fields=[subject, "device", "dtype", "family"],
                    condition=models.Q(**{f"{subject}__isnull": False}),
                    name=f"one_total_per_{subject}_bucket",
                )
                for subject in ("direction", "strategy", "edge")
            ),
            models.CheckConstraint(
                name="totals_of_one_subject",
                condition=(
                    models.Q(direction__isnull=False, strategy__isnull=True, edge__isnull=True)
                    | models.Q(direction__isnull=True, strategy__isnull=False, edge__isnull=True)
                    | models.Q(direction__isnull=True, strategy__isnull=True, edge__isnull=False)
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.direction or self.strategy or self.edge} n={self.tries}"

    @property
    def utility_sum(self) -> float:
        return self.utility_units / GRID

    @property
    def utility_square_sum(self) -> float:
        return self.square_units / GRID**2
