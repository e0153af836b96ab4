"""The graph of a bank as REST describes it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from memory.serializers import StatisticsSerializer

AT = OpenApiParameter(
    "at",
    str,
    description="the bank as it stood: now, start, the id of a change (after it), or an ISO 8601 time",
)


class GraphDirectionSerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()
    intent = serializers.CharField()
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField(allow_null=True, help_text="Null at an earlier moment.")
    merged_into_id = serializers.IntegerField(allow_null=True)
    x = serializers.FloatField(allow_null=True)
    y = serializers.FloatField(allow_null=True)


class GraphStrategySerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()
    direction = serializers.CharField(help_text="Key of its direction.")
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField(allow_null=True, help_text="Null at an earlier moment.")
    merged_into_id = serializers.IntegerField(allow_null=True)
    executable = serializers.BooleanField(help_text="A recipe can carry it out without an LLM.")


class GraphEdgeSerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    source = serializers.CharField(allow_null=True, help_text="Key; null out of START.")  # type: ignore[assignment]
    source_key = serializers.CharField()
    target = serializers.CharField()
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField(allow_null=True, help_text="Null at an earlier moment.")
    merged_into_id = serializers.IntegerField(allow_null=True)


class MomentSerializer(serializers.Serializer[Any]):
    """A moment in a bank's life: after its change and its evidence row of these numbers."""

    change = serializers.IntegerField()
    evidence = serializers.IntegerField()
    at = serializers.DateTimeField(allow_null=True)


class GraphSerializer(serializers.Serializer[Any]):
    """A bank's graph; see memory.graph.graph_json. ``at`` is null for the present."""

    at = MomentSerializer(allow_null=True)
    bank = serializers.DictField()
    context = serializers.DictField()  # type: ignore[assignment]
    n0 = serializers.FloatField()
    directions = GraphDirectionSerializer(many=True)
    strategies = GraphStrategySerializer(many=True)
    edges = GraphEdgeSerializer(many=True)
