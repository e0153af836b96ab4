"""From text to a checked `Plan`. The text is parsed, never executed."""

from __future__ import annotations

import ast
import hashlib
import warnings
from dataclasses import dataclass

from gpu_eval.plans.checker import check_function, launch_name_literals
from gpu_eval.plans.errors import PlanError
from gpu_eval.plans.kernels import KernelNames, check_includes, kernel_names
from gpu_eval.plans.limits import MAX_DEPTH, MAX_NODES
from gpu_eval.plans.prescan import prescan
from gpu_eval.results import LibraryPolicy

LANGUAGES = ("cuda", "opencl")
_TOP_LEVEL = "a plan has language, kernels, forward and optionally prepare at top level, and nothing else"


@dataclass(frozen=True)
class Plan:
    """A parsed plan. ``forward`` and ``prepare`` are checked syntax trees that `bind` interprets.

    ``kernel_names`` are read off the source; ``launch_names`` are the kernels that launches name, template
    instances (``k<4>``) included: what a backend's `compile` is asked for.
    """

    text: str
    filename: str
    language: str
    kernels: str
    forward: ast.FunctionDef
    prepare: ast.FunctionDef | None
    kernel_names: tuple[str, ...]
    launch_names: tuple[str, ...]
    hash: str  # SHA-256 of the text, hexadecimal

    @property
    def input_names(self) -> tuple[str, ...]:
        """The parameters of `forward` without the last, ``params``."""
        return tuple(argument.arg for argument in self.forward.args.args[:-1])


def parse_plan(text: str, *, filename: str = "plan", library: LibraryPolicy = LibraryPolicy.ALLOW) -> Plan:
    """Parse and check a plan. Raises PlanError with one sentence, a line and a column."""
    source = prescan(text, filename)
    tree = _syntax_tree(source, filename)
    _check_size(tree, filename)
    parts = _top_level(tree, filename)
    language = _text_of(parts, "language", filename)
    if language not in LANGUAGES:
        raise _error(f"language is 'cuda' or 'opencl', not {language!r}", parts["language"], filename)
    kernels = _text_of(parts, "kernels", filename)
    forward, prepare = parts.get("forward"), parts.get("prepare")
    if not isinstance(forward, ast.FunctionDef):
        raise PlanError("the plan defines no forward(x, ..., params)", 1, 1, filename)
    assert prepare is None or isinstance(prepare, ast.FunctionDef)
    check_includes(kernels, parts["kernels"].value.lineno, filename)  # type: ignore[attr-defined]
    names = kernel_names(kernels, language)
    functions = [forward] if prepare is None else [prepare, forward]
    for function in functions:
        check_function(function, filename, allow_library=library is LibraryPolicy.ALLOW)
    return Plan(
        text=text,
        filename=filename,
        language=language,
        kernels=kernels,
        forward=forward,
        prepare=prepare,
        kernel_names=names.names,
        launch_names=_launch_names(functions, names, filename),
        hash=hashlib.sha256(text.encode()).hexdigest(),
    )


def _syntax_tree(source: str, filename: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own remarks on odd escapes and `is` with literals
            return ast.parse(source, filename=filename)
    except SyntaxError as error:
        raise PlanError(
            f"not valid Python syntax: {error.msg}", error.lineno or 1, error.offset or 1, filename
        ) from None
    except (ValueError, RecursionError, MemoryError, OverflowError):
        raise PlanError(
            "the plan is too deeply nested or holds a number that is too large", 1, 1, filename
        ) from None


def _check_size(tree: ast.Module, filename: str) -> None:
    """Bound the number and depth of nodes, without recursion."""
    count = 0
    level: list[ast.AST] = [tree]
    for depth in range(MAX_DEPTH + 1):
        count += len(level)
        if count > MAX_NODES:
            raise PlanError(f"the plan has more than {MAX_NODES} syntax nodes", 1, 1, filename)
        below = [child for node in level for child in ast.iter_child_nodes(node)]
        if not below:
            return
        if depth == MAX_DEPTH:
            place = next((node for node in level if hasattr(node, "lineno")), tree)
            raise _error(f"expressions are nested deeper than {MAX_DEPTH}", place, filename)
        level = below


def _top_level(tree: ast.Module, filename: str) -> dict[str, ast.stmt]:
    """The statements by name. A docstring may come first."""
    parts: dict[str, ast.stmt] = {}
    for index, statement in enumerate(tree.body):
        if index == 0 and _is_docstring(statement):
            continue
        name = _top_level_name(statement, filename)
        if name in parts:
            raise _error(f"{name} is given twice", statement, filename)
        parts[name] = statement
    return parts


def _is_docstring(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _top_level_name(statement: ast.stmt, filename: str) -> str:
    if isinstance(statement, ast.FunctionDef):
        if statement.name in ("forward", "prepare"):
            return statement.name
        raise _error(f"{_TOP_LEVEL}; found the function {statement.name}", statement, filename)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id in ("language", "kernels"):
            return target.id
    raise _error(_TOP_LEVEL, statement, filename)


def _text_of(parts: dict[str, ast.stmt], name: str, filename: str) -> str:
    statement = parts.get(name)
    if statement is None:
        raise PlanError(f"the plan does not say {name} = ...", 1, 1, filename)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    raise _error(f"{name} must be one string literal", value or statement, filename)


def _launch_names(functions: list[ast.FunctionDef], known: KernelNames, filename: str) -> tuple[str, ...]:
    names: list[str] = []
    for function in functions:
        for literal in launch_name_literals(function):
            name = str(literal.value)
            if not known.may_hold(name):
                there = ", ".join(known.names) or "none"
                raise _error(f"kernels defines no {name!r} (it defines: {there})", literal, filename)
            if name not in names:
                names.append(name)
    return tuple(names)


def _error(message: str, node: ast.AST, filename: str) -> PlanError:
    return PlanError(message, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, filename)
