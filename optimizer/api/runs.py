"""Routes of runs and of what hangs below them."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from memory.models import MemoryBank
from optimizer.api.answers import refusals
from optimizer.loop import events
from optimizer.models import Candidate, CandidateEvaluation, Operator, Run, Step
from optimizer.serializers import (
    LIGHT_CANDIDATES,
    LIGHT_EVALUATIONS,
    LIGHT_STEP_PARTS,
    CandidateSerializer,
    DiffSerializer,
    EvaluationSerializer,
    EventPageSerializer,
    EventSerializer,
    ReverificationSerializer,
    RunLaunchSerializer,
    RunSerializer,
    StepDetailSerializer,
    StepSerializer,
)
from optimizer.services import diffs, runs, verification


def with_progress(queryset: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with the names they refer to and their finished steps counted, in one query."""
    return queryset.select_related("operator", "bank", "created_by").annotate(
        steps_done=Count("steps", filter=Q(steps__stage="done")),
        best_refuted_by=F("best_candidate__refuted_by"),
    )


def with_row_parts(queryset: QuerySet[Step]) -> QuerySet[Step]:
    """Steps with everything a row shows."""
    return queryset.select_related("run", "direction", "strategy", "result").prefetch_related(
        *LIGHT_STEP_PARTS
    )


class RunViewSet(viewsets.GenericViewSet[Run]):
    """Searches: launch, follow, and steer."""

    queryset = Run.objects.none()
    serializer_class = RunSerializer
    lookup_value_regex = r"\d+"

    def get_queryset(self) -> QuerySet[Run]:
        return with_progress(Run.objects.order_by("-id"))

    @extend_schema(
        parameters=[
            OpenApiParameter("operator", int),
            OpenApiParameter("bank", int),
            OpenApiParameter("status", str, description="One or more, separated by commas."),
            OpenApiParameter("search", str, description="Part of the operator's name."),
        ]
    )
    def list(self, request: Request) -> Response:
        queryset = self.get_queryset()
        for name in ("operator", "bank"):
            if value := request.query_params.get(name):
                if not value.isdecimal() or len(value) > 18:
                    raise ValidationError({"detail": f"`{name}` must be an id."})
                queryset = queryset.filter(**{name: value})
        if statuses := request.query_params.get("status"):
            queryset = queryset.filter(status__in=statuses.split(","))
        if text := request.query_params.get("search"):
            queryset = queryset.filter(operator__name__icontains=text)
        return self.get_paginated_response(RunSerializer(self.paginate_queryset(queryset), many=True).data)

    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(RunSerializer(self.get_object()).data)

    @extend_schema(request=RunLaunchSerializer, responses={201: RunSerializer})
    def create(self, request: Request) -> Response:
        form = RunLaunchSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        with refusals():
            run = runs.launch(user=request.user, **launch_arguments(form.validated_data))
        return Response(RunSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=StepSerializer(many=True))
    @action(detail=True, methods=["get"])
    def steps(self, request: Request, pk: str) -> Response:
        """The run's steps as rows, in order."""
        rows = with_row_parts(self.get_object().steps.order_by("index"))
        page: Any = self.paginate_queryset(rows)  # type: ignore[arg-type]  # rows of another model
        return self.get_paginated_response(StepSerializer(page, many=True).data)

    @extend_schema(
        parameters=[
            OpenApiParameter("after", int, default=0, description="The last sequence number seen."),
            OpenApiParameter("limit", int, default=events.PAGE),
        ],
        responses=EventPageSerializer,
    )
    @action(detail=True, methods=["get"], pagination_class=None)
    def events(self, request: Request, pk: str) -> Response:
        """Events after a cursor: the same rows that the websocket sends."""
        after = whole_number(request, "after", 0, 2**62)
        limit = whole_number(request, "limit", events.PAGE, events.PAGE)
        get_object_or_404(Run.objects.only("pk"), pk=pk)
        rows = events.after(int(pk), after, max(limit, 1))
        return Response(
            {"events": EventSerializer(rows, many=True).data, "last": events.last_seq(rows, after)}
        )

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Finish the step in hand, then hold."""
        return self.ask(runs.pause)

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on after a pause."""
        return self.ask(runs.resume)

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        """Finish the step in hand, then close."""
        return self.ask(runs.stop)

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Close now, killing what is being evaluated."""
        return self.ask(runs.cancel)

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True, methods=["get"])
    def export(self, request: Request, pk: str) -> HttpResponse:
        """The run's best verified kernel with everything needed to use and check it, as a zip."""
        from optimizer.exports.bundle import bundle_name, export_run

        run = self.get_object()
        with refusals(conflict=True):
            data = export_run(run)
        response = HttpResponse(data, content_type="application/zip")
        response["Content-Disposition"] = f'attachment; filename="{bundle_name(run)}"'
        return response

    def ask(self, request_of: Any) -> Response:
        run = self.get_object()
        with refusals(conflict=True):
            request_of(run)
        return Response(RunSerializer(self.get_object()).data)


class StepViewSet(RetrieveModelMixin, viewsets.GenericViewSet[Step]):
    """One step with the state, the decision and its candidates."""

    queryset = Step.objects.none()
    serializer_class = StepDetailSerializer
    lookup_value_regex = r"\d+"

    def get_queryset(self) -> QuerySet[Step]:
        return with_row_parts(Step.objects.all()).prefetch_related(LIGHT_CANDIDATES)


class CandidateViewSet(RetrieveModelMixin, viewsets.GenericViewSet[Candidate]):
    """One plan."""

    queryset = Candidate.objects.none()
    serializer_class = CandidateSerializer
    lookup_value_regex = r"\d+"

    def get_queryset(self) -> QuerySet[Candidate]:
        return Candidate.objects.select_related("step__run").prefetch_related(LIGHT_EVALUATIONS)

    @extend_schema(
        parameters=[OpenApiParameter("against", str, enum=list(diffs.AGAINST), default="parent")],
        responses=DiffSerializer,
    )
    @action(detail=True, methods=["get"])
    def diff(self, request: Request, pk: str) -> Response:
        """The plan beside another: its parent, the run's best, the run's first, or the operator in
        PyTorch."""
        with refusals():
            shown = diffs.diff(self.get_object(), request.query_params.get("against", "parent"))
        return Response(DiffSerializer(shown).data)


class EvaluationViewSet(RetrieveModelMixin, viewsets.GenericViewSet[CandidateEvaluation]):
    """One verdict with its evidence."""

    queryset = CandidateEvaluation.objects.all()
    serializer_class = EvaluationSerializer
    lookup_value_regex = r"\d+"

    @extend_schema(request=None, responses={202: ReverificationSerializer})
    @action(detail=True, methods=["post"])
    def reverify(self, request: Request, pk: str) -> Response:
        """Judge the same plan again with the present checker; the verdict here stays as it is."""
        asked = verification.ask(self.get_object(), request.user)
        return Response(ReverificationSerializer(asked).data, status=status.HTTP_202_ACCEPTED)


def launch_arguments(data: dict[str, Any]) -> dict[str, Any]:
    """The launch form with its ids looked up. Raises ValidationError naming an id that leads nowhere."""
    found = dict(data)
    found["operator"] = by_id(Operator, data["operator"], "operator")
    found["bank"] = by_id(MemoryBank, data["bank"], "memory bank") if "bank" in data else None
    return found


def by_id(model: Any, pk: int, what: str) -> Any:
    instance = model.objects.filter(pk=pk).first()
    if instance is None:
        raise ValidationError({"detail": f"There is no {what} with id {pk}."})
    return instance


def whole_number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValidationError({"detail": f"`{name}` must be a whole number, 0 or more."})
    return min(int(text), most)
