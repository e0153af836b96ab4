"""An operator file read without running it: what it defines, its presets and its content hash.

The web process and the evaluator's parent use this module, so it knows `ast` and nothing of torch.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from typing import Any

from gpu_eval.errors import UnusableInput
from gpu_eval.limits import MAX_OPERATOR_BYTES

PRESETS_NAME = "PRESETS"
MAX_FILENAME = 120


@dataclass(frozen=True)
class OperatorSource:
    """A parsed operator file. ``presets`` maps a preset's name to the module constants that it overrides."""

    text: str
    filename: str
    content_hash: str
    docstring: str = ""
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)
    input_names: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()


def decode_operator(data: bytes, filename: str) -> str:
    """The text of an uploaded file. Raises UnusableInput when it is too large, not UTF-8, or holds NUL."""
    check_filename(filename)
    if len(data) > MAX_OPERATOR_BYTES:
        raise UnusableInput(
            f"{filename} is {len(data) / 1e6:.1f} MB; an operator file may have at most "
            f"{MAX_OPERATOR_BYTES // 1000} kB."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnusableInput(f"{filename}, line {line}: the file is not valid UTF-8.") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnusableInput(
            f"{filename}, line {line}: the file holds a NUL character; it is not Python text."
        )
    return text


def check_filename(filename: str) -> None:
    """Raise UnusableInput for a name that is a path, hidden, too long or not printable."""
    bad = (
        not filename
        or len(filename) > MAX_FILENAME
        or not filename.isprintable()
        or filename.startswith(".")
        or any(part in filename for part in ("/", "\\", ".."))
    )
    if bad:
        shown = "".join(char if char.isprintable() else "?" for char in filename[:60])
        raise UnusableInput(f'"{shown}" is not a usable file name: give a plain name without folders.')


def parse_operator(source: str, filename: str = "operator.py") -> OperatorSource:
    """Parse an operator file without running it.

    Raises UnusableInput, naming the line, when it is not Python or lacks `Model` or `get_inputs`.
    """
    if len(source.encode("utf-8", "surrogatepass")) > MAX_OPERATOR_BYTES:
        raise UnusableInput(f"{filename} is larger than {MAX_OPERATOR_BYTES // 1000} kB.")
    tree = parse_python(source, filename)
    model = find_model(tree, filename)
    require_function(tree, filename, "get_inputs")
    return OperatorSource(
        text=source,
        filename=filename,
        content_hash=content_hash(source, filename),
        docstring=(ast.get_docstring(tree) or ast.get_docstring(model) or "").strip(),
        presets=read_presets(tree, filename),
        input_names=forward_inputs(model, filename),
        constants=tuple(sorted(module_constants(tree))),
    )


def parse_python(source: str, filename: str) -> ast.Module:
    """`ast.parse` whose every failure is an UnusableInput with a line."""
    try:
        return ast.parse(source, filename=filename)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise UnusableInput(f"{filename}{line}: this is not Python ({error.msg}).") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnusableInput(f"{filename}: this is not Python that can be read ({error}).") from error


def find_model(tree: ast.Module, filename: str) -> ast.ClassDef:
    """The top-level class `Model`. Raises UnusableInput when there is none, or it has no `forward`."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            return node
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    found = f" (its classes: {', '.join(classes[:5])})" if classes else ""
    raise UnusableInput(
        f"{filename} defines no class Model{found}: an operator is a torch.nn.Module of that name."
    )


def require_function(tree: ast.Module, filename: str, name: str) -> None:
    """Raise UnusableInput unless the module defines the function ``name`` at its top level."""
    if any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
        return
    raise UnusableInput(
        f"{filename} defines no function {name}(): it returns the list of the operator's inputs."
    )


def forward_inputs(model: ast.ClassDef, filename: str) -> tuple[str, ...]:
    """Names of `Model.forward`'s parameters without ``self``; empty when forward is inherited."""
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            return tuple(names[1:])
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "forward":
            raise UnusableInput(f"{filename}, line {node.lineno}: Model.forward must not be async.")
    if not model.bases:
        raise UnusableInput(f"{filename}, line {model.lineno}: Model has no forward() and no base class.")
    return ()


def module_constants(tree: ast.Module) -> set[str]:
    """Names that top-level assignments bind."""
    names: set[str] = set()
    for node in tree.body:
        names.update(bound_names(node))
    return names


def bound_names(node: ast.stmt) -> set[str]:
    """Names that one top-level assignment statement binds; empty for any other statement."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    else:
        return set()
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def read_presets(tree: ast.Module, filename: str) -> dict[str, dict[str, Any]]:
    """The literal dict `PRESETS`, checked: every key of a preset is a constant of the file."""
    for node in tree.body:
        if PRESETS_NAME in bound_names(node):
            return checked_presets(node, module_constants(tree), filename)
    return {}


def checked_presets(node: ast.stmt, constants: set[str], filename: str) -> dict[str, dict[str, Any]]:
    """The value of one `PRESETS = {...}` statement. Raises UnusableInput naming the line."""
    where = f"{filename}, line {node.lineno}"
    try:
        presets = ast.literal_eval(node.value)  # type: ignore[attr-defined]
    except (ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise UnusableInput(f"{where}: PRESETS must be a literal dict of dicts.") from error
    if not isinstance(presets, dict):
        raise UnusableInput(f"{where}: PRESETS must be a literal dict of dicts.")
    for name, values in presets.items():
        if not isinstance(name, str) or not isinstance(values, dict):
            raise UnusableInput(f"{where}: PRESETS must map a name to a dict of constants.")
        unknown = [key for key in values if key not in constants or key == PRESETS_NAME]
        if unknown:
            raise UnusableInput(
                f'{where}: the preset "{name}" sets {unknown[0]!r}, which the file never defines.'
            )
    return presets


def content_hash(source: str, filename: str = "operator.py") -> str:
    """SHA-256 of the code without docstrings, comments and white space, so that a copy is known again."""
    tree = parse_python(source, filename)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            drop_docstring(node)
    try:
        text = ast.unparse(tree)
    except RecursionError as error:
        raise UnusableInput(f"{filename}: the code is nested too deeply.") from error
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def drop_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Remove a leading string expression in place, keeping the body non-empty."""
    if ast.get_docstring(node, clean=False) is None:
        return
    node.body = node.body[1:]
    if not node.body and not isinstance(node, ast.Module):
        node.body = [ast.Pass()]
