"""A bank as one JSON document (`memory/schema/bank-1.json`), byte for byte the same each time."""

from __future__ import annotations

import json
from typing import Any

from memory.models import START, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge

SCHEMA_NAME = "htam-memory-bank"
SCHEMA_VERSION = 1


def export_bank(bank: MemoryBank, *, evidence: bool = True) -> dict[str, Any]:
    """The bank in canonical order. References to runs and steps stay behind: they mean nothing elsewhere."""
    data: dict[str, Any] = {
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "name": bank.name,
        "description": bank.description,
        "directions": [_direction(node) for node in _directions(bank)],
        "edges": [_edge(edge) for edge in _edges(bank)],
    }
    if evidence:
        rows = Evidence.objects.filter(bank=bank).order_by("id")
        rows = rows.select_related("direction", "strategy", "edge__source")
        data["evidence"] = [_evidence(row) for row in rows]
    return data


def dump_bank(data: dict[str, Any]) -> str:
    """The file's text: two-space indent, UTF-8, strict JSON, one newline at the end."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _directions(bank: MemoryBank) -> list[GlobalNode]:
    rows = GlobalNode.objects.filter(bank=bank).prefetch_related("strategies")
    return sorted(rows, key=lambda node: node.key)  # here, since databases order hyphens as they please


def _edges(bank: MemoryBank) -> list[TransitionEdge]:
    edges = TransitionEdge.objects.filter(bank=bank).select_related("source", "target")
    return sorted(edges, key=lambda edge: (edge.source.key if edge.source else "", edge.target.key))


def _direction(node: GlobalNode) -> dict[str, Any]:
    placed = node.x is not None and node.y is not None
    return {
        "key": node.key,
        "title": node.title,
        "intent": node.intent,
        "goals": node.goals,
        "triggers": [_condition(item) for item in node.triggers],
        "risks": node.risks,
        "prior": node.prior_utility,
        "retired": node.retired,
        "position": {"x": node.x, "y": node.y} if placed else None,
        "strategies": [_strategy(item) for item in sorted(node.strategies.all(), key=lambda item: item.key)],
    }


def _strategy(node: LocalNode) -> dict[str, Any]:
    return {
        "key": node.key,
        "title": node.title,
        "edit_pattern": node.edit_pattern,
        "applies_when": node.applies_when,
        "conditions": [_condition(item) for item in node.conditions],
        "checks": node.checks,
        "risks": node.risks,
        "recipe": _recipe(node.recipe),
        "prior": node.prior_utility,
        "retired": node.retired,
    }


def _condition(condition: dict[str, Any]) -> dict[str, Any]:
    """In a fixed order of keys: PostgreSQL keeps none."""
    return {name: condition[name] for name in ("fact", "op", "value", "required") if name in condition}


def _recipe(recipe: dict[str, Any] | None) -> dict[str, Any] | None:
    if recipe is None:
        return None
    return {name: recipe[name] for name in sorted(recipe, key=lambda name: (name != "move", name))}


def _edge(edge: TransitionEdge) -> dict[str, Any]:
    return {
        "source": edge.source.key if edge.source else START,
        "target": edge.target.key,
        "applies_when": edge.applies_when,
        "rationale": edge.rationale,
        "risks": edge.risks,
        "prior": edge.prior_utility,
        "retired": edge.retired,
    }


def _evidence(row: Evidence) -> dict[str, Any]:
    source = None
    if row.edge is not None:
        source = row.edge.source.key if row.edge.source else START
    return {
        "direction": row.direction.key,
        "strategy": row.strategy.key if row.strategy else None,
        "source": source,
        "verdict": row.verdict,
        "compiled": row.compiled,
        "correct": row.correct,
        "improved": row.improved,
        "utility": row.utility,
        "speedup": row.speedup,
        "device": row.device,
        "dtype": row.dtype,
        "family": row.family,
        "proposer": row.proposer,
        "model": row.model,
        "human_touched": row.human_touched,
        "note": row.note,
        "excluded": row.excluded,
        "excluded_reason": row.excluded_reason,
        "at": row.created_at.isoformat(),
    }
