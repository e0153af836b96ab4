"""Markdown, as `memory.markdown.writing` lays it out, as a bank document. Every line must be understood."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from memory.bankerror import BankError
from memory.markdown.words import BadEscape, cells_of, parted, unescape
from memory.markdown.writing import EDGE_COLUMNS, EVIDENCE_COLUMNS, MARK
from memory.models import START

_PART = re.compile(r"(##|###) `([^`]*)` (.*)", re.DOTALL)
_CONDITION = re.compile(r"`([^`]*)` (\S+)(?: (.*))?", re.DOTALL)
_REQUIRED = {" (not required)": False, " (required)": True}
_RULE = re.compile(r"\|(-{3,}\|)+")
_TEXTS = {"Intent": "intent", "Edit pattern": "edit_pattern", "Applies when": "applies_when"}
_LISTS = {"Goals": "goals", "Risks": "risks", "Checks": "checks"}
_CONDITIONS = {"Triggers": "triggers", "Conditions": "conditions"}
_NULLABLE = frozenset({"strategy", "source", "speedup"})
_FLAGS = frozenset({"compiled", "correct", "improved", "human_touched", "excluded"})
_NUMBERS = frozenset({"utility", "speedup"})


def is_markdown(text: str) -> bool:
    """Whether a text is meant to be a bank in Markdown rather than in JSON."""
    return text.lstrip("\ufeff \r\n").startswith("#")


def read_markdown(text: str) -> dict[str, Any]:
    """The document that the text describes, not yet checked (`memory.bankfile.check_bank`). Raises BankError."""
    return _Reader(text).read()


class _Reader:
    """Goes through the lines once; ``take`` is what the next body line means where we are."""

    def __init__(self, text: str) -> None:
        self.lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
        self.number = 0
        self.document: dict[str, Any] = {
            "schema": "htam-memory-bank", "schema_version": 1, "name": "", "description": "",
            "directions": [], "edges": [],
        }  # fmt: skip
        self.part: dict[str, Any] = {}
        self.source = ""
        self.columns = 0  # of the table being read; 0: its head comes next
        self.seen: set[str] = set()  # fields of the part
        self.take: Callable[[str], None] = self.refuse

    def read(self) -> dict[str, Any]:
        head = self.lines[0] if self.lines else ""
        if not head.startswith("# "):
            self.number = 1
            self.fail('the file begins with "# " and the name of the bank')
        self.document["name"] = self.plain(head[2:])
        body = [line for line in self.lines[1:4] if line.strip()]
        if not body or body[0] != MARK:
            self.number = 3
            self.fail(f"the third line says {MARK}")
        marked = self.lines.index(MARK)
        self.take = self.into(self.document, "description")
        for index in range(marked + 1, len(self.lines)):
            self.number = index + 1
            if self.lines[index].strip():
                self.line(self.lines[index])
        return self.document

    def line(self, line: str) -> None:
        if line.startswith("#"):
            self.heading(line)
        elif line.startswith("**"):
            self.label(line)
        else:
            self.take(line)

    # Where we are.

    def heading(self, line: str) -> None:
        self.columns = 0
        if line == f"## {START}":
            self.source, self.part, self.take = START, {}, self.edge
            return
        if line == "## EVIDENCE":
            self.document.setdefault("evidence", [])
            self.part, self.take = {}, self.evidence
            return
        found = _PART.fullmatch(line)
        if found is None:
            self.fail("a heading is ## `key` Title, ### `key` Title, ## START or ## EVIDENCE")
        key, title = found[2], self.plain(found[3])
        if found[1] == "##":
            self.part = empty_direction(key, title)
            self.source = key
            self.document["directions"].append(self.part)
        else:
            if not self.document["directions"]:
                self.fail("a strategy stands under its direction")
            self.part = empty_strategy(key, title)
            self.document["directions"][-1]["strategies"].append(self.part)
        self.seen = set()
        self.take = self.field

    def label(self, line: str) -> None:
        name = line.removeprefix("**").removesuffix("**")
        fields = _TEXTS | _LISTS | _CONDITIONS
        self.columns = 0
        if name == "Next" and "strategies" in self.part:
            self.take = self.edge
        elif name in fields and fields[name] in self.part:
            field = fields[name]
            self.once(field)
            if name in _TEXTS:
                self.take = self.into(self.part, field)
            else:
                self.take = self.item(self.part[field], condition=name in _CONDITIONS)
        else:
            self.fail(f"{line[:60]!r} is no part of what stands here")

    # What the lines say.

    def field(self, line: str) -> None:
        """- prior: 0.5"""
        name, colon, value = line.removeprefix("- ").partition(": ")
        if not line.startswith("- ") or not colon or name not in {"prior", "retired", "position", "recipe"}:
            self.refuse(line)
        if name not in self.part:
            self.fail(f"a strategy has no {name}" if name == "position" else f"a direction has no {name}")
        self.once(name)
        if name == "prior":
            self.part[name] = self.a_number(value)
        elif name == "retired":
            self.part[name] = self.flag(value)
        elif name == "position":
            x, _, y = value.partition(", ")
            self.part[name] = {"x": self.a_number(x), "y": self.a_number(y)}
        else:
            if not (value.startswith("`") and value.endswith("`") and len(value) > 1):
                self.fail("a recipe is JSON between backticks")
            self.part[name] = self.json(value[1:-1])

    def into(self, part: dict[str, Any], field: str) -> Callable[[str], None]:
        """Lines of a quotation, joined."""
        found: list[str] = []

        def take(line: str) -> None:
            if not line.startswith(">"):
                self.refuse(line)
            found.append(self.plain(line[1:].removeprefix(" ")))
            part[field] = "\n".join(found)

        return take

    def item(self, items: list[Any], condition: bool) -> Callable[[str], None]:
        def take(line: str) -> None:
            if not line.startswith("- "):
                self.refuse(line)
            items.append(self.condition(line[2:]) if condition else self.plain(line[2:]))

        return take

    def condition(self, words: str) -> dict[str, Any]:
        required = next((item for item in _REQUIRED if words.endswith(item)), "")
        found = _CONDITION.fullmatch(words.removesuffix(required))
        if found is None:
            self.fail("a condition is `fact` op value, such as `rows` ge 1000")
        made: dict[str, Any] = {"fact": found[1], "op": found[2]}
        if found[3] is not None:
            made["value"] = self.json(found[3])
        if required:
            made["required"] = _REQUIRED[required]
        return made

    def edge(self, line: str) -> None:
        cells = self.row(line, [*EDGE_COLUMNS])
        if cells is None:
            return
        target, prior, applies_when, rationale, risks, retired = cells
        self.document["edges"].append(
            {
                "source": self.source,
                "target": target.removeprefix("`").removesuffix("`"),
                "applies_when": self.plain(applies_when),
                "rationale": self.plain(rationale),
                "risks": self.plain_parts(risks),
                "prior": self.a_number(prior),
                "retired": self.flag(retired) if retired else False,
            }
        )

    def evidence(self, line: str) -> None:
        cells = self.row(line, [name.replace("_", " ") for name in EVIDENCE_COLUMNS])
        if cells is not None:
            row = {name: self.value(name, cell) for name, cell in zip(EVIDENCE_COLUMNS, cells, strict=True)}
            self.document["evidence"].append(row)

    def value(self, name: str, cell: str) -> Any:
        if not cell and name in _NULLABLE:
            return None
        if name in _FLAGS:
            return self.flag(cell)
        return self.a_number(cell) if name in _NUMBERS else self.plain(cell)

    def row(self, line: str, head: list[str]) -> list[str] | None:
        """The cells of a table's row; None for its head and rule, which must be as written."""
        if not line.startswith("|"):
            self.refuse(line)
        cells = cells_of(line)
        if self.columns == 0:
            if cells != head:
                self.fail(f"the columns here are {', '.join(head)}")
            self.columns = len(head)
            return None
        if _RULE.fullmatch(line.replace(" ", "")):
            return None
        if len(cells) != self.columns:
            self.fail(f"this row has {len(cells)} cells; the table has {self.columns} columns")
        return cells

    # Words.

    def plain(self, text: str) -> str:
        try:
            return unescape(text)
        except BadEscape as error:
            self.fail(str(error))

    def plain_parts(self, cell: str) -> list[str]:
        try:
            return parted(cell)
        except BadEscape as error:
            self.fail(str(error))

    def a_number(self, text: str) -> float:
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"{text[:40]!r} is no number")
        return value

    def json(self, text: str) -> Any:
        try:
            return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            self.fail(f"{text[:60]!r} is not JSON ({str(error)[:80]})")

    def flag(self, text: str) -> bool:
        if text not in {"yes", "no"}:
            self.fail(f"{text[:40]!r} is neither yes nor no")
        return text == "yes"

    def once(self, field: str) -> None:
        if field in self.seen:
            self.fail(f"{field.replace('_', ' ')} stands here twice")
        self.seen.add(field)

    def refuse(self, line: str) -> NoReturn:
        self.fail(f"{line[:60]!r} is not understood here")

    def fail(self, sentence: str) -> NoReturn:
        raise BankError(f"line {self.number}: {sentence}.")


def empty_direction(key: str, title: str) -> dict[str, Any]:
    return {
        "key": key, "title": title, "intent": "", "goals": [], "triggers": [], "risks": [], "prior": None,
        "retired": False, "position": None, "strategies": [],
    }  # fmt: skip


def empty_strategy(key: str, title: str) -> dict[str, Any]:
    return {
        "key": key, "title": title, "edit_pattern": "", "applies_when": "", "conditions": [], "checks": [],
        "risks": [], "recipe": None, "prior": None, "retired": False,
    }  # fmt: skip


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key appears twice")
    return made
