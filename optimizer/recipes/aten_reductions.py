"""Row reductions and the normalisations made of them.

Each entry yields a handle (or a list, for operations with several results) from the same primitives as the
point-wise ones plus `Builder.reduce`. Softmax is taken relative to the row's maximum and variances around the row's
mean, as torch does; single-pass forms are a later rewrite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from optimizer.recipes.builder import Builder, Handle

Entry = Callable[..., Any]
FLOAT32_EPSILON = 1.1920928955078125e-07


def dims_of(x: Handle, dim: Any) -> list[int]:
    """Normalised dimensions; None or an empty list means all."""
    if dim is None or dim == []:
        return list(range(len(x.shape)))
    listed = [dim] if isinstance(dim, int) else list(dim)
    return sorted(position % max(len(x.shape), 1) for position in listed)


def count_of(x: Handle, dims: Sequence[int]) -> int:
    return math.prod(x.shape[dim] for dim in dims)


def simple(kind: str) -> Entry:
    def build(b: Builder, x: Handle, dim: Any = None, keepdim: bool = False, *, dtype: str) -> Handle:
        return b.reduce(kind, b.lift(x, dtype), dims_of(x, dim), keepdim)

    return build


def sum_(b: Builder, x: Handle, dim: Any = None, keepdim: bool = False, *, dtype: str) -> Handle:
    return b.reduce("sum", b.lift(x, dtype), dims_of(x, dim), keepdim)


def mean(b: Builder, x: Handle, dim: Any = None, keepdim: bool = False, *, dtype: str) -> Handle:
    dims = dims_of(x, dim)
    total = b.reduce("sum", b.lift(x, dtype), dims, keepdim)
    return _over(b, total, count_of(x, dims), dtype)


def _over(b: Builder, total: Handle, count: float, dtype: str) -> Handle:
    return b.op("div", total, float(count), dtype=dtype)


def extreme_of_dim(kind: str) -> Entry:
    """max.dim and min.dim: values; the indices have no recipe, so using them is refused later."""

    def build(b: Builder, x: Handle, dim: Any = None, keepdim: bool = False, *, dtype: str) -> Any:
        value = b.reduce(kind, b.lift(x, dtype), dims_of(x, dim), keepdim)
        return value if dim is None else [value, None]

    return build


def softmax(b: Builder, x: Handle, dim: int, *_: Any, dtype: str) -> Handle:
    b.composites[b.origin] = "softmax"
    dims, x = dims_of(x, dim), b.lift(x, dtype)
    peak = b.reduce("max", x, dims, True)
    weight = b.op("exp", b.op("sub", x, peak, dtype=dtype), dtype=dtype)
    return b.op("div", weight, b.reduce("sum", weight, dims, True), dtype=dtype)


def log_softmax(b: Builder, x: Handle, dim: int, *_: Any, dtype: str) -> Handle:
    b.composites[b.origin] = "log_softmax"
    dims, x = dims_of(x, dim), b.lift(x, dtype)
    peak = b.reduce("max", x, dims, True)
    centred = b.op("sub", x, peak, dtype=dtype)
    total = b.reduce("sum", b.op("exp", centred, dtype=dtype), dims, True)
    return b.op("sub", centred, b.op("log", total, dtype=dtype), dtype=dtype)


def logsumexp(b: Builder, x: Handle, dim: Any, keepdim: bool = False, *, dtype: str) -> Handle:
    b.composites[b.origin] = "logsumexp"
    dims, x = dims_of(x, dim), b.lift(x, dtype)
    peak = b.reduce("max", x, dims, True)
    base = b.op("where", b.op("isinf", peak), 0.0, peak, dtype=dtype)  # a row of -inf gives -inf, not NaN
    total = b.reduce("sum", b.op("exp", b.op("sub", x, base, dtype=dtype), dtype=dtype), dims, True)
    result = b.op("add", b.op("log", total, dtype=dtype), base, dtype=dtype)
    return result if keepdim else _dropped(b, result, dims)


def _dropped(b: Builder, x: Handle, dims: Sequence[int]) -> Handle:
    return b.reshape(x, [size for index, size in enumerate(x.shape) if index not in dims])


def _moments(b: Builder, x: Handle, dims: Sequence[int], dtype: str) -> tuple[Handle, Handle, Handle]:
    """Mean, the centred values and the sum of their squares, all with kept dimensions."""
    average = _over(b, b.reduce("sum", x, dims, True), count_of(x, dims), dtype)
    centred = b.op("sub", x, average, dtype=dtype)
    squares = b.reduce("sum", b.op("mul", centred, centred, dtype=dtype), dims, True)
    return average, centred, squares


def variance(b: Builder, x: Handle, *args: Any, dtype: str, **kwargs: Any) -> Handle:
    return _spread(b, x, args, kwargs, dtype)[0]


def deviation(b: Builder, x: Handle, *args: Any, dtype: str, **kwargs: Any) -> Handle:
    return b.op("sqrt", _spread(b, x, args, kwargs, dtype)[0], dtype=dtype)


def var_mean(b: Builder, x: Handle, *args: Any, dtype: str, **kwargs: Any) -> list[Handle]:
    return list(_spread(b, x, args, kwargs, dtype))


def _spread(
    b: Builder, x: Handle, args: Sequence[Any], kwargs: dict[str, Any], dtype: str
) -> tuple[Handle, Handle]:
    """Variance and mean. Overloads: (unbiased), (dim, unbiased, keepdim) and (dim, *, correction, keepdim)."""
    args = list(args)
    dim = kwargs.get("dim", None if args and isinstance(args[0], bool) else (args[0] if args else None))
    flags = [value for value in args if isinstance(value, bool)]
    correction = kwargs.get("correction", 1.0)
    if "unbiased" in kwargs or flags:
        correction = 1.0 if kwargs.get("unbiased", flags[0] if flags else True) else 0.0
    keepdim = kwargs.get("keepdim", flags[1] if len(flags) > 1 else False)
    b.composites[b.origin] = "variance"
    dims, x = dims_of(x, dim), b.lift(x, dtype)
    average, _, squares = _moments(b, x, dims, dtype)
    freedom = max(count_of(x, dims) - (1.0 if correction is None else correction), 0.0)
    spread = _over(b, squares, freedom, dtype)
    if keepdim:
        return spread, average
    return _dropped(b, spread, dims), _dropped(b, average, dims)


def layer_norm(
    b: Builder, x: Handle, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5,
    *_: Any, dtype: str,
) -> Handle:  # fmt: skip
    return native_layer_norm(b, x, normalized_shape, weight, bias, eps, dtype=dtype)[0]


def native_layer_norm(
    b: Builder, x: Handle, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float, *, dtype: str
) -> list[Handle]:
    b.composites[b.origin] = "layer_norm"
    x = b.lift(x, dtype)
    dims = _last(x, normalized_shape)
    average, centred, squares = _moments(b, x, dims, dtype)
    spread = _over(b, squares, count_of(x, dims), dtype)
    inverse = b.op("rsqrt", b.op("add", spread, eps, dtype=dtype), dtype=dtype)
    result = b.op("mul", centred, inverse, dtype=dtype)
    return [_affine(b, result, weight, bias, dtype), average, inverse]


def rms_norm(
    b: Builder, x: Handle, normalized_shape: Sequence[int], weight: Any = None, eps: Any = None, *, dtype: str
) -> Handle:
    return fused_rms_norm(b, x, normalized_shape, weight, eps, dtype=dtype)[0]


def fused_rms_norm(
    b: Builder, x: Handle, normalized_shape: Sequence[int], weight: Any, eps: Any, *, dtype: str
) -> list[Handle]:
    b.composites[b.origin] = "rms_norm"
    x = b.lift(x, dtype)
    dims = _last(x, normalized_shape)
    total = b.reduce("sum", b.op("mul", x, x, dtype=dtype), dims, True)
    spread = b.op(
        "add", _over(b, total, count_of(x, dims), dtype), FLOAT32_EPSILON if eps is None else eps, dtype=dtype
    )
    inverse = b.op("rsqrt", spread, dtype=dtype)
    return [_affine(b, b.op("mul", x, inverse, dtype=dtype), weight, None, dtype), inverse]


def _last(x: Handle, normalized_shape: Sequence[int]) -> list[int]:
    return list(range(len(x.shape) - len(normalized_shape), len(x.shape)))


def _affine(b: Builder, x: Handle, weight: Any, bias: Any, dtype: str) -> Handle:
    if weight is not None:
        x = b.op("mul", x, weight, dtype=dtype)
    if bias is not None:
        x = b.op("add", x, bias, dtype=dtype)
    return x


def vector_norm(
    b: Builder, x: Handle, order: Any = 2.0, dim: Any = None, keepdim: bool = False, *, dtype: str
) -> Handle:
    b.composites[b.origin] = "norm"
    dims, x = dims_of(x, dim), b.lift(x, dtype)
    order = 2.0 if order is None else float(order)
    if order == 2.0:
        return b.op("sqrt", b.reduce("sum", b.op("mul", x, x, dtype=dtype), dims, keepdim), dtype=dtype)
    magnitude = b.op("abs", x, dtype=dtype)
    if order == 1.0:
        return b.reduce("sum", magnitude, dims, keepdim)
    if math.isinf(order):
        return b.reduce("max" if order > 0 else "min", magnitude, dims, keepdim)
    raise b.refuse(f"has the order {order}; recipes know 1, 2 and infinity")


def loss(kind: str) -> Entry:
    def build(b: Builder, x: Handle, target: Handle, reduction: Any = 1, *rest: Any, dtype: str) -> Handle:
        difference = b.op("sub", x, target, dtype=dtype)
        size = b.op("abs", difference, dtype=dtype)
        if kind == "mse":
            value = b.op("mul", difference, difference, dtype=dtype)
        elif kind == "l1":
            value = size
        else:
            limit = rest[0] if rest else 1.0
            square = b.op("mul", b.op("mul", difference, difference, dtype=dtype), 0.5, dtype=dtype)
            if kind == "smooth_l1":
                small = b.op("div", square, limit, dtype=dtype)
                large = b.op("sub", size, 0.5 * limit, dtype=dtype)
            else:
                small = square
                large = b.op("mul", b.op("sub", size, 0.5 * limit, dtype=dtype), limit, dtype=dtype)
            value = b.op("where", b.op("lt", size, limit), small, large, dtype=dtype)
        if reduction == 0:
            return value
        return (mean if reduction == 1 else sum_)(b, value, None, False, dtype=dtype)

    return build


REDUCTIONS: dict[str, Entry] = {
    "sum": sum_, "mean": mean, "amax": simple("max"), "amin": simple("min"), "prod": simple("prod"),
    "max": extreme_of_dim("max"), "min": extreme_of_dim("min"), "softmax": softmax, "_softmax": softmax,
    "log_softmax": log_softmax, "_log_softmax": log_softmax, "logsumexp": logsumexp, "var": variance,
    "std": deviation, "var_mean": var_mean, "layer_norm": layer_norm, "native_layer_norm": native_layer_norm,
    "rms_norm": rms_norm, "_fused_rms_norm": fused_rms_norm, "linalg_vector_norm": vector_norm,
    "linalg_norm": vector_norm, "norm": vector_norm, "mse_loss": loss("mse"), "l1_loss": loss("l1"),
    "smooth_l1_loss": loss("smooth_l1"), "huber_loss": loss("huber"),
}  # fmt: skip
