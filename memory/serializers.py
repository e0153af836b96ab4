"""Objects of the memory as JSON for REST, websocket and exports; and the rules for what people save."""

from __future__ import annotations

import math
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.bankfile import BankError, check_part
from memory.models import START, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.policy import POOLED, EvidenceContext
from memory.statistics import buckets
from memory.summaries import summarise

RECENT = 30  # steps that show a trend


class BoundedField(serializers.FloatField):
    """A finite number within a range that the refusal names."""

    low, high, unit = -1.0, 1.0, ""

    def to_internal_value(self, data: Any) -> float:
        try:
            value = math.nan if isinstance(data, bool) else super().to_internal_value(data)
        except serializers.ValidationError:
            value = math.nan
        if not self.low <= value <= self.high:
            limits = f"between {self.low:.0f} and {self.high:.0f}{self.unit}"
            raise serializers.ValidationError(f"{self.field_name} must be a number {limits}.")
        return value


class UtilityField(BoundedField):
    """A utility, clip(log2(t_before / t_after), -1, 1)."""


class CoordinateField(BoundedField):
    """A position on the graph page."""

    low, high, unit = -1e6, 1e6, " pixels"


class SchemaField(serializers.JSONField):
    """A value that one definition of the bank schema describes; files and forms obey the same rules."""

    definition = ""

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        try:
            check_part(self.definition, value, str(self.field_name))
        except BankError as error:
            raise serializers.ValidationError(str(error)) from None
        return value


@extend_schema_field(serializers.ListField(child=serializers.CharField()))
class SentencesField(SchemaField):
    definition = "sentences"


@extend_schema_field(serializers.ListField(child=serializers.DictField()))
class ConditionsField(SchemaField):
    definition = "conditions"


@extend_schema_field(serializers.DictField(allow_null=True))
class RecipeField(SchemaField):
    definition = "recipe"


def empty_list() -> Any:
    return []


class KeyField(serializers.RegexField):
    """A stable name: lower-case words joined by hyphens."""

    def __init__(self, **kwargs: Any) -> None:
        message = "A key is lower-case words joined by hyphens, such as memory-access."
        super().__init__(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", error_messages={"invalid": message}, **kwargs)


class ReasonField(serializers.CharField):
    """Why something is changed: kept in the history."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs = {"required": False, "allow_blank": True, "write_only": True, **kwargs}
        super().__init__(max_length=2000, help_text="Why; goes into the history.", **kwargs)


class StatisticsSerializer(serializers.Serializer[Any]):
    """Posterior utility with its 95 % interval, evidence and rates (null before the first try)."""

    utility = serializers.FloatField()
    utility_low = serializers.FloatField()
    utility_high = serializers.FloatField()
    n = serializers.FloatField(help_text="Evidence weighted by its distance from the context asked for.")
    tries = serializers.IntegerField()
    compile_rate = serializers.FloatField(allow_null=True)
    correct_rate = serializers.FloatField(allow_null=True)
    improve_rate = serializers.FloatField(allow_null=True)
    evidence_utility = serializers.FloatField(allow_null=True)


class BucketSerializer(serializers.Serializer[Any]):
    """Statistics of the evidence from one device, dtype and operator family."""

    device = serializers.CharField()
    dtype = serializers.CharField()
    family = serializers.CharField()
    tries = serializers.IntegerField()
    compiled = serializers.IntegerField()
    correct = serializers.IntegerField()
    improved = serializers.IntegerField()
    mean_utility = serializers.FloatField()


class RecentSerializer(serializers.Serializer[Any]):
    """One of the newest steps behind a part."""

    evidence = serializers.IntegerField()
    utility = serializers.FloatField()
    verdict = serializers.CharField()
    at = serializers.DateTimeField()


class BankSerializer(serializers.ModelSerializer[MemoryBank]):
    """A bank with the size of its parts, where the view has counted them."""

    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None)
    directions_count = serializers.IntegerField(read_only=True, default=None)
    strategies_count = serializers.IntegerField(read_only=True, default=None)
    edges_count = serializers.IntegerField(read_only=True, default=None)
    evidence_count = serializers.IntegerField(read_only=True, default=None)
    proposals_waiting = serializers.IntegerField(read_only=True, default=None)
    version = serializers.IntegerField(
        min_value=1, required=False, help_text="On a change: the version that was edited."
    )
    reason = ReasonField()

    class Meta:
        model = MemoryBank
        fields = [
            "id", "name", "description", "frozen", "version", "reason", "cloned_from", "created_by", "created_at",
            "directions_count", "strategies_count", "edges_count", "evidence_count", "proposals_waiting",
        ]  # fmt: skip
        read_only_fields = ["cloned_from"]
        extra_kwargs = {"description": {"max_length": 20000}}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if self.instance is None:
            attrs.pop("version", None)
        elif "version" not in attrs:
            raise serializers.ValidationError({"version": ["Name the version that you edited."]})
        return attrs


class CuratedSerializer(serializers.ModelSerializer[Any]):
    """What directions, strategies and edges share: statistics, and versions that a save must name.

    Views prefetch ``totals``. ``context["evidence_context"]`` says whence statistics are seen.
    """

    fixed: tuple[str, ...] = ()  # fields that name the part: set once

    version = serializers.IntegerField(
        min_value=1, required=False, help_text="On a change: the version that was edited."
    )
    reason = ReasonField()
    updated_by = serializers.CharField(source="updated_by.username", read_only=True, default=None)
    prior_utility = UtilityField(default=0.0)
    statistics = serializers.SerializerMethodField()
    buckets = serializers.SerializerMethodField()
    recent = serializers.SerializerMethodField(
        help_text="The newest counted steps, oldest first: the trend. Null in lists."
    )

    @extend_schema_field(StatisticsSerializer)
    def get_statistics(self, part: Any) -> dict[str, Any]:
        context: EvidenceContext = self.context.get("evidence_context", POOLED)
        return summarise(part.prior_utility, buckets(part.totals.all()), context).to_json()

    @extend_schema_field(BucketSerializer(many=True))
    def get_buckets(self, part: Any) -> list[dict[str, Any]]:
        rows = sorted(part.totals.all(), key=lambda row: (-row.tries, row.device, row.dtype, row.family))
        return [
            {
                "device": row.device,
                "dtype": row.dtype,
                "family": row.family,
                "tries": row.tries,
                "compiled": row.compiled,
                "correct": row.correct,
                "improved": row.improved,
                "mean_utility": row.utility_sum / row.tries if row.tries else 0.0,
            }
            for row in rows
        ]

    @extend_schema_field(RecentSerializer(many=True, allow_null=True))
    def get_recent(self, part: Any) -> list[dict[str, Any]] | None:
        if self.context.get("recent") is not True:
            return None
        rows = part.evidence.filter(excluded=False).order_by("-id")[:RECENT]
        newest = list(rows.values_list("id", "utility", "verdict", "created_at"))
        return [
            {"evidence": pk, "utility": value, "verdict": verdict, "at": at}
            for pk, value, verdict, at in reversed(newest)
        ]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if self.instance is None:
            attrs.pop("version", None)
            self._check_key(attrs)
            return attrs
        if "version" not in attrs:
            raise serializers.ValidationError({"version": ["Name the version that you edited."]})
        for name in self.fixed:
            if name in attrs and attrs.pop(name) != getattr(self.instance, name):
                raise serializers.ValidationError({name: [f"{name} cannot change; make a new one instead."]})
        return attrs

    def _check_key(self, attrs: dict[str, Any]) -> None:
        """A new part's key is free where it goes."""
        if "key" not in attrs:
            return
        taken = {name: attrs[name] for name in self.fixed}
        if self.Meta.model.objects.filter(**taken).exists():  # type: ignore[attr-defined]
            where = self.fixed[0]
            raise serializers.ValidationError(
                {"key": [f'The key "{attrs["key"]}" is taken in this {where}.']}
            )


class DirectionSerializer(CuratedSerializer):
    fixed = ("bank", "key")

    key = KeyField(max_length=60)
    goals = SentencesField(default=empty_list)
    triggers = ConditionsField(default=empty_list)
    risks = SentencesField(default=empty_list)
    x = CoordinateField(allow_null=True, required=False)
    y = CoordinateField(allow_null=True, required=False)

    class Meta:
        model = GlobalNode
        validators: list[Any] = []  # DRF's own sentence for a taken key names neither key nor field
        fields = [
            "id", "bank", "key", "title", "intent", "goals", "triggers", "risks", "prior_utility", "retired",
            "x", "y", "version", "reason", "merged_into", "updated_by", "updated_at", "statistics", "buckets", "recent",
        ]  # fmt: skip
        read_only_fields = ["updated_at", "merged_into"]
        extra_kwargs = {"intent": {"max_length": 5000}}


class StrategySerializer(CuratedSerializer):
    fixed = ("direction", "key")

    key = KeyField(max_length=80)
    direction_key = serializers.CharField(source="direction.key", read_only=True)
    conditions = ConditionsField(default=empty_list)
    checks = SentencesField(default=empty_list)
    risks = SentencesField(default=empty_list)
    recipe = RecipeField(allow_null=True, required=False)

    class Meta:
        model = LocalNode
        validators: list[Any] = []  # DRF's own sentence for a taken key names neither key nor field
        fields = [
            "id", "direction", "direction_key", "key", "title", "edit_pattern", "applies_when", "conditions",
            "checks", "risks", "recipe", "prior_utility", "retired", "version", "reason", "merged_into",
            "updated_by", "updated_at", "statistics", "buckets", "recent",
        ]  # fmt: skip
        read_only_fields = ["updated_at", "merged_into"]
        extra_kwargs = {"edit_pattern": {"max_length": 10000}, "applies_when": {"max_length": 5000}}


class EdgeSerializer(CuratedSerializer):
    """``source`` is null out of START."""

    fixed = ("bank", "source", "target")

    source_key = serializers.SerializerMethodField()
    target_key = serializers.CharField(source="target.key", read_only=True)
    risks = SentencesField(default=empty_list)

    class Meta:
        model = TransitionEdge
        fields = [
            "id", "bank", "source", "source_key", "target", "target_key", "applies_when", "rationale",
            "risks", "prior_utility", "retired", "version", "reason", "merged_into", "updated_by", "updated_at",
            "statistics", "buckets", "recent",
        ]  # fmt: skip
        read_only_fields = ["updated_at", "merged_into"]
        extra_kwargs = {
            "applies_when": {"max_length": 5000},
            "rationale": {"max_length": 5000},
            "source": {"required": False, "allow_null": True, "default": None},
        }

    def get_source_key(self, edge: TransitionEdge) -> str:
        return edge.source.key if edge.source else START

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if self.instance is None:
            self._check_ends(attrs)
        return attrs

    def _check_ends(self, attrs: dict[str, Any]) -> None:
        bank, source, target = attrs["bank"], attrs.get("source"), attrs["target"]
        for name, node in (("source", source), ("target", target)):
            if node is not None and node.bank_id != bank.pk:
                raise serializers.ValidationError({name: [f"{name} belongs to another bank."]})
        if TransitionEdge.objects.filter(bank=bank, source=source, target=target).exists():
            start = source.key if source else START
            raise serializers.ValidationError(f"There is an edge {start} -> {target.key} already.")


class EvidenceSerializer(serializers.ModelSerializer[Evidence]):
    """One row of the log. Only its exclusion can be changed."""

    direction_key = serializers.CharField(source="direction.key", read_only=True)
    direction_title = serializers.CharField(source="direction.title", read_only=True)
    strategy_key = serializers.CharField(source="strategy.key", read_only=True, default=None)
    strategy_title = serializers.CharField(source="strategy.title", read_only=True, default=None)
    source_key = serializers.SerializerMethodField()
    run = serializers.IntegerField(source="run_id", read_only=True, allow_null=True)
    step = serializers.IntegerField(source="step_id", read_only=True, allow_null=True)
    operator = serializers.IntegerField(source="operator_id", read_only=True, allow_null=True)
    excluded_by = serializers.CharField(source="exclusion.user.username", read_only=True, default=None)
    excluded_at = serializers.DateTimeField(source="exclusion.at", read_only=True, default=None)

    class Meta:
        model = Evidence
        fields = [
            "id", "bank", "direction", "direction_key", "direction_title", "strategy", "strategy_key",
            "strategy_title", "edge", "source_key", "run", "step", "verdict", "compiled", "correct",
            "improved", "utility", "speedup", "device", "dtype", "family", "proposer", "model",
            "human_touched", "note", "operator", "setting", "excluded", "excluded_reason", "excluded_by",
            "excluded_at", "created_at",
        ]  # fmt: skip
        read_only_fields = [name for name in fields if name not in {"excluded", "excluded_reason"}]
        extra_kwargs = {"excluded_reason": {"max_length": 20000}}

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_source_key(self, row: Evidence) -> str | None:
        if row.edge is None:
            return None
        return row.edge.source.key if row.edge.source else START

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("excluded") and not attrs.get("excluded_reason", "").strip():
            raise serializers.ValidationError({"excluded_reason": ["Say why this evidence is excluded."]})
        return attrs
