"""Host arithmetic with Python's results and bounded size.

Failures are ArithmeticRefused with one sentence.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from gpu_eval.plans.limits import MAX_INT, MAX_TUPLE

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_BITS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ArithmeticRefused(ValueError):
    """An operation that a plan may not do, or whose result is out of bounds."""


def checked(value: Number) -> Number:
    """The number itself, when it fits 64 bits or is a finite float."""
    if isinstance(value, int):
        if abs(value) > MAX_INT:
            raise ArithmeticRefused("this integer does not fit 64 bits")
    elif not math.isfinite(value):
        raise ArithmeticRefused("this number is not finite")
    return value


def binary(kind: ast.operator, left: Any, right: Any) -> Any:
    """``left kind right`` for numbers; ``+`` also joins tuples."""
    if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(kind, ast.Add):
        if len(left) + len(right) > MAX_TUPLE:
            raise ArithmeticRefused(f"a tuple of more than {MAX_TUPLE} items is not allowed")
        return left + right
    if not (is_number(left) and is_number(right)):
        raise ArithmeticRefused(f"arithmetic needs two numbers, not {describe(left)} and {describe(right)}")
    try:
        return checked(_compute(kind, left, right))
    except ZeroDivisionError:
        raise ArithmeticRefused("division by zero") from None
    except OverflowError:
        raise ArithmeticRefused("this number is too large") from None


def _compute(kind: ast.operator, left: Number, right: Number) -> Number:
    if type(kind) in _BITS:
        return _bits(kind, left, right)
    if isinstance(kind, ast.Pow):
        return _power(left, right)
    return _BINARY[type(kind)](left, right)


def _bits(kind: ast.operator, left: Number, right: Number) -> int:
    if not (isinstance(left, int) and isinstance(right, int)):
        raise ArithmeticRefused("bit operations need integers")
    if isinstance(kind, (ast.LShift, ast.RShift)) and not 0 <= right <= 64:
        raise ArithmeticRefused("a shift is by 0 to 64 bits")
    return _BITS[type(kind)](left, right)


def _power(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
        raise ArithmeticRefused("this integer does not fit 64 bits")
    result = left**right
    if isinstance(result, complex):
        raise ArithmeticRefused("a root of a negative number is not allowed")
    return result


def unary(kind: ast.unaryop, value: Any) -> Any:
    """``-v``, ``+v``, ``~v`` or ``not v``."""
    if isinstance(kind, ast.Not):
        return not truth(value)
    if not is_number(value):
        raise ArithmeticRefused(f"arithmetic needs a number, not {describe(value)}")
    if isinstance(kind, ast.Invert):
        if not isinstance(value, int):
            raise ArithmeticRefused("bit operations need integers")
        return checked(-value - 1)
    return checked(-value if isinstance(kind, ast.USub) else +value)


def compare(kind: ast.cmpop, left: Any, right: Any) -> bool:
    """Numbers compare with numbers; tuples, strings and None by equality only."""
    if is_number(left) and is_number(right):
        return _COMPARE[type(kind)](left, right)
    plain = (tuple, str, int, float, type(None))
    if isinstance(kind, (ast.Eq, ast.NotEq)) and isinstance(left, plain) and isinstance(right, plain):
        return _COMPARE[type(kind)](left, right)
    raise ArithmeticRefused(f"{describe(left)} and {describe(right)} cannot be compared")


def truth(value: Any) -> bool:
    """Python's truth of a number, string, tuple or None."""
    if isinstance(value, (int, float, str, tuple, type(None))):
        return bool(value)
    raise ArithmeticRefused(f"{describe(value)} has no truth value; decide on shapes and numbers")


def cdiv(left: Any, right: Any) -> int:
    """Division of integers, rounded up."""
    if not (isinstance(left, int) and isinstance(right, int)):
        raise ArithmeticRefused(f"cdiv needs two integers, not {describe(left)} and {describe(right)}")
    if right == 0:
        raise ArithmeticRefused("division by zero")
    return int(checked(-(-left // right)))


def extreme(name: str, values: tuple[Any, ...]) -> Number:
    """``min`` or ``max`` of two or more numbers, or of one tuple of them."""
    if len(values) == 1 and isinstance(values[0], tuple):
        values = values[0]
    if not values or not all(is_number(value) for value in values):
        raise ArithmeticRefused(f"{name} needs numbers")
    return min(values) if name == "min" else max(values)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def describe(value: Any) -> str:
    """What a value is, for an error sentence."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "a bool"
    names = {int: "an integer", float: "a float", str: "a string", tuple: "a tuple", dict: "a dict"}
    return names.get(type(value)) or str(getattr(value, "PLAN_WORD", type(value).__name__))
