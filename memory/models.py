"""The Hierarchical Transition Graph M = (V_G, V_GL, E_G) and the evidence behind every number in it.

Statistics are never written by hand: `EvidenceTotals` rows are sums over `Evidence`, kept up to date by
`memory.statistics` and recomputable from the log at any time.
"""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

UTILITY_RANGE = [MinValueValidator(-1.0), MaxValueValidator(1.0)]
START = "START"  # the key of the virtual node that opens every prefix; it has no row


class MemoryBank(models.Model):
    """One graph. Runs name the bank they read and, unless it is frozen, teach."""

    name = models.CharField(max_length=80, unique=True)
    description = models.TextField(blank=True)
    frozen = models.BooleanField(default=False, help_text="Runs read this bank and leave it unchanged.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class CuratedPart(models.Model):
    """What the parts that people edit have in common. ``version`` lets a stale save be refused."""

    version = models.PositiveIntegerField(default=1)
    retired = models.BooleanField(default=False, help_text="Kept for its history, never chosen again.")
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class GlobalNode(CuratedPart):
    """A coarse optimisation direction: intent, static priors, and (through totals) run-time statistics."""

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="directions")
    key = models.SlugField(max_length=60)
    title = models.CharField(max_length=120)
    intent = models.TextField(help_text="What this direction is for, in a sentence or two.")
    goals = models.JSONField(default=list, help_text="Sentences: what success looks like.")
    triggers = models.JSONField(
        default=list,
        help_text='Conditions on the state, e.g. {"fact": "bottleneck", "op": "in", "value": ["memory"]}.',
    )
    risks = models.JSONField(default=list, help_text="Sentences: what tends to go wrong.")
    prior_utility = models.FloatField(
        default=0.0,
        validators=UTILITY_RANGE,
        help_text="Expected log2 speed-up of a step, -1 to 1, before evidence.",
    )
    x = models.FloatField(null=True, blank=True, help_text="Position on the graph page, pixels.")
    y = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["bank_id", "key"]
        constraints = [models.UniqueConstraint(fields=["bank", "key"], name="one_direction_per_key")]

    def __str__(self) -> str:
        return self.title


class LocalNode(CuratedPart):
    """One executable strategy under a direction."""

    direction = models.ForeignKey(GlobalNode, on_delete=models.CASCADE, related_name="strategies")
    key = models.SlugField(max_length=80)
    title = models.CharField(max_length=160)
    edit_pattern = models.TextField(help_text="What to change in the kernel, concretely.")
    applies_when = models.TextField(help_text="When this strategy fits, in words.")
    conditions = models.JSONField(
        default=list, help_text="The same as conditions on the state; all must hold."
    )
    checks = models.JSONField(default=list, help_text="What to verify after the edit.")
    risks = models.JSONField(default=list)
    recipe = models.JSONField(
        null=True,
        blank=True,
        help_text='The recipe move that executes it, e.g. {"move": "vector_width", "width": 4}.',
    )
    prior_utility = models.FloatField(default=0.0, validators=UTILITY_RANGE)

    class Meta:
        ordering = ["direction_id", "key"]
        constraints = [models.UniqueConstraint(fields=["direction", "key"], name="one_strategy_per_key")]

    def __str__(self) -> str:
        return self.title


class TransitionEdge(CuratedPart):
    """From one direction to the next. ``source`` is null for edges out of the virtual START."""

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="edges")
    source = models.ForeignKey(
        GlobalNode, on_delete=models.CASCADE, related_name="edges_out", null=True, blank=True
    )
    target = models.ForeignKey(GlobalNode, on_delete=models.CASCADE, related_name="edges_in")
    applies_when = models.TextField(blank=True)
    rationale = models.TextField(blank=True)
    risks = models.JSONField(default=list)
    prior_utility = models.FloatField(default=0.0, validators=UTILITY_RANGE)

    class Meta:
        ordering = ["bank_id", "source_id", "target_id"]
        constraints = [
            models.UniqueConstraint(fields=["bank", "source", "target"], name="one_edge_per_pair"),
            models.UniqueConstraint(
                fields=["bank", "target"], condition=models.Q(source__isnull=True), name="one_edge_from_start"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source.key if self.source else START} -> {self.target.key}"


class Evidence(models.Model):
    """What one step showed about one direction, strategy and transition.

    ``utility`` is u = clip(log2(t_before / t_after), -1, 1) for a correct step and the run's failure penalty
    for a failed one. ``step_id`` refers to optimizer.Step without a foreign key: the memory does not depend
    on runs, and evidence outlives them. The unique constraint is what makes a resumed step unable to teach
    twice.
    """

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="evidence")
    direction = models.ForeignKey(GlobalNode, on_delete=models.CASCADE, related_name="evidence")
    strategy = models.ForeignKey(LocalNode, on_delete=models.CASCADE, related_name="evidence", null=True)
    edge = models.ForeignKey(TransitionEdge, on_delete=models.CASCADE, related_name="evidence", null=True)
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
    excluded = models.BooleanField(default=False)
    excluded_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "evidence"
        indexes = [
            models.Index(fields=["bank", "-id"]),
            models.Index(fields=["direction", "-id"]),
            models.Index(fields=["strategy", "-id"]),
            models.Index(fields=["edge", "-id"]),
        ]
        constraints = [models.UniqueConstraint(fields=["step_id"], name="one_evidence_per_step")]

    def __str__(self) -> str:
        return f"{self.direction} {self.verdict} u={self.utility:+.2f}"


class EvidenceTotals(models.Model):
    """Sums over the evidence of one node or edge within one bucket of (device, dtype, family).

    Exactly one of ``direction``, ``strategy``, ``edge`` is set. Selection reads these few rows instead of
    the log, and weighs each bucket by how near it is to the run's own device, dtype and family.
    """

    bank = models.ForeignKey(MemoryBank, on_delete=models.CASCADE, related_name="totals")
    direction = models.ForeignKey(GlobalNode, on_delete=models.CASCADE, related_name="totals", null=True)
    strategy = models.ForeignKey(LocalNode, on_delete=models.CASCADE, related_name="totals", null=True)
    edge = models.ForeignKey(TransitionEdge, on_delete=models.CASCADE, related_name="totals", null=True)
    device = models.CharField(max_length=160)
    dtype = models.CharField(max_length=20)
    family = models.CharField(max_length=40)
    tries = models.PositiveIntegerField(default=0)
    compiled = models.PositiveIntegerField(default=0)
    correct = models.PositiveIntegerField(default=0)
    improved = models.PositiveIntegerField(default=0)
    utility_sum = models.FloatField(default=0.0)
    utility_square_sum = models.FloatField(default=0.0)

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
