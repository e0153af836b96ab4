"""Totals over the evidence log: kept up to date as evidence comes in or moves, and recomputable from the log
at any time.

Sums are whole numbers (`memory.models.to_units`), so both ways give the same totals exactly. Everything that
writes totals holds the lock on the bank's row (`memory.history.locked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from memory.models import GRID, Evidence, EvidenceTotals, MemoryBank
from memory.policy import BucketTotals

SUBJECTS = ("direction", "strategy", "edge")
BUCKET = ("device", "dtype", "family")
BATCH = 500


class Place(NamedTuple):
    """One bucket of one node or edge."""

    subject: str  # direction, strategy or edge
    owner: int
    device: str
    dtype: str
    family: str


class Sums(NamedTuple):
    """What a bucket adds up; the names of `EvidenceTotals`."""

    tries: int = 0
    compiled: int = 0
    correct: int = 0
    improved: int = 0
    utility_units: int = 0
    square_units: int = 0

    def plus(self, other: Sums, sign: int = 1) -> Sums:
        return Sums(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))


Totals = dict[Place, Sums]
SUMMED: dict[str, Any] = {
    "sum_tries": Count("id"),
    "sum_compiled": Count("id", filter=Q(compiled=True)),
    "sum_correct": Count("id", filter=Q(correct=True)),
    "sum_improved": Count("id", filter=Q(improved=True)),
    "sum_utility": Sum("utility_units"),
    "sum_square": Sum(F("utility_units") * F("utility_units")),
}


def places_of(evidence: Evidence) -> list[Place]:
    """The buckets that one row counts in."""
    owners = ((subject, getattr(evidence, f"{subject}_id")) for subject in SUBJECTS)
    return [
        Place(subject, owner, evidence.device, evidence.dtype, evidence.family)
        for subject, owner in owners
        if owner is not None
    ]


def sums_of(evidence: Evidence) -> Sums:
    """What one counted row adds to each of its buckets."""
    units = evidence.utility_units
    flags = (int(evidence.compiled), int(evidence.correct), int(evidence.improved))
    return Sums(1, *flags, units, units * units)


def summed(rows: QuerySet[Evidence]) -> Totals:
    """Sums of the counted ones among ``rows``; three queries."""
    totals: Totals = {}
    for subject in SUBJECTS:
        counted = rows.filter(excluded=False, **{f"{subject}__isnull": False}).order_by()
        for row in counted.values_list(f"{subject}_id", *BUCKET).annotate(**SUMMED):
            owner, *rest = row
            totals[Place(subject, owner, *rest[:3])] = Sums(*(int(value) for value in rest[3:]))
    return totals


def shift_totals(bank_id: int, deltas: Mapping[Place, Sums], sign: int = 1) -> None:
    """Add ``deltas`` to the stored totals, or take them away. Call under the bank's lock.

    Touched rows are written anew, as one statement can insert many rows but update them only one by one.
    """
    wanted = {place: sums for place, sums in deltas.items() if any(sums)}
    if not wanted:
        return
    stale: list[int] = []
    after: Totals = dict.fromkeys(wanted, Sums())
    for pk, place, sums in stored(bank_id, wanted):
        stale.append(pk)
        after[place] = sums
    after = {place: sums.plus(wanted[place], sign) for place, sums in after.items()}
    for start in range(0, len(stale), BATCH):
        EvidenceTotals.objects.filter(pk__in=stale[start : start + BATCH]).delete()
    rows = [total_row(bank_id, place, sums) for place, sums in after.items() if sums.tries]
    EvidenceTotals.objects.bulk_create(rows, batch_size=BATCH)


def stored(bank_id: int, places: Iterable[Place]) -> list[tuple[int, Place, Sums]]:
    """The stored rows of the given buckets."""
    wanted = set(places)
    owners: dict[str, set[int]] = {subject: set() for subject in SUBJECTS}
    for place in wanted:
        owners[place.subject].add(place.owner)
    found = []
    for subject, ids in owners.items():
        ordered = sorted(ids)
        for start in range(0, len(ordered), BATCH):
            rows = EvidenceTotals.objects.filter(**{f"{subject}__in": ordered[start : start + BATCH]})
            for pk, owner, *rest in rows.values_list("pk", f"{subject}_id", *BUCKET, *Sums._fields):
                place = Place(subject, owner, *rest[:3])
                if place in wanted:
                    found.append((pk, place, Sums(*rest[3:])))
    return found


def total_row(bank_id: int, place: Place, sums: Sums) -> EvidenceTotals:
    """An unsaved row of totals."""
    return EvidenceTotals(
        bank_id=bank_id,
        **{f"{place.subject}_id": place.owner},
        device=place.device,
        dtype=place.dtype,
        family=place.family,
        **sums._asdict(),
    )


def totals_around(evidence: Evidence) -> list[EvidenceTotals]:
    """Every stored total of the row's direction, strategy and edge, in one query."""
    owners = {subject: getattr(evidence, f"{subject}_id") for subject in SUBJECTS}
    wanted = [Q(**{f"{subject}_id": owner}) for subject, owner in owners.items() if owner is not None]
    return list(EvidenceTotals.objects.filter(reduce(or_, wanted)))


def add_to_totals(evidence: Evidence, before: list[EvidenceTotals]) -> None:
    """Count one new row. ``before`` is `totals_around` it; two queries. Call under the bank's lock."""
    if evidence.excluded:
        return
    places = places_of(evidence)
    known = {place: row.pk for row in before if (place := place_in(row)) in places}
    added = sums_of(evidence)
    if known:
        more = {name: F(name) + value for name, value in added._asdict().items()}
        EvidenceTotals.objects.filter(pk__in=known.values()).update(**more)
    missing = [place for place in places if place not in known]
    if missing:
        EvidenceTotals.objects.bulk_create(total_row(evidence.bank_id, place, added) for place in missing)


def recompute_totals(bank: MemoryBank) -> None:
    """Replace all totals of the bank by sums over its log."""
    with transaction.atomic():
        MemoryBank.objects.select_for_update().get(pk=bank.pk)
        EvidenceTotals.objects.filter(bank=bank).delete()
        totals = summed(Evidence.objects.filter(bank=bank))
        rows = [total_row(bank.pk, place, sums) for place, sums in totals.items()]
        EvidenceTotals.objects.bulk_create(rows, batch_size=BATCH)


def bucket_of(place: Place, sums: Sums) -> BucketTotals:
    """One bucket as the policy reads it."""
    return BucketTotals(
        place.device, place.dtype, place.family, sums.tries, sums.utility_units / GRID,
        sums.square_units / GRID**2, sums.compiled, sums.correct, sums.improved,
    )  # fmt: skip


def buckets(rows: Iterable[EvidenceTotals]) -> list[BucketTotals]:
    """Stored totals as the policy reads them."""
    return [bucket_of(place_in(row), sums_in(row)) for row in rows]


def place_in(row: EvidenceTotals) -> Place:
    subject = next(name for name in SUBJECTS if getattr(row, f"{name}_id") is not None)
    return Place(subject, getattr(row, f"{subject}_id"), row.device, row.dtype, row.family)


def sums_in(row: EvidenceTotals) -> Sums:
    return Sums(*(getattr(row, name) for name in Sums._fields))
