"""Table files, checked: strict JSON, the schema, and references that lead somewhere."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from memory.simulation.tables import ROOT, SCHEMA_VERSION, OperatorTable, Tables, TablesError

MAX_BYTES = 64 * 1024 * 1024
SCHEMA_FILE = Path(__file__).parents[1] / "schema" / f"outcomes-{SCHEMA_VERSION}.json"


def load_tables(path: Path) -> Tables:
    """Read a table file. Raises TablesError with one sentence that names the place."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TablesError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return parse_tables(raw)
    except TablesError as error:
        raise TablesError(f"{path}: {error}") from None


def parse_tables(raw: bytes) -> Tables:
    if len(raw) > MAX_BYTES:
        raise TablesError(f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB.")
    try:
        data = json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        raise TablesError("it is nested too deeply.") from None
    except ValueError as error:
        raise TablesError(f"it is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise TablesError("$: this is no table file.")
    _check_schema(data)
    tables = Tables.from_json(data)
    if len(tables.operators) != len(data["operators"]):
        raise TablesError("$.operators: an operator appears twice.")
    for table in tables.operators.values():
        _check_references(table)
    return tables


def _check_schema(data: dict[str, Any]) -> None:
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(data))
    if error is not None:
        raise TablesError(f"{error.json_path}: {error.message[:300]}.")


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def _check_references(table: OperatorTable) -> None:
    for name, state in table.states.items():
        if name != ROOT and state.plan not in table.plans:
            raise TablesError(f"operator {table.name!r}: the state {name} has a plan without an outcome.")
    for name, outcome in table.plans.items():
        if outcome.correct and outcome.speedup is None:
            raise TablesError(f"operator {table.name!r}: the correct plan {name} has no speed-up.")
    for source, options in table.moves.items():
        for strategy, target in options.items():
            if source not in table.states or target not in table.states or target == ROOT:
                raise TablesError(
                    f"operator {table.name!r}: the move {strategy} out of {source} leads nowhere."
                )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
