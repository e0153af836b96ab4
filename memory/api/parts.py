"""Directions, strategies and edges: read, create, edit with a version, merge, split, move. Nothing is deleted:
parts retire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.context import CONTEXT_PARAMETERS, evidence_context
from memory.api.curated import CuratedViewSet, stale_answer
from memory.api.operations import (
    DirectionDoneSerializer,
    DirectionMergeSerializer,
    DirectionSplitSerializer,
    StrategyDoneSerializer,
    StrategyMergeSerializer,
    StrategyMoveSerializer,
    StrategySplitSerializer,
    asked,
    found,
)
from memory.curation import merge_directions, merge_strategies, move_strategy, split_direction, split_strategy
from memory.models import GlobalNode, LocalNode, TransitionEdge
from memory.numbers import NumbersSerializer, numbers_json
from memory.serializers import DirectionSerializer, EdgeSerializer, StrategySerializer

RETIRED = OpenApiParameter("retired", bool, description="only retired ones, or only live ones")


class NumbersMixin(CuratedViewSet):
    """What every kind of part can be asked for."""

    @extend_schema(parameters=CONTEXT_PARAMETERS, responses=NumbersSerializer)
    @action(detail=True, methods=["get"])
    def numbers(self, request: Request, pk: str) -> Response:
        """Every number of a part opened: the prior and its weight, the evidence, the posterior with its interval
        and formula, by device, dtype, family, proposer, model and hand, the trend, and where the steps are."""
        return Response(numbers_json(self.get_object(), evidence_context(request)))


def curated_schema(name: str, serializer: Any, filters: list[OpenApiParameter]) -> Any:
    """The OpenAPI description of one kind of part."""
    stale = OpenApiResponse(stale_answer(name, serializer), description="A stale save, or a frozen bank.")
    return extend_schema_view(
        list=extend_schema(parameters=[*filters, RETIRED, *CONTEXT_PARAMETERS]),
        retrieve=extend_schema(parameters=CONTEXT_PARAMETERS),
        create=extend_schema(responses={201: serializer, 409: stale}),
        partial_update=extend_schema(responses={200: serializer, 409: stale}),
    )


def operation_schema(request: Any, done: Any, stale: str) -> Any:
    """The OpenAPI description of a larger operation."""
    return extend_schema(
        request=request,
        responses={
            200: done,
            400: OpenApiResponse(description="What is wrong, in a sentence."),
            409: OpenApiResponse(description=f"{stale} Or the bank is frozen (`frozen`)."),
        },
    )


STALE = "Somebody saved a newer version: `current`, `changes` and `yours` as for PATCH."


@curated_schema("Direction", DirectionSerializer, [OpenApiParameter("bank", int)])
class DirectionViewSet(NumbersMixin):
    """Global nodes."""

    serializer_class = DirectionSerializer
    queryset = GlobalNode.objects.select_related("updated_by").prefetch_related("totals")
    filter_ids = {"bank": "bank_id"}

    @operation_schema(DirectionMergeSerializer, DirectionDoneSerializer, STALE)
    @action(detail=True, methods=["post"])
    def merge(self, request: Request, pk: str) -> Response:
        """Merge another direction into this one: its strategies, transitions and evidence follow.

        Undo it by reverting the change in the answer.
        """
        kept = self.get_object()
        data = asked(DirectionMergeSerializer, request)
        merged = found(GlobalNode, data["other"], "other")
        edits = self.edits(kept, data)
        change = merge_directions(
            kept,
            merged,
            (data["version"], data["other_version"]),
            data["take"],
            edits,
            combine_same_keys=data["same_keys"] == "combine",
            user=request.user,
            reason=data["reason"],
        )
        return self.done(change, kept)

    @operation_schema(DirectionSplitSerializer, DirectionDoneSerializer, STALE)
    @action(detail=True, methods=["post"])
    def split(self, request: Request, pk: str) -> Response:
        """Split a new direction off this one; it takes the chosen strategies and their evidence along."""
        direction = self.get_object()
        data = asked(DirectionSplitSerializer, request)
        fields = self.new_fields(data["new"], {"bank": direction.bank_id, "intent": direction.intent})
        fields.pop("bank")
        change, new = split_direction(
            direction,
            fields,
            data["strategies"],
            data["version"],
            copy_edges=data["copy_edges"],
            user=request.user,
            reason=data["reason"],
        )
        return self.done(change, new)


@curated_schema(
    "Strategy", StrategySerializer, [OpenApiParameter("bank", int), OpenApiParameter("direction", int)]
)
class StrategyViewSet(NumbersMixin):
    """Local nodes."""

    serializer_class = StrategySerializer
    queryset = LocalNode.objects.select_related("direction", "updated_by").prefetch_related("totals")
    filter_ids = {"bank": "direction__bank_id", "direction": "direction_id"}

    @operation_schema(StrategyMergeSerializer, StrategyDoneSerializer, STALE)
    @action(detail=True, methods=["post"])
    def merge(self, request: Request, pk: str) -> Response:
        """Merge another strategy of the bank into this one: its evidence counts here from now on."""
        kept = self.get_object()
        data = asked(StrategyMergeSerializer, request)
        merged = found(LocalNode.objects.select_related("direction"), data["other"], "other")
        change = merge_strategies(
            kept,
            merged,
            (data["version"], data["other_version"]),
            data["take"],
            self.edits(kept, data),
            user=request.user,
            reason=data["reason"],
        )
        return self.done(change, kept)

    @operation_schema(StrategySplitSerializer, StrategyDoneSerializer, STALE)
    @action(detail=True, methods=["post"])
    def split(self, request: Request, pk: str) -> Response:
        """Split a new strategy off this one; it takes the chosen part of the evidence along."""
        strategy = self.get_object()
        data = asked(StrategySplitSerializer, request)
        copied = {name: getattr(strategy, name) for name in ("edit_pattern", "applies_when")}
        fields = self.new_fields(data["new"], {"direction": strategy.direction_id, **copied})
        fields.pop("direction")
        change, new = split_strategy(
            strategy, fields, data["evidence"], data["version"], user=request.user, reason=data["reason"]
        )
        return self.done(change, new)

    @operation_schema(StrategyMoveSerializer, StrategyDoneSerializer, STALE)
    @action(detail=True, methods=["post"])
    def move(self, request: Request, pk: str) -> Response:
        """Put this strategy under another direction of the bank; its evidence follows."""
        strategy = self.get_object()
        data = asked(StrategyMoveSerializer, request)
        change = move_strategy(
            strategy,
            found(GlobalNode, data["direction"], "direction"),
            data["version"],
            data.get("key"),
            user=request.user,
            reason=data["reason"],
        )
        return self.done(change, strategy)


@curated_schema(
    "Edge",
    EdgeSerializer,
    [OpenApiParameter("bank", int), OpenApiParameter("source", int), OpenApiParameter("target", int)],
)
class EdgeViewSet(NumbersMixin):
    """Transition edges. Out of START, `source` is null."""

    serializer_class = EdgeSerializer
    queryset = TransitionEdge.objects.select_related("source", "target", "updated_by").prefetch_related(
        "totals"
    )
    filter_ids = {"bank": "bank_id", "source": "source_id", "target": "target_id"}
