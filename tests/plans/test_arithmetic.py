"""Arithmetic in a plan is Python's arithmetic, within bounds."""

from __future__ import annotations

import ast
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_eval.plans import PlanError
from tests.plans.helpers import bound, evaluated

INT_BOUND = 2**63 - 1

_leaves = st.one_of(
    st.integers(0, 10**6), st.integers(0, 9), st.sampled_from(["x.numel", "x.shape[0]", "x.ndim"])
)
_operators = st.sampled_from(["+", "-", "*", "//", "%", "/", "<<", ">>", "&", "|", "^", "**"])


def _join(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(children, _operators, children).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(st.sampled_from(["-", "+", "~"]), children).map(lambda parts: f"({parts[0]}{parts[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), children, children).map(
            lambda p: f"{p[0]}({p[1]}, {p[2]})"
        ),
        st.tuples(children, children, children).map(lambda p: f"({p[0]} if {p[1]} < {p[2]} else {p[1]})"),
        st.tuples(children, children).map(lambda p: f"({p[0]} and {p[1]} or 1)"),
    )


_expressions = st.recursive(_leaves.map(str), _join, max_leaves=8)


class _X:
    """What ``x`` of shape (6, 4) is to Python."""

    numel, shape, ndim = 24, (6, 4), 2


class _OutOfBounds(Exception):
    pass


def _python(expression: str) -> int | float:
    """Python's own value, with the plan language's bounds applied to every intermediate result."""

    def value(node: ast.AST) -> int | float:
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            inner = [value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            if isinstance(node, ast.BinOp):
                whole = all(isinstance(item, int) for item in inner)
                if isinstance(node.op, ast.Pow) and whole and inner[1] > 64 and abs(inner[0]) > 1:
                    raise _OutOfBounds
                if isinstance(node.op, (ast.LShift, ast.RShift)) and not 0 <= inner[1] <= 64:
                    raise _OutOfBounds
            names = {f"v{index}": item for index, item in enumerate(inner)}
            clone = ast.parse(ast.unparse(node), mode="eval").body
            for index, field in enumerate(("left", "right") if isinstance(node, ast.BinOp) else ("operand",)):
                setattr(clone, field, ast.Name(f"v{index}", ast.Load()))
            code = compile(ast.fix_missing_locations(ast.Expression(clone)), "x", "eval")
            result = eval(code, {}, names)
            if isinstance(result, complex) or (isinstance(result, int) and abs(result) > INT_BOUND):
                raise _OutOfBounds
            return result
        if isinstance(node, ast.Call):
            items = [value(child) for child in node.args]
            return {"min": min, "max": max}[node.func.id](*items)  # type: ignore[attr-defined]
        if isinstance(node, ast.IfExp):
            return value(node.body if value(node.test) else node.orelse)
        if isinstance(node, ast.Compare):
            return value(node.left) < value(node.comparators[0])
        if isinstance(node, ast.BoolOp):
            result = value(node.values[0])
            for part in node.values[1:]:
                if bool(result) is isinstance(node.op, ast.Or):
                    return result
                result = value(part)
            return result
        return eval(compile(ast.Expression(node), "x", "eval"), {"x": _X})  # type: ignore[arg-type]

    return value(ast.parse(expression, mode="eval").body)


@given(_expressions)
@settings(max_examples=300, deadline=None)
def test_expressions_agree_with_python(expression: str) -> None:
    """Every expression has Python's value, or is refused where Python fails or a bound is passed."""
    try:
        expected = _python(expression)
    except (_OutOfBounds, ZeroDivisionError, ValueError, OverflowError, TypeError):
        with pytest.raises(PlanError):
            evaluated(expression, "float64")
        return
    if isinstance(expected, float) and not math.isfinite(expected):
        return
    assert evaluated(expression, "float64") == float(expected)


@given(st.integers(-(2**40), 2**40), st.integers(-(2**20), 2**20))
def test_cdiv_rounds_up(left: int, right: int) -> None:
    """cdiv is the exact quotient rounded up, for both signs."""
    if right == 0:
        with pytest.raises(PlanError, match="division by zero"):
            evaluated(f"cdiv({left}, {right})")
        return
    assert evaluated(f"cdiv({left}, {right})") == -(-left // right)


@given(st.integers())
def test_integers_are_bounded(value: int) -> None:
    """An int64 argument is exact or refused; nothing wraps."""
    if -(2**63) < value < 2**63:
        assert evaluated(str(value)) == value
    else:
        with pytest.raises(PlanError):
            evaluated(str(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive(value: float) -> None:
    """A float64 argument keeps every bit."""
    assert evaluated(repr(value), "float64") == value


REFUSED = {
    "power tower": "9 ** 9 ** 9",
    "big power": "2 ** 63",
    "big shift": "1 << 200",
    "negative shift": "1 << -1",
    "huge product": "x.numel * 10 ** 18 * 10",
    "division by zero": "1 // (x.ndim - 2)",
    "modulo by zero": "1 % 0",
    "infinite literal": "1e999",
    "infinite product": "1e300 * 1e300",
    "root of a negative": "(-1.5) ** 0.5",
    "string product": "'a' * 1000000000",
    "string sum": "'a' + 'b'",
    "tuple product": "(1, 2) * 3",
    "tuple and number": "(1,) + 1",
    "tensor sum": "x + x",
    "none": "-None",
    "bits of a float": "1.5 & 1",
    "invert a float": "~1.5",
    "order of strings": "1 if 'a' < 'b' else 2",
    "order of tuples": "1 if (1,) < (2,) else 2",
    "comparison with a tensor": "1 if x == x else 2",
    "truth of a tensor": "1 if x else 2",
    "not of a tensor": "not x",
    "scalar arithmetic": "int32(1) + 1",
    "min of nothing": "min(())",
    "min of strings": "min('a', 'b')",
    "cdiv of floats": "cdiv(1.5, 2)",
    "index out of range": "x.shape[2]",
    "index by a float": "x.shape[1.0]",
    "index of a number": "(1)[0]",
    "index of a tensor": "x[0]",
    "unknown name": "nothing + 1",
    "facts of a number": "(3).shape",
    "float for an integer": "1.0",
    "too wide": "int32(2147483648)",
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED.keys())
def test_refused_arithmetic_names_its_place(expression: str) -> None:
    """Values out of bounds and mixed types are errors with a place, never exceptions of Python's."""
    with pytest.raises(PlanError) as caught:
        evaluated(expression)
    assert caught.value.line == 8
    assert caught.value.column > 0


def test_typed_scalars_check_their_range() -> None:
    """A typed scalar holds its value exactly, or refuses it."""
    assert evaluated("-2147483648", "int32") == -2147483648
    assert evaluated("True", "int32") == 1
    assert evaluated("1 / 3", "float32") == 1 / 3
    for kind, value in (("int32", "2**31"), ("float32", "1e39"), ("float32", "'a'"), ("int32", "x")):
        with pytest.raises(PlanError):
            evaluated(value, kind)


def test_loops_and_branches_follow_python() -> None:
    """Loops, conditions and early returns run as they read."""
    body = """
total = 0
for i in range(2, 20, 3):
    if i % 2:
        total += i * x.numel
    elif i == 8:
        total -= 1
for i in range(3, 0, -1):
    total *= i
y = empty_like(x)
launch("copy", grid=1, block=1, args=[int64(total)])
if total > 0:
    return y
launch("copy", grid=1, block=1, args=[])
return x
"""
    (launch,) = bound(body, [(6, 4)]).launches()
    expected = sum(i * 24 for i in range(2, 20, 3) if i % 2) - 1
    assert launch.args[0].value == expected * 6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "bounds", ["10**9", "0, 10**12, 7", "x", "1.5", "0, 3, 0", "", "1, 2, 3, 4", "-(2**62), 2**62"]
)
def test_ranges_are_bounded(bounds: str) -> None:
    """No range runs long enough to stall the binder."""
    with pytest.raises(PlanError):
        bound(f"for i in range({bounds}):\n    pass\nreturn x")


def test_work_is_bounded() -> None:
    """Nested loops of legal length cannot run for ever."""
    with pytest.raises(PlanError, match="operations"):
        bound("n = 0\nfor i in range(60000):\n    for j in range(60000):\n        n += 1\nreturn x")
