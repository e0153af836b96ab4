"""A look at the raw text before Python's parser sees it: sizes, nesting, characters that deceive a reader."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from gpu_eval.plans.errors import PlanError
from gpu_eval.plans.limits import MAX_BRACKETS, MAX_CODE_CHARS, MAX_DIGITS, MAX_TEXT_CHARS

# Characters that reorder or hide text on screen, so that a reader sees other code than the compiler does.
_INVISIBLE = re.compile(
    "[\u061c\u115f\u1160\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\u3164\ufeff\ufff9-\ufffb]"
)
_STRING_START = re.compile(r"([A-Za-z]{0,3})('''|\"\"\"|'|\")")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def prescan(text: str, filename: str) -> str:
    """The text with newlines normalised and a byte-order mark removed. Raises PlanError with the place.

    Refuses: an over-long text, control characters, invisible or reordering characters anywhere, non-ASCII
    outside strings and comments, brackets nested deeper than `MAX_BRACKETS`, digit runs longer than
    `MAX_DIGITS`, and strings that never end.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_TEXT_CHARS:
        raise PlanError(
            f"the plan has {len(text)} characters; the limit is {MAX_TEXT_CHARS}", filename=filename
        )

    def fail(index: int, message: str) -> PlanError:
        line = text.count("\n", 0, index) + 1
        return PlanError(message, line, index - text.rfind("\n", 0, index), filename)

    for index, char in enumerate(text):
        if (ord(char) < 32 and char not in "\n\t\f") or ord(char) == 127:
            raise fail(index, f"control character U+{ord(char):04X} is not allowed")
        if 0xD800 <= ord(char) <= 0xDFFF:
            raise fail(index, "the text is not valid Unicode")
    hidden = _INVISIBLE.search(text)
    if hidden:
        raise fail(hidden.start(), f"invisible character U+{ord(hidden.group()):04X} is not allowed")
    _scan_code(text, fail)
    return text


def _scan_code(text: str, fail: Callable[[int, str], PlanError]) -> None:
    """Walk the text outside strings and comments."""
    position, depth, digits, code = 0, 0, 0, 0
    while position < len(text):
        char = text[position]
        if char == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
            continue
        string = _STRING_START.match(text, position)
        if string:
            position = _string_end(text, string.end(), string.group(2), fail)
            continue
        word = _WORD.match(text, position)
        if word:  # taken whole, so that a prefix letter is only one at the start of a word
            code += word.end() - position
            position, digits = word.end(), 0
            continue
        if ord(char) > 127:
            name = unicodedata.name(char, "unnamed")
            raise fail(position, f"character {char!r} (U+{ord(char):04X}, {name}) is not plain ASCII")
        digits = digits + 1 if char.isdigit() or (char == "_" and digits) else 0
        if digits > MAX_DIGITS:
            raise fail(position, f"a number of more than {MAX_DIGITS} digits is not allowed")
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_BRACKETS:
            raise fail(position, f"brackets are nested deeper than {MAX_BRACKETS}")
        code += 1
        if code > MAX_CODE_CHARS:
            raise fail(position, f"the plan has more than {MAX_CODE_CHARS} characters outside its strings")
        position += 1


def _string_end(text: str, start: int, quote: str, fail: Callable[[int, str], PlanError]) -> int:
    """The index after the string whose content begins at ``start``.

    A backslash hides a quote in raw ones too.
    """
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text.startswith(quote, position):
            return position + len(quote)
        elif text[position] == "\n" and len(quote) == 1:
            break
        else:
            position += 1
    raise fail(start - len(quote), "this string never ends")
