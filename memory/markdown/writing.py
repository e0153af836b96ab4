"""A bank document as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memory.markdown.words import escape, joined, row_of
from memory.models import START

MARK = "<!-- htam-memory-bank 1: `manage.py memory_import FILE.md` reads this file again -->"
EDGE_COLUMNS = ("to", "prior", "applies when", "rationale", "risks", "retired")
EVIDENCE_COLUMNS = (
    "direction", "strategy", "source", "verdict", "compiled", "correct", "improved", "utility", "speedup",
    "device", "dtype", "family", "proposer", "model", "human_touched", "note", "excluded", "excluded_reason", "at",
)  # fmt: skip


def write_markdown(document: dict[str, Any]) -> str:
    """The document of `memory.exporting.export_bank`, byte for byte the same each time."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    by_source: dict[str, list[dict[str, Any]]] = {}
    for edge in document["edges"]:
        by_source.setdefault(edge["source"], []).append(edge)
    yield f"# {escape(document['name'])}"
    yield ""
    yield MARK
    yield from _block("", document["description"])
    if START in by_source:
        yield from ("", f"## {START}")
        yield from _edges(by_source[START])
    for direction in document["directions"]:
        yield from _direction(direction, by_source.get(direction["key"], []))
    if "evidence" in document:
        yield from ("", "## EVIDENCE", "")
        yield row_of([name.replace("_", " ") for name in EVIDENCE_COLUMNS])
        yield "|---" * len(EVIDENCE_COLUMNS) + "|"
        for row in document["evidence"]:
            yield row_of([_cell(row[name]) for name in EVIDENCE_COLUMNS])


def _direction(item: dict[str, Any], edges: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("", f"## `{item['key']}` {escape(item['title'])}", "")
    yield f"- prior: {number(item['prior'])}"
    if item.get("retired"):
        yield "- retired: yes"
    if item.get("position"):
        yield f"- position: {number(item['position']['x'])}, {number(item['position']['y'])}"
    yield from _block("Intent", item["intent"])
    yield from _list("Goals", item["goals"])
    yield from _conditions("Triggers", item["triggers"])
    yield from _list("Risks", item["risks"])
    if edges:
        yield from ("", "**Next**")
        yield from _edges(edges)
    for strategy in item["strategies"]:
        yield from _strategy(strategy)


def _strategy(item: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"### `{item['key']}` {escape(item['title'])}", "")
    yield f"- prior: {number(item['prior'])}"
    if item.get("retired"):
        yield "- retired: yes"
    if item["recipe"] is not None:
        yield f"- recipe: `{inline(item['recipe'])}`"
    yield from _block("Edit pattern", item["edit_pattern"])
    yield from _block("Applies when", item["applies_when"])
    yield from _conditions("Conditions", item["conditions"])
    yield from _list("Checks", item["checks"])
    yield from _list("Risks", item["risks"])


def _block(label: str, text: str) -> Iterator[str]:
    """A text of several lines as a quotation."""
    if not text:
        return
    yield ""
    if label:
        yield from (f"**{label}**", "")
    for line in text.split("\n"):
        yield f"> {escape(line)}".rstrip(" ")


def _list(label: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield from ("", f"**{label}**", "")
        yield from (f"- {escape(sentence)}" for sentence in sentences)


def _conditions(label: str, conditions: list[dict[str, Any]]) -> Iterator[str]:
    if conditions:
        yield from ("", f"**{label}**", "")
        yield from (f"- {condition_words(condition)}" for condition in conditions)


def condition_words(condition: dict[str, Any]) -> str:
    """`rows` ge 1000 (required)"""
    words = f"`{condition['fact']}` {condition['op']}"
    if "value" in condition:
        words += f" {inline(condition['value'])}"
    if "required" in condition:
        words += " (required)" if condition["required"] else " (not required)"
    return words


def _edges(edges: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("", row_of(list(EDGE_COLUMNS)), "|---" * len(EDGE_COLUMNS) + "|")
    for edge in edges:
        texts = [escape(edge["applies_when"]), escape(edge["rationale"]), joined(edge["risks"])]
        yield row_of(
            [f"`{edge['target']}`", number(edge["prior"]), *texts, "yes" if edge.get("retired") else ""]
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else escape(value)


def number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(value)


def inline(value: Any) -> str:
    """JSON on one line, ASCII: no character of it means anything to Markdown's line structure."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
