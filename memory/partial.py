"""Importing parts of a bank file into a bank that is there: first what would happen, then what was chosen.

Evidence is left out: a log has no keys by which a row could be told from the one that is here already. It comes with
a whole bank only (`memory.importing.import_bank`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.bankerror import BankError
from memory.history import Recorder, Refused, Stale, changing
from memory.models import START, ChangeKind, GlobalNode, LocalNode, MemoryBank, TransitionEdge

Row = GlobalNode | LocalNode | TransitionEdge
# Field of a part in a file -> column, for each kind.
COMMON = {"risks": "risks", "prior": "prior_utility", "retired": "retired"}
COLUMNS: dict[str, dict[str, str]] = {
    "direction": {"title": "title", "intent": "intent", "goals": "goals", "triggers": "triggers", **COMMON},
    "strategy": {
        "title": "title", "edit_pattern": "edit_pattern", "applies_when": "applies_when", "conditions": "conditions",
        "checks": "checks", "recipe": "recipe", **COMMON,
    },
    "edge": {"applies_when": "applies_when", "rationale": "rationale", **COMMON},
}  # fmt: skip


@dataclass(frozen=True)
class FilePart:
    """One part of a file. ``needs`` names parts that must be in the bank, or be taken along."""

    id: str  # "direction:KEY", "strategy:DIRECTION/KEY", "edge:SOURCE->TARGET"
    kind: str
    data: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    direction: str = ""  # of a strategy

    def values(self) -> dict[str, Any]:
        """The part as columns. A file that leaves `retired` out says false; a position left out says nothing."""
        found = {column: self.data.get(name, False) for name, column in COLUMNS[self.kind].items()}
        if self.kind == "direction" and self.data.get("position"):
            found |= {"x": float(self.data["position"]["x"]), "y": float(self.data["position"]["y"])}
        return found


@dataclass
class Plan:
    """What an import would do: parts that are new, parts that differ, and how many are the same."""

    new: list[FilePart] = field(default_factory=list)
    changed: list[tuple[FilePart, Row]] = field(default_factory=list)
    same: int = 0
    only_here: int = 0
    evidence: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "new": [
                {"id": part.id, "kind": part.kind, "title": title(part), "needs": part.needs}
                for part in self.new
            ],
            "changed": [
                {
                    "id": part.id,
                    "kind": part.kind,
                    "title": title(part),
                    "version": row.version,
                    "fields": differences(part, row),
                }
                for part, row in self.changed
            ],
            "same": self.same,
            "only_here": self.only_here,
            "evidence_left_out": self.evidence,
        }


@dataclass(frozen=True)
class Result:
    """What was imported. ``change`` is its number in the history; None where nothing changed."""

    created: int
    changed: int
    change: int | None


def title(part: FilePart) -> str:
    return part.data.get("title") or part.id.partition(":")[2]


def plan_import(bank: MemoryBank, document: Mapping[str, Any]) -> Plan:
    """Compare a checked document with the bank. Three queries."""
    rows = rows_of(bank)
    plan = Plan(evidence=len(document.get("evidence", [])))
    ids = set()
    for part in parts_of(document):
        ids.add(part.id)
        row = rows.get(part.id)
        if row is None:
            plan.new.append(part)
        elif differences(part, row):
            plan.changed.append((part, row))
        else:
            plan.same += 1
    plan.only_here = len(set(rows) - ids)
    return plan


def apply_import(
    bank: MemoryBank,
    document: Mapping[str, Any],
    take: Collection[str] | str,
    versions: Mapping[str, int] | None = None,
    **why: Any,
) -> Result:
    """Write the chosen parts: all or nothing, one change in the history. ``why``: user, reason.

    ``take`` holds ids of the plan, or is "new" or "all". ``versions`` are those of the plan: a part that somebody
    changed since is refused. Raises BankError, or memory.history's Refused on a frozen bank.
    """
    with changing(bank, ChangeKind.PARTLY_IMPORTED, **why) as recorder:
        return write_parts(recorder, document, take, versions)


def write_parts(
    recorder: Recorder,
    document: Mapping[str, Any],
    take: Collection[str] | str,
    versions: Mapping[str, int] | None = None,
) -> Result:
    """`apply_import` within a change that has begun."""
    bank = recorder.bank
    plan = plan_import(bank, document)
    chosen = chosen_ids(plan, take)
    rows = rows_of(bank)
    check_needs([part for part in plan.new if part.id in chosen], rows, chosen)
    new = [part for part in plan.new if part.id in chosen]
    for kind in COLUMNS:  # directions first: the others refer to them
        for part in new:
            if part.kind == kind:
                rows[part.id] = create(recorder, bank, part, rows)
    changed = [(part, row) for part, row in plan.changed if part.id in chosen]
    for part, row in changed:
        overwrite(recorder, part, row, (versions or {}).get(part.id))
    return Result(len(new), len(changed), recorder.made.pk if recorder.made else None)


def parts_of(document: Mapping[str, Any]) -> Iterator[FilePart]:
    """Every part of a document: directions with their strategies, then edges."""
    for direction in document["directions"]:
        owner = f"direction:{direction['key']}"
        yield FilePart(owner, "direction", direction)
        for strategy in direction["strategies"]:
            name = f"strategy:{direction['key']}/{strategy['key']}"
            yield FilePart(name, "strategy", strategy, (owner,), direction["key"])
    for edge in document["edges"]:
        ends = [key for key in (edge["source"], edge["target"]) if key != START]
        needs = tuple(f"direction:{key}" for key in dict.fromkeys(ends))
        yield FilePart(f"edge:{edge['source']}->{edge['target']}", "edge", edge, needs)


def rows_of(bank: MemoryBank) -> dict[str, Row]:
    """The bank's parts by the ids that a file gives them."""
    found: dict[str, Row] = {f"direction:{node.key}": node for node in GlobalNode.objects.filter(bank=bank)}
    for node in LocalNode.objects.filter(direction__bank=bank).select_related("direction"):
        found[f"strategy:{node.direction.key}/{node.key}"] = node
    for edge in TransitionEdge.objects.filter(bank=bank).select_related("source", "target"):
        found[f"edge:{edge.source.key if edge.source else START}->{edge.target.key}"] = edge
    return found


def differences(part: FilePart, row: Row) -> dict[str, dict[str, Any]]:
    """Columns whose values differ: here and in the file."""
    found = {}
    for column, value in part.values().items():
        here = getattr(row, column)
        if here != value:
            found[column] = {"here": here, "file": value}
    return found


def chosen_ids(plan: Plan, take: Collection[str] | str) -> set[str]:
    """The ids to write. Raises BankError on one that the plan has not."""
    new, changed = {part.id for part in plan.new}, {part.id for part, _ in plan.changed}
    if take == "new":
        return new
    if take == "all":
        return new | changed
    for name in take:
        if name not in new | changed:
            raise BankError(f"take: the file has nothing new to say of {name[:120]!r}.")
    return set(take)


def check_needs(new: Sequence[FilePart], rows: Mapping[str, Row], chosen: Collection[str]) -> None:
    for part in new:
        for need in part.needs:
            if need not in rows and need not in chosen:
                raise BankError(f"take: {part.id!r} needs {need!r}, which is not in the bank; take it along.")


def create(recorder: Recorder, bank: MemoryBank, part: FilePart, rows: Mapping[str, Any]) -> Row:
    values = part.values()
    if part.kind == "direction":
        return recorder.create(GlobalNode(bank=bank, key=part.data["key"], **values))
    if part.kind == "strategy":
        owner = rows[f"direction:{part.direction}"]
        return recorder.create(LocalNode(direction=owner, key=part.data["key"], **values))
    source, target = part.data["source"], part.data["target"]
    return recorder.create(
        TransitionEdge(
            bank=bank,
            source=None if source == START else rows[f"direction:{source}"],
            target=rows[f"direction:{target}"],
            **values,
        )
    )


def overwrite(recorder: Recorder, part: FilePart, row: Row, version: int | None) -> None:
    try:
        recorder.edit(row, part.values(), version)
    except Stale:
        raise Refused(f"Somebody changed {part.id!r} after the preview; look at the preview again.") from None
