"""Routes of operators."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import FormParser, JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from gpu_eval.errors import UnusableInput
from optimizer.api.answers import refusals
from optimizer.models import Operator
from optimizer.serializers import (
    EstimateSerializer,
    InspectionSerializer,
    OperatorChangeSerializer,
    OperatorDetailSerializer,
    OperatorSerializer,
    OperatorWriteSerializer,
    OverrideSerializer,
    SourceCheckSerializer,
    SourceSerializer,
)
from optimizer.services import operators, runs


def with_best(queryset: QuerySet[Operator]) -> QuerySet[Operator]:
    """Operators with how often they ran and their best verified speed-up, in one query."""
    return queryset.select_related("owner", "override_by").annotate(
        runs_count=Count("runs", distinct=True),
        best_speedup=Max("runs__best_speedup", filter=Q(runs__best_candidate__refuted_by__isnull=True)),
    )


class OperatorViewSet(viewsets.GenericViewSet[Operator]):
    """KernelBench-format operators. Uploading parses the file; inspection runs it on a worker."""

    queryset = Operator.objects.none()
    serializer_class = OperatorSerializer
    parser_classes = [JSONParser, MultiPartParser, FormParser]
    lookup_value_regex = r"\d+"

    def get_queryset(self) -> QuerySet[Operator]:
        queryset = with_best(Operator.objects.order_by("name"))
        return queryset if self.action == "list" else queryset.prefetch_related("health_reports")

    @extend_schema(
        parameters=[
            OpenApiParameter("status", str),
            OpenApiParameter("search", str, description="Part of the name."),
        ]
    )
    def list(self, request: Request) -> Response:
        queryset = self.get_queryset()
        if wanted := request.query_params.get("status"):
            queryset = queryset.filter(status=wanted)
        if text := request.query_params.get("search"):
            queryset = queryset.filter(name__icontains=text)
        return self.get_paginated_response(
            OperatorSerializer(self.paginate_queryset(queryset), many=True).data
        )

    @extend_schema(responses=OperatorDetailSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(OperatorDetailSerializer(self.get_object()).data)

    @extend_schema(request=OperatorWriteSerializer, responses={201: OperatorDetailSerializer})
    def create(self, request: Request) -> Response:
        form = OperatorWriteSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        with refusals():
            fields = fields_with_source(form.validated_data)
            if "source" not in fields:
                raise ValidationError({"detail": "Send the operator as `source` or as a `file`."})
            operator = operators.create_operator(owner=request.user, **fields)
        return Response(self.full_answer(operator), status=status.HTTP_201_CREATED)

    @extend_schema(request=OperatorChangeSerializer, responses=OperatorDetailSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        form = OperatorChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        operator = self.get_object()
        with refusals():
            operators.update_operator(operator, **fields_with_source(form.validated_data))
        return Response(self.full_answer(operator))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        with refusals(conflict=True):
            operators.delete_operator(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=SourceSerializer, responses=SourceCheckSerializer)
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Response:
        """Parse a source without saving or running it."""
        form = SourceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(check_source(form.validated_data["source"]))

    @extend_schema(request=OverrideSerializer, responses=OperatorDetailSerializer)
    @action(detail=True, methods=["post"])
    def override(self, request: Request, pk: str) -> Response:
        """Let runs start despite a failed gate; who and why are shown beside every result."""
        form = OverrideSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        operator = self.get_object()
        with refusals(conflict=True):
            operators.override_gate(operator, request.user, form.validated_data["reason"])
        return Response(self.full_answer(operator))

    @extend_schema(request=InspectionSerializer, responses={202: OperatorDetailSerializer})
    @action(detail=True, methods=["post"])
    def inspect(self, request: Request, pk: str) -> Response:
        """Inspect again, on the device kind given."""
        form = InspectionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        operator = self.get_object()
        operators.inspect_again(operator, form.validated_data["device"])
        return Response(self.full_answer(operator), status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        parameters=[
            OpenApiParameter("steps", int, default=6),
            OpenApiParameter("device", str, default="auto"),
        ],
        responses=EstimateSerializer,
    )
    @action(detail=True, methods=["get"])
    def estimate(self, request: Request, pk: str) -> Response:
        """How many minutes a run may take."""
        steps = request.query_params.get("steps", "6")
        if not steps.isdecimal() or not 1 <= int(steps) <= 100:
            raise ValidationError({"detail": "`steps` must be a whole number from 1 to 100."})
        figure = runs.estimate(self.get_object(), int(steps), request.query_params.get("device", "auto"))
        return Response(EstimateSerializer(figure).data)

    def full_answer(self, operator: Operator) -> Any:
        fresh = with_best(Operator.objects.filter(pk=operator.pk)).prefetch_related("health_reports").get()
        return OperatorDetailSerializer(fresh).data


def fields_with_source(data: dict[str, Any]) -> dict[str, Any]:
    """The form's fields with an uploaded ``file`` read into ``source``. Raises UnusableInput."""
    fields = dict(data)
    upload = fields.pop("file", None)
    if upload is not None:
        fields["source"] = operators.decode_source(upload.read(operators.READ_AT_MOST), upload.name)
    return fields


def check_source(source: str) -> dict[str, Any]:
    try:
        operators.parse(source, "operator")
    except UnusableInput as error:
        return {"ok": False, **operators.position_of(error), "message": str(error)}
    return {"ok": True, "line": None, "column": None, "message": ""}
