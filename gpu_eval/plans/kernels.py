"""What can be read off kernel source without a compiler: kernel names and includes that reach outside."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_eval.plans.errors import PlanError

_NOISE = re.compile(
    r"//[^\n]*"  # comments go first in C, quotes inside them mean nothing
    r"|/\*.*?\*/"
    r'|R"(?P<delimiter>[^()\\\s]{0,16})\((?:.*?)\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
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
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include|include_next|import|embed)\b[ \t]*(.*)$", re.MULTILINE)
_TARGET = re.compile(r'["<]([^">\n]*)')


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
    """Names of the functions marked ``__global__`` (cuda) or ``__kernel`` (opencl), templates by their plain
    name.
    """
    code = without_noise(source)
    names: list[str] = []
    for qualifier in _QUALIFIER[language].finditer(code):
        name = _name_after(code, qualifier.end())
        if name and name not in names:
            names.append(name)
    made_by_macro = re.search(
        r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*(?:__global__|__kernel|##)", code, re.MULTILINE
    )
    return KernelNames(tuple(names), made_by_macro is None)


def check_includes(source: str, line: int, filename: str) -> None:
    """Refuse includes that name a path outside the toolkit, and other ways to make a compiler read a file.

    ``line`` is the plan's line on which the source begins. Raises PlanError.
    """
    spliced = re.sub(r"(\\|\?\?/)[ \t]*\n", "", source)
    plain = spliced.replace("??=", "#").replace("%:", "#")
    for found in _INCLUDE.finditer(_without_comments(plain)):
        place = line + plain.count("\n", 0, min(found.start(), len(plain)))
        word, rest = found.group(1), found.group(2).strip()
        if word == "embed":
            raise PlanError("kernels may not embed files (#embed)", place, 1, filename)
        target = _TARGET.match(rest)
        path = target.group(1).strip() if target else ""
        if not target:
            raise PlanError("an #include names its header directly, in <...>", place, 1, filename)
        if path.startswith(("/", "\\", "~")) or ".." in path or ":" in path:
            raise PlanError(
                f"#include of {path!r} is not allowed: only the toolkit's own headers", place, 1, filename
            )
    incbin = re.search(r"\.incbin\b", plain)
    if incbin:
        raise PlanError(
            "kernels may not read files (.incbin)", line + plain.count("\n", 0, incbin.start()), 1, filename
        )


def without_noise(source: str) -> str:
    """The source with comments and string literals blanked, line numbers kept."""
    return _NOISE.sub(lambda found: " " + "\n" * found.group().count("\n"), source)


def _without_comments(source: str) -> str:
    def blank(found: re.Match[str]) -> str:
        text = found.group()
        return " " + "\n" * text.count("\n") if text.startswith("/") else text

    return _NOISE.sub(blank, source)


def _name_after(code: str, position: int) -> str | None:
    """The identifier right before the parameter list of the function that starts at ``position``."""
    last: str | None = None
    while position < len(code):
        char = code[position]
        word = _IDENTIFIER.match(code, position)
        if word:
            last, position = word.group(), word.end()
        elif char == "(":
            if last in _ATTRIBUTES:
                position, last = _after_parentheses(code, position), None
                continue
            return last
        elif char in ";{}=":
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
