"""Merging two directions or two strategies: evidence and transitions follow, and one undo takes it all back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory.curation.parts import bank_of, same_bank
from memory.history import Recorder, Refused, Stale, changing
from memory.history.evidence import mark_rows
from memory.history.undoing import edge_between, move_rows
from memory.models import Change, ChangeKind, Evidence, GlobalNode, LocalNode, TransitionEdge

TEXTS = {
    "direction": ("title", "intent", "goals", "triggers", "risks", "prior_utility"),
    "strategy": (
        "title", "edit_pattern", "applies_when", "conditions", "checks", "risks", "recipe", "prior_utility",
    ),
}  # fmt: skip


def merge_strategies(
    kept: LocalNode,
    merged: LocalNode,
    versions: tuple[int, int],
    take: Iterable[str] = (),
    edits: Mapping[str, Any] | None = None,
    **why: Any,
) -> Change:
    """Let ``merged`` go up in ``kept``: its evidence counts there from now on, under the direction of ``kept``.

    ``versions`` are those of both as the person saw them. The fields named in ``take`` come from ``merged``,
    those in ``edits`` are new, all others stay. Raises Stale, Frozen, Refused.
    """
    facts = {"kept": kept.key, "merged": merged.key}
    with changing(bank_of(kept), ChangeKind.MERGED, facts=facts, **why) as recorder:
        _check(recorder, kept, merged, versions)
        values = {**_taken("strategy", merged, take), **(edits or {})}
        recorder.edit(kept, values)
        _absorb_strategy(recorder, kept, merged)
        return recorder.change


def merge_directions(
    kept: GlobalNode,
    merged: GlobalNode,
    versions: tuple[int, int],
    take: Iterable[str] = (),
    edits: Mapping[str, Any] | None = None,
    *,
    combine_same_keys: bool = True,
    **why: Any,
) -> Change:
    """Let ``merged`` go up in ``kept``, with its strategies, transitions and evidence.

    Transitions that both had become one: evidence of both counts, texts of ``kept``'s win, its empty ones are
    filled. Strategies of one key become one likewise, or with ``combine_same_keys`` off the newcomer gets
    another key. Conditions that name ``merged`` as the last direction name ``kept``. The other arguments and
    refusals are those of `merge_strategies`.
    """
    facts = {"kept": kept.key, "merged": merged.key}
    with changing(bank_of(kept), ChangeKind.MERGED, facts=facts, **why) as recorder:
        _check(recorder, kept, merged, versions)
        values = {**_taken("direction", merged, take), **(edits or {})}
        recorder.edit(kept, values)
        _bring_edges(recorder, kept, merged)
        _bring_strategies(recorder, kept, merged, combine_same_keys)
        rest = Evidence.objects.filter(direction=merged)
        mark_rows(recorder, rest, ("direction_id",), {"direction_id": kept.pk})
        _rename_in_conditions(recorder, merged.key, kept.key)
        recorder.edit(merged, {"retired": True, "merged_into_id": kept.pk})
        return recorder.change


def _check(recorder: Recorder, kept: Any, merged: Any, versions: tuple[int, int]) -> None:
    if kept.pk == merged.pk:
        raise Refused("A part cannot be merged into itself.")
    same_bank(recorder, kept, merged)
    for part, version in zip((kept, merged), versions, strict=True):
        part.refresh_from_db()
        if part.version != version:
            raise Stale(part, version)
        if part.merged_into_id is not None:
            raise Refused(f"{part.key!r} was merged into another part already.")


def _taken(kind: str, merged: Any, take: Iterable[str]) -> dict[str, Any]:
    unknown = sorted(set(take) - set(TEXTS[kind]))
    if unknown:
        raise Refused(f"take: {unknown[0]!r} is none of {', '.join(TEXTS[kind])}.")
    return {name: getattr(merged, name) for name in take}


def _absorb_strategy(recorder: Recorder, kept: LocalNode, merged: LocalNode) -> None:
    move_rows(recorder, Evidence.objects.filter(strategy=merged), kept.direction, kept)
    recorder.edit(merged, {"retired": True, "merged_into_id": kept.pk})


def _bring_strategies(recorder: Recorder, kept: GlobalNode, merged: GlobalNode, combine: bool) -> None:
    own = {strategy.key: strategy for strategy in kept.strategies.select_related("direction")}
    for strategy in merged.strategies.select_related("direction").order_by("key"):
        twin = own.get(strategy.key)
        if twin is not None and combine and strategy.merged_into_id is None and twin.merged_into_id is None:
            _absorb_strategy(recorder, twin, strategy)
            continue
        values: dict[str, Any] = {"direction_id": kept.pk}
        if strategy.key in own:
            values["key"] = free_key(strategy.key, own)
        recorder.edit(strategy, values)
        own[strategy.key] = strategy


def free_key(key: str, taken: Iterable[str], longest: int = 80) -> str:
    """``key`` with the first number that makes it new."""
    known = set(taken)
    number = 2
    while f"{key[: longest - 4]}-{number}" in known:
        number += 1
    return f"{key[: longest - 4]}-{number}"


def _bring_edges(recorder: Recorder, kept: GlobalNode, merged: GlobalNode) -> None:
    edges = TransitionEdge.objects.filter(bank=recorder.bank, merged_into=None)
    own = edges.filter(source=merged) | edges.filter(target=merged)
    for edge in own.select_related("source", "target").order_by("pk"):
        source = kept if edge.source_id == merged.pk else edge.source
        target = kept if edge.target_id == merged.pk else edge.target
        heir = edge_between(recorder, source, target, edge)
        _fill_texts(recorder, heir, edge)
        rows = Evidence.objects.filter(edge=edge)
        mark_rows(
            recorder, rows, ("direction_id", "edge_id"), {"direction_id": target.pk, "edge_id": heir.pk}
        )
        recorder.edit(edge, {"retired": True, "merged_into_id": heir.pk})


def _fill_texts(recorder: Recorder, heir: TransitionEdge, edge: TransitionEdge) -> None:
    empty = [name for name in ("applies_when", "rationale", "risks") if not getattr(heir, name)]
    recorder.edit(heir, {name: getattr(edge, name) for name in empty})


def _rename_in_conditions(recorder: Recorder, old: str, new: str) -> None:
    """Conditions on the last direction follow its new name."""
    parts: list[tuple[Any, str]] = [
        *((node, "triggers") for node in GlobalNode.objects.filter(bank=recorder.bank)),
        *((node, "conditions") for node in LocalNode.objects.filter(direction__bank=recorder.bank)),
    ]
    for part, field in parts:
        conditions = getattr(part, field)
        renamed = [_renamed(condition, old, new) for condition in conditions]
        if renamed != conditions:
            recorder.edit(part, {field: renamed})


def _renamed(condition: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    if condition.get("fact") != "last_direction":
        return condition
    value = condition.get("value")
    if isinstance(value, list):
        return {**condition, "value": list(dict.fromkeys(new if item == old else item for item in value))}
    return {**condition, "value": new} if value == old else condition
