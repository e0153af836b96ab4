"""The program texts of a bundle: the operator with its preset, the plain kernels, `model_new.py`,
`verify.py`."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

from gpu_eval.operators.source import bound_names, parse_operator
from gpu_eval.plans import Plan
from gpu_eval.plans.library import LIBRARY

TEMPLATES = Path(__file__).parent / "templates"
RUNTIMES = {"cuda": "PyCUDA", "opencl": "PyOpenCL"}
PACKAGES = {"cuda": "pycuda", "opencl": "pyopencl pocl-binary-distribution"}
WORDS = (
    "empty",
    "zeros",
    "empty_like",
    "reshape",
    "transpose",
    "slice",
    "contiguous",
    "launch",
    "cdiv",
    "int32",
    "int64",
    "float32",
    "float64",
    "lib",
)


def with_preset(source: str, preset: str) -> str:
    """The operator's text with the constants of a preset set where the file sets its own; "" leaves it as it
    is.

    They follow each assignment, so that constants derived from them follow too.
    """
    if not preset:
        return source
    values = parse_operator(source).presets[preset]
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        for name in sorted(bound_names(node) & values.keys(), reverse=True):
            lines.insert(node.end_lineno or node.lineno, f"{name} = {values[name]!r}  # preset {preset!r}")
    return "\n".join(lines) + "\n"


def source_file(language: str) -> str:
    return "kernels.cu" if language == "cuda" else "kernels.cl"


def model_new(operator_source: str, plan: Plan) -> str:
    """One file: the operator, the kernels, the plan's functions, a small runtime, and ModelNew."""
    kernels = [
        f"_KERNELS = {literal(plan.kernels)}",
        f"_KERNEL_NAMES = {plan.launch_names!r}",
        f"_LIBRARY = {library_paths(plan)!r}",
    ]
    parts = [
        operator_source.rstrip(),
        section("The kernels and the plan that launches them"),
        "\n".join(kernels),
        plan_functions(plan),
        section(f"The plan's words over torch and {RUNTIMES[plan.language]}"),
        template("plan_runtime.py.txt"),
        template(f"runtime_{plan.language}.py.txt"),
        section("The operator on the kernels"),
        template("model_new.py.txt"),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def plan_functions(plan: Plan) -> str:
    """The plan's functions inside one whose parameters are the plan's words."""
    functions = [node for node in (plan.prepare, plan.forward) if node is not None]
    bodies = "\n\n".join(ast.get_source_segment(plan.text, node) or ast.unparse(node) for node in functions)
    prepare = "prepare" if plan.prepare is not None else "None"
    return "\n".join(
        [
            f"def _plan({', '.join(WORDS)}):",
            textwrap.indent(bodies, "    "),
            "",
            f"    return forward, {prepare}",
        ]
    )


def library_paths(plan: Plan) -> dict[str, str]:
    """The torch operations that the plan names, with their paths under torch."""
    functions = [node for node in (plan.prepare, plan.forward) if node is not None]
    names = {
        node.attr
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "lib"
    }
    return {name: LIBRARY[name].path for name in sorted(names)}


def literal(text: str) -> str:
    """A readable string literal of a source."""
    if '"""' in text or text.endswith("\\") or text.endswith('"') or "\r" in text:
        return repr(text)
    return f'r"""{text}"""'


def section(title: str) -> str:
    return f"# {title}\n# {'-' * len(title)}"


def template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def filled(name: str, values: dict[str, Any]) -> str:
    """A template with each ``@NAME@`` replaced."""
    text = template(name)
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text
