"""Splitting a strategy or a direction in two, and moving a strategy to another direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from memory.curation.parts import bank_of, same_bank
from memory.history import Recorder, Refused, Stale, changing
from memory.history.undoing import edge_between, move_rows
from memory.models import Change, ChangeKind, Evidence, GlobalNode, LocalNode, TransitionEdge

SELECTORS = ("device", "dtype", "family", "proposer", "model")


def split_strategy(
    strategy: LocalNode,
    fields: Mapping[str, Any],
    evidence: Mapping[str, Any],
    version: int,
    **why: Any,
) -> tuple[Change, LocalNode]:
    """A new strategy beside ``strategy`` that takes the chosen part of its evidence along.

    ``fields`` are those of the new one; what is missing is copied. ``evidence`` chooses rows: ``ids``, or any
    of device, dtype, family, proposer and model, all of which must agree; empty takes none. Raises Stale,
    Frozen, Refused.
    """
    facts = {"from": strategy.key, "new": fields.get("key", "")}
    with changing(bank_of(strategy), ChangeKind.SPLIT, facts=facts, **why) as recorder:
        _fresh(strategy, version)
        _free(strategy.direction, fields["key"])
        copied = ("edit_pattern", "applies_when", "conditions", "checks", "risks", "recipe", "prior_utility")
        values = {**{name: getattr(strategy, name) for name in copied}, **fields}
        new = recorder.create(LocalNode(direction=strategy.direction, **values))
        rows = chosen_rows(Evidence.objects.filter(strategy=strategy), evidence)
        move_rows(recorder, rows, strategy.direction, new)
        return recorder.change, new


def split_direction(
    direction: GlobalNode,
    fields: Mapping[str, Any],
    strategies: Iterable[int],
    version: int,
    *,
    copy_edges: bool = True,
    **why: Any,
) -> tuple[Change, GlobalNode]:
    """A new direction that takes the named strategies of ``direction`` with their evidence.

    ``copy_edges`` gives it the same transitions, texts and priors included; evidence on them follows the
    strategies. Raises Stale, Frozen, Refused.
    """
    wanted = set(strategies)
    facts = {"from": direction.key, "new": fields.get("key", "")}
    with changing(direction.bank_id, ChangeKind.SPLIT, facts=facts, **why) as recorder:
        _fresh(direction, version)
        moving = list(
            direction.strategies.filter(pk__in=wanted, merged_into=None).select_related("direction")
        )
        if len(moving) != len(wanted):
            raise Refused(
                f"strategies: all must stand under {direction.key!r}, and none may have been merged."
            )
        if GlobalNode.objects.filter(bank=recorder.bank, key=fields["key"]).exists():
            raise Refused(f"key: there is a direction {fields['key']!r} already.")
        copied = ("intent", "goals", "triggers", "risks", "prior_utility")
        values = {**{name: getattr(direction, name) for name in copied}, **fields}
        new = recorder.create(GlobalNode(bank=recorder.bank, **values))
        if copy_edges:
            _copy_edges(recorder, direction, new)
        for strategy in moving:
            _move(recorder, strategy, new, strategy.key)
        return recorder.change, new


def move_strategy(
    strategy: LocalNode, direction: GlobalNode, version: int, key: str | None = None, **why: Any
) -> Change:
    """Put a strategy under another direction; its evidence follows. ``key`` renames it on the way.

    Raises Stale, Frozen, and Refused where the direction has a strategy of that key.
    """
    facts = {"strategy": strategy.key, "from": strategy.direction.key, "to": direction.key}
    with changing(bank_of(strategy), ChangeKind.MOVED, facts=facts, **why) as recorder:
        same_bank(recorder, direction)
        _fresh(strategy, version)
        if strategy.merged_into_id is not None or direction.merged_into_id is not None:
            raise Refused("A merged part cannot move; undo the merge first.")
        if strategy.direction_id == direction.pk:
            raise Refused(f"{strategy.key!r} stands under {direction.key!r} already.")
        _free(direction, key or strategy.key)
        _move(recorder, strategy, direction, key or strategy.key)
        return recorder.change


def chosen_rows(rows: QuerySet[Evidence], chosen: Mapping[str, Any]) -> QuerySet[Evidence]:
    """The rows that a split takes along; none unless something is asked for."""
    wanted = Q()
    if "ids" in chosen:
        wanted &= Q(pk__in=chosen["ids"])
    for name in SELECTORS:
        if name in chosen:
            wanted &= Q(**{name: chosen[name]})
    return rows.filter(wanted) if wanted else rows.none()


def _fresh(part: GlobalNode | LocalNode, version: int) -> None:
    part.refresh_from_db()
    if part.version != version:
        raise Stale(part, version)
    if part.merged_into_id is not None:
        raise Refused(f"{part.key!r} was merged into another part; undo the merge first.")


def _free(direction: GlobalNode, key: str) -> None:
    if direction.strategies.filter(key=key).exists():
        raise Refused(
            f"key: {direction.key!r} has a strategy {key!r} already; merge the two, or give another key."
        )


def _move(recorder: Recorder, strategy: LocalNode, direction: GlobalNode, key: str) -> None:
    rows = Evidence.objects.filter(strategy=strategy)
    recorder.edit(strategy, {"direction_id": direction.pk, "key": key})
    move_rows(recorder, rows, direction, strategy)


def _copy_edges(recorder: Recorder, old: GlobalNode, new: GlobalNode) -> None:
    edges = TransitionEdge.objects.filter(bank=recorder.bank, merged_into=None)
    for edge in edges.filter(target=old).select_related("source", "target").order_by("pk"):
        edge_between(recorder, edge.source, new, edge)
    for edge in edges.filter(source=old).select_related("source", "target").order_by("pk"):
        edge_between(recorder, new, edge.target, edge)
