"""A bank file into the database: everything or nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from memory.bankfile import BankError, check_bank, parse_bank
from memory.history import opened
from memory.models import START, ChangeKind, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.statistics import recompute_totals

__all__ = ["BankError", "import_bank", "parse_bank"]

BATCH = 500


def import_bank(data: dict[str, Any], name: str | None = None, *, created_by: Any = None) -> MemoryBank:
    """A new bank from a document of `memory/schema/bank-1.json`, statistics summed from its evidence.

    ``name`` replaces the document's own. Raises BankError, with nothing saved, when the document is
    unusable or the name is taken.
    """
    check_bank(data)
    wanted = (data["name"] if name is None else name).strip()
    if not 1 <= len(wanted) <= 80 or not wanted.isprintable():
        raise BankError("$.name: a bank's name has 1 to 80 printable characters.")
    if MemoryBank.objects.filter(name=wanted).exists():
        raise BankError(f"$.name: there is a bank {wanted!r} already; import it under another name.")
    try:
        with transaction.atomic():
            bank = MemoryBank.objects.create(
                name=wanted, description=data["description"], created_by=created_by
            )
            directions = _create_directions(bank, data)
            strategies = _create_strategies(directions, data)
            edges = _create_edges(bank, directions, data)
            _create_evidence(bank, directions, strategies, edges, data.get("evidence", []))
            recompute_totals(bank)
            opened(bank, ChangeKind.IMPORTED, user=created_by)
    except IntegrityError:
        raise BankError(f"$.name: a bank {wanted!r} was created meanwhile; use another name.") from None
    return bank


def _create_directions(bank: MemoryBank, data: dict[str, Any]) -> dict[str, GlobalNode]:
    rows = []
    for item in data["directions"]:
        place = item.get("position") or {}
        rows.append(
            GlobalNode(
                bank=bank,
                key=item["key"],
                title=item["title"],
                intent=item["intent"],
                goals=item["goals"],
                triggers=item["triggers"],
                risks=item["risks"],
                prior_utility=item["prior"],
                retired=item.get("retired", False),
                x=place.get("x"),
                y=place.get("y"),
            )
        )
    GlobalNode.objects.bulk_create(rows, batch_size=BATCH)
    return {row.key: row for row in rows}


def _create_strategies(
    directions: dict[str, GlobalNode], data: dict[str, Any]
) -> dict[tuple[str, str], LocalNode]:
    rows = {
        (direction["key"], item["key"]): LocalNode(
            direction=directions[direction["key"]],
            key=item["key"],
            title=item["title"],
            edit_pattern=item["edit_pattern"],
            applies_when=item["applies_when"],
            conditions=item["conditions"],
            checks=item["checks"],
            risks=item["risks"],
            recipe=item["recipe"],
            prior_utility=item["prior"],
            retired=item.get("retired", False),
        )
        for direction in data["directions"]
        for item in direction["strategies"]
    }
    LocalNode.objects.bulk_create(rows.values(), batch_size=BATCH)
    return rows


def _create_edges(
    bank: MemoryBank, directions: dict[str, GlobalNode], data: dict[str, Any]
) -> dict[tuple[str, str], TransitionEdge]:
    rows = {
        (item["source"], item["target"]): TransitionEdge(
            bank=bank,
            source=None if item["source"] == START else directions[item["source"]],
            target=directions[item["target"]],
            applies_when=item["applies_when"],
            rationale=item["rationale"],
            risks=item["risks"],
            prior_utility=item["prior"],
            retired=item.get("retired", False),
        )
        for item in data["edges"]
    }
    TransitionEdge.objects.bulk_create(rows.values(), batch_size=BATCH)
    return rows


def _create_evidence(
    bank: MemoryBank,
    directions: dict[str, GlobalNode],
    strategies: dict[tuple[str, str], LocalNode],
    edges: dict[tuple[str, str], TransitionEdge],
    items: list[dict[str, Any]],
) -> None:
    rows = []
    for index, item in enumerate(items):
        plain = {
            name: value
            for name, value in item.items()
            if name not in {"direction", "strategy", "source", "at"}
        }
        strategy = None if item["strategy"] is None else strategies[item["direction"], item["strategy"]]
        edge = None if item["source"] is None else edges[item["source"], item["direction"]]
        moment = _moment(item["at"], f"$.evidence[{index}].at")
        rows.append(
            Evidence(
                bank=bank,
                direction=directions[item["direction"]],
                strategy=strategy,
                edge=edge,
                created_at=moment,
                **plain,
            )
        )
    Evidence.objects.bulk_create(rows, batch_size=BATCH)


def _moment(text: str, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BankError(f"{path}: {text!r} is no ISO 8601 time.") from None
    if timezone.is_naive(moment):
        raise BankError(f"{path}: the time {text!r} lacks its offset from UTC.")
    return moment
