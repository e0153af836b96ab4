"""Two banks side by side, part by part under stable keys, with what both had in common where one was cloned."""

from __future__ import annotations

from typing import Any

from memory.history.diffs import addresses, readable
from memory.history.moments import Moment, Parts, parts_at, parts_now, totals_now
from memory.history.snapshots import Snapshot
from memory.models import MemoryBank
from memory.policy import POOLED, EvidenceContext
from memory.statistics import Totals, bucket_of
from memory.summaries import summarise

Row = dict[str, Any]
KINDS = ("direction", "strategy", "edge")
HIDDEN = frozenset(
    {"key", "direction", "source", "target", "merged_into"}
)  # the stable name, and ids behind it


def compare_banks(here: MemoryBank, there: MemoryBank, context: EvidenceContext = POOLED) -> Row:
    """Parts that only one bank has or that differ, and how far the statistics of common parts lie apart.

    ``base`` and ``conflict`` are known where one bank was cloned from the other: a field conflicts where both
    changed it since. Otherwise they are null. ``id`` is what `merge_bank` takes.
    """
    mine, theirs = by_address(parts_now(here)), by_address(parts_now(there))
    common = base_of(here, there)
    rows, same = [], 0
    for name in dict.fromkeys((*mine, *theirs)):
        row = _part(name, mine.get(name), theirs.get(name), common)
        if row is None:
            same += 1
        else:
            rows.append(row)
    return {
        "here": head(here),
        "there": head(there),
        "related": common is not None,
        "same": same,
        "parts": rows,
        "statistics": _statistics(here, there, mine, theirs, context),
    }


def head(bank: MemoryBank) -> Row:
    return {"id": bank.pk, "name": bank.name, "frozen": bank.frozen, "version": bank.version}


def by_address(parts: Parts) -> dict[tuple[str, str], tuple[int, Snapshot]]:
    """(kind, stable name) -> id and readable fields, its name among them left out."""
    names = addresses(parts)
    found = {}
    for kind in KINDS:
        for pk, part in parts[kind].items():
            fields = readable(kind, part, names)
            plain = {name: value for name, value in fields.items() if name not in HIDDEN}
            found[kind, names[kind][pk]] = (pk, plain)
    return found


def base_of(here: MemoryBank, there: MemoryBank) -> dict[tuple[str, str], tuple[int, Snapshot]] | None:
    """What both had in common when one was cloned from the other; None where neither was."""
    for original, clone in ((here, there), (there, here)):
        if clone.cloned_from_id == original.pk:
            return by_address(parts_at(original, Moment(clone.cloned_at_id or 0, 0)))
    return None


def _part(name: tuple[str, str], mine: Any, theirs: Any, common: Any) -> Row | None:
    """One row of the comparison, or None where both say the same."""
    kind, label = name
    base = None if common is None else common.get(name, (0, None))[1]
    old = mine[1] if mine else {}
    new = theirs[1] if theirs else {}
    fields = []
    for field in dict.fromkeys((*old, *new)):
        if mine and theirs and old[field] == new[field]:
            continue
        was = base.get(field) if base else None
        both = bool(mine and theirs and base is not None and was not in (old[field], new[field]))
        fields.append(
            {
                "field": field,
                "here": old.get(field),
                "there": new.get(field),
                "base": was,
                "conflict": both if common is not None else None,
            }
        )
    if not fields:
        return None
    return {
        "id": part_id(kind, label),
        "kind": kind,
        "label": label,
        "here": mine[0] if mine else None,
        "there": theirs[0] if theirs else None,
        "status": "differs" if mine and theirs else "only_here" if mine else "only_there",
        "removed": _removed(mine, theirs, base),
        "conflict": any(row["conflict"] for row in fields) if common is not None else None,
        "fields": fields,
    }


def _removed(mine: Any, theirs: Any, base: Any) -> str | None:
    """Of a part that both had: the bank that it is gone from."""
    if base is None or (mine and theirs):
        return None
    return "there" if mine else "here"


def part_id(kind: str, label: str) -> str:
    """The name that a plan of `memory.partial` gives the part."""
    return f"{kind}:{label.replace(' -> ', '->')}"


def _statistics(
    here: MemoryBank, there: MemoryBank, mine: Any, theirs: Any, context: EvidenceContext
) -> list[Row]:
    """Common parts whose evidence differs, those furthest apart first."""
    sides = [grouped(totals_now(bank)) for bank in (here, there)]
    rows = []
    for name in mine.keys() & theirs.keys():
        kind, label = name
        pair = []
        for side, (pk, fields) in zip(sides, (mine[name], theirs[name]), strict=True):
            pair.append((fields["prior_utility"], sorted(side.get((kind, pk), []))))
        if pair[0][1] != pair[1][1]:
            first, second = (summarise(prior, found, context).to_json() for prior, found in pair)
            rows.append({"kind": kind, "label": label, "here": first, "there": second})
    rows.sort(key=lambda row: (-abs(row["there"]["utility"] - row["here"]["utility"]), row["label"]))
    return rows


def grouped(totals: Totals) -> dict[tuple[str, int], list[Any]]:
    found: dict[tuple[str, int], list[Any]] = {}
    for place, sums in totals.items():
        found.setdefault((place.subject, place.owner), []).append(bucket_of(place, sums))
    return found
