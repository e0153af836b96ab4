"""Evaluates one of a plan's functions over tensor specs. Knows syntax.

What the calls mean is `builtins`' matter.
"""

from __future__ import annotations

import ast
from typing import Any, Protocol

from gpu_eval.plans.arithmetic import (
    ArithmeticRefused,
    binary,
    checked,
    compare,
    describe,
    is_number,
    truth,
    unary,
)
from gpu_eval.plans.errors import LibraryRefused, PlanError
from gpu_eval.plans.limits import MAX_TUPLE, BindLimits
from gpu_eval.plans.program import SlotView
from gpu_eval.plans.views import ViewRefused


class CallRefused(ValueError):
    """A call whose arguments or result a plan may not have; one sentence."""


class Parameters(dict[str, Any]):
    """What ``params`` is inside a plan: dotted names to tensors (or what `prepare` returned), read only."""

    PLAN_WORD = "params"


class Calls(Protocol):
    """What the interpreter asks of the vocabulary."""

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any], line: int) -> Any: ...

    def library(self, op: str, args: list[Any], kwargs: dict[str, Any], line: int) -> Any: ...


_REFUSED = (ArithmeticRefused, ViewRefused, CallRefused, LibraryRefused)


class Interpreter:
    """Runs a checked function once. ``work`` counts evaluated nodes, so that no plan binds for ever."""

    def __init__(self, calls: Calls, limits: BindLimits, filename: str) -> None:
        self.calls = calls
        self.limits = limits
        self.filename = filename
        self.work = 0
        self.names: dict[str, Any] = {}

    def run(self, function: ast.FunctionDef, arguments: dict[str, Any]) -> Any:
        """The returned value. Raises PlanError with the place."""
        self.names = dict(arguments)
        returned, value = self.block(function.body)
        if not returned:
            raise self.error(function, f"{function.name} ends without a return")
        return value

    def error(self, node: ast.AST, message: str) -> PlanError:
        return PlanError(
            message, getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1, self.filename
        )

    # statements: each says whether the function has returned, and what

    def block(self, statements: list[ast.stmt]) -> tuple[bool, Any]:
        for statement in statements:
            returned, value = self.statement(statement)
            if returned:
                return True, value
        return False, None

    def statement(self, node: ast.stmt) -> tuple[bool, Any]:
        self.spend(node)
        if isinstance(node, ast.Return):
            assert node.value is not None
            return True, self.value(node.value)
        if isinstance(node, ast.If):
            return self.block(node.body if self.test(node.test) else node.orelse)
        if isinstance(node, ast.For):
            return self.loop(node)
        if isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.AugAssign):
            self.augment(node)
        elif isinstance(node, ast.Expr):
            self.value(node.value)
        return False, None

    def assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = value
                continue
            assert isinstance(target, ast.Tuple)
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                size = f"a tuple of {len(value)}" if isinstance(value, tuple) else describe(value)
                raise self.error(target, f"{len(target.elts)} names cannot take {size}")
            for name, item in zip(target.elts, value, strict=True):
                self.names[name.id] = item  # type: ignore[attr-defined]

    def augment(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        left = self.look_up(node.target)
        self.names[node.target.id] = self.refused(node, binary, node.op, left, self.value(node.value))

    def loop(self, node: ast.For) -> tuple[bool, Any]:
        assert isinstance(node.target, ast.Name)
        for index in self.range(node.iter):
            self.names[node.target.id] = index
            returned, value = self.block(node.body)
            if returned:
                return True, value
        return False, None

    def range(self, node: ast.expr) -> range:
        assert isinstance(node, ast.Call)
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise self.error(node, "range takes one to three integers")
        bounds = [self.value(argument) for argument in node.args]
        if not all(isinstance(bound, int) for bound in bounds):
            raise self.error(node, "range takes integers")
        if len(bounds) == 3 and bounds[2] == 0:
            raise self.error(node, "the step of a range is not 0")
        numbers = range(*bounds)
        span = max(0, (numbers.stop - numbers.start) // numbers.step + 1)
        if span > self.limits.max_loop + 1 or len(numbers) > self.limits.max_loop:
            raise self.error(node, f"this range is longer than {self.limits.max_loop}")
        return numbers

    # expressions

    def spend(self, node: ast.AST) -> None:
        self.work += 1
        if self.work > self.limits.max_work:
            raise self.error(node, f"the plan does more than {self.limits.max_work} operations")

    def refused(self, node: ast.AST, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except _REFUSED as error:
            raise self.error(node, str(error)) from None

    def test(self, node: ast.expr) -> bool:
        return self.refused(node, truth, self.value(node))

    def value(self, node: ast.expr) -> Any:
        self.spend(node)
        return getattr(self, "on_" + type(node).__name__.lower())(node)

    def on_constant(self, node: ast.Constant) -> Any:
        if is_number(node.value):
            return self.refused(node, checked, node.value)
        return node.value

    def look_up(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise self.error(node, f"the name {node.id!r} has no value here")
        return self.names[node.id]

    def on_name(self, node: ast.Name) -> Any:
        return self.look_up(node)

    def on_tuple(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        if len(node.elts) > MAX_TUPLE:
            raise self.error(node, f"a tuple of more than {MAX_TUPLE} items is not allowed")
        return tuple(self.value(item) for item in node.elts)

    on_list = on_tuple

    def on_dict(self, node: ast.Dict) -> dict[str, Any]:
        keys = [key.value for key in node.keys]  # type: ignore[union-attr]
        return dict(zip(keys, [self.value(item) for item in node.values], strict=True))

    def on_binop(self, node: ast.BinOp) -> Any:
        return self.refused(node, binary, node.op, self.value(node.left), self.value(node.right))

    def on_unaryop(self, node: ast.UnaryOp) -> Any:
        return self.refused(node, unary, node.op, self.value(node.operand))

    def on_boolop(self, node: ast.BoolOp) -> Any:
        stop = isinstance(node.op, ast.Or)
        value: Any = None
        for part in node.values:
            value = self.value(part)
            if self.refused(part, truth, value) is stop:
                break
        return value

    def on_compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for kind, side in zip(node.ops, node.comparators, strict=True):
            right = self.value(side)
            if not self.refused(node, compare, kind, left, right):
                return False
            left = right
        return True

    def on_ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.test(node.test) else node.orelse)

    def on_attribute(self, node: ast.Attribute) -> Any:
        tensor = self.value(node.value)
        if not isinstance(tensor, SlotView):
            raise self.error(node, f"only a tensor has .{node.attr}; this is {describe(tensor)}")
        facts = {
            "shape": tensor.shape,
            "ndim": len(tensor.shape),
            "numel": tensor.numel,
            "dtype": tensor.dtype,
        }
        return facts[node.attr]

    def on_subscript(self, node: ast.Subscript) -> Any:
        container = self.value(node.value)
        if isinstance(container, Parameters):
            return self.parameter(container, node)
        if not isinstance(container, tuple):
            hint = "; use slice(t, dim, start, stop)" if isinstance(container, SlotView) else ""
            raise self.error(node, f"{describe(container)} cannot be indexed{hint}")
        if isinstance(node.slice, ast.Slice):
            return container[self.bounds(node.slice)]
        index = self.value(node.slice)
        if not isinstance(index, int):
            raise self.error(node.slice, f"a tuple is indexed by an integer, not {describe(index)}")
        if not -len(container) <= index < len(container):
            raise self.error(node, f"index {index} is outside a tuple of {len(container)}")
        return container[index]

    def on_slice(self, node: ast.Slice) -> Any:
        raise self.error(node, "a slice is allowed on tuples only")

    def bounds(self, node: ast.Slice) -> slice:
        parts = [None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)]
        if not all(part is None or isinstance(part, int) for part in parts) or parts[2] == 0:
            raise self.error(node, "a tuple is sliced by integers")
        return slice(*parts)

    def parameter(self, params: Parameters, node: ast.Subscript) -> Any:
        key = self.value(node.slice)
        if not isinstance(key, str):
            raise self.error(node.slice, "params is indexed by a name in quotes")
        if key not in params:
            there = ", ".join(sorted(params)[:12]) or "none"
            raise self.error(node, f"params has no {key!r}; it has: {there}")
        return params[key]

    def on_call(self, node: ast.Call) -> Any:
        args = [self.value(argument) for argument in node.args]
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            assert keyword.arg is not None
            kwargs[keyword.arg] = self.value(keyword.value)
        if isinstance(node.func, ast.Name):
            return self.refused(node, self.calls.call, node.func.id, args, kwargs, node.lineno)
        assert isinstance(node.func, ast.Attribute)
        return self.refused(node, self.calls.library, node.func.attr, args, kwargs, node.lineno)
