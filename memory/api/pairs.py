"""Two banks at once over REST: clone, compare, merge."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.context import CONTEXT_PARAMETERS, evidence_context, id_filters
from memory.api.operations import IdField, asked, found
from memory.banks import clone_bank, compare_banks, merge_bank
from memory.history.json import ChangeSerializer, with_parts
from memory.models import Change, MemoryBank
from memory.serializers import BankSerializer, ReasonField, StatisticsSerializer


class BankHeadSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    frozen = serializers.BooleanField()
    version = serializers.IntegerField()


class ComparedFieldSerializer(serializers.Serializer[Any]):
    """``conflict``: both banks changed it since one was cloned from the other; null where neither was."""

    field = serializers.CharField()
    here = serializers.JSONField(allow_null=True)
    there = serializers.JSONField(allow_null=True)
    base = serializers.JSONField(allow_null=True)
    conflict = serializers.BooleanField(allow_null=True)


class ComparedPartSerializer(serializers.Serializer[Any]):
    """A part that only one bank has, or that differs. ``id`` is what merging takes."""

    id = serializers.CharField()
    kind = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    here = serializers.IntegerField(allow_null=True, help_text="Id of the part in this bank.")
    there = serializers.IntegerField(allow_null=True)
    status = serializers.ChoiceField(["only_here", "only_there", "differs"])
    removed = serializers.ChoiceField(
        ["here", "there"], allow_null=True, help_text="Of a part both had: where it is gone."
    )
    conflict = serializers.BooleanField(allow_null=True)
    fields = ComparedFieldSerializer(many=True)  # type: ignore[assignment]


class ComparedStatisticsSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    here = StatisticsSerializer()
    there = StatisticsSerializer()


class ComparisonSerializer(serializers.Serializer[Any]):
    """Two banks side by side. ``related``: one was cloned from the other, so conflicts are known."""

    here = BankHeadSerializer()
    there = BankHeadSerializer()
    related = serializers.BooleanField()
    same = serializers.IntegerField(help_text="Parts that say the same in both.")
    parts = ComparedPartSerializer(many=True)
    statistics = ComparedStatisticsSerializer(many=True)


class BankMergeSerializer(serializers.Serializer[Any]):
    other = IdField(help_text="The bank to take from.")
    take = serializers.ListField(
        child=serializers.CharField(), default=list, max_length=20000, help_text="Ids of the comparison."
    )
    versions = serializers.DictField(
        child=serializers.IntegerField(),
        default=dict,
        help_text="Id -> the version of this bank's part you saw.",
    )
    evidence = serializers.BooleanField(default=False, help_text="Bring evidence that this bank lacks.")
    reason = ReasonField()


class BankMergedSerializer(serializers.Serializer[Any]):
    change = ChangeSerializer()
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    evidence = serializers.IntegerField(default=0)
    evidence_left = serializers.IntegerField(
        default=0, help_text="Rows left behind: excluded, here already, or of parts that this bank lacks."
    )


class BankPairsMixin(viewsets.GenericViewSet[MemoryBank]):
    """What can be done with this bank and another one."""

    @extend_schema(
        request=inline_serializer("BankName", {"name": serializers.CharField(max_length=80)}),
        responses={201: BankSerializer, 400: OpenApiResponse(description="The name is taken or unusable.")},
    )
    @action(detail=True, methods=["post"])
    def clone(self, request: Request, pk: str) -> Response:
        """A copy of this bank with its evidence, under another name; it can be compared and merged later."""
        name = request.data.get("name") if isinstance(request.data, dict) else None
        if not isinstance(name, str) or not name.strip():
            raise ValidationError({"name": ["Name the copy."]})
        bank = clone_bank(self.get_object(), name, request.user)
        return Response(self.get_serializer(self.get_queryset().get(pk=bank.pk)).data, status=201)

    @extend_schema(
        parameters=[
            OpenApiParameter("with", int, required=True, description="the other bank"),
            *CONTEXT_PARAMETERS,
        ],
        responses=ComparisonSerializer,
        filters=False,
    )
    @action(detail=True, methods=["get"], pagination_class=None)
    def compare(self, request: Request, pk: str) -> Response:
        """This bank beside another one, matched by stable keys."""
        ids = id_filters(request, {"with": "pk"})
        if not ids:
            raise ValidationError({"with": ["Name the other bank."]})
        other = found(MemoryBank, ids["pk"], "with")
        return Response(compare_banks(self.get_object(), other, evidence_context(request)))

    @extend_schema(
        request=BankMergeSerializer,
        responses={
            200: BankMergedSerializer,
            400: OpenApiResponse(description="What is wrong, in a sentence; also a part changed meanwhile."),
            409: OpenApiResponse(description="The bank is frozen (`frozen`)."),
        },
    )
    @action(detail=True, methods=["post"], url_path="merge")
    def merge(self, request: Request, pk: str) -> Response:
        """Take chosen parts of another bank over, as one change that can be undone."""
        bank = self.get_object()
        data = asked(BankMergeSerializer, request)
        change, counts = merge_bank(
            bank,
            found(MemoryBank, data["other"], "other"),
            data["take"],
            data["versions"],
            evidence=data["evidence"],
            user=request.user,
            reason=data["reason"],
        )
        shown = with_parts(Change.objects.filter(pk=change.pk)).get()
        return Response({**counts, "change": ChangeSerializer(shown).data})
