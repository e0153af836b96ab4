"""Outcome tables: what real evaluations said of (operator, state, strategy), as `memory/schema/outcomes-1.json`.

A state is a recipe schedule, that is, the plan a step edits; the root state is PyTorch itself. A move is a strategy
("direction/key") with the state it leads to. Equal plans share one outcome, so the tables hold an outcome a plan.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA_NAME = "htam-outcomes"
SCHEMA_VERSION = 1
ROOT = "root"


class TablesError(ValueError):
    """A table file is unusable; one sentence that names the place."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One plan judged once. ``speedup`` is over PyTorch eager with its 95 % interval; None unless correct."""

    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    time_us: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # what the evaluation showed of the device's use
    message: str = ""

    @property
    def correct(self) -> bool:
        return self.verdict == "correct"


@dataclass(slots=True)
class State:
    """A schedule: the plan that it makes ("" for the root) and the facts that follow from it.

    ``missing`` counts strategies that apply here and lead to plans that were not evaluated: a replay cannot take them.
    """

    schedule: dict[str, Any]
    plan: str
    facts: dict[str, Any]
    missing: int = 0


@dataclass(slots=True)
class OperatorTable:
    """Everything recorded of one operator. ``moves[state][strategy]`` is the state that the strategy leads to."""

    name: str
    family: str
    dtype: str
    facts: dict[str, Any]  # what no schedule changes beyond the states' own facts: device_kind, small
    source_hash: str
    eager_us: float | None = None
    states: dict[str, State] = field(default_factory=dict)
    plans: dict[str, Outcome] = field(default_factory=dict)
    moves: dict[str, dict[str, str]] = field(default_factory=dict)

    def outcome(self, state: str) -> Outcome | None:
        """The verdict on a state's plan; None for the root and for plans that were not evaluated."""
        return self.plans.get(self.states[state].plan)

    def best_speedup(self) -> float:
        """Of the fastest plan whose whole interval lies above 1; 1 where there is none."""
        found = [plan.speedup for plan in self.plans.values() if plan.correct and (plan.low or 0) > 1]
        return max([1.0, *(speedup for speedup in found if speedup is not None)])


@dataclass(slots=True)
class Tables:
    """One recording: a device, a bank whose strategies were tried, and its operators."""

    device: dict[str, Any]
    bank: str
    policy: dict[str, Any]
    versions: dict[str, str]
    operators: dict[str, OperatorTable] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "device": self.device,
            "bank": self.bank,
            "policy": self.policy,
            "versions": self.versions,
            "operators": [operator_json(table) for _, table in sorted(self.operators.items())],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tables:
        """The inverse of `to_json`, of data that the schema holds good. Raises TablesError on another version."""
        if data.get("schema") != SCHEMA_NAME or data.get("schema_version") != SCHEMA_VERSION:
            raise TablesError(f"$.schema: this is no {SCHEMA_NAME} file of version {SCHEMA_VERSION}.")
        operators = [operator_of(item) for item in data["operators"]]
        return cls(
            data["device"], data["bank"], data["policy"], data["versions"],
            {table.name: table for table in operators},
        )  # fmt: skip


def operator_json(table: OperatorTable) -> dict[str, Any]:
    """One operator, with only those states and moves whose plans have an outcome."""
    kept = {name for name in table.states if name == ROOT or table.outcome(name) is not None}
    for state, options in table.moves.items():
        if not kept.issuperset(options.values()):
            table.states[state].missing = sum(to not in kept for to in options.values())
    moves = {
        state: {key: to for key, to in sorted(options.items()) if to in kept}
        for state, options in sorted(table.moves.items())
        if state in kept
    }
    return {
        "name": table.name,
        "family": table.family,
        "dtype": table.dtype,
        "facts": table.facts,
        "source_hash": table.source_hash,
        "eager_us": table.eager_us,
        "states": {name: dataclasses.asdict(table.states[name]) for name in sorted(kept)},
        "plans": {plan: dataclasses.asdict(outcome) for plan, outcome in sorted(table.plans.items())},
        "moves": {state: options for state, options in moves.items() if options},
    }


def operator_of(data: dict[str, Any]) -> OperatorTable:
    return OperatorTable(
        name=data["name"],
        family=data["family"],
        dtype=data["dtype"],
        facts=data["facts"],
        source_hash=data["source_hash"],
        eager_us=data["eager_us"],
        states={name: State(**state) for name, state in data["states"].items()},
        plans={plan: Outcome(**outcome) for plan, outcome in data["plans"].items()},
        moves={state: dict(options) for state, options in data["moves"].items()},
    )


def state_key(schedule: dict[str, Any]) -> str:
    """A short stable name of a schedule."""
    text = json.dumps(schedule, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def save_tables(tables: Tables, path: Path) -> None:
    """Write the file in one piece: a reader or a killed recorder never leaves half of it."""
    text = json.dumps(tables.to_json(), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    part = path.with_name(path.name + ".part")
    part.write_text(text.replace('{"name":', '\n{"name":') + "\n", encoding="utf-8")
    part.replace(path)
