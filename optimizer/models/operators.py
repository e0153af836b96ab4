"""What is optimised: KernelBench-format operators and what inspecting them on a device showed."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from gpu_eval.results import LibraryPolicy, Precision
from optimizer.choices import OperatorStatus

PRECISIONS = [(item.value, item.value) for item in Precision]
LIBRARY_POLICIES = [(item.value, item.value) for item in LibraryPolicy]


class Operator(models.Model):
    """A KernelBench-format Python file with the policies its candidates must keep."""

    name = models.CharField(max_length=120, unique=True)
    description = models.TextField(blank=True)
    source = models.TextField()
    content_hash = models.CharField(
        max_length=64, db_index=True, help_text="SHA-256 without docstrings, comments and white space."
    )
    family = models.CharField(max_length=40, blank=True, help_text='"pointwise", "row_reduction" or "other".')
    status = models.CharField(
        max_length=20, choices=OperatorStatus, default=OperatorStatus.PENDING, db_index=True
    )
    status_reason = models.TextField(blank=True, help_text="One sentence, where blocked or invalid.")
    precision = models.CharField(max_length=8, choices=PRECISIONS, default=Precision.FP32)
    library_policy = models.CharField(max_length=8, choices=LIBRARY_POLICIES, default=LibraryPolicy.ALLOW)
    is_sample = models.BooleanField(default=False)
    inspect_on = models.CharField(
        max_length=10, blank=True, help_text='Device kind of the inspection that waits, or "auto".'
    )
    inspect_asked_at = models.DateTimeField(
        null=True,
        blank=True,
        db_index=True,
        help_text="When that inspection was asked for; null if none waits.",
    )
    override_reason = models.TextField(
        blank=True, help_text="Why its owner lets runs start despite a failed gate."
    )
    override_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    override_at = models.DateTimeField(null=True, blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="operators"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class HealthReport(models.Model):
    """What `gpu_eval inspect` said of one operator on one kind of device."""

    operator = models.ForeignKey(Operator, on_delete=models.CASCADE, related_name="health_reports")
    device_kind = models.CharField(max_length=10, help_text='"cuda" or "opencl"')
    device_key = models.CharField(max_length=160)
    report = models.JSONField(help_text="gpu_eval.operators.health.Health as JSON.")
    graph = models.JSONField(
        null=True, blank=True, help_text="The captured ATen graph recipes read; null if none."
    )
    graph_reason = models.TextField(blank=True, help_text="Why no graph could be captured.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["operator", "device_kind"], name="one_report_per_device_kind")
        ]

    def __str__(self) -> str:
        return f"{self.operator} on {self.device_key}"
