"""What differs between two states of a bank, or between two banks: parts field by field, and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory.history.moments import Moment, Parts, add, parts_at, totals_at, totals_now
from memory.history.snapshots import PLACE, Snapshot
from memory.models import START, ChangeItem, Evidence, MemoryBank
from memory.policy import POOLED, EvidenceContext
from memory.statistics import Totals, bucket_of, summed
from memory.summaries import summarise

Row = dict[str, Any]
KINDS = ("bank", "direction", "strategy", "edge")


def addresses(parts: Parts) -> dict[str, dict[int, str]]:
    """Stable names: "fusion", "fusion/whole-graph", "START -> fusion"; of the bank "bank"."""
    keys = {pk: part["key"] for pk, part in parts["direction"].items()}
    return {
        "bank": dict.fromkeys(parts["bank"], "bank"),
        "direction": keys,
        "strategy": {
            pk: f"{keys.get(part['direction_id'], '?')}/{part['key']}"
            for pk, part in parts["strategy"].items()
        },
        "edge": {
            pk: f"{keys.get(part['source_id'], START)} -> {keys.get(part['target_id'], '?')}"
            for pk, part in parts["edge"].items()
        },
    }


def readable(kind: str, part: Snapshot, names: Mapping[str, Mapping[int, str]]) -> Snapshot:
    """A part's fields for people: references by stable name, its place on the page left out."""
    result = {}
    for field, value in part.items():
        if field in PLACE:
            continue
        if field.endswith("_id"):
            target = kind if field == "merged_into_id" else "direction"
            result[field.removesuffix("_id")] = None if value is None else names[target].get(value, "?")
        else:
            result[field] = value
    return result


def field_rows(before: Snapshot | None, after: Snapshot | None) -> list[Row]:
    """Every field that differs, as {"field", "before", "after"}."""
    old, new = before or {}, after or {}
    return [
        {"field": name, "before": old.get(name), "after": new.get(name)}
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) or before is None or after is None
    ]


def diff_parts(before: Parts, after: Parts) -> list[Row]:
    """Parts that came, went or changed within one bank, matched by id."""
    old_names, new_names = addresses(before), addresses(after)
    rows = []
    for kind in KINDS:
        for pk in sorted(before[kind].keys() | after[kind].keys()):
            old = before[kind].get(pk)
            new = after[kind].get(pk)
            fields = field_rows(
                readable(kind, old, old_names) if old is not None else None,
                readable(kind, new, new_names) if new is not None else None,
            )
            if fields:
                label = (new_names if new is not None else old_names)[kind][pk]
                rows.append(
                    {"kind": kind, "id": pk, "label": label, "status": status(old, new), "fields": fields}
                )
    return rows


def status(before: Any, after: Any) -> str:
    return "added" if before is None else "removed" if after is None else "changed"


def diff_statistics(
    before: Totals, after: Totals, parts: Parts, context: EvidenceContext = POOLED
) -> list[Row]:
    """Nodes and edges whose evidence differs, with their standing before and after, greatest shift first.

    Both sides take the prior from ``parts``: a changed prior shows among the fields.
    """
    names = addresses(parts)
    touched = {
        (place.subject, place.owner)
        for place in before.keys() | after.keys()
        if before.get(place) != after.get(place)
    }
    sides = [_grouped(totals, touched) for totals in (before, after)]
    rows: list[Row] = []
    for subject, owner in touched:
        part = parts[subject].get(owner)
        if part is None:
            continue
        old, new = (
            summarise(part["prior_utility"], side.get((subject, owner), ()), context).to_json()
            for side in sides
        )
        rows.append(
            {"kind": subject, "id": owner, "label": names[subject][owner], "before": old, "after": new}
        )
    rows.sort(key=lambda row: (-abs(row["after"]["utility"] - row["before"]["utility"]), row["label"]))
    return rows


def _grouped(totals: Totals, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[Any]]:
    chosen: dict[tuple[str, int], list[Any]] = {owner: [] for owner in wanted}
    for place, sums in totals.items():
        if (place.subject, place.owner) in chosen:
            chosen[place.subject, place.owner].append(bucket_of(place, sums))
    return chosen


def diff_moments(bank: MemoryBank, start: Moment, end: Moment, context: EvidenceContext = POOLED) -> Row:
    """What happened to the bank between two moments."""
    before, after = parts_at(bank, start), parts_at(bank, end)
    between = Evidence.objects.filter(bank=bank, pk__gt=start.evidence, pk__lte=end.evidence)
    return {
        "from": start.to_json(),
        "to": end.to_json(),
        "parts": diff_parts(before, after),
        "statistics": diff_statistics(totals_at(bank, start), totals_at(bank, end), after, context),
        "evidence": {"added": between.count(), "excluded_since": between.filter(excluded=True).count()},
    }


def diff_of_run(bank: MemoryBank, run_id: int, context: EvidenceContext = POOLED) -> Row:
    """What a run taught: the bank of today without and with its evidence, and the parts that it changed."""
    rows = Evidence.objects.filter(bank=bank, run_id=run_id)
    after = totals_now(bank)
    before = dict(after)
    add(before, summed(rows), -1)
    now = parts_at(bank, Moment(2**62, 2**62))
    return {
        "run": run_id,
        "parts": _parts_changed_by(run_id, bank, now),
        "statistics": diff_statistics(before, after, now, context),
        "evidence": {"added": rows.count(), "excluded_since": rows.filter(excluded=True).count()},
    }


def _parts_changed_by(run_id: int, bank: MemoryBank, now: Parts) -> list[Row]:
    """The run's own changes of parts, each as it was made."""
    names = addresses(now)
    items = ChangeItem.objects.filter(change__bank=bank, change__run_id=run_id).order_by("pk")
    return [item_row(item, names) for item in items]


def item_row(item: ChangeItem, names: Mapping[str, Mapping[int, str]]) -> Row:
    """One item of the ledger as a row of a diff; references by their names of today."""
    old = None if item.before is None else readable(item.kind, item.before, names)
    new = None if item.after is None else readable(item.kind, item.after, names)
    return {
        "kind": item.kind,
        "id": item.part,
        "label": item.label,
        "status": status(old, new),
        "fields": field_rows(old, new),
    }
