"""The history of banks over REST: who changed what and why, undo, differences between moments."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Exists, OuterRef, QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import CONTEXT_PARAMETERS, evidence_context, id_filters
from memory.api.curated import RefusalsMixin
from memory.api.graphs import MomentSerializer
from memory.api.operations import IdField, asked
from memory.history import parse_moment, revert, revert_to
from memory.history.diffs import diff_moments, diff_of_run
from memory.history.json import ChangeDetailSerializer, ChangeSerializer, DiffRowSerializer, with_parts
from memory.models import Change, ChangeItem, ChangeKind, MemoryBank
from memory.serializers import ReasonField, StatisticsSerializer

PARTS = ("direction", "strategy", "edge")
TICKS = 2000
FILTERS = [
    *(OpenApiParameter(name, int, description=f"that touched this {name}") for name in PARTS),
    OpenApiParameter("user", str, description="by this person (user name)"),
    OpenApiParameter("run", int, description="by this run"),
    OpenApiParameter(
        "kind", str, enum=ChangeKind.values, description="of this kind; several joined by commas"
    ),
    OpenApiParameter("by", str, enum=["people", "runs"]),
    OpenApiParameter("after", int, description="later than this change"),
]


class StatisticsRowSerializer(serializers.Serializer[Any]):
    """A node or edge whose evidence differs, before and after, both under the later prior."""

    kind = serializers.ChoiceField(PARTS)
    id = serializers.IntegerField()
    label = serializers.CharField()  # type: ignore[assignment]
    before = StatisticsSerializer()
    after = StatisticsSerializer()


class BankDiffSerializer(serializers.Serializer[Any]):
    """What happened between two moments, or what one run taught (then ``run`` instead of ``from`` and ``to``)."""

    parts = DiffRowSerializer(many=True)
    statistics = StatisticsRowSerializer(many=True)
    evidence = inline_serializer(
        "EvidenceBetween", {"added": serializers.IntegerField(), "excluded_since": serializers.IntegerField()}
    )
    run = serializers.IntegerField(required=False)
    to = MomentSerializer(required=False)

    def get_fields(self) -> dict[str, Any]:
        return {"from": MomentSerializer(required=False), **super().get_fields()}


class RevertSerializer(serializers.Serializer[Any]):
    reason = ReasonField()


class RevertToSerializer(RevertSerializer):
    to = serializers.CharField(help_text="start, the id of a change (keep what it did), or an ISO 8601 time")
    seen = IdField(required=False, help_text="The newest change you know of: 409 names what came since.")
    evidence = serializers.ChoiceField(
        ["keep", "exclude"], default="keep", help_text="What becomes of evidence recorded since."
    )


class RevertedSerializer(serializers.Serializer[Any]):
    """``change`` is the undo itself; revert it to redo. ``notes``: what could not be undone in full."""

    change = ChangeSerializer()
    notes = serializers.ListField(child=serializers.CharField())


class ConflictSerializer(serializers.Serializer[Any]):
    """Later changes that stand in the way, newest first."""

    detail = serializers.CharField()
    changes = ChangeSerializer(many=True)


class TickSerializer(serializers.Serializer[Any]):
    """A change as a mark on the time slider."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    by = serializers.CharField(allow_null=True)
    run = serializers.IntegerField(allow_null=True)


class TimelineSerializer(serializers.Serializer[Any]):
    """The time slider: where the history begins and ends, and its newest changes, oldest first."""

    begins = serializers.DateTimeField(allow_null=True)
    now = MomentSerializer()
    count = serializers.IntegerField(help_text="All changes, shown here or not.")
    changes = TickSerializer(many=True)


def reverted(made: tuple[Change, list[str]]) -> Response:
    change, notes = made
    shown = with_parts(Change.objects.filter(pk=change.pk)).get()
    return Response({"change": ChangeSerializer(shown).data, "notes": notes})


REVERTED = {
    200: RevertedSerializer,
    400: OpenApiResponse(description="Nothing to undo, in a sentence."),
    409: OpenApiResponse(ConflictSerializer, description="Later changes stand in the way."),
}


class BankHistoryMixin(viewsets.GenericViewSet[MemoryBank]):
    """What a bank can be asked about its past."""

    @extend_schema(parameters=FILTERS, responses=ChangeSerializer(many=True))
    @action(detail=True, methods=["get"])
    def history(self, request: Request, pk: str) -> Response:
        """Every change by a person or a run, newest first, paged; a run's evidence is one entry."""
        bank = self.get_object()
        changes = filtered(Change.objects.filter(bank=bank), request)
        page: Any = self.paginate_queryset(cast(Any, with_parts(changes)))
        return self.get_paginated_response(ChangeSerializer(page, many=True).data)

    @extend_schema(responses=TimelineSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None)
    def timeline(self, request: Request, pk: str) -> Response:
        """The marks of the time slider. `graph?at=` takes the id of any of them, or any time between."""
        bank = self.get_object()
        first = bank.changes.order_by("pk").first()
        newest = bank.changes.order_by("-pk").values("id", "at", "kind", "user__username", "run_id")[:TICKS]
        ticks = [
            {
                "id": row["id"],
                "at": row["at"],
                "kind": row["kind"],
                "by": row["user__username"],
                "run": row["run_id"],
            }
            for row in newest
        ]
        return Response(
            {
                "begins": first.at if first else None,
                "now": parse_moment(bank, "now").to_json(),
                "count": bank.changes.count(),
                "changes": ticks[::-1],
            }
        )

    @extend_schema(
        parameters=[
            OpenApiParameter("from", str, description="start (default), a change's id (after it) or a time"),
            OpenApiParameter("to", str, description="now (default), a change's id (after it) or a time"),
            OpenApiParameter("run", int, description="instead: what this run taught"),
            *CONTEXT_PARAMETERS,
        ],
        responses=BankDiffSerializer,
        filters=False,
    )
    @action(detail=True, methods=["get"], pagination_class=None)
    def diff(self, request: Request, pk: str) -> Response:
        """What differs between two moments: parts field by field, and statistics, greatest shift first."""
        bank, query = self.get_object(), request.query_params
        context = evidence_context(request)
        run = id_filters(request, {"run": "run_id"})
        if run:
            return Response(diff_of_run(bank, run["run_id"], context))
        start = parse_moment(bank, query.get("from") or "start")
        end = parse_moment(bank, query.get("to") or "now")
        return Response(diff_moments(bank, start, end, context))

    @extend_schema(request=RevertToSerializer, responses=REVERTED)
    @action(detail=True, methods=["post"], url_path="revert")
    def revert_to(self, request: Request, pk: str) -> Response:
        """Bring the bank back to a moment, as one change that can be undone in turn."""
        bank = self.get_object()
        data = asked(RevertToSerializer, request)
        return reverted(
            revert_to(
                bank,
                parse_moment(bank, data["to"]),
                request.user,
                data["reason"],
                seen=data.get("seen"),
                exclude_later_evidence=data["evidence"] == "exclude",
            )
        )


def filtered(changes: QuerySet[Change], request: Request) -> QuerySet[Change]:
    """The changes that the query asks for. Raises ValidationError by parameter."""
    query = request.query_params
    for kind, pk in id_filters(request, {name: name for name in PARTS}).items():
        items = ChangeItem.objects.filter(change=OuterRef("pk"), kind=kind, part=pk)
        changes = changes.filter(Exists(items))
    changes = changes.filter(**id_filters(request, {"run": "run_id", "after": "pk__gt"}))
    if user := query.get("user"):
        changes = changes.filter(user__username=user.replace("\x00", ""))
    if kinds := query.get("kind"):
        wanted = kinds.split(",")
        unknown = [kind for kind in wanted if kind not in ChangeKind.values]
        if unknown:
            raise ValidationError({"kind": [f"{unknown[0]!r} is none of {', '.join(ChangeKind.values)}."]})
        changes = changes.filter(kind__in=wanted)
    if by := query.get("by"):
        if by not in {"people", "runs"}:
            raise ValidationError({"by": ["by is people or runs."]})
        changes = changes.filter(run_id__isnull=by == "people")
    return changes


class ChangeViewSet(RefusalsMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Change]):
    """One change with before and after of every field."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "head", "options"]
    serializer_class = ChangeDetailSerializer
    queryset = Change.objects.all()

    def get_queryset(self) -> QuerySet[Change]:
        return with_parts(Change.objects.select_related("bank"))

    @extend_schema(request=RevertSerializer, responses=REVERTED)
    @action(detail=True, methods=["post"])
    def revert(self, request: Request, pk: str) -> Response:
        """Undo this change, as a change of its own. 409 names later changes that build on it."""
        change = self.get_object()
        data = asked(RevertSerializer, request)
        return reverted(revert(change, request.user, data["reason"]))
