"""What can be read off kernel source without a compiler: kernel names and includes that reach outside.

Every scan here is linear in the source, whatever the source holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_eval.plans.errors import PlanError

MAX_KERNELS = 256
_SIGNATURE_CHARS = 2000  # how far a name may stand behind its qualifier

_OPENING = re.compile(r'//|/\*|R"|"|\'')
_RAW_DELIMITER = re.compile(r'R"([^()\\\s"]{0,16})\(')
_QUOTED = {
    '"': re.compile(r'"(?:\\.|[^"\\\n])*"?', re.DOTALL),
    "'": re.compile(r"'(?:\\.|[^'\\\n])*'?", re.DOTALL),
}
_QUALIFIER = {"cuda": re.compile(r"\b__global__\b"), "opencl": re.compile(r"\b(?:__kernel|kernel)\b")}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Words before a kernel's name that carry an argument list of their own.
_ATTRIBUTES = {
    "__attribute__",
    "__launch_bounds__",
    "__cluster_dims__",
    "__block_size__",
    "__maxnreg__",
    "__declspec",
    "alignas",
    "decltype",
}
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(include_next|include|import|embed)\b[ \t]*(.*)")
# A line marker makes compilers print lines of the file that it names.
_LINE_MARKER = re.compile(r"[ \t]*#[ \t]*(?:line\b|[0-9])[ \t]*(.*)")
_PLAIN_LINE = re.compile(r"[0-9]+[ \t]*$")
_HAS_FILE = re.compile(r"__has_(?:include|include_next|embed)\b[ \t]*\(?[ \t]*(<[^>\n]*>)?")
_DEFINE = re.compile(r"[ \t]*#[ \t]*define\b")
_MAKES_KERNELS = re.compile(r"__global__|__kernel|##")
_TARGET = re.compile(r'["<]([^">\n]*)')
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*\n")


@dataclass(frozen=True)
class KernelNames:
    """Kernel names in order of appearance. ``complete`` is False when macros may make more of them."""

    names: tuple[str, ...]
    complete: bool

    def may_hold(self, name: str) -> bool:
        """Whether a kernel of this plain name, or a template with this instance ``name<...>``, can exist."""
        return not self.complete or plain_name(name) in self.names


def plain_name(name: str) -> str:
    """``k`` of ``k<float, 4>`` and of ``tools::k``."""
    return name.split("<", 1)[0].strip().split("::")[-1].strip()


def kernel_names(source: str, language: str) -> KernelNames:
    """Names of the functions marked ``__global__`` (cuda) or ``__kernel`` (opencl).

    Templates go by their plain name. A source with more than `MAX_KERNELS` marks is not complete.
    """
    code = blanked(source, strings=True)
    names: list[str] = []
    complete = not _macros_make_kernels(code)
    for count, qualifier in enumerate(_QUALIFIER[language].finditer(code)):
        if count >= MAX_KERNELS:
            complete = False
            break
        name = _name_in(code[qualifier.end() : qualifier.end() + _SIGNATURE_CHARS])
        if name and name not in names:
            names.append(name)
    return KernelNames(tuple(names), complete)


def check_includes(source: str, line: int, filename: str) -> None:
    """Refuse includes that name a path outside the toolkit, and other ways to make a compiler read a file.

    ``line`` is the plan's line on which the source begins. Raises PlanError.
    """
    plain = _SPLICE.sub("", source).replace("??=", "#").replace("%:", "#")
    for number, text in enumerate(blanked(plain, strings=False).split("\n")):
        problem = (_directive_problem(text) if "#" in text else "") or _question_problem(text)
        if problem:
            raise PlanError(problem, line + number, 1, filename)
    if ".incbin" in plain:
        before = plain[: plain.index(".incbin")].count("\n")
        raise PlanError("kernels may not read files (.incbin)", line + before, 1, filename)


def _directive_problem(text: str) -> str:
    """What is wrong with a line's preprocessor directive, or nothing."""
    marker = _LINE_MARKER.match(text)
    if marker:
        return (
            "" if _PLAIN_LINE.match(marker.group(1)) else "#line takes a number only: it may not name a file"
        )
    found = _DIRECTIVE.match(text)
    if not found:
        return ""
    if found.group(1) == "embed":
        return "kernels may not embed files (#embed)"
    target = _TARGET.match(found.group(2))
    if not target:
        return "an #include names its header directly, in <...>"
    path = target.group(1).strip()
    if _reaches_outside(path):
        return f"#include of {path[:80]!r} is not allowed: only the toolkit's own headers"
    return ""


def _question_problem(text: str) -> str:
    """What is wrong with a line that asks whether a file exists, or nothing."""
    for found in _HAS_FILE.finditer(text):
        header = found.group(1)
        if header is None or _reaches_outside(header[1:-1].strip()):
            return "__has_include asks for one of the toolkit's own headers only, as <...>"
    return ""


def _reaches_outside(path: str) -> bool:
    """Whether a header's path can leave the toolkit's folders."""
    return path.startswith(("/", "\\", "~")) or ".." in path or ":" in path


def blanked(source: str, *, strings: bool) -> str:
    """The source with comments, and string literals where ``strings`` says so, replaced by a space.

    Line numbers stay.
    """
    parts: list[str] = []
    position = 0
    while True:
        found = _OPENING.search(source, position)
        if not found:
            parts.append(source[position:])
            return "".join(parts)
        end = _end_of(source, found.start(), found.group())
        parts.append(source[position : found.start()])
        body = source[found.start() : end]
        comment = found.group() in ("//", "/*")
        parts.append(" " + "\n" * body.count("\n") if comment or strings else body)
        position = end


def _end_of(source: str, start: int, opening: str) -> int:
    """The index after the comment or literal; one that never ends takes the rest."""
    if opening in _QUOTED:
        found = _QUOTED[opening].match(source, start)
        assert found is not None
        return found.end()
    closing = {"//": "\n", "/*": "*/"}.get(opening)
    if closing is None:
        delimiter = _RAW_DELIMITER.match(source, start)
        if not delimiter:
            return start + 1  # an identifier that ends in R before an ordinary string
        closing = ")" + delimiter.group(1) + '"'
    end = source.find(closing, start + len(opening))
    if end < 0:
        return len(source)
    return end if opening == "//" else end + len(closing)


def _macros_make_kernels(code: str) -> bool:
    lines = _SPLICE.sub(" ", code).split("\n")
    return any(_DEFINE.match(line) and _MAKES_KERNELS.search(line) for line in lines)


def _name_in(code: str) -> str | None:
    """The identifier right before the first parameter list of ``code``, which begins behind a qualifier."""
    position = 0
    last: str | None = None
    while position < len(code):
        word = _IDENTIFIER.match(code, position)
        if word:
            last, position = word.group(), word.end()
        elif code[position] == "(":
            if last not in _ATTRIBUTES:
                return last
            position, last = _after_parentheses(code, position), None
        elif code[position] in ";{}=":
            return None
        else:
            position += 1
    return None


def _after_parentheses(code: str, position: int) -> int:
    depth = 0
    while position < len(code):
        depth += (code[position] == "(") - (code[position] == ")")
        position += 1
        if depth == 0:
            break
    return position
