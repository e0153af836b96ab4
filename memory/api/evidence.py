"""The evidence log: read and filter; a curator excludes rows and takes them back in."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import flag_filter, id_filters
from memory.api.curated import RefusalsMixin
from memory.api.operations import IdField, asked
from memory.history import exclude_evidence, include_evidence
from memory.history.json import ChangeSerializer, with_parts
from memory.models import Change, Evidence
from memory.serializers import EvidenceSerializer

IDS = {
    "bank": "bank_id",
    "direction": "direction_id",
    "strategy": "strategy_id",
    "edge": "edge_id",
    "run": "run_id",
    "step": "step_id",
    "operator": "operator_id",
    "proposal": "proposals",
    "newest": "id__lte",
}
TEXTS = ("verdict", "device", "dtype", "family", "proposer", "model", "setting")
FLAGS = ("excluded", "improved", "correct", "compiled", "human_touched")


class RowsSerializer(serializers.Serializer[Any]):
    """Which rows: one by one, or all of a step, a run or a device; what is given must all agree."""

    bank = IdField(required=False, help_text="Only in this bank; needed with device.")
    ids = serializers.ListField(child=IdField(), required=False, max_length=5000)
    step = IdField(required=False)
    run = IdField(required=False)
    device = serializers.CharField(required=False, max_length=160, help_text="kind:name, as in the rows.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not {"ids", "step", "run", "device"} & set(attrs):
            raise serializers.ValidationError("Say which rows: ids, step, run or device.")
        if "device" in attrs and "bank" not in attrs:
            raise serializers.ValidationError(
                {"bank": ["Name the bank whose evidence from this device you mean."]}
            )
        return attrs


class ExclusionSerializer(RowsSerializer):
    reason = serializers.CharField(max_length=2000, help_text="Bad measurement, cheat found later, ...")


class InclusionSerializer(RowsSerializer):
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True, default="")


class SwitchedSerializer(serializers.Serializer[Any]):
    """How many rows changed, and the change of each bank concerned: revert it to undo."""

    rows = serializers.IntegerField()
    changes = ChangeSerializer(many=True)


@extend_schema_view(
    list=extend_schema(
        parameters=[
            *(OpenApiParameter(name, int) for name in IDS),
            *(OpenApiParameter(name, str) for name in TEXTS),
            *(OpenApiParameter(name, bool) for name in FLAGS),
        ]
    )
)
class EvidenceViewSet(
    RefusalsMixin, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Evidence]
):
    """What steps showed, newest first. ``proposal`` lists what speaks for one; ``newest`` is an id to begin at."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "patch", "head", "options"]
    serializer_class = EvidenceSerializer
    queryset = Evidence.objects.select_related(
        "direction", "strategy", "edge__source", "exclusion__user"
    ).order_by("-id")

    def get_queryset(self) -> QuerySet[Evidence]:
        rows = super().get_queryset()
        if self.action != "list" or getattr(self, "swagger_fake_view", False):
            return rows
        filters: dict[str, Any] = id_filters(self.request, IDS)
        for name in TEXTS:
            if text := self.request.query_params.get(name):
                filters[name] = text.replace("\x00", "")
        for name in FLAGS:
            filters.update(flag_filter(self.request, name))
        return rows.filter(**filters)

    def partial_update(self, request: Request, pk: str) -> Response:
        """Exclude one row from every statistic with a reason, or take it back in."""
        row = self.get_object()
        serializer = self.get_serializer(row, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        excluded = serializer.validated_data.get("excluded", row.excluded)
        reason = serializer.validated_data.get("excluded_reason", row.excluded_reason)
        if excluded != row.excluded:
            switch = exclude_evidence if excluded else include_evidence
            switch([row.pk], reason, request.user)
        return Response(self.get_serializer(self.get_queryset().get(pk=row.pk)).data)

    @extend_schema(request=ExclusionSerializer, responses=SwitchedSerializer)
    @action(detail=False, methods=["post"])
    def exclude(self, request: Request) -> Response:
        """Leave rows out of every statistic, at once: one by one, all of a step, of a run or of a device."""
        data = asked(ExclusionSerializer, request)
        return self.switched(exclude_evidence(rows_of(data), data["reason"], request.user, facts=named(data)))

    @extend_schema(request=InclusionSerializer, responses=SwitchedSerializer)
    @action(detail=False, methods=["post"])
    def include(self, request: Request) -> Response:
        """Count excluded rows again; the same choices as for exclude."""
        data = asked(InclusionSerializer, request)
        return self.switched(include_evidence(rows_of(data), data["reason"], request.user, facts=named(data)))

    def switched(self, changes: list[Change]) -> Response:
        shown = with_parts(Change.objects.filter(pk__in=[change.pk for change in changes]))
        rows = sum(change.facts["rows"] for change in changes)
        return Response({"rows": rows, "changes": ChangeSerializer(shown, many=True).data})


def named(data: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, for the history."""
    return {name: data[name] for name in ("step", "run", "device") if name in data}


def rows_of(data: dict[str, Any]) -> QuerySet[Evidence]:
    columns = {"bank": "bank_id", "ids": "pk__in", "step": "step_id", "run": "run_id", "device": "device"}
    rows = Evidence.objects.filter(**{columns[name]: data[name] for name in columns if name in data})
    if not rows.exists():
        raise ValidationError({"detail": "There is no such evidence."})
    return rows
