"""The fields of a proposal: the rules are those of a person's save over REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.serializers import ModelSerializer

from memory.history import Refused
from memory.models import GlobalNode, LocalNode, TransitionEdge
from memory.serializers import DirectionSerializer, EdgeSerializer, StrategySerializer

Part = GlobalNode | LocalNode | TransitionEdge
SERIALIZERS: dict[type[Any], type[ModelSerializer[Any]]] = {
    GlobalNode: DirectionSerializer,
    LocalNode: StrategySerializer,
    TransitionEdge: EdgeSerializer,
}
NOT_PROPOSED = ("reason", "version", "retired", "merged_into")


class BadFields(Refused):
    """Fields that cannot be saved; ``fields`` maps each to its sentences."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        name, sentences = next(iter(self.fields.items()))
        first = sentences[0] if isinstance(sentences, list) else sentences
        super().__init__(f"{name}: {first}")


def part_of(item: Any) -> Part:
    """The stored part that a proposal or suggestion edits. Raises Refused where it is gone."""
    part = item.strategy or item.edge or item.direction
    if part is None:
        raise Refused("The part that it would edit is gone.")
    return part


def without_ends(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a transition that is there already: its ends cannot change."""
    return {name: value for name, value in fields.items() if name not in {"source", "target"}}


def checked_strategy(direction: GlobalNode, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a new strategy, ``direction`` among them. Raises BadFields."""
    form = StrategySerializer(data={"direction": direction.pk, **_plain(fields)})
    values = _valid(form)
    if values["direction"].bank_id != direction.bank_id:
        raise BadFields({"direction": ["This direction belongs to another bank."]})
    return values


def checked_edge(bank_id: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a new transition, its ends among them. Raises BadFields."""
    return _valid(EdgeSerializer(data={"bank": bank_id, **_plain(fields)}))


def checked_edit(part: Part, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change of a part. Raises BadFields."""
    form = SERIALIZERS[type(part)](part, data={**_plain(fields), "version": part.version}, partial=True)
    values = _valid(form)
    values.pop("version")
    return values


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    unusable = [name for name in fields if name in NOT_PROPOSED]
    if unusable:
        raise BadFields({unusable[0]: ["A proposal cannot set this."]})
    return dict(fields)


def _valid(form: ModelSerializer[Any]) -> dict[str, Any]:
    known = set(form.fields)
    unknown = [name for name in form.initial_data if name not in known]
    if unknown:
        raise BadFields({str(unknown[0]): ["There is no such field."]})
    if not form.is_valid():
        raise BadFields(form.errors)
    values = dict(form.validated_data)
    values.pop("reason", None)
    return values
