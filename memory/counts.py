"""Sizes of banks, counted in subqueries: joins would multiply each other."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from memory.models import (
    Evidence,
    GlobalNode,
    LocalNode,
    MemoryBank,
    Proposal,
    ProposalStatus,
    TransitionEdge,
)


def with_counts(banks: QuerySet[MemoryBank]) -> QuerySet[MemoryBank]:
    """Banks with ``directions_count``, ``strategies_count``, ``edges_count``, ``evidence_count`` and
    ``proposals_waiting``."""
    return banks.annotate(
        directions_count=_count(GlobalNode, "bank"),
        strategies_count=_count(LocalNode, "direction__bank"),
        edges_count=_count(TransitionEdge, "bank"),
        evidence_count=_count(Evidence, "bank"),
        proposals_waiting=_count(Proposal, "bank", status=ProposalStatus.PENDING),
    )


def _count(model: Any, path: str, **where: Any) -> Coalesce:
    rows = model.objects.filter(**{path: OuterRef("pk")}, **where).order_by().values(path)
    return Coalesce(
        Subquery(rows.annotate(number=Count("id")).values("number"), output_field=IntegerField()), 0
    )
