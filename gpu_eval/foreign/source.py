"""What can be said of a foreign file without running it."""

from __future__ import annotations

import ast

from gpu_eval.candidates import CandidateFailure
from gpu_eval.errors import UnusableInput
from gpu_eval.limits import MAX_PLAN_BYTES
from gpu_eval.operators.source import content_hash, parse_python
from gpu_eval.results import Verdict

CLASS = "ModelNew"


def check_source(text: str, filename: str) -> str:
    """The content hash of a foreign file. Raises CandidateFailure (rejected) with a sentence that names file and
    line: too large, not Python, or nothing in it binds `ModelNew`."""
    if len(text.encode("utf-8", "replace")) > MAX_PLAN_BYTES:
        raise rejected(f"{filename} is larger than {MAX_PLAN_BYTES // 1000} kB.")
    try:
        tree = parse_python(text, filename)
        digest = content_hash(text, filename)
    except UnusableInput as error:
        raise rejected(str(error)) from error
    if not binds(tree, CLASS):
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        found = f" (its classes: {', '.join(classes[:5])})" if classes else ""
        raise rejected(
            f"{filename} defines no class {CLASS}{found}: a foreign file holds a torch.nn.Module of that name."
        )
    return digest


def binds(tree: ast.Module, name: str) -> bool:
    """Whether the module may give ``name`` a value: a class, a function, an assignment, an import."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and name in (node.asname, node.name, "*"):
            return True
    return False


def rejected(sentence: str) -> CandidateFailure:
    return CandidateFailure(Verdict.REJECTED, sentence)
