"""Totals over the evidence log: kept up to date as evidence comes in, and recomputable from the log at any
time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from memory.models import Evidence, EvidenceTotals, MemoryBank
from memory.policy import BucketTotals

SUBJECTS = ("direction", "strategy", "edge")
BUCKET = ("device", "dtype", "family")
SUMS: dict[str, Any] = {
    "tries": Count("id"),
    "compiled": Count("id", filter=Q(compiled=True)),
    "correct": Count("id", filter=Q(correct=True)),
    "improved": Count("id", filter=Q(improved=True)),
    "utility_sum": Sum("utility"),
    "utility_square_sum": Sum(F("utility") * F("utility")),
}


def add_to_totals(evidence: Evidence) -> None:
    """Count one new row in the totals of its direction, strategy and edge. Call inside a transaction."""
    if evidence.excluded:
        return
    for subject in SUBJECTS:
        subject_id = getattr(evidence, f"{subject}_id")
        if subject_id is None:
            continue
        place = {f"{subject}_id": subject_id, **{name: getattr(evidence, name) for name in BUCKET}}
        if not _add_to_bucket(evidence, place):
            EvidenceTotals.objects.get_or_create(**place, defaults={"bank_id": evidence.bank_id})
            _add_to_bucket(evidence, place)


def _add_to_bucket(evidence: Evidence, place: dict[str, Any]) -> int:
    """Add in the database, so that workers who meet in one bucket all count. 0 when it has no row yet."""
    return EvidenceTotals.objects.filter(**place).update(
        tries=F("tries") + 1,
        compiled=F("compiled") + int(evidence.compiled),
        correct=F("correct") + int(evidence.correct),
        improved=F("improved") + int(evidence.improved),
        utility_sum=F("utility_sum") + evidence.utility,
        utility_square_sum=F("utility_square_sum") + evidence.utility**2,
    )


def set_excluded(evidence: Evidence, excluded: bool, reason: str = "") -> Evidence:
    """Exclude a row from every statistic, or take it back in.

    The buckets it belongs to are summed anew, so an excluded row leaves no trace, not even one of rounding.
    """
    with transaction.atomic():
        evidence.excluded = excluded
        evidence.excluded_reason = reason if excluded else ""
        evidence.save(update_fields=["excluded", "excluded_reason"])
        for subject in SUBJECTS:
            _recompute_bucket(evidence, subject)
    return evidence


def recompute_totals(bank: MemoryBank) -> None:
    """Replace all totals of the bank by sums over its log."""
    with transaction.atomic():
        EvidenceTotals.objects.filter(bank=bank).delete()
        rows = []
        for subject in SUBJECTS:
            for sums in _sums(Evidence.objects.filter(bank=bank), subject):
                subject_id = sums.pop(f"{subject}_id")
                rows.append(EvidenceTotals(bank=bank, **{f"{subject}_id": subject_id}, **sums))
        EvidenceTotals.objects.bulk_create(rows, batch_size=500)


def buckets(rows: Iterable[EvidenceTotals]) -> list[BucketTotals]:
    """Stored totals as the policy reads them."""
    return [
        BucketTotals(
            row.device,
            row.dtype,
            row.family,
            row.tries,
            row.utility_sum,
            row.utility_square_sum,
            row.compiled,
            row.correct,
            row.improved,
        )
        for row in rows
    ]


def without(rows: Iterable[BucketTotals], evidence: Evidence) -> list[BucketTotals]:
    """The totals as they stood before this counted row: what a step's memory change compares with."""
    result = []
    for row in rows:
        if (row.device, row.dtype, row.family) == tuple(getattr(evidence, name) for name in BUCKET):
            row = row._replace(
                tries=row.tries - 1,
                utility_sum=row.utility_sum - evidence.utility,
                utility_square_sum=row.utility_square_sum - evidence.utility**2,
                compiled=row.compiled - int(evidence.compiled),
                correct=row.correct - int(evidence.correct),
                improved=row.improved - int(evidence.improved),
            )
        if row.tries > 0:
            result.append(row)
    return result


def _recompute_bucket(evidence: Evidence, subject: str) -> None:
    subject_id = getattr(evidence, f"{subject}_id")
    if subject_id is None:
        return
    place = {f"{subject}_id": subject_id, **{name: getattr(evidence, name) for name in BUCKET}}
    EvidenceTotals.objects.filter(**place).delete()
    for sums in _sums(Evidence.objects.filter(**place), subject):
        EvidenceTotals.objects.create(bank_id=evidence.bank_id, **sums)


def _sums(rows: QuerySet[Evidence], subject: str) -> list[dict[str, Any]]:
    """One dict per bucket with the subject's id. Sums carry a prefix in the query: a model field has their
    name."""
    counted = rows.filter(excluded=False, **{f"{subject}__isnull": False}).order_by()
    grouped = counted.values(f"{subject}_id", *BUCKET)
    summed = grouped.annotate(**{f"sum_{name}": value for name, value in SUMS.items()})
    return [{name.removeprefix("sum_"): value for name, value in row.items()} for row in summed]
