"""Reading and checking a bank file: strict JSON within bounds, `memory/schema/bank-1.json`, keys that
resolve.

Nothing here touches the database.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from memory.bankerror import BankError
from memory.exporting import SCHEMA_NAME, SCHEMA_VERSION
from memory.limits import MAX_BANK_BYTES, MAX_DEPTH
from memory.markdown import is_markdown, read_markdown
from memory.models import START

__all__ = ["BankError", "check_bank", "check_part", "parse_bank", "schema"]

LARGEST = 10**15
SCHEMA_FILE = Path(__file__).parent / "schema" / f"bank-{SCHEMA_VERSION}.json"


class _Repeating(dict[str, Any]):
    """A JSON object in which one key came twice."""

    repeated = ""


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON schema of bank files."""
    return json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def parse_bank(raw: bytes | str) -> dict[str, Any]:
    """A file's text, JSON or Markdown, as a checked bank. Raises BankError with the reason and the place."""
    if len(raw) > MAX_BANK_BYTES:
        raise BankError(f"The bank file is larger than {MAX_BANK_BYTES // 1024 // 1024} MiB.")
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        if is_markdown(text):
            return checked(read_markdown(text))
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise BankError(f"The bank file is not UTF-8 (byte {error.start}).") from None
    except RecursionError:
        raise BankError(f"The bank file is nested deeper than {MAX_DEPTH} levels.") from None
    except BankError:
        raise
    except ValueError as error:
        raise BankError(f"The bank file is not JSON: {error}.") from None
    return checked(data)


def checked(data: Any) -> dict[str, Any]:
    check_bank(data)
    return data


def check_bank(data: Any) -> None:
    """Raise BankError at the first thing that makes this no bank of our schema version."""
    _check_values(data)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA_NAME:
        raise BankError(f'$.schema: this is no memory bank; a bank says "schema": "{SCHEMA_NAME}".')
    version = data.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise BankError(
            f"$.schema_version: this file has version {_short(version)}; this release reads {SCHEMA_VERSION}."
        )
    error = best_match(Draft202012Validator(schema()).iter_errors(data))
    if error is not None:
        raise BankError(_sentence(error))
    _check_keys(data)


def check_part(definition: str, value: Any, name: str) -> None:
    """Raise BankError when ``value`` is not what the schema's ``$defs/definition`` describes.

    ``name`` stands for the value in the message's path.
    """
    _check_values(value)
    error = best_match(_part_validator(definition).iter_errors(value))
    if error is not None:
        raise BankError(name + _sentence(error).removeprefix("$"))


@functools.cache
def _part_validator(definition: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": schema()["$defs"]})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = _Repeating(pairs)
    if len(result) == len(pairs):
        return dict(result)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            result.repeated = key
        seen.add(key)
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _check_values(data: Any) -> None:
    """Refuse what a database or a browser could not hold, wherever it stands. Iterative: depth is hostile."""
    stack: list[tuple[Any, str, int]] = [(data, "$", 1)]
    while stack:
        value, path, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise BankError(f"{path[:200]}: nested deeper than {MAX_DEPTH} levels.")
        if isinstance(value, _Repeating):
            raise BankError(f"{path}: the key {_short(value.repeated)} appears twice.")
        if isinstance(value, dict):
            for key, item in value.items():
                _check_text(key, path)
                stack.append((item, f"{path}.{key[:60]}", depth + 1))
        elif isinstance(value, list):
            stack.extend((item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value))
        elif isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, int | float):
            _check_number(value, path)


def _check_text(value: str, path: str) -> None:
    if "\x00" in value:
        raise BankError(f"{path}: text must not contain NUL characters.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BankError(f"{path}: text contains half of a surrogate pair.") from None


def _check_number(value: float, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise BankError(f"{path}: the number is too large.")
    if abs(value) > LARGEST:  # beyond it, databases and browsers begin to round
        raise BankError(f"{path}: the number is too large.")


def _sentence(error: ValidationError) -> str:
    """A schema error in one sentence; of alternatives, the one that came nearest."""
    while error.context:
        nearest = best_match(error.context)
        if nearest is None:
            break
        error = nearest
    message = error.message
    if len(message) > 300:  # it quotes the value
        message = f"{message[:140]} ... {message[-140:]}"
    return f"{error.json_path}: {message}."


def _check_keys(data: dict[str, Any]) -> None:
    """Keys are unique, and every reference names one that exists."""
    strategies: dict[str, set[str]] = {}
    for index, direction in enumerate(data["directions"]):
        path = f"$.directions[{index}]"
        if direction["key"] in strategies:
            raise BankError(f"{path}.key: the direction {direction['key']!r} appears twice.")
        own = strategies[direction["key"]] = set()
        for number, strategy in enumerate(direction["strategies"]):
            if strategy["key"] in own:
                raise BankError(
                    f"{path}.strategies[{number}].key: the strategy {strategy['key']!r} appears twice."
                )
            own.add(strategy["key"])
    pairs: set[tuple[str, str]] = set()
    for index, edge in enumerate(data["edges"]):
        path = f"$.edges[{index}]"
        _check_reference(edge["source"], strategies, f"{path}.source", start=True)
        _check_reference(edge["target"], strategies, f"{path}.target")
        pair = (edge["source"], edge["target"])
        if pair in pairs:
            raise BankError(f"{path}: the edge {pair[0]} -> {pair[1]} appears twice.")
        pairs.add(pair)
    for index, row in enumerate(data.get("evidence", [])):
        _check_evidence(row, strategies, pairs, f"$.evidence[{index}]")


def _check_reference(key: str, known: dict[str, set[str]], path: str, start: bool = False) -> None:
    if key not in known and not (start and key == START):
        raise BankError(f"{path}: there is no direction {key!r}.")


def _check_evidence(
    row: dict[str, Any], strategies: dict[str, set[str]], pairs: set[tuple[str, str]], path: str
) -> None:
    _check_reference(row["direction"], strategies, f"{path}.direction")
    if row["strategy"] is not None and row["strategy"] not in strategies[row["direction"]]:
        raise BankError(f"{path}.strategy: {row['direction']!r} has no strategy {row['strategy']!r}.")
    if row["source"] is not None and (row["source"], row["direction"]) not in pairs:
        raise BankError(f"{path}.source: there is no edge {row['source']} -> {row['direction']}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
