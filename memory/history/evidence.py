"""Evidence that moves to other parts or stops counting: marks on many rows at once, totals kept exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet

from memory.history.recording import Recorder, changing
from memory.models import Change, ChangeKind, Evidence, EvidenceMark
from memory.statistics import shift_totals, summed

EXCLUSION = ("excluded", "excluded_reason", "exclusion_id")
After = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]


def mark_rows(recorder: Recorder, rows: QuerySet[Evidence], columns: Iterable[str], after: After) -> int:
    """Give ``rows`` other values in ``columns``: ``after``, or what it makes of the present ones.

    Rows that agree in the columns, and in their newest mark, move together under one new mark. Totals follow.
    Answers how many rows changed.
    """
    names = tuple(columns)
    rows = rows.filter(bank_id=recorder.bank.pk).order_by()
    groups = list(rows.values(*names, "mark_id").annotate(size=Count("id")))
    changed = []
    for group in groups:
        before = {name: group[name] for name in names}
        values = dict(after(before) if callable(after) else after)
        if values != before:
            changed.append((before, values, group["mark_id"], group["size"]))
    if not changed:
        return 0
    marks = []
    for before, values, previous, size in changed:
        group_rows = rows.filter(**before, mark_id=previous)
        shift_totals(recorder.bank.pk, summed(group_rows), -1)
        mark = EvidenceMark.objects.create(
            change=recorder.change, previous_id=previous, before=before, after=values, count=size
        )
        group_rows.update(**values, mark=mark)
        marks.append(mark.pk)
    shift_totals(recorder.bank.pk, summed(Evidence.objects.filter(mark_id__in=marks)))
    return sum(size for *_, size in changed)


def undo_marks(recorder: Recorder, change: Change) -> None:
    """Put the rows that ``change`` marked back, under marks of their own. Call when no later mark follows."""
    for mark in change.marks.order_by("-id"):
        rows = Evidence.objects.filter(mark=mark)
        mark_rows(recorder, rows, mark.after, mark.before)


def exclude_evidence(
    rows: QuerySet[Evidence] | Iterable[int],
    reason: str,
    user: Any = None,
    *,
    even_frozen: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> list[Change]:
    """Leave rows out of every statistic, at once, until `include_evidence` takes them back.

    ``rows``: a queryset of `Evidence`, or ids. ``reason`` is stored on the rows and in the history; it must
    not be empty. Rows that are excluded already keep their first reason. One change a bank. ``user`` None
    means the system (a re-verification, say). Raises Frozen for a frozen bank unless ``even_frozen``: then
    nothing of any bank is excluded.
    """
    if not reason.strip():
        raise ValueError("exclusion needs a reason")
    return _switch(rows, True, reason, user, even_frozen, facts)


def include_evidence(
    rows: QuerySet[Evidence] | Iterable[int],
    reason: str = "",
    user: Any = None,
    *,
    even_frozen: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> list[Change]:
    """Count excluded rows again; the same arguments as `exclude_evidence`."""
    return _switch(rows, False, reason, user, even_frozen, facts)


def _switch(
    rows: QuerySet[Evidence] | Iterable[int],
    excluded: bool,
    reason: str,
    user: Any,
    even_frozen: bool,
    facts: Mapping[str, Any] | None,
) -> list[Change]:
    chosen = rows if isinstance(rows, QuerySet) else Evidence.objects.filter(pk__in=list(rows))
    chosen = chosen.order_by().filter(excluded=not excluded)
    kind = ChangeKind.EXCLUDED if excluded else ChangeKind.INCLUDED
    changes = []
    with transaction.atomic():
        for bank_id in sorted(chosen.values_list("bank_id", flat=True).distinct()):
            why = {"user": user, "reason": reason, "facts": dict(facts or {})}
            with changing(bank_id, kind, even_frozen=even_frozen, **why) as recorder:
                ids = chosen.filter(bank_id=bank_id)
                if not ids.exists():
                    continue  # another process was quicker
                after = _state(excluded, reason, recorder.change.pk)
                count = mark_rows(recorder, ids, EXCLUSION, after)
                recorder.change.facts = {**recorder.change.facts, "rows": count}
                recorder.change.save(update_fields=["facts"])
                changes.append(recorder.change)
    return changes


def _state(excluded: bool, reason: str, change_id: int) -> dict[str, Any]:
    return {
        "excluded": excluded,
        "excluded_reason": reason if excluded else "",
        "exclusion_id": change_id if excluded else None,
    }


def set_excluded(evidence: Evidence, excluded: bool, reason: str = "", user: Any = None) -> Evidence:
    """Exclude one row, or take it back in, in frozen banks too: for what the system itself finds out."""
    switch = exclude_evidence if excluded else include_evidence
    switch([evidence.pk], reason or "unspecified", user, even_frozen=True)
    evidence.refresh_from_db()
    return evidence
