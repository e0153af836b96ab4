"""Bodies of the larger operations on parts, and their answers."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from memory.curation.merging import TEXTS
from memory.history.json import ChangeSerializer
from memory.serializers import DirectionSerializer, KeyField, ReasonField, StrategySerializer


def asked(serializer: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """The checked body. Raises ValidationError by field."""
    form = serializer(data=request.data)
    form.is_valid(raise_exception=True)
    return {"reason": "", **form.validated_data}


def found(rows: Any, pk: int, field: str) -> Any:
    """The named part. Raises ValidationError where there is none."""
    queryset: QuerySet[Any] = rows if isinstance(rows, QuerySet) else rows._default_manager.all()
    part = queryset.filter(pk=pk).first()
    if part is None:
        raise ValidationError({field: [f"There is no {queryset.model._meta.verbose_name} {pk}."]})
    return part


class IdField(serializers.IntegerField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=2**62, **kwargs)


class VersionedSerializer(serializers.Serializer[Any]):
    version = IdField(help_text="The version of this part that you saw.")
    reason = ReasonField()


class MergeSerializer(VersionedSerializer):
    """``take`` names fields whose text comes from the other part; ``changes`` sets fields anew, as PATCH."""

    other = IdField(help_text="The part that goes up in this one. It is retired and keeps its history.")
    other_version = IdField(help_text="The version of it that you saw.")
    changes = serializers.DictField(default=dict)


class DirectionMergeSerializer(MergeSerializer):
    take = serializers.ListField(child=serializers.ChoiceField(TEXTS["direction"]), default=list)
    same_keys = serializers.ChoiceField(
        ["combine", "keep_both"],
        default="combine",
        help_text="Strategies that both have under one key: merge them, or give the newcomer another key.",
    )


class StrategyMergeSerializer(MergeSerializer):
    take = serializers.ListField(child=serializers.ChoiceField(TEXTS["strategy"]), default=list)


class DirectionSplitSerializer(VersionedSerializer):
    new = serializers.DictField(
        help_text="Fields of the new direction as POST takes them; key and title at least."
    )
    strategies = serializers.ListField(child=IdField(), default=list, max_length=5000)
    copy_edges = serializers.BooleanField(default=True, help_text="Give the new one the same transitions.")


class EvidenceChoiceSerializer(serializers.Serializer[Any]):
    """Rows that agree in everything given."""

    ids = serializers.ListField(child=IdField(), required=False, max_length=5000)
    device = serializers.CharField(required=False)
    dtype = serializers.CharField(required=False)
    family = serializers.CharField(required=False)
    proposer = serializers.CharField(required=False)
    model = serializers.CharField(required=False)


class StrategySplitSerializer(VersionedSerializer):
    new = serializers.DictField(
        help_text="Fields of the new strategy as POST takes them; key and title at least."
    )
    evidence = EvidenceChoiceSerializer(default=dict)


class StrategyMoveSerializer(VersionedSerializer):
    direction = IdField(help_text="Where to.")
    key = KeyField(max_length=80, required=False, help_text="Another key, where its own is taken there.")


class DirectionDoneSerializer(serializers.Serializer[Any]):
    """``change`` can be reverted; ``direction`` is the one that was kept, or the new one of a split."""

    change = ChangeSerializer()
    direction = DirectionSerializer()


class StrategyDoneSerializer(serializers.Serializer[Any]):
    """``change`` can be reverted; ``strategy`` is the one that was kept or moved, or the new one of a split."""

    change = ChangeSerializer()
    strategy = StrategySerializer()
