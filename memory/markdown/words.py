r"""Text on one line of Markdown and back: backslash escapes for what a line, a table cell or an editor would change.

    \\ backslash   \| bar   \n \r \t line ends and tabs   \s a space at either end   \< no HTML   \u{85} other controls

Everything else stands as it is, so prose stays prose.
"""

from __future__ import annotations

import re

BREAK = "<br>"  # between the sentences of a cell
PLAIN = {"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r", "\t": "\\t", "<": "\\<"}
ESCAPED = {"\\": "\\", "|": "|", "n": "\n", "r": "\r", "t": "\t", "<": "<", "s": " "}
# Control characters, and what some programs take for a line end or for white space to strip.
_SPECIAL = re.compile(r"[\\|<\x00-\x1f\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]")
_ESCAPE = re.compile(r"\\(u\{([0-9a-f]{1,6})\}|.|$)", re.DOTALL)


class BadEscape(ValueError):
    """A backslash that stands for nothing; one sentence."""


def escape(text: str) -> str:
    """``text`` on one line."""
    line = _SPECIAL.sub(lambda found: PLAIN.get(found[0]) or f"\\u{{{ord(found[0]):x}}}", text)
    if line.startswith(" "):
        line = f"\\s{line[1:]}"
    return f"{line[:-1]}\\s" if line.endswith(" ") else line


def unescape(line: str) -> str:
    """The inverse of `escape`. Raises BadEscape."""
    return _ESCAPE.sub(_plain, line)


def _plain(found: re.Match[str]) -> str:
    if found[2]:
        number = int(found[2], 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise BadEscape(f"{found[0]} is no character")
        return chr(number)
    if found[1] not in ESCAPED:
        raise BadEscape(f"the backslash before {found[1]!r} stands for nothing; write \\\\ for a backslash")
    return ESCAPED[found[1]]


def cells_of(line: str) -> list[str]:
    """The cells of a table row, still escaped. A bar after an odd number of backslashes is text."""
    cells = re.findall(r"((?:[^|\\]|\\.)*)\|", line.strip()[1:], re.DOTALL)
    return [cell.strip(" ") for cell in cells]


def row_of(cells: list[str]) -> str:
    """Escaped cells as a table row."""
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def joined(sentences: list[str]) -> str:
    """Several sentences in one cell."""
    return BREAK.join(escape(sentence) for sentence in sentences)


def parted(cell: str) -> list[str]:
    """The inverse of `joined`: only a break has a < that no backslash stands before."""
    if not cell:
        return []
    return [unescape(part) for part in re.findall(r"((?:[^<\\]|\\.)*)(?:<br>|$)", cell, re.DOTALL)[:-1]]
