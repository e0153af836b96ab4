"""Point-wise ATen operations as expressions over a few primitives.

Each entry takes the builder, the node's arguments (handles, numbers) and its result dtype. Formulas are those of
torch's CPU kernels, so NaN and infinities travel the same way: `max` and `min` hand NaN on, comparisons are false.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from optimizer.recipes.builder import Builder, Handle

Entry = Callable[..., Handle]
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def unary(name: str) -> Entry:
    def build(b: Builder, x: Handle, *, dtype: str) -> Handle:
        return b.op(name, x, dtype=dtype)

    return build


def binary(name: str) -> Entry:
    def build(b: Builder, left: Any, right: Any, *, dtype: str) -> Handle:
        return b.op(name, left, right, dtype=dtype)

    return build


def comparison(name: str) -> Entry:
    def build(b: Builder, left: Any, right: Any, *, dtype: str) -> Handle:
        return b.op(name, left, right)

    return build


def add(b: Builder, x: Any, y: Any, alpha: Any = 1, *, dtype: str) -> Handle:
    return b.op("add", x, _scaled(b, y, alpha, dtype), dtype=dtype)


def sub(b: Builder, x: Any, y: Any, alpha: Any = 1, *, dtype: str) -> Handle:
    return b.op("sub", x, _scaled(b, y, alpha, dtype), dtype=dtype)


def rsub(b: Builder, x: Any, y: Any, alpha: Any = 1, *, dtype: str) -> Handle:
    return b.op("sub", y, _scaled(b, x, alpha, dtype), dtype=dtype)


def _scaled(b: Builder, value: Any, alpha: Any, dtype: str) -> Any:
    if not isinstance(alpha, Handle) and alpha == 1:
        return value
    return b.op("mul", value, alpha, dtype=dtype)


def div(b: Builder, x: Any, y: Any, *, rounding_mode: str | None = None, dtype: str) -> Handle:
    if rounding_mode is None:
        return b.op("div", x, y, dtype=dtype)
    if not dtype.startswith("float"):
        raise b.refuse("divides integers with rounding")
    return b.op(
        {"floor": "floor", "trunc": "trunc"}[rounding_mode], b.op("div", x, y, dtype=dtype), dtype=dtype
    )


def reciprocal(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return b.op("div", 1.0, x, dtype=dtype)


def square(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op("mul", x, x, dtype=dtype)


def power(b: Builder, x: Any, y: Any, *, dtype: str) -> Handle:
    if isinstance(y, (int, float)):
        x = b.lift(x, dtype)
        if y == 1:
            return b.op("copy", x, dtype=dtype)
        if y in (2, 3, 4):
            squared = b.op("mul", x, x, dtype=dtype)
            return {
                2: lambda: squared,
                3: lambda: b.op("mul", squared, x, dtype=dtype),
                4: lambda: b.op("mul", squared, squared, dtype=dtype),
            }[int(y)]()
        if dtype.startswith("float"):
            if y == 0.5:
                return b.op("sqrt", x, dtype=dtype)
            if y == -0.5:
                return b.op("rsqrt", x, dtype=dtype)
            if y == -1:
                return b.op("div", 1.0, x, dtype=dtype)
            if y == -2:
                return b.op("div", 1.0, b.op("mul", x, x, dtype=dtype), dtype=dtype)
    if not dtype.startswith("float"):
        raise b.refuse("raises integers to a power")
    if isinstance(x, (int, float)) and x == 2:
        return b.op("exp2", y, dtype=dtype)
    return b.op("pow", x, y, dtype=dtype)


def remainder(b: Builder, x: Any, y: Any, *, dtype: str) -> Handle:
    if not dtype.startswith("float"):
        raise b.refuse("takes remainders of integers")
    x, y = b.lift(x, dtype), b.lift(y, dtype)
    rest = b.op("fmod", x, y, dtype=dtype)
    differs = b.op("and", b.op("ne", rest, 0.0), b.op("ne", b.op("lt", rest, 0.0), b.op("lt", y, 0.0)))
    return b.op("where", differs, b.op("add", rest, y, dtype=dtype), rest, dtype=dtype)


def relu(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return b.op("max", x, 0, dtype=dtype)


def clamp(b: Builder, x: Handle, min: Any = None, max: Any = None, *, dtype: str) -> Handle:
    if min is not None:
        x = b.op("max", x, min, dtype=dtype)
    if max is not None:
        x = b.op("min", x, max, dtype=dtype)
    return x


def hardtanh(b: Builder, x: Handle, min_val: Any = -1.0, max_val: Any = 1.0, *, dtype: str) -> Handle:
    return clamp(b, x, min_val, max_val, dtype=dtype)


def relu6(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return clamp(b, x, 0.0, 6.0, dtype=dtype)


def leaky_relu(b: Builder, x: Handle, negative_slope: Any = 0.01, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op("where", b.op("gt", x, 0.0), x, b.op("mul", x, negative_slope, dtype=dtype), dtype=dtype)


def threshold(b: Builder, x: Handle, limit: Any, value: Any, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op("where", b.op("le", x, limit), value, x, dtype=dtype)


def sigmoid(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return b.op(
        "div",
        1.0,
        b.op("add", b.op("exp", b.op("neg", x, dtype=dtype), dtype=dtype), 1.0, dtype=dtype),
        dtype=dtype,
    )


def silu(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op(
        "div",
        x,
        b.op("add", b.op("exp", b.op("neg", x, dtype=dtype), dtype=dtype), 1.0, dtype=dtype),
        dtype=dtype,
    )


def softplus(b: Builder, x: Handle, beta: Any = 1.0, threshold: Any = 20.0, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    scaled = x if beta == 1 else b.op("mul", x, beta, dtype=dtype)
    soft = b.op("log1p", b.op("exp", scaled, dtype=dtype), dtype=dtype)
    if beta != 1:
        soft = b.op("div", soft, beta, dtype=dtype)
    return b.op("where", b.op("gt", scaled, threshold), x, soft, dtype=dtype)


def mish(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    soft = b.op("log1p", b.op("exp", x, dtype=dtype), dtype=dtype)
    return b.op("mul", x, b.op("tanh", soft, dtype=dtype), dtype=dtype)


def gelu(b: Builder, x: Handle, *, approximate: str = "none", dtype: str) -> Handle:
    x = b.lift(x, dtype)
    half = b.op("mul", x, 0.5, dtype=dtype)
    if approximate == "tanh":
        cube = b.op("mul", b.op("mul", x, x, dtype=dtype), x, dtype=dtype)
        inner = b.op("add", x, b.op("mul", cube, 0.044715, dtype=dtype), dtype=dtype)
        bend = b.op("tanh", b.op("mul", inner, math.sqrt(2.0 / math.pi), dtype=dtype), dtype=dtype)
    else:
        bend = b.op("erf", b.op("mul", x, math.sqrt(0.5), dtype=dtype), dtype=dtype)
    return b.op("mul", half, b.op("add", bend, 1.0, dtype=dtype), dtype=dtype)


def elu(
    b: Builder, x: Handle, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0, *, dtype: str
) -> Handle:
    x = b.lift(x, dtype)
    scaled = x if input_scale == 1 else b.op("mul", x, input_scale, dtype=dtype)
    bent = b.op("expm1", scaled, dtype=dtype)
    if alpha != 1:
        bent = b.op("mul", bent, alpha, dtype=dtype)
    value = b.op("where", b.op("gt", x, 0.0), x, bent, dtype=dtype)
    return value if scale == 1 else b.op("mul", value, scale, dtype=dtype)


def selu(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return elu(b, x, SELU_ALPHA, SELU_SCALE, dtype=dtype)


def celu(b: Builder, x: Handle, alpha: Any = 1.0, *, dtype: str) -> Handle:
    return elu(b, x, alpha, 1.0, 1.0 / alpha, dtype=dtype)


def _ramp(b: Builder, x: Handle, dtype: str) -> Handle:
    return clamp(b, b.op("add", x, 3.0, dtype=dtype), 0.0, 6.0, dtype=dtype)


def hardswish(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op("div", b.op("mul", x, _ramp(b, x, dtype), dtype=dtype), 6.0, dtype=dtype)


def hardsigmoid(b: Builder, x: Handle, *, dtype: str) -> Handle:
    return b.op("div", _ramp(b, b.lift(x, dtype), dtype), 6.0, dtype=dtype)


def log_sigmoid(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    tail = b.op("exp", b.op("neg", b.op("abs", x, dtype=dtype), dtype=dtype), dtype=dtype)
    return b.op("sub", b.op("min", x, 0.0, dtype=dtype), b.op("log1p", tail, dtype=dtype), dtype=dtype)


def softshrink(b: Builder, x: Handle, lambd: Any = 0.5, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    low = b.op(
        "where", b.op("lt", x, -lambd), b.op("add", x, lambd, dtype=dtype), b.op("mul", x, 0.0), dtype=dtype
    )
    return b.op("where", b.op("gt", x, lambd), b.op("sub", x, lambd, dtype=dtype), low, dtype=dtype)


def hardshrink(b: Builder, x: Handle, lambd: Any = 0.5, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    inside = b.op("and", b.op("ge", x, -lambd), b.op("le", x, lambd))
    return b.op("where", inside, 0.0, x, dtype=dtype)


def sign(b: Builder, x: Handle, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    negative = b.op("where", b.op("lt", x, 0), -1, 0, dtype=dtype)
    return b.op("where", b.op("gt", x, 0), 1, negative, dtype=dtype)


def where(b: Builder, condition: Handle, x: Any, y: Any, *, dtype: str) -> Handle:
    return b.op("where", condition, x, y, dtype=dtype)


def masked_fill(b: Builder, x: Handle, mask: Handle, value: Any, *, dtype: str) -> Handle:
    return b.op("where", mask, value, x, dtype=dtype)


def lerp(b: Builder, x: Handle, end: Handle, weight: Any, *, dtype: str) -> Handle:
    x = b.lift(x, dtype)
    return b.op("add", x, b.op("mul", b.op("sub", end, x, dtype=dtype), weight, dtype=dtype), dtype=dtype)


def addcmul(b: Builder, x: Handle, y: Handle, z: Handle, *, value: Any = 1, dtype: str) -> Handle:
    return b.op("add", x, _scaled(b, b.op("mul", y, z, dtype=dtype), value, dtype), dtype=dtype)


def addcdiv(b: Builder, x: Handle, y: Handle, z: Handle, *, value: Any = 1, dtype: str) -> Handle:
    return b.op("add", x, b.op("div", _scaled(b, y, value, dtype), z, dtype=dtype), dtype=dtype)


def nan_to_num(
    b: Builder, x: Handle, nan: Any = None, posinf: Any = None, neginf: Any = None, *, dtype: str
) -> Handle:
    if dtype != "float32":
        raise b.refuse(f"works on {dtype}")
    x = b.lift(x, dtype)
    largest = 3.4028234663852886e38
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    value = b.op("where", b.op("eq", x, math.inf), high, x, dtype=dtype)
    value = b.op("where", b.op("eq", x, -math.inf), low, value, dtype=dtype)
    return b.op("where", b.op("isnan", x), nan or 0.0, value, dtype=dtype)


def prelu(b: Builder, x: Handle, weight: Handle, *, dtype: str) -> Handle:
    channels = math.prod(weight.shape)
    shape = [1] * len(x.shape)
    if channels != 1:
        shape[1 if len(x.shape) > 1 else 0] = channels
    slope = b.reshape(weight, shape)
    x = b.lift(x, dtype)
    return b.op("where", b.op("gt", x, 0.0), x, b.op("mul", slope, x, dtype=dtype), dtype=dtype)


def glu(b: Builder, x: Handle, dim: int = -1, *, dtype: str) -> Handle:
    dim %= len(x.shape)
    half = x.shape[dim] // 2
    gate = sigmoid(b, b.lift(b.slice(x, dim, half, half), dtype), dtype=dtype)
    return b.op("mul", b.slice(x, dim, 0, half), gate, dtype=dtype)


def cast(b: Builder, x: Handle, *_: Any, dtype: str, **__: Any) -> Handle:
    return b.op("copy", b.cast(x, dtype), dtype=dtype)


def copy(b: Builder, x: Handle, *_: Any, dtype: str, **__: Any) -> Handle:
    return x


def logical(name: str) -> Entry:
    def build(b: Builder, *values: Any, dtype: str) -> Handle:
        if dtype != "bool":
            raise b.refuse(f"works on the bits of {dtype}")
        return b.op(
            name, *[b.op("ne", v, 0) if isinstance(v, Handle) and v.dtype != "bool" else v for v in values]
        )

    return build


def predicate(name: str) -> Entry:
    def build(b: Builder, x: Handle, *, dtype: str) -> Handle:
        return b.op(name, x)

    return build


_UNARY = (
    "neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc floor ceil trunc round"
).split()

# ATen base name (before the overload) -> entry.
POINTWISE: dict[str, Entry] = {
    **{name: unary(name) for name in _UNARY},
    **{name: comparison(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{f"logical_{name}": logical(name) for name in ("and", "or", "xor", "not")},
    **{f"bitwise_{name}": logical(name) for name in ("and", "or", "xor", "not")},
    **{f"__{name}__": logical(name) for name in ("and", "or", "xor")},
    "isnan": predicate("isnan"), "isinf": predicate("isinf"),
    "add": add, "sub": sub, "rsub": rsub, "mul": binary("mul"), "div": div, "true_divide": div,
    "reciprocal": reciprocal, "square": square, "pow": power, "remainder": remainder, "fmod": binary("fmod"),
    "maximum": binary("max"), "minimum": binary("min"), "atan2": binary("atan2"), "relu": relu, "relu6": relu6,
    "clamp": clamp, "clip": clamp, "hardtanh": hardtanh, "leaky_relu": leaky_relu, "threshold": threshold,
    "clamp_min": lambda b, x, low, *, dtype: clamp(b, x, low, None, dtype=dtype),
    "clamp_max": lambda b, x, high, *, dtype: clamp(b, x, None, high, dtype=dtype),
    "sigmoid": sigmoid, "silu": silu, "softplus": softplus, "mish": mish, "gelu": gelu, "elu": elu, "selu": selu,
    "celu": celu, "hardswish": hardswish, "hardsigmoid": hardsigmoid, "log_sigmoid": log_sigmoid,
    "log_sigmoid_forward": log_sigmoid, "softshrink": softshrink, "hardshrink": hardshrink, "sign": sign,
    "where": where, "masked_fill": masked_fill, "lerp": lerp, "addcmul": addcmul, "addcdiv": addcdiv,
    "nan_to_num": nan_to_num, "prelu": prelu, "_prelu_kernel": prelu, "glu": glu, "to": cast, "_to_copy": cast,
    "clone": copy, "contiguous": copy, "alias": copy, "detach": copy, "lift_fresh_copy": copy, "positive": copy,
}  # fmt: skip
