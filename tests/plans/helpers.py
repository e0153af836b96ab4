"""Short ways to write and bind plans in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_eval.plans import Plan, Program, Scalar, TensorSpec, bind, parse_plan

COPY_KERNEL = (
    "__global__ void copy(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]; }"
)


def plan_text(body: str, *, kernels: str = COPY_KERNEL, language: str = "cuda", inputs: str = "x") -> str:
    """A plan whose `forward` has these body lines."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    arguments = f"{inputs}, params" if inputs else "params"
    return f'language = "{language}"\nkernels = r"""\n{kernels}\n"""\n\ndef forward({arguments}):\n{lines}\n'


def bound(
    body: str,
    shapes: Sequence[tuple[int, ...]] = ((8,),),
    params: dict[str, TensorSpec] | None = None,
    **more: Any,
) -> Program:
    """The program of a body over float32 inputs named x, y, z."""
    names = ", ".join("xyz"[: len(shapes)])
    limits = {key: more.pop(key) for key in ("limits", "infer_library") if key in more}
    plan: Plan = parse_plan(plan_text(body, inputs=names, **more))
    return bind(plan, [TensorSpec(shape) for shape in shapes], params or {}, **limits)


def evaluated(expression: str, kind: str = "int64") -> int | float:
    """The value of an arithmetic expression, as a kernel would be given it. ``x`` has shape (6, 4)."""
    body = f'y = empty_like(x)\nlaunch("copy", grid=1, block=1, args=[{kind}({expression})])\nreturn y'
    (launch,) = bound(body, [(6, 4)]).launches()
    (scalar,) = launch.args
    assert isinstance(scalar, Scalar)
    return scalar.value
