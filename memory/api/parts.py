"""Directions, strategies and edges: read, create, edit with a version. Nothing is deleted: parts retire."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
    inline_serializer,
)
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import CONTEXT_PARAMETERS, evidence_context, flag_filter, id_filters
from memory.curation import save_version
from memory.models import CuratedPart, GlobalNode, LocalNode, TransitionEdge
from memory.serializers import DirectionSerializer, EdgeSerializer, StrategySerializer

RETIRED = OpenApiParameter("retired", bool, description="only retired ones, or only live ones")


class CuratedViewSet(
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[Any],
):
    """Any role reads, curators write. A change names the version it edited; a stale one gets 409."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "patch", "head", "options"]
    filter_ids: dict[str, str] = {}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if self.action != "list" or getattr(self, "swagger_fake_view", False):
            return rows
        return rows.filter(
            **id_filters(self.request, self.filter_ids), **flag_filter(self.request, "retired")
        )

    def get_serializer_context(self) -> dict[str, Any]:
        context = dict(super().get_serializer_context())
        if self.request is not None:
            context["evidence_context"] = evidence_context(self.request)
            context["recent"] = self.action == "retrieve"
        return context

    def perform_create(self, serializer: serializers.BaseSerializer[Any]) -> None:
        serializer.save(updated_by=self.request.user)

    def partial_update(self, request: Request, pk: str) -> Response:
        part: CuratedPart = self.get_object()
        serializer = self.get_serializer(part, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        changes = dict(serializer.validated_data)
        saved = save_version(part, changes, changes.pop("version"), request.user)
        current = self.get_serializer(self.get_queryset().get(pk=part.pk)).data
        if saved:
            return Response(current)
        detail = "Somebody saved a newer version meanwhile; compare and save again."
        return Response({"detail": detail, "current": current}, status=409)


def curated_schema(name: str, serializer: Any, filters: list[OpenApiParameter]) -> Any:
    """The OpenAPI description of one kind of part."""
    stale = inline_serializer(f"Stale{name}", {"detail": serializers.CharField(), "current": serializer()})
    return extend_schema_view(
        list=extend_schema(parameters=[*filters, RETIRED, *CONTEXT_PARAMETERS]),
        retrieve=extend_schema(parameters=CONTEXT_PARAMETERS),
        partial_update=extend_schema(
            responses={200: serializer, 409: OpenApiResponse(stale, description="A stale save.")}
        ),
    )


@curated_schema("Direction", DirectionSerializer, [OpenApiParameter("bank", int)])
class DirectionViewSet(CuratedViewSet):
    """Global nodes."""

    serializer_class = DirectionSerializer
    queryset = GlobalNode.objects.select_related("updated_by").prefetch_related("totals")
    filter_ids = {"bank": "bank_id"}


@curated_schema(
    "Strategy", StrategySerializer, [OpenApiParameter("bank", int), OpenApiParameter("direction", int)]
)
class StrategyViewSet(CuratedViewSet):
    """Local nodes."""

    serializer_class = StrategySerializer
    queryset = LocalNode.objects.select_related("direction", "updated_by").prefetch_related("totals")
    filter_ids = {"bank": "direction__bank_id", "direction": "direction_id"}


@curated_schema(
    "Edge",
    EdgeSerializer,
    [OpenApiParameter("bank", int), OpenApiParameter("source", int), OpenApiParameter("target", int)],
)
class EdgeViewSet(CuratedViewSet):
    """Transition edges. Out of START, `source` is null."""

    serializer_class = EdgeSerializer
    queryset = TransitionEdge.objects.select_related("source", "target", "updated_by").prefetch_related(
        "totals"
    )
    filter_ids = {"bank": "bank_id", "source": "source_id", "target": "target_id"}
