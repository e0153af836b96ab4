"""Routes to steer a live run: what was asked of it, a new wish, a wish taken back."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from optimizer.api.answers import refusals
from optimizer.choices import SteerKind, SteerScope
from optimizer.models import Run, Steer
from optimizer.serializers import UsernameField
from optimizer.services import steering


class SteerSerializer(serializers.ModelSerializer[Steer]):
    """A wish as the run's page shows it."""

    kind_label = serializers.CharField(source="get_kind_display", read_only=True)
    scope_label = serializers.CharField(source="get_scope_display", read_only=True)
    status_label = serializers.CharField(source="get_status_display", read_only=True)
    used_by_index = serializers.IntegerField(source="used_by.index", read_only=True, default=None)
    created_by = UsernameField()

    class Meta:
        model = Steer
        fields = [
            "id", "run", "kind", "kind_label", "scope", "scope_label", "direction", "strategy", "text", "status",
            "status_label", "note", "used_by", "used_by_index", "created_by", "created_at",
        ]  # fmt: skip


class SteerRequestSerializer(serializers.Serializer[Any]):
    """A wish. ``direction`` and ``strategy`` are keys of the run's bank; ``text`` is a hint or a plan."""

    kind = serializers.ChoiceField(SteerKind.choices)
    scope = serializers.ChoiceField(SteerScope.choices, default=SteerScope.NEXT)
    direction = serializers.CharField(max_length=60, required=False, allow_blank=True, default="")
    strategy = serializers.CharField(max_length=80, required=False, allow_blank=True, default="")
    text = serializers.CharField(required=False, allow_blank=True, default="", trim_whitespace=False)


class SteerViewSet(viewsets.GenericViewSet[Steer]):
    """Any role reads; an operator asks. A wish takes effect when the next step begins."""

    queryset = Steer.objects.none()
    serializer_class = SteerSerializer

    def get_queryset(self) -> QuerySet[Steer]:
        rows = Steer.objects.select_related("used_by", "created_by").order_by("id")
        return rows.filter(run_id=self.kwargs.get("run_pk", 0))

    @extend_schema(responses=SteerSerializer(many=True))
    def list(self, request: Request, run_pk: int) -> Response:
        """Everything that was asked of the run, in order."""
        get_object_or_404(Run.objects.only("pk"), pk=run_pk)
        return self.get_paginated_response(
            SteerSerializer(self.paginate_queryset(self.get_queryset()), many=True).data
        )

    @extend_schema(
        request=SteerRequestSerializer,
        responses={201: SteerSerializer, 409: OpenApiResponse(description="Why it cannot be done.")},
    )
    def create(self, request: Request, run_pk: int) -> Response:
        """Ask something of the next step, or of every step from the next one on."""
        run = get_object_or_404(Run, pk=run_pk)
        form = SteerRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        with refusals(conflict=True):
            wish = steering.steer(run, user=request.user, **form.validated_data)
        return Response(SteerSerializer(wish).data, status=201)

    @extend_schema(
        responses={
            200: SteerSerializer,
            409: OpenApiResponse(description="It was used or withdrawn already."),
        }
    )
    def destroy(self, request: Request, run_pk: int, pk: int) -> Response:
        """Withdraw a wish: one that waits is dropped, one that holds for the run ends with the step in hand."""
        wish = get_object_or_404(self.get_queryset().select_related("run"), pk=pk)
        with refusals(conflict=True):
            wish = steering.withdraw(wish)
        return Response(SteerSerializer(wish).data)
