"""Sizes of banks, counted in subqueries: joins would multiply each other."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge


def with_counts(banks: QuerySet[MemoryBank]) -> QuerySet[MemoryBank]:
    """Banks with ``directions_count``, ``strategies_count``, ``edges_count`` and ``evidence_count``."""
    return banks.annotate(
        directions_count=_count(GlobalNode, "bank"),
        strategies_count=_count(LocalNode, "direction__bank"),
        edges_count=_count(TransitionEdge, "bank"),
        evidence_count=_count(Evidence, "bank"),
    )


def _count(model: Any, path: str) -> Coalesce:
    rows = model.objects.filter(**{path: OuterRef("pk")}).order_by().values(path)
    return Coalesce(
        Subquery(rows.annotate(number=Count("id")).values("number"), output_field=IntegerField()), 0
    )
