"""A bank at any moment of its life: its present with everything later taken back.

What this costs depends on how much happened since, not on how much the bank holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from memory.history.errors import Refused
from memory.history.snapshots import FIELDS, MODELS, Snapshot, snapshot
from memory.models import Change, ChangeItem, Evidence, EvidenceMark, EvidenceTotals, MemoryBank
from memory.statistics import (
    BUCKET,
    SUBJECTS,
    SUMMED,
    Place,
    Sums,
    Totals,
    place_in,
    summed,
    sums_in,
)

Parts = dict[str, dict[int, Snapshot]]  # kind -> id -> fields


@dataclass(frozen=True)
class Moment:
    """After one change and one evidence row of a bank, and before the next ones."""

    change: int
    evidence: int
    at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        return {"change": self.change, "evidence": self.evidence, "at": self.at}


def present(bank: MemoryBank) -> Moment:
    change = bank.changes.aggregate(newest=Max("id"))["newest"] or 0
    evidence = Evidence.objects.filter(bank=bank).aggregate(newest=Max("id"))["newest"] or 0
    return Moment(change, evidence, timezone.now())


def after(change: Change) -> Moment:
    return Moment(change.pk, change.evidence_seen, change.at)


def before(change: Change) -> Moment:
    """The moment that ``change`` ended."""
    earlier = Change.objects.filter(bank=change.bank_id, pk__lt=change.pk).order_by("-pk").first()
    return Moment(earlier.pk if earlier else 0, change.evidence_seen, earlier.at if earlier else None)


def parse_moment(bank: MemoryBank, text: str) -> Moment:
    """ "now", "start" (as the history begins), the id of a change (as that left the bank) or an ISO 8601 time.

    Raises Refused with a sentence where the text is none of these or lies outside the bank's history.
    """
    text = text.strip()
    first = bank.changes.order_by("pk").first()
    if text == "now" or first is None:
        return present(bank)
    if text == "start":
        return after(first)
    if text.isascii() and text.isdecimal():
        change = bank.changes.filter(pk=int(text)).first() if len(text) <= 18 else None
        if change is None:
            raise Refused(f"This bank has no change {text[:20]}.")
        return after(change)
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped plus arrives as a space
    except ValueError:
        raise Refused(
            f"{text[:60]!r} is no moment: give now, start, the id of a change, or a time like "
            "2026-01-31T12:00:00+00:00."
        ) from None
    if timezone.is_naive(at):
        at = timezone.make_aware(at)
    if at < first.at:
        raise Refused(f"The history of this bank begins at {first.at.isoformat()}.")
    return at_time(bank, at)


def at_time(bank: MemoryBank, at: datetime) -> Moment:
    """The newest change and evidence row at a time."""
    change = bank.changes.filter(at__lte=at).order_by("-pk").first()
    assert change is not None, "the time lies within the history"
    rows = Evidence.objects.filter(bank=bank, pk__gt=change.evidence_seen, created_at__lte=at)
    following = bank.changes.filter(pk__gt=change.pk).order_by("pk").first()
    if following is not None:
        rows = rows.filter(pk__lte=following.evidence_seen)
    newest = rows.aggregate(newest=Max("id"))["newest"]
    return Moment(change.pk, newest or change.evidence_seen, at)


def parts_now(bank: MemoryBank) -> Parts:
    """Every part with the fields that the ledger follows; three queries."""
    owner = {"direction": {"bank": bank}, "strategy": {"direction__bank": bank}, "edge": {"bank": bank}}
    parts: Parts = {"bank": {bank.pk: snapshot(bank)}}
    for kind, where in owner.items():
        rows = MODELS[kind]._default_manager.filter(**where).order_by().values("pk", *FIELDS[kind])
        parts[kind] = {row.pop("pk"): row for row in rows}
    return parts


def parts_at(bank: MemoryBank, moment: Moment) -> Parts:
    """Every part as it stood; four queries."""
    parts = parts_now(bank)
    items = ChangeItem.objects.filter(change__bank=bank, change_id__gt=moment.change).order_by("-pk")
    for kind, part, old, new in items.values_list("kind", "part", "before", "after"):
        if old is None:
            parts[kind].pop(part, None)
        elif new is None:
            parts[kind][part] = dict(old)
        elif part in parts[kind]:
            parts[kind][part].update(old)
    return parts


def totals_now(bank: MemoryBank) -> Totals:
    return {place_in(row): sums_in(row) for row in EvidenceTotals.objects.filter(bank=bank)}


def totals_at(bank: MemoryBank, moment: Moment) -> Totals:
    """The sums as they stood: later evidence taken out, later moves and exclusions taken back."""
    log = Evidence.objects.filter(bank=bank)
    newer = log.filter(pk__gt=moment.evidence)
    totals = totals_now(bank)
    counted = sum(sums.tries for place, sums in totals.items() if place.subject == "direction")
    if 2 * newer.count() <= counted:
        add(totals, summed(newer), -1)
    else:  # less to add up from the beginning than to take away from the end
        totals = summed(log.filter(pk__lte=moment.evidence))
    _take_marks_back(totals, log.filter(pk__lte=moment.evidence), later_marks(bank, moment))
    return totals


def add(totals: Totals, deltas: Totals, sign: int = 1) -> None:
    """Add ``deltas`` in place; buckets without a row go."""
    for place, sums in deltas.items():
        moved = totals.get(place, Sums()).plus(sums, sign)
        if moved.tries:
            totals[place] = moved
        else:
            totals.pop(place, None)


def later_marks(bank: MemoryBank, moment: Moment) -> dict[int, dict[str, Any]]:
    """Marks put on since, each with the columns that its rows had at the moment."""
    rows = EvidenceMark.objects.filter(change__bank=bank, change_id__gt=moment.change)
    marks = {pk: (previous, old) for pk, previous, old in rows.values_list("pk", "previous_id", "before")}
    columns = {}
    for pk in marks:
        then: dict[str, Any] = {}
        step: int | None = pk
        while step in marks:
            step, old = marks[step]
            then.update(old)  # going back: the older mark has the last word
        columns[pk] = then
    return columns


def _take_marks_back(
    totals: Totals, rows: QuerySet[Evidence], marks: Mapping[int, Mapping[str, Any]]
) -> None:
    if not marks:
        return
    names = ("mark_id", "excluded", *(f"{subject}_id" for subject in SUBJECTS), *BUCKET)
    grouped = rows.filter(mark_id__in=list(marks)).order_by().values(*names).annotate(**SUMMED)
    for row in grouped:
        sums = Sums(*(int(row[name]) for name in SUMMED))
        then = {**row, **marks[row["mark_id"]]}
        for state, sign in ((row, -1), (then, 1)):
            if not state["excluded"]:
                add(totals, _places(state, sums), sign)


def _places(row: Mapping[str, Any], sums: Sums) -> Totals:
    bucket = tuple(row[name] for name in BUCKET)
    owners = ((subject, row[f"{subject}_id"]) for subject in SUBJECTS)
    return {Place(subject, owner, *bucket): sums for subject, owner in owners if owner is not None}
