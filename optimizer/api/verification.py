"""Routes of re-verification: results judged again with the present checker."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from optimizer.api.answers import refusals
from optimizer.api.runs import by_id
from optimizer.models import Reverification, Run
from optimizer.serializers import (
    AskedSerializer,
    ReverificationSerializer,
    ReverifySerializer,
    VerificationSummarySerializer,
)
from optimizer.services import verification


def with_both_verdicts(queryset: QuerySet[Reverification]) -> QuerySet[Reverification]:
    """Rows with everything the comparison shows, in one query and without the evidence."""
    related = queryset.select_related("evaluation__candidate__step__run__operator", "result", "requested_by")
    large = ("operator__source", "policy")
    plan = ("plan", "schedule")
    return related.defer(
        "evaluation__result",
        "result__result",
        *(f"evaluation__candidate__{name}" for name in plan),
        *(f"evaluation__candidate__step__run__{name}" for name in large),
        *(f"evaluation__candidate__step__{name}" for name in ("state", "decision", "memory_change")),
    )


class ReverificationViewSet(RetrieveModelMixin, viewsets.GenericViewSet[Reverification]):
    """Second verdicts beside the first ones."""

    queryset = Reverification.objects.none()
    serializer_class = ReverificationSerializer
    lookup_value_regex = r"\d+"

    def get_queryset(self) -> QuerySet[Reverification]:
        return with_both_verdicts(Reverification.objects.order_by("-id"))

    @extend_schema(
        parameters=[
            OpenApiParameter("run", int),
            OpenApiParameter("candidate", int),
            OpenApiParameter("status", str, description="One or more, separated by commas."),
        ]
    )
    def list(self, request: Request) -> Response:
        rows = self.get_queryset()
        for name, field in (
            ("run", "evaluation__candidate__step__run"),
            ("candidate", "evaluation__candidate"),
        ):
            if value := request.query_params.get(name):
                if not value.isdecimal() or len(value) > 18:
                    raise ValidationError({"detail": f"`{name}` must be an id."})
                rows = rows.filter(**{field: value})
        if statuses := request.query_params.get("status"):
            rows = rows.filter(status__in=statuses.split(","))
        page: Any = self.paginate_queryset(rows)
        return self.get_paginated_response(ReverificationSerializer(page, many=True).data)

    @extend_schema(request=ReverifySerializer, responses={202: AskedSerializer})
    def create(self, request: Request) -> Response:
        """Judge again what the correct results of a run, or all outdated winners, are worth now."""
        form = ReverifySerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        if ("run" in wanted) == wanted["winners"]:
            raise ValidationError({"detail": "Name a `run`, or set `winners` to true."})
        with refusals():
            if wanted["winners"]:
                asked = verification.ask_winners(request.user)
            else:
                asked = verification.ask_run(by_id(Run, wanted["run"], "run"), request.user)
        return Response({"asked": len(asked)}, status=status.HTTP_202_ACCEPTED)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Withdraw one that still waits."""
        with refusals(conflict=True):
            verification.withdraw(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses=VerificationSummarySerializer)
    @action(detail=False, methods=["get"], pagination_class=None)
    def summary(self, request: Request) -> Response:
        """How many winners an older checker judged, and how far their re-verification has come."""
        return Response(VerificationSummarySerializer(verification.summary()).data)
