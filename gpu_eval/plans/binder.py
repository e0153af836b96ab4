"""From a plan and fixed shapes to a flat `Program`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_eval.plans.arithmetic import describe
from gpu_eval.plans.builder import ProgramBuilder
from gpu_eval.plans.builtins import Builtins, InferLibrary
from gpu_eval.plans.errors import PlanError
from gpu_eval.plans.interpreter import CallRefused, Interpreter, Parameters
from gpu_eval.plans.kernels import kernel_names
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.parser import Plan
from gpu_eval.plans.program import Program, SlotKind, SlotView
from gpu_eval.plans.specs import Scalar, TensorSpec

__all__ = ["InferLibrary", "bind"]

_DEFAULTS = BindLimits()


def bind(
    plan: Plan,
    inputs: Sequence[TensorSpec | int | float | bool],
    params: Mapping[str, TensorSpec],
    *,
    limits: BindLimits = _DEFAULTS,
    infer_library: InferLibrary | None = None,
) -> Program:
    """Interpret ``prepare`` and ``forward`` once over ``inputs`` (in order) and ``params`` (dotted names).

    ``infer_library`` gives the result specs of a library call (`DeviceBackend.infer_library`); without it a
    plan that calls ``lib.<op>`` is refused. Raises PlanError on bad shapes, arguments, or anything out of
    bounds.
    """
    builder = ProgramBuilder(plan.language, limits)
    names = kernel_names(plan.kernels, plan.language)
    interpreter = Interpreter(Builtins(builder, infer_library, names.may_hold), limits, plan.filename)
    arguments, input_slots = _inputs(plan, builder, inputs)
    given = Parameters({name: builder.given(SlotKind.PARAM, spec, name) for name, spec in params.items()})
    param_slots = {name: view.slot for name, view in given.items()}
    seen = given if plan.prepare is None else _prepared(plan, builder, interpreter, given)
    returned = interpreter.run(plan.forward, {**arguments, "params": seen})
    outputs = _outputs(plan, builder, returned)
    return Program(
        language=plan.language,
        slots=tuple(builder.slots),
        inputs=input_slots,
        params=param_slots,
        prepare_steps=tuple(builder.prepare_steps),
        steps=tuple(builder.steps),
        outputs=outputs,
        returns_tuple=isinstance(returned, tuple),
    )


def _inputs(
    plan: Plan, builder: ProgramBuilder, inputs: Sequence[TensorSpec | int | float | bool]
) -> tuple[dict[str, Any], tuple[int | None, ...]]:
    names = plan.input_names
    if len(names) != len(inputs):
        there = "input" if len(inputs) == 1 else "inputs"
        raise _at(
            plan, plan.forward, f"forward takes {len(names)}, but the operator has {len(inputs)} {there}"
        )
    arguments: dict[str, Any] = {}
    slots: list[int | None] = []
    for name, value in zip(names, inputs, strict=True):
        if isinstance(value, TensorSpec):
            view = builder.given(SlotKind.INPUT, value, name)
            arguments[name] = view
            slots.append(view.slot)
        else:
            arguments[name] = value
            slots.append(None)
    return arguments, tuple(slots)


def _prepared(plan: Plan, builder: ProgramBuilder, interpreter: Interpreter, given: Parameters) -> Parameters:
    assert plan.prepare is not None
    builder.preparing = True
    returned = interpreter.run(plan.prepare, {"params": given})
    builder.preparing = False
    if isinstance(returned, Parameters):
        return returned
    if not isinstance(returned, dict):
        raise _at(plan, plan.prepare, f"prepare returns a dict, not {describe(returned)}")
    for key, value in returned.items():
        if isinstance(value, (dict, Scalar)):
            raise _at(
                plan,
                plan.prepare,
                f"prepare returns {describe(value)} for {key!r}; tensors and numbers can be kept",
            )
    return Parameters(returned)


def _outputs(plan: Plan, builder: ProgramBuilder, returned: Any) -> tuple[SlotView, ...]:
    values = returned if isinstance(returned, tuple) else (returned,)
    if not values:
        raise _at(plan, plan.forward, "forward returns an empty tuple")
    taken: set[int] = set()
    outputs: list[SlotView] = []
    for number, value in enumerate(values):
        if not isinstance(value, SlotView):
            raise _at(
                plan,
                plan.forward,
                f"forward returns {describe(value)}; it must return a tensor or a tuple of tensors",
            )
        try:
            outputs.append(builder.output(value, number, taken, plan.forward.lineno))
        except CallRefused as error:
            raise _at(plan, plan.forward, str(error)) from None
    return tuple(outputs)


def _at(plan: Plan, node: ast.AST, message: str) -> PlanError:
    return PlanError(message, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, plan.filename)
