"""Pieces of an undo: parts that go, parts that come back, evidence that follows its strategy."""

from __future__ import annotations

from typing import Any

from memory.history.evidence import mark_rows
from memory.history.recording import Recorder
from memory.history.snapshots import MODELS, Part, Snapshot, label_of
from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge

LATER_FIRST = ("edge", "strategy", "direction")  # what refers goes before what is referred to
PLACES = ("direction_id", "strategy_id", "edge_id")


def take_away(recorder: Recorder, part: Part) -> None:
    """Undo a creation. What evidence or runs refer to stays: a transition as it is, a node retired."""
    assert not isinstance(part, MemoryBank)
    if not referred(part):
        recorder.remove(part)
    elif isinstance(part, TransitionEdge):
        recorder.notes.append(f"The transition {label_of(part)} stays: evidence lies on it.")
    else:
        recorder.edit(part, {"retired": True})
        recorder.notes.append(f"{label_of(part)!r} is retired and not removed: evidence or runs refer to it.")


def referred(part: GlobalNode | LocalNode | TransitionEdge) -> bool:
    """Whether any row but a total of it points to the part, runs' steps among them."""
    relations: list[Any] = [
        field
        for field in part._meta.get_fields(include_hidden=True)
        if field.one_to_many and field.name != "totals"
    ]
    return any(
        relation.related_model._base_manager.filter(**{relation.field.name: part}).exists()
        for relation in relations
    )


def bring_back(recorder: Recorder, kind: str, pk: int, fields: Snapshot, version: int) -> None:
    """Undo a removal, under the old number, so that whatever named the part finds it again."""
    owner = {} if kind == "strategy" else {"bank": recorder.bank}
    recorder.create(MODELS[kind](pk=pk, version=version, **owner, **fields))


def follow_strategies(recorder: Recorder) -> None:
    """Move evidence to where the strategies that this change moved stand now: what was recorded since a move
    or merge that is undone."""
    moved = LocalNode.objects.filter(pk__in=recorder.moved).select_related("direction")
    for strategy in moved:
        rows = Evidence.objects.filter(strategy=strategy).exclude(direction=strategy.direction)
        move_rows(recorder, rows, strategy.direction, strategy)


def move_rows(
    recorder: Recorder,
    rows: Any,
    direction: GlobalNode,
    strategy: LocalNode | None,
    *,
    keep_strategy: bool = False,
) -> int:
    """Let ``rows`` count for another direction and strategy, and for the transition from where they came.

    A transition that the direction lacks yet is created. ``keep_strategy`` leaves each row its own.
    """
    edges: dict[int, int] = {}
    used = rows.exclude(edge=None).order_by().values_list("edge_id", flat=True).distinct()
    for edge in TransitionEdge.objects.filter(pk__in=list(used)).select_related("source", "target"):
        edges[edge.pk] = edge_between(recorder, edge.source, direction).pk
    columns = tuple(name for name in PLACES if not (keep_strategy and name == "strategy_id"))

    def after(before: Any) -> dict[str, Any]:
        values = {
            "direction_id": direction.pk,
            "strategy_id": strategy.pk if strategy else None,
            "edge_id": edges.get(before["edge_id"]),
        }
        return {name: values[name] for name in columns}

    return mark_rows(recorder, rows, columns, after)


def edge_between(
    recorder: Recorder,
    source: GlobalNode | None,
    target: GlobalNode,
    like: TransitionEdge | None = None,
) -> TransitionEdge:
    """The transition between two directions; made where there is none, with the texts of ``like``."""
    edge = TransitionEdge.objects.filter(bank=recorder.bank, source=source, target=target).first()
    if edge is not None:
        return edge
    texts = (
        {
            name: getattr(like, name)
            for name in ("applies_when", "rationale", "risks", "prior_utility", "retired")
        }
        if like
        else {}
    )
    return recorder.create(TransitionEdge(bank=recorder.bank, source=source, target=target, **texts))
