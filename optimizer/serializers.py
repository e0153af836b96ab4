"""The one module that turns operators, runs and their parts into JSON: REST, websocket and exports share
it."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch
from django.utils import timezone
from rest_framework import serializers

from gpu_eval.results import CHECKER_VERSION, LibraryPolicy, Precision
from optimizer.choices import OUTCOMES, AutoAccept
from optimizer.models import (
    Candidate,
    CandidateEvaluation,
    HealthReport,
    Operator,
    Reverification,
    Run,
    RunEvent,
    Step,
    WorkerHeartbeat,
)
from optimizer.reading import reading
from optimizer.services.findings import compare
from optimizer.services.workers import is_alive

# Figures without the evidence, which runs to tens of kilobytes.
LIGHT_EVALUATIONS = Prefetch("evaluations", CandidateEvaluation.objects.defer("result"))
LIGHT_CANDIDATES = Prefetch("candidates__evaluations", CandidateEvaluation.objects.defer("result"))
LIGHT_STEP_PARTS = (
    "candidates",
    Prefetch("result__evaluations", CandidateEvaluation.objects.defer("result")),
)


class NamedSerializer(serializers.Serializer[Any]):
    """A reference to something with a name."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class NodeSerializer(serializers.Serializer[Any]):
    """A reference to a direction or strategy of the memory."""

    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()


class UsernameField(serializers.SlugRelatedField[Any]):
    """A user by name; nobody else's details leave the server."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="username", read_only=True, **kwargs)


class HealthReportSerializer(serializers.ModelSerializer[HealthReport]):
    has_graph = serializers.SerializerMethodField()

    class Meta:
        model = HealthReport
        fields = ["id", "device_kind", "device_key", "report", "has_graph", "graph_reason", "created_at"]

    def get_has_graph(self, report: HealthReport) -> bool:
        return report.graph is not None


class OperatorSerializer(serializers.ModelSerializer[Operator]):
    """A row of the operator list. `Operator.objects` must carry the annotations of
    `api.operators.with_best`."""

    status_label = serializers.CharField(source="get_status_display", read_only=True)
    owner = UsernameField()
    override_by = UsernameField()
    runs_count = serializers.SerializerMethodField()
    best_speedup = serializers.SerializerMethodField()

    class Meta:
        model = Operator
        fields = [
            "id",
            "name",
            "description",
            "family",
            "status",
            "status_label",
            "status_reason",
            "precision",
            "library_policy",
            "is_sample",
            "override_reason",
            "override_by",
            "override_at",
            "owner",
            "created_at",
            "runs_count",
            "best_speedup",
        ]

    def get_runs_count(self, operator: Operator) -> int:
        return getattr(operator, "runs_count", 0)

    def get_best_speedup(self, operator: Operator) -> float | None:
        return getattr(operator, "best_speedup", None)


class OperatorDetailSerializer(OperatorSerializer):
    health_reports = HealthReportSerializer(many=True, read_only=True)

    class Meta(OperatorSerializer.Meta):
        fields = [*OperatorSerializer.Meta.fields, "source", "content_hash", "health_reports"]


class OperatorWriteSerializer(serializers.Serializer[Any]):
    """What an upload carries: JSON with ``source``, or a form with a ``file``."""

    name = serializers.CharField(max_length=120)
    source = serializers.CharField(  # type: ignore[assignment]  # shadows Field.source, harmlessly
        required=False, trim_whitespace=False, allow_blank=True
    )
    file = serializers.FileField(required=False)
    description = serializers.CharField(required=False, allow_blank=True, default="")
    precision = serializers.ChoiceField([item.value for item in Precision], default=Precision.FP32.value)
    library_policy = serializers.ChoiceField(
        [item.value for item in LibraryPolicy], default=LibraryPolicy.ALLOW.value
    )


class OperatorChangeSerializer(OperatorWriteSerializer):
    """The same with every field optional; defaults are not filled in."""

    name = serializers.CharField(max_length=120, required=False)
    description = serializers.CharField(required=False, allow_blank=True)
    precision = serializers.ChoiceField([item.value for item in Precision], required=False)
    library_policy = serializers.ChoiceField([item.value for item in LibraryPolicy], required=False)


class SourceSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(  # type: ignore[assignment]  # shadows Field.source, harmlessly
        trim_whitespace=False, allow_blank=True
    )


class SourceCheckSerializer(serializers.Serializer[Any]):
    """What parsing a source said. ``line`` and ``column`` count from 1; null where the whole file is
    meant."""

    ok = serializers.BooleanField()
    line = serializers.IntegerField(allow_null=True)
    column = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)


class OverrideSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500)


class InspectionSerializer(serializers.Serializer[Any]):
    device = serializers.ChoiceField(["auto", "cuda", "opencl"], default="auto")


class EstimateSerializer(serializers.Serializer[Any]):
    minutes = serializers.FloatField()
    basis = serializers.CharField()


class RunSerializer(serializers.ModelSerializer[Run]):
    """A run as lists, pages and exports show it."""

    operator = NamedSerializer(read_only=True)
    bank = NamedSerializer(read_only=True)
    created_by = UsernameField()
    status_label = serializers.CharField(source="get_status_display", read_only=True)
    steps_done = serializers.SerializerMethodField()
    best_outcome = serializers.SerializerMethodField()
    best_refuted_by = serializers.SerializerMethodField()
    is_terminal = serializers.BooleanField(read_only=True)
    library_policy = serializers.CharField(source="operator.library_policy", read_only=True)
    precision = serializers.CharField(source="operator.precision", read_only=True)

    class Meta:
        model = Run
        fields = [
            "id",
            "operator",
            "bank",
            "method",
            "proposer",
            "device",
            "device_key",
            "steps_total",
            "steps_done",
            "repair_tries",
            "seed",
            "policy",
            "auto_accept",
            "auto_accept_evidence",
            "budget_dollars",
            "status",
            "status_label",
            "is_terminal",
            "request",
            "error",
            "human_touched",
            "override_note",
            "precision",
            "library_policy",
            "best_candidate",
            "best_speedup",
            "best_speedup_low",
            "best_speedup_high",
            "best_outcome",
            "best_refuted_by",
            "baseline_us",
            "cost_dollars",
            "event_seq",
            "created_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_steps_done(self, run: Run) -> int:
        counted = getattr(run, "steps_done", None)
        return run.steps.filter(stage="done").count() if counted is None else counted

    def get_best_outcome(self, run: Run) -> str:
        return "faster" if run.best_candidate_id else ""

    def get_best_refuted_by(self, run: Run) -> int | None:
        """The checker version that no longer finds the best kernel correct."""
        if hasattr(run, "best_refuted_by"):
            return run.best_refuted_by
        return run.best_candidate.refuted_by if run.best_candidate else None


class RunLaunchSerializer(serializers.Serializer[Any]):
    operator = serializers.IntegerField()
    bank = serializers.IntegerField(required=False)
    method = serializers.CharField(default="htam")
    proposer = serializers.CharField(default="recipes")
    device = serializers.ChoiceField(["auto", "cuda", "opencl"], default="auto")
    steps_total = serializers.IntegerField(default=6, min_value=1, max_value=100)
    repair_tries = serializers.IntegerField(default=2, min_value=0, max_value=10)
    seed = serializers.IntegerField(default=0, min_value=-(2**63), max_value=2**63 - 1)
    policy = serializers.DictField(default=dict)
    auto_accept = serializers.ChoiceField(
        AutoAccept.values,
        default=AutoAccept.OFF.value,
        help_text="Which of its own proposals to the memory the run accepts; other than off: curators only.",
    )
    auto_accept_evidence = serializers.IntegerField(default=3, min_value=1, max_value=1000)
    budget_dollars = serializers.DecimalField(
        max_digits=9, decimal_places=4, required=False, allow_null=True, min_value=0
    )


class EvaluationRowSerializer(serializers.ModelSerializer[CandidateEvaluation]):
    """A verdict with its figures, without the evidence."""

    outcome_label = serializers.SerializerMethodField()

    class Meta:
        model = CandidateEvaluation
        fields = [
            "id",
            "candidate",
            "kind",
            "verdict",
            "outcome",
            "outcome_label",
            "message",
            "device_key",
            "checker",
            "speedup",
            "speedup_low",
            "speedup_high",
            "time_us",
            "baseline_us",
            "created_at",
        ]

    def get_outcome_label(self, evaluation: CandidateEvaluation) -> str:
        return outcome_parts(evaluation.outcome)[0]


class EvaluationSerializer(EvaluationRowSerializer):
    """A verdict with everything that was measured (``result``: gpu_eval.results.Evaluation as JSON), and what
    that means in words (``reading``: optimizer.reading)."""

    reading = serializers.SerializerMethodField()
    outdated = serializers.SerializerMethodField()

    class Meta(EvaluationRowSerializer.Meta):
        fields = [*EvaluationRowSerializer.Meta.fields, "outdated", "result", "reading"]

    def get_reading(self, evaluation: CandidateEvaluation) -> dict[str, Any]:
        return reading(evaluation.result)

    def get_outdated(self, evaluation: CandidateEvaluation) -> bool:
        """Whether an older checker judged than the one that judges now."""
        return evaluation.checker < CHECKER_VERSION


class CandidateRowSerializer(serializers.ModelSerializer[Candidate]):
    evaluations = EvaluationRowSerializer(many=True, read_only=True)

    class Meta:
        model = Candidate
        fields = [
            "id",
            "step",
            "attempt",
            "parent",
            "plan_hash",
            "language",
            "note",
            "provenance",
            "refuted_by",
            "created_at",
            "evaluations",
        ]


class CandidateSerializer(CandidateRowSerializer):
    run = serializers.IntegerField(source="step.run_id", read_only=True)
    step_index = serializers.IntegerField(source="step.index", read_only=True)

    class Meta(CandidateRowSerializer.Meta):
        fields = [*CandidateRowSerializer.Meta.fields, "run", "step_index", "plan", "schedule"]


class DiffSerializer(serializers.Serializer[Any]):
    """Two texts side by side; ``unified`` is the same as a unified diff, "" when they are equal."""

    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)
    before_label = serializers.CharField()
    after_label = serializers.CharField()
    unified = serializers.CharField(allow_blank=True)


class StepSerializer(serializers.ModelSerializer[Step]):
    """A step as a row. Its figures are those of the evaluation that decided it: the confirmation, else the
    first.

    Rows need ``select_related("direction", "strategy", "result", "run")`` and ``result__evaluations``
    prefetched.
    """

    direction = NodeSerializer(read_only=True)
    strategy = NodeSerializer(read_only=True)
    stage_label = serializers.CharField(source="get_stage_display", read_only=True)
    attempts = serializers.SerializerMethodField()
    outcome_label = serializers.SerializerMethodField()
    outcome_class = serializers.SerializerMethodField()
    outcome_icon = serializers.SerializerMethodField()
    speedup_low = serializers.SerializerMethodField()
    speedup_high = serializers.SerializerMethodField()
    time_us = serializers.SerializerMethodField()
    is_best = serializers.SerializerMethodField()
    refuted_by = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()

    class Meta:
        model = Step
        fields = [
            "id",
            "run",
            "index",
            "stage",
            "stage_label",
            "direction",
            "strategy",
            "reason",
            "parent",
            "result",
            "attempts",
            "outcome",
            "outcome_label",
            "outcome_class",
            "outcome_icon",
            "message",
            "improved",
            "is_best",
            "refuted_by",
            "utility",
            "speedup",
            "speedup_low",
            "speedup_high",
            "time_us",
            "stage_seconds",
            "started_at",
            "finished_at",
        ]

    def get_attempts(self, step: Step) -> int:
        return len(step.candidates.all())

    def get_outcome_label(self, step: Step) -> str:
        return outcome_parts(step.outcome)[0]

    def get_outcome_class(self, step: Step) -> str:
        return outcome_parts(step.outcome)[1]

    def get_outcome_icon(self, step: Step) -> str:
        return outcome_parts(step.outcome)[2]

    def get_speedup_low(self, step: Step) -> float | None:
        evaluation = deciding_evaluation(step.result)
        return evaluation.speedup_low if evaluation else None

    def get_speedup_high(self, step: Step) -> float | None:
        evaluation = deciding_evaluation(step.result)
        return evaluation.speedup_high if evaluation else None

    def get_time_us(self, step: Step) -> float | None:
        evaluation = deciding_evaluation(step.result)
        return evaluation.time_us if evaluation else None

    def get_is_best(self, step: Step) -> bool:
        return step.result_id is not None and step.result_id == step.run.best_candidate_id

    def get_refuted_by(self, step: Step) -> int | None:
        """The checker version that no longer finds the step's kernel correct."""
        return step.result.refuted_by if step.result else None

    def get_reason(self, step: Step) -> str:
        return step.strategy_choice.get("reason", "")


class StepDetailSerializer(StepSerializer):
    candidates = CandidateRowSerializer(many=True, read_only=True)

    class Meta(StepSerializer.Meta):
        fields = [
            *StepSerializer.Meta.fields,
            "state",
            "decision",
            "strategy_choice",
            "memory_change",
            "candidates",
        ]


class ReverificationSerializer(serializers.ModelSerializer[Reverification]):
    """A verdict beside the one that the present checker reached on the same plan.

    Rows need ``evaluation__candidate__step__run__operator`` and ``result`` selected.
    """

    status_label = serializers.CharField(source="get_status_display", read_only=True)
    candidate = serializers.IntegerField(source="evaluation.candidate_id", read_only=True)
    step = serializers.IntegerField(source="evaluation.candidate.step_id", read_only=True)
    step_index = serializers.IntegerField(source="evaluation.candidate.step.index", read_only=True)
    run = serializers.IntegerField(source="evaluation.candidate.step.run_id", read_only=True)
    operator = NamedSerializer(source="evaluation.candidate.step.run.operator", read_only=True)
    requested_by = UsernameField()
    before = EvaluationRowSerializer(source="evaluation", read_only=True)
    after = EvaluationRowSerializer(source="result", read_only=True, allow_null=True)
    finding = serializers.SerializerMethodField()
    sentence = serializers.SerializerMethodField()

    class Meta:
        model = Reverification
        fields = [
            "id",
            "status",
            "status_label",
            "error",
            "run",
            "step",
            "step_index",
            "operator",
            "candidate",
            "finding",
            "sentence",
            "before",
            "after",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_finding(self, row: Reverification) -> str:
        """confirmed, refuted, overturned or changed; "" while there is no second verdict."""
        return compare(row.evaluation, row.result).key if row.result else ""

    def get_sentence(self, row: Reverification) -> str:
        return compare(row.evaluation, row.result).sentence if row.result else row.error


class ReverifySerializer(serializers.Serializer[Any]):
    """What to judge again: the correct results of one ``run``, or the best ones that an older checker judged."""

    run = serializers.IntegerField(required=False, min_value=1)
    winners = serializers.BooleanField(default=False)


class VerificationSummarySerializer(serializers.Serializer[Any]):
    """Counts: best results judged by an older checker, re-verifications in hand, best results refuted."""

    checker = serializers.IntegerField()
    outdated = serializers.IntegerField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    refuted = serializers.IntegerField()


class AskedSerializer(serializers.Serializer[Any]):
    asked = serializers.IntegerField()


class EventSerializer(serializers.ModelSerializer[RunEvent]):
    at = serializers.DateTimeField(source="created_at", read_only=True)

    class Meta:
        model = RunEvent
        fields = ["seq", "kind", "payload", "at"]


class EventPageSerializer(serializers.Serializer[Any]):
    """Events after a cursor. ``last`` is the cursor to ask from next."""

    events = EventSerializer(many=True)
    last = serializers.IntegerField()


class WorkerSerializer(serializers.ModelSerializer[WorkerHeartbeat]):
    alive = serializers.SerializerMethodField()

    class Meta:
        model = WorkerHeartbeat
        fields = ["name", "queue", "device", "sentinels", "activity", "started_at", "seen_at", "alive"]

    def get_alive(self, worker: WorkerHeartbeat) -> bool:
        return is_alive(worker, timezone.now())


class DeviceSerializer(serializers.Serializer[Any]):
    """A device some worker offers, with what is known of it."""

    key = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    workers = serializers.ListField(child=serializers.CharField())
    facts = serializers.DictField()
    sentinels = serializers.DictField(
        help_text="Of the sentinel plans there: state (checking, passed, failed, skipped), sentence, results."
    )


def outcome_parts(outcome: str) -> tuple[str, str, str]:
    """(label, colour class, icon) of an outcome; three empty strings while there is none."""
    return OUTCOMES.get(outcome, ("", "", ""))


def deciding_evaluation(candidate: Candidate | None) -> CandidateEvaluation | None:
    """The evaluation that counts for a candidate: the confirmation where there is one, else the first."""
    if candidate is None:
        return None
    by_kind = {evaluation.kind: evaluation for evaluation in candidate.evaluations.all()}
    return by_kind.get("confirm") or by_kind.get("first")
