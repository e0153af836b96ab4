"""A copy of a bank with its evidence, which remembers what it was copied from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from memory.history import Refused, locked, opened
from memory.models import ChangeKind, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.statistics import recompute_totals

BATCH = 500
ROWS = 5000  # evidence rows in memory at once
STAYS = frozenset({"id", "bank", "direction", "strategy", "edge", "exclusion", "mark", "utility_units"})
COPIED = tuple(field.attname for field in Evidence._meta.concrete_fields if field.name not in STAYS)


def clone_bank(bank: MemoryBank, name: str, user: Any = None) -> MemoryBank:
    """The bank under another name, thawed. Evidence keeps its run and step; exclusions stay, the history does not.

    Raises Refused where the name is unusable or taken.
    """
    wanted = name.strip()
    if not 1 <= len(wanted) <= 80 or not wanted.isprintable():
        raise Refused("A bank's name has 1 to 80 printable characters.")
    try:
        with transaction.atomic():
            original = locked(bank)
            newest = original.changes.order_by("-pk").first()
            clone = MemoryBank.objects.create(
                name=wanted,
                description=original.description,
                created_by=user,
                cloned_from=original,
                cloned_at=newest,
            )
            _copy_parts(original, clone)
            facts = {"from": original.name}
            opened(clone, ChangeKind.CLONED, user=user, facts=facts)
            return clone
    except IntegrityError:
        raise Refused(f"There is a bank {wanted!r} already; give another name.") from None


def _copy_parts(original: MemoryBank, clone: MemoryBank) -> None:
    directions = _copy(GlobalNode.objects.filter(bank=original), {"bank": clone})
    owners = {"direction_id": directions}
    strategies = _copy(LocalNode.objects.filter(direction__bank=original), {}, owners)
    ends = {"source_id": directions, "target_id": directions}
    edges = _copy(TransitionEdge.objects.filter(bank=original), {"bank": clone}, ends)
    _copy_evidence(original, clone, directions, strategies, edges)
    recompute_totals(clone)


def _copy(
    rows: Any, fields: Mapping[str, Any], references: Mapping[str, Mapping[int, int]] | None = None
) -> dict[int, int]:
    """Copies of parts; answers old id -> new id. Merged parts name the copy of what they went up in."""
    parts = list(rows.order_by("pk"))
    old = [part.pk for part in parts]
    merged = {part.pk: part.merged_into_id for part in parts if part.merged_into_id is not None}
    for part in parts:
        part.pk = None
        part.merged_into_id = None
        for name, value in fields.items():
            setattr(part, name, value)
        for name, ids in (references or {}).items():
            reference = getattr(part, name)
            setattr(part, name, None if reference is None else ids[reference])
    made = rows.model.objects.bulk_create(parts, batch_size=BATCH)
    ids = dict(zip(old, (part.pk for part in made), strict=True))
    by_id = {part.pk: part for part in made}
    changed = []
    for source, target in merged.items():
        by_id[ids[source]].merged_into_id = ids[target]
        changed.append(by_id[ids[source]])
    rows.model.objects.bulk_update(changed, ["merged_into"], batch_size=BATCH)
    return ids


def _copy_evidence(
    original: MemoryBank,
    clone: MemoryBank,
    directions: Mapping[int, int],
    strategies: Mapping[int, int],
    edges: Mapping[int, int],
) -> None:
    rows = Evidence.objects.filter(bank=original).order_by("pk")
    names = ("direction_id", "strategy_id", "edge_id", *COPIED)
    batch: list[Evidence] = []
    for direction, strategy, edge, *values in rows.values_list(*names).iterator(chunk_size=ROWS):
        batch.append(
            Evidence(
                bank=clone,
                direction_id=directions[direction],
                strategy_id=strategies.get(strategy),
                edge_id=edges.get(edge),
                **dict(zip(COPIED, values, strict=True)),
            )
        )
        if len(batch) == ROWS:
            Evidence.objects.bulk_create(batch, batch_size=BATCH)
            batch.clear()
    Evidence.objects.bulk_create(batch, batch_size=BATCH)
