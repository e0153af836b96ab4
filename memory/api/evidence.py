"""The evidence log: read and filter; a curator can exclude a row and take it back in."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import flag_filter, id_filters
from memory.models import Evidence
from memory.serializers import EvidenceSerializer
from memory.statistics import set_excluded

IDS = {
    "bank": "bank_id",
    "direction": "direction_id",
    "strategy": "strategy_id",
    "edge": "edge_id",
    "run": "run_id",
    "step": "step_id",
}
TEXTS = ("verdict", "device", "dtype", "family", "proposer", "model")
FLAGS = ("excluded", "improved", "correct", "compiled", "human_touched")


@extend_schema_view(
    list=extend_schema(
        parameters=[
            *(OpenApiParameter(name, int) for name in IDS),
            *(OpenApiParameter(name, str) for name in TEXTS),
            *(OpenApiParameter(name, bool) for name in FLAGS),
        ]
    )
)
class EvidenceViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Evidence]):
    """What steps showed, newest first."""

    write_role = Role.CURATOR
    http_method_names = ["get", "patch", "head", "options"]
    serializer_class = EvidenceSerializer
    queryset = Evidence.objects.select_related("direction", "strategy", "edge__source").order_by("-id")

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
        """Exclude a row from every statistic with a reason, or take it back in."""
        row = self.get_object()
        serializer = self.get_serializer(row, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        excluded = serializer.validated_data.get("excluded", row.excluded)
        reason = serializer.validated_data.get("excluded_reason", row.excluded_reason)
        return Response(self.get_serializer(set_excluded(row, excluded, reason)).data)
