"""Taking parts of one bank over into another, item by item, with or without the evidence behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from memory.bankerror import BankError
from memory.banks.cloning import COPIED, ROWS
from memory.exporting import export_bank
from memory.history import Recorder, Refused, changing
from memory.history.evidence import EXCLUSION, mark_rows
from memory.models import (
    Change,
    ChangeKind,
    Evidence,
    GlobalNode,
    LocalNode,
    MemoryBank,
    TransitionEdge,
)
from memory.partial import Row, rows_of, write_parts


def merge_bank(
    bank: MemoryBank,
    other: MemoryBank,
    take: Collection[str],
    versions: Mapping[str, int] | None = None,
    *,
    evidence: bool = False,
    **why: Any,
) -> tuple[Change, dict[str, Any]]:
    """Take the chosen parts of ``other`` over, as one change, which can be undone.

    ``take`` holds ids of `compare_banks`; ``versions`` the versions of parts of this bank that are overwritten,
    as the person saw them. With ``evidence``, rows of ``other`` that this bank lacks come along where their
    direction, strategy and transition exist here by then; of a clone, those recorded since. Answers the change
    and counts. Raises Refused, Frozen.
    """
    if bank.pk == other.pk:
        raise Refused("A bank cannot be merged into itself.")
    facts = {"other": other.name, "other_id": other.pk}
    with changing(bank, ChangeKind.BANK_MERGED, facts=facts, **why) as recorder:
        try:
            result = write_parts(recorder, export_bank(other, evidence=False), take, versions)
        except BankError as error:
            raise Refused(str(error)) from None
        counts = asdict(result)
        if evidence:
            counts |= _bring_evidence(recorder, other)
        if recorder.made is None:
            raise Refused("There is nothing to take over.")
        return recorder.change, {**counts, "change": recorder.change.pk}


def _bring_evidence(recorder: Recorder, other: MemoryBank) -> dict[str, int]:
    """Append the other bank's rows. They arrive excluded and are switched on by a mark: an undo switches them
    off, as a log forgets nothing."""
    ids = _counterparts(recorder.bank, other)
    known = set(
        Evidence.objects.filter(bank=recorder.bank, step_id__isnull=False).values_list("step_id", flat=True)
    )
    brought: list[Evidence] = []
    left = 0
    names = ("direction_id", "strategy_id", "edge_id", *COPIED)
    for direction, strategy, edge, *values in (
        new_rows(recorder.bank, other).values_list(*names).iterator(ROWS)
    ):
        fields = dict(zip(COPIED, values, strict=True))
        places = {"direction_id": direction, "strategy_id": strategy, "edge_id": edge}
        here = {name: None if pk is None else ids[name].get(pk) for name, pk in places.items()}
        lost = any(pk is not None and here[name] is None for name, pk in places.items())
        if lost or fields["step_id"] in known or fields["excluded"]:
            left += 1
            continue
        waiting = {"excluded": True, "excluded_reason": "Arriving from another bank."}
        brought.append(Evidence(bank=recorder.bank, **here, **{**fields, **waiting}))
    if brought:
        change = recorder.change  # before the rows: they come with it
        made = Evidence.objects.bulk_create(brought, batch_size=500)
        rows = Evidence.objects.filter(bank=recorder.bank, pk__gte=made[0].pk, pk__lte=made[-1].pk)
        mark_rows(recorder, rows, EXCLUSION, {"excluded": False, "excluded_reason": "", "exclusion_id": None})
        change.evidence_seen = made[-1].pk
        change.save(update_fields=["evidence_seen"])
    return {"evidence": len(brought), "evidence_left": left}


def new_rows(bank: MemoryBank, other: MemoryBank) -> Any:
    """Rows that the other bank does not share with this one."""
    rows = Evidence.objects.filter(bank=other).order_by("pk")
    if other.cloned_from_id == bank.pk:  # what a clone began with is here already
        first = other.changes.order_by("pk").first()
        return rows.filter(pk__gt=first.evidence_seen if first else 0)
    if bank.cloned_from_id == other.pk:  # this is the clone: later rows of the original are new
        return rows.filter(created_at__gt=bank.created_at)
    return rows


def _counterparts(bank: MemoryBank, other: MemoryBank) -> dict[str, dict[int, int]]:
    """Ids of the other bank's parts -> ids of this bank's parts of the same name."""
    mine: Mapping[str, Row] = rows_of(bank)
    found: dict[str, dict[int, int]] = {"direction_id": {}, "strategy_id": {}, "edge_id": {}}
    for name, part in rows_of(other).items():
        twin = mine.get(name)
        if twin is not None:
            found[_column(part)][part.pk] = twin.pk
    return found


def _column(part: Row) -> str:
    columns = {GlobalNode: "direction_id", LocalNode: "strategy_id", TransitionEdge: "edge_id"}
    return columns[type(part)]
