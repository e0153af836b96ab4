"""The Hierarchical Transition Graph M = (V_G, V_GL, E_G): banks, directions, strategies, transitions."""

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
    version = models.PositiveIntegerField(default=1, help_text="Of name, description and frozen.")
    cloned_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="clones"
    )
    cloned_at = models.ForeignKey(
        "memory.Change",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="The newest change of the original that the clone holds.",
    )

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
    merged_into = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="merged",
        help_text="The part that its evidence went to; null unless merged.",
    )

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
