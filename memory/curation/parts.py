"""Saves by people: a stale one is refused instead of overwriting somebody else's, each one is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.history import Recorder, Refused, changing
from memory.history.snapshots import PLACE, P
from memory.models import Change, ChangeKind, GlobalNode, LocalNode, MemoryBank, TransitionEdge

Part = GlobalNode | LocalNode | TransitionEdge


def bank_of(part: Part) -> int:
    return part.direction.bank_id if isinstance(part, LocalNode) else part.bank_id


def create_part(part: P, **why: Any) -> P:
    """Save a new part. ``why``: user, reason, ... as in `memory.history.changing`. Raises Refused."""
    with changing(bank_of(part), ChangeKind.CREATED, **why) as recorder:
        for node in nodes_of(part):
            if node.merged_into_id is not None:
                raise Refused(f"{node.key!r} was merged into another direction; choose that one.")
        return recorder.create(part)


def nodes_of(part: Part) -> list[GlobalNode]:
    """The directions that a strategy or a transition hangs on."""
    if isinstance(part, LocalNode):
        return [part.direction]
    if isinstance(part, TransitionEdge):
        return [node for node in (part.source, part.target) if node is not None]
    return []


def edit_part(part: P, values: Mapping[str, Any], version: int, **why: Any) -> Change | None:
    """Write ``values`` if the stored version still is ``version``; ``part`` is reloaded.

    None where they were stored already. Raises Stale, Frozen, and Refused for a merged part.
    """
    with changing(bank_of(part), kind_of_edit(values), **why) as recorder:
        if part.merged_into_id is not None and not set(values) <= PLACE:
            raise Refused("This part was merged into another one; edit that one, or undo the merge.")
        recorder.edit(part, values, version)
        return recorder.made


def kind_of_edit(values: Mapping[str, Any]) -> ChangeKind:
    """What an edit is called in the history."""
    names = set(values)
    if names and names <= PLACE:
        return ChangeKind.PLACED
    if names == {"retired"}:
        return ChangeKind.RETIRED if values["retired"] else ChangeKind.UNRETIRED
    return ChangeKind.EDITED


def edit_bank(bank: MemoryBank, values: Mapping[str, Any], version: int, **why: Any) -> Change | None:
    """Rename, describe, freeze or thaw. A frozen bank can only be thawed. Raises Stale, Frozen."""
    thaws = values.get("frozen") is False
    with changing(bank, ChangeKind.BANK, even_frozen=thaws, **why) as recorder:
        recorder.edit(bank, values, version)
        return recorder.made


def same_bank(recorder: Recorder, *parts: Part) -> None:
    """Raise Refused unless all parts belong to the recorder's bank."""
    for part in parts:
        if bank_of(part) != recorder.bank.pk:
            raise Refused("Both must belong to the same bank; merge the banks instead.")
