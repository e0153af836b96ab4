"""Runs, their steps, the candidates a step writes and the evaluations that judge them.

State changes are compare-and-set updates (see `optimizer.loop.transitions`); terminal states refuse change.
"""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from optimizer.choices import (
    TERMINAL_RUN_STATUSES,
    AutoAccept,
    EvaluationKind,
    Provenance,
    RunRequest,
    RunStatus,
    Stage,
)


class Run(models.Model):
    """One search: an operator, a method, a memory bank, a proposer, a device and T steps."""

    operator = models.ForeignKey("optimizer.Operator", on_delete=models.PROTECT, related_name="runs")
    bank = models.ForeignKey("memory.MemoryBank", on_delete=models.PROTECT, related_name="runs")
    method = models.CharField(max_length=30, default="htam")
    proposer = models.CharField(max_length=30, default="recipes")
    device = models.CharField(max_length=10, default="auto", help_text="As asked: auto, cuda or opencl.")
    device_key = models.CharField(max_length=160, blank=True, help_text="As found when the run started.")
    steps_total = models.PositiveSmallIntegerField(
        default=6, validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    repair_tries = models.PositiveSmallIntegerField(default=2, validators=[MaxValueValidator(10)])
    seed = models.BigIntegerField(default=0)
    policy = models.JSONField(default=dict, help_text="memory.policy.PolicyConfig as JSON.")
    auto_accept = models.CharField(
        max_length=8,
        choices=AutoAccept,
        default=AutoAccept.OFF,
        help_text="Which of its own proposals to the memory the run accepts without a curator.",
    )
    auto_accept_evidence = models.PositiveSmallIntegerField(
        default=3,
        validators=[MinValueValidator(1)],
        help_text="From how many confirmed steps on.",
    )
    budget_dollars = models.DecimalField(max_digits=9, decimal_places=4, null=True, blank=True)
    status = models.CharField(max_length=12, choices=RunStatus, default=RunStatus.QUEUED, db_index=True)
    request = models.CharField(max_length=8, choices=RunRequest, default=RunRequest.NONE, blank=True)
    error = models.TextField(blank=True, help_text="One sentence, where the run failed.")
    human_touched = models.BooleanField(default=False)
    override_note = models.TextField(blank=True, help_text="The operator's gate override, copied at launch.")
    best_candidate = models.ForeignKey(
        "optimizer.Candidate", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    best_speedup = models.FloatField(null=True, blank=True)
    best_speedup_low = models.FloatField(null=True, blank=True)
    best_speedup_high = models.FloatField(null=True, blank=True)
    baseline_us = models.FloatField(
        null=True, blank=True, help_text="PyTorch eager, median of the first evaluation."
    )
    cost_dollars = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    event_seq = models.PositiveBigIntegerField(default=0, help_text="Sequence number of the newest event.")
    lease_owner = models.CharField(max_length=80, blank=True, help_text="The worker that holds this run now.")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk} of {self.operator}"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_RUN_STATUSES


class Step(models.Model):
    """One turn of the loop. Each stage writes its result here before ``stage`` moves on."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveSmallIntegerField(help_text="1..T")
    stage = models.CharField(max_length=12, choices=Stage, default=Stage.SUMMARISE)
    state = models.JSONField(default=dict, help_text="s_t: the facts that this step's decisions read.")
    decision = models.JSONField(
        default=dict, help_text="Every direction's score, term by term (memory.policy.Decision as JSON)."
    )
    direction = models.ForeignKey(
        "memory.GlobalNode", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    strategy = models.ForeignKey(
        "memory.LocalNode", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    strategy_choice = models.JSONField(
        default=dict, help_text="The options with their scores, the reason, the choice."
    )
    parent = models.ForeignKey(
        "optimizer.Candidate",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="The candidate this step edits; null means PyTorch itself.",
    )
    result = models.ForeignKey(
        "optimizer.Candidate", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    outcome = models.CharField(max_length=20, blank=True, help_text="A key of optimizer.choices.OUTCOMES.")
    message = models.TextField(blank=True, help_text="One sentence, where the step failed.")
    improved = models.BooleanField(default=False)
    utility = models.FloatField(null=True, blank=True)
    speedup = models.FloatField(null=True, blank=True, help_text="Of the step's result over PyTorch eager.")
    memory_change = models.JSONField(
        default=dict, help_text="Direction, strategy and edge utilities before and after."
    )
    stage_seconds = models.JSONField(
        default=dict, help_text="Seconds spent per stage, evaluation phases included."
    )
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["run_id", "index"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="one_step_per_index")]

    def __str__(self) -> str:
        return f"step {self.index} of run {self.run_id}"


class Candidate(models.Model):
    """One plan that a step wrote: attempt 0, then repairs."""

    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="candidates")
    attempt = models.PositiveSmallIntegerField(default=0)
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children"
    )
    plan = models.TextField()
    plan_hash = models.CharField(max_length=64, db_index=True)
    language = models.CharField(max_length=10)
    schedule = models.JSONField(
        default=dict, help_text="The recipe parameters that made it; {} for other proposers."
    )
    note = models.TextField(blank=True, help_text="What the proposer changed, in its words.")
    lesson = models.JSONField(
        default=dict,
        help_text="What the proposer would have the memory learn from it (optimizer.proposers.Proposal.lesson).",
    )
    provenance = models.CharField(max_length=10, choices=Provenance, default=Provenance.PROPOSER, blank=True)
    refuted_by = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="The checker version that no longer found it correct; null if none."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["step_id", "attempt"]
        constraints = [models.UniqueConstraint(fields=["step", "attempt"], name="one_candidate_per_attempt")]

    def __str__(self) -> str:
        return f"candidate {self.attempt} of {self.step}"


class CandidateEvaluation(models.Model):
    """One verdict on one candidate; the figures beside ``result`` are copies for lists and sorting."""

    candidate = models.ForeignKey(Candidate, on_delete=models.CASCADE, related_name="evaluations")
    kind = models.CharField(max_length=10, choices=EvaluationKind, default=EvaluationKind.FIRST)
    verdict = models.CharField(max_length=20)
    outcome = models.CharField(max_length=20)
    message = models.TextField(blank=True)
    result = models.JSONField(help_text="gpu_eval.results.Evaluation as JSON.")
    device_key = models.CharField(max_length=160, blank=True)
    checker = models.PositiveSmallIntegerField(
        default=0, help_text="gpu_eval.results.CHECKER_VERSION of the code that judged; 0 where unknown."
    )
    speedup = models.FloatField(null=True, blank=True)
    speedup_low = models.FloatField(null=True, blank=True)
    speedup_high = models.FloatField(null=True, blank=True)
    time_us = models.FloatField(null=True, blank=True)
    baseline_us = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["candidate_id", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["candidate", "kind"],
                condition=~models.Q(kind="reverify"),
                name="one_evaluation_per_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} ({self.kind}) of {self.candidate}"
