"""Undo: of one change where nothing later stands on it, or of everything since a moment."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from memory.history.decisions import later_decisions, restore_decisions, undo_decisions
from memory.history.errors import Conflict, Refused
from memory.history.evidence import EXCLUSION, mark_rows, undo_marks
from memory.history.moments import Moment, Parts, later_marks, parts_at, parts_now
from memory.history.recording import Recorder, changing
from memory.history.snapshots import MODELS, PLACE, Part, snapshot
from memory.history.undoing import LATER_FIRST, bring_back, follow_strategies, take_away
from memory.models import (
    Change,
    ChangeItem,
    ChangeKind,
    Evidence,
    EvidenceMark,
    MemoryBank,
)

BEGINNINGS = (ChangeKind.OPENED, ChangeKind.IMPORTED, ChangeKind.CLONED)
CLASH = "A name that this would bring back is taken by now; rename the part that has it, then try again."


def revert(change: Change, user: Any = None, reason: str = "") -> tuple[Change, list[str]]:
    """Undo one change, as a change of its own, which can be undone in turn.

    Answers it with sentences on what could not be undone in full. Raises Conflict, naming the later changes
    that build on this one, and Refused where there is nothing to undo.
    """
    if change.kind in BEGINNINGS:
        raise Refused("This is how the bank came to be: there is nothing before it.")
    if change.kind == ChangeKind.LEARNED:
        raise Refused("What a run taught is evidence: exclude the evidence of the run instead.")
    why = {"user": user, "reason": reason, "reverts": change}
    try:
        with changing(change.bank_id, ChangeKind.REVERTED, even_frozen=_thaws(change), **why) as recorder:
            later = later_on(change)
            if later:
                raise Conflict("Later changes build on this one; undo them first.", later)
            undo_marks(recorder, change)
            for item in change.items.order_by("-pk"):
                _undo_item(recorder, item)
            follow_strategies(recorder)
            undo_decisions(recorder, change)
            if recorder.made is None:
                raise Refused(
                    "There is nothing left to undo: " + (" ".join(recorder.notes) or "all is as before.")
                )
            return recorder.made, recorder.notes
    except IntegrityError:
        raise Conflict(CLASH) from None


def _thaws(change: Change) -> bool:
    """Whether undoing the change thaws the bank: the one thing that a frozen bank lets happen."""
    items = list(change.items.all())
    return bool(items) and all(
        item.kind == "bank" and item.after and item.after.get("frozen") for item in items
    )


def later_on(change: Change) -> list[Change]:
    """Later changes that touched what this one left: the reasons why it cannot be undone alone."""
    found: set[int] = set()
    for item in change.items.all():
        found |= _later_on_item(item)
    followers = EvidenceMark.objects.filter(previous__change=change).exclude(change=change)
    found |= set(followers.values_list("change_id", flat=True))
    found |= later_decisions(change)
    return list(Change.objects.filter(pk__in=found).select_related("user", "bank").order_by("-pk"))


def _later_on_item(item: ChangeItem) -> set[int]:
    part: Part | None = MODELS[item.kind]._default_manager.filter(pk=item.part).first()
    later = ChangeItem.objects.filter(kind=item.kind, part=item.part, change_id__gt=item.change_id)
    if item.after is None or part is None:  # removed by this change or a later one
        return (
            set() if item.after is None and part is None else set(later.values_list("change_id", flat=True))
        )
    now = snapshot(part)
    names = {name for name in item.after if now[name] != item.after[name]}
    if item.before is None:
        names -= PLACE
    touching = {
        change
        for change, old, new in later.values_list("change_id", "before", "after")
        if names & {*(old or {}), *(new or {})}
    }
    if item.before is None and item.kind == "direction":
        touching |= _built_on_direction(item)
    return touching


def _built_on_direction(item: ChangeItem) -> set[int]:
    """Later changes that put strategies or transitions at a direction that this change created."""
    rows = ChangeItem.objects.filter(change_id__gt=item.change_id, change__bank=item.change.bank_id)
    return {
        change
        for change, kind, part, new in rows.values_list("change_id", "kind", "part", "after")
        if new is not None
        and item.part in {new.get("direction_id"), new.get("source_id"), new.get("target_id")}
        and MODELS[kind]._default_manager.filter(pk=part, **_at_direction(kind, item.part, new)).exists()
    }


def _at_direction(kind: str, direction: int, new: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in ("direction_id", "source_id", "target_id") if new.get(name) == direction]
    return {name: direction for name in names if name != "direction_id" or kind == "strategy"}


def _undo_item(recorder: Recorder, item: ChangeItem) -> None:
    if item.after is None:
        assert item.before is not None
        bring_back(recorder, item.kind, item.part, item.before, item.version + 1)
        return
    part: Part = MODELS[item.kind]._default_manager.get(pk=item.part)
    if item.before is None:
        take_away(recorder, part)
    else:
        recorder.edit(part, item.before)


def revert_to(
    bank: MemoryBank,
    moment: Moment,
    user: Any = None,
    reason: str = "",
    *,
    seen: int | None = None,
    exclude_later_evidence: bool = False,
) -> tuple[Change, list[str]]:
    """Bring the bank back to how it was at a moment, as one change, which can be undone in turn.

    Evidence recorded since stays in the log and counts, unless ``exclude_later_evidence``. ``seen`` is the
    newest change that the person knew of: Conflict names what came after it. Whether the bank is frozen does
    not change.
    """
    why = {"user": user, "reason": reason, "facts": {"to": moment.change, "at": _text(moment)}}
    try:
        with changing(bank, ChangeKind.REVERTED, **why) as recorder:
            unseen = (
                Change.objects.filter(bank=bank, pk__gt=seen).select_related("user", "bank") if seen else None
            )
            if unseen:
                raise Conflict(
                    "The bank changed since you looked; look at these changes first.", list(unseen)
                )
            then, now = parts_at(recorder.bank, moment), parts_now(recorder.bank)
            _restore_parts(recorder, now, then)
            _restore_marks(recorder, moment)
            _take_new_parts_away(recorder, now, then)
            follow_strategies(recorder)
            restore_decisions(recorder, moment)
            if exclude_later_evidence:
                _exclude_after(recorder, moment, reason)
            if recorder.made is None:
                raise Refused("The bank is as it was then already.")
            return recorder.made, recorder.notes
    except IntegrityError:
        raise Conflict(CLASH) from None


def _text(moment: Moment) -> str | None:
    return moment.at.astimezone(timezone.get_default_timezone()).isoformat() if moment.at else None


def _restore_parts(recorder: Recorder, now: Parts, then: Parts) -> None:
    for kind in ("bank", *reversed(LATER_FIRST)):
        for pk, fields in then[kind].items():
            if pk not in now[kind]:
                item = ChangeItem.objects.filter(kind=kind, part=pk).latest("pk")
                bring_back(recorder, kind, pk, fields, item.version + 1)
            elif fields != now[kind][pk]:
                kept = {name: value for name, value in fields.items() if name != "frozen"}
                recorder.edit(MODELS[kind]._default_manager.get(pk=pk), kept)


def _restore_marks(recorder: Recorder, moment: Moment) -> None:
    for mark, then in later_marks(recorder.bank, moment).items():
        rows = Evidence.objects.filter(mark_id=mark, pk__lte=moment.evidence)
        mark_rows(recorder, rows, then, then)


def _take_new_parts_away(recorder: Recorder, now: Parts, then: Parts) -> None:
    for kind in LATER_FIRST:
        for pk in sorted(now[kind].keys() - then[kind].keys()):
            take_away(recorder, MODELS[kind]._default_manager.get(pk=pk))


def _exclude_after(recorder: Recorder, moment: Moment, reason: str) -> None:
    rows = Evidence.objects.filter(bank=recorder.bank, pk__gt=moment.evidence, excluded=False)
    if rows.exists():
        text = reason or "The bank went back to an earlier moment."
        state = {"excluded": True, "excluded_reason": text, "exclusion_id": recorder.change.pk}
        mark_rows(recorder, rows, EXCLUSION, state)
