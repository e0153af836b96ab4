"""Parts of a bank as plain dicts of their fields: what the ledger stores, compares and puts back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from memory.models import START, GlobalNode, LocalNode, MemoryBank, TransitionEdge

Part = MemoryBank | GlobalNode | LocalNode | TransitionEdge
Snapshot = dict[str, Any]
P = TypeVar("P", GlobalNode, LocalNode, TransitionEdge)

MODELS: dict[str, type[Any]] = {
    "bank": MemoryBank,
    "direction": GlobalNode,
    "strategy": LocalNode,
    "edge": TransitionEdge,
}
FIELDS: dict[str, tuple[str, ...]] = {
    "bank": ("name", "description", "frozen"),
    "direction": (
        "key", "title", "intent", "goals", "triggers", "risks", "prior_utility", "x", "y", "retired",
        "merged_into_id",
    ),
    "strategy": (
        "direction_id", "key", "title", "edit_pattern", "applies_when", "conditions", "checks", "risks",
        "recipe", "prior_utility", "retired", "merged_into_id",
    ),
    "edge": (
        "source_id", "target_id", "applies_when", "rationale", "risks", "prior_utility", "retired",
        "merged_into_id",
    ),
}  # fmt: skip
PLACE = frozenset({"x", "y"})  # where a node stands on the page: says nothing about the memory


def kind_of(part: Part) -> str:
    return next(kind for kind, model in MODELS.items() if isinstance(part, model))


def snapshot(part: Part) -> Snapshot:
    """All fields of a part that the ledger follows."""
    return {name: getattr(part, name) for name in FIELDS[kind_of(part)]}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Snapshot, Snapshot]:
    """The fields whose values differ, before and after. Both sides have the same fields."""
    names = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in names}, {name: after[name] for name in names}


def label_of(part: Part) -> str:
    """What a part is called in the history: its key, of an edge both."""
    if isinstance(part, MemoryBank):
        return part.name
    if isinstance(part, TransitionEdge):
        return f"{part.source.key if part.source else START} -> {part.target.key}"
    if isinstance(part, LocalNode):
        return f"{part.direction.key}/{part.key}"
    return part.key


def survivor(part: P) -> P:
    """Where the evidence of a merged part went, however often that was merged in turn."""
    node: Any = part
    while node.merged_into is not None:
        node = node.merged_into
    return node
