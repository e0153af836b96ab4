"""What the words of the plan language do: each appends steps to a `ProgramBuilder` or computes a value."""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable
from typing import Any

from gpu_eval.plans import arithmetic, views
from gpu_eval.plans.arithmetic import describe, is_number
from gpu_eval.plans.builder import ProgramBuilder
from gpu_eval.plans.interpreter import CallRefused
from gpu_eval.plans.limits import MAX_DIMS
from gpu_eval.plans.program import Copy, Launch, LibraryCall, SlotView
from gpu_eval.plans.specs import DTYPE_BYTES, Scalar, TensorSpec

# Result specs of a library call whose tensors are given as TensorSpec.
InferLibrary = Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[TensorSpec, ...]]

_INT_BITS = {"int32": 32, "int64": 64}
_REFUSED_KEYWORDS = ("out", "inplace", "generator", "device", "layout", "pin_memory", "requires_grad")


class Builtins:
    """The vocabulary over one builder."""

    def __init__(
        self, builder: ProgramBuilder, infer: InferLibrary | None, kernels: Callable[[str], bool]
    ) -> None:
        self.builder = builder
        self.infer = infer
        self.known_kernel = kernels
        self.line = 0

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any], line: int) -> Any:
        """Run the word ``name``. Raises CallRefused, ArithmeticRefused or ViewRefused."""
        self.line = line
        if name in ("min", "max"):
            if kwargs:
                raise CallRefused(f"{name} takes no keywords")
            return arithmetic.extreme(name, tuple(args))
        word = getattr(self, "do_" + name)
        try:
            bound = inspect.signature(word).bind(*args, **kwargs)
        except TypeError as error:
            raise CallRefused(f"{name}: {error}") from None
        return word(*bound.args, **bound.kwargs)

    # tensors

    def do_empty(self, shape: Any, dtype: Any = "float32") -> SlotView:
        return self.builder.allocate(_spec("empty", shape, dtype), False, f"empty@{self.line}", self.line)

    def do_zeros(self, shape: Any, dtype: Any = "float32") -> SlotView:
        return self.builder.allocate(_spec("zeros", shape, dtype), True, f"zeros@{self.line}", self.line)

    def do_empty_like(self, t: Any) -> SlotView:
        return self.builder.allocate(
            _tensor("empty_like", t).spec, False, f"empty_like@{self.line}", self.line
        )

    def do_reshape(self, t: Any, shape: Any) -> SlotView:
        return views.reshape(_tensor("reshape", t), _integers("reshape", "shape", shape))

    def do_transpose(self, t: Any, i: Any, j: Any) -> SlotView:
        tensor = _tensor("transpose", t)
        return views.transpose(tensor, _integer("transpose", "i", i), _integer("transpose", "j", j))

    def do_slice(self, t: Any, dim: Any, start: Any, stop: Any) -> SlotView:
        start = None if start is None else _integer("slice", "start", start)
        stop = None if stop is None else _integer("slice", "stop", stop)
        return views.slice_dim(_tensor("slice", t), _integer("slice", "dim", dim), start, stop)

    def do_contiguous(self, t: Any) -> SlotView:
        tensor = _tensor("contiguous", t)
        if tensor.contiguous:
            return tensor
        target = self.builder.allocate(tensor.spec, False, f"contiguous@{self.line}", self.line)
        self.builder.add(Copy(tensor, target, self.line))
        return target

    # numbers

    def do_cdiv(self, a: Any, b: Any) -> int:
        return arithmetic.cdiv(a, b)

    def do_int32(self, v: Any) -> Scalar:
        return _integer_scalar("int32", v)

    def do_int64(self, v: Any) -> Scalar:
        return _integer_scalar("int64", v)

    def do_float32(self, v: Any) -> Scalar:
        return _float_scalar("float32", v)

    def do_float64(self, v: Any) -> Scalar:
        return _float_scalar("float64", v)

    # work

    def do_launch(self, name: Any, *, grid: Any, block: Any, args: Any = (), shared: Any = 0) -> None:
        if not isinstance(name, str):
            raise CallRefused(f"launch: the kernel's name is a string, not {describe(name)}")
        if not self.known_kernel(name):
            raise CallRefused(f"launch: kernels defines no {name!r}")
        limits = self.builder.limits
        blocks = _extent(name, "grid", grid, limits.max_grid)
        threads = _extent(name, "block", block, limits.max_block)
        if math.prod(threads) > limits.max_threads_per_block:
            allowed = limits.max_threads_per_block
            raise CallRefused(
                f"launch {name}: {math.prod(threads)} threads a block; the device allows {allowed}"
            )
        self.builder.add(
            Launch(name, blocks, threads, self._shared(name, shared), self._arguments(name, args), self.line)
        )

    def _shared(self, name: str, shared: Any) -> int:
        shared = _integer(f"launch {name}", "shared", shared)
        if shared and self.builder.language == "opencl":
            raise CallRefused(f"launch {name}: shared= is for CUDA; declare __local arrays inside the kernel")
        allowed = self.builder.limits.max_shared_bytes
        if not 0 <= shared <= allowed:
            raise CallRefused(f"launch {name}: shared={shared} is outside 0..{allowed} bytes")
        return shared

    def _arguments(self, name: str, args: Any) -> tuple[SlotView | Scalar, ...]:
        if not isinstance(args, tuple):
            raise CallRefused(f"launch {name}: args is a list, not {describe(args)}")
        if len(args) > 128:
            raise CallRefused(f"launch {name}: more than 128 arguments")
        for position, argument in enumerate(args):
            where = f"launch {name}: argument {position}"
            if isinstance(argument, Scalar):
                continue
            if is_number(argument):
                raise CallRefused(f"{where} is a bare number; write int32(...) or float32(...)")
            if not isinstance(argument, SlotView):
                raise CallRefused(f"{where} is {describe(argument)}; arguments are tensors and typed scalars")
            if not argument.contiguous:
                raise CallRefused(f"{where} is not contiguous; call contiguous() first")
        return args

    def library(self, op: str, args: list[Any], kwargs: dict[str, Any], line: int) -> Any:
        """Run ``lib.<op>``: infer the results' specs, allocate them, append the call."""
        self.line = line
        if self.infer is None:
            raise CallRefused(f"lib.{op}: library calls are not available here")
        for word in kwargs:
            if word in _REFUSED_KEYWORDS:
                raise CallRefused(f"lib.{op}: the keyword {word} is not allowed")
        for value in (*args, *kwargs.values()):
            _library_argument(op, value)
        specs = self.infer(
            op,
            tuple(_as_spec(value) for value in args),
            {key: _as_spec(value) for key, value in kwargs.items()},
        )
        outs = tuple(self.builder.allocate(spec, False, f"lib.{op}@{line}", line) for spec in specs)
        self.builder.add(LibraryCall(op, tuple(args), tuple(kwargs.items()), outs, line))
        return outs[0] if len(outs) == 1 else outs


def _as_spec(value: Any) -> Any:
    if isinstance(value, SlotView):
        return value.spec
    return tuple(_as_spec(item) for item in value) if isinstance(value, tuple) else value


def _library_argument(op: str, value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _library_argument(op, item)
    elif not isinstance(value, (SlotView, int, float, str, type(None))):
        raise CallRefused(f"lib.{op} cannot take {describe(value)}")


def _tensor(word: str, value: Any) -> SlotView:
    if not isinstance(value, SlotView):
        raise CallRefused(f"{word} needs a tensor, not {describe(value)}")
    return value


def _integer(word: str, what: str, value: Any) -> int:
    if not isinstance(value, int):
        raise CallRefused(f"{word}: {what} is an integer, not {describe(value)}")
    return int(value)


def _integers(word: str, what: str, value: Any) -> tuple[int, ...]:
    value = (value,) if isinstance(value, int) else value
    if not isinstance(value, tuple):
        raise CallRefused(f"{word}: {what} is a tuple of integers, not {describe(value)}")
    if len(value) > MAX_DIMS:
        raise CallRefused(f"{word}: more than {MAX_DIMS} dimensions")
    return tuple(_integer(word, what, size) for size in value)


def _spec(word: str, shape: Any, dtype: Any) -> TensorSpec:
    sizes = _integers(word, "shape", shape)
    if any(size < 0 for size in sizes):
        raise CallRefused(f"{word}: negative size in {sizes}")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CallRefused(
            f"{word}: unknown dtype {dtype!r}" if isinstance(dtype, str) else f"{word}: dtype is a string"
        )
    return TensorSpec(sizes, dtype)


def _extent(name: str, what: str, value: Any, limit: tuple[int, int, int]) -> tuple[int, int, int]:
    sizes = _integers(f"launch {name}", what, value)
    if not 1 <= len(sizes) <= 3:
        raise CallRefused(f"launch {name}: {what} has one to three sizes, not {len(sizes)}")
    padded = (*sizes, *(1,) * (3 - len(sizes)))
    for axis, size, allowed in zip("xyz", padded, limit, strict=True):
        if not 1 <= size <= allowed:
            raise CallRefused(f"launch {name}: {what}.{axis} = {size} is outside 1..{allowed}")
    return padded  # type: ignore[return-value]


def _integer_scalar(kind: str, value: Any) -> Scalar:
    if not isinstance(value, int):
        raise CallRefused(f"{kind}() needs an integer, not {describe(value)}")
    bound = 1 << (_INT_BITS[kind] - 1)
    if not -bound <= value < bound:
        raise CallRefused(f"{value} does not fit {kind}")
    return Scalar(kind, int(value))


def _float_scalar(kind: str, value: Any) -> Scalar:
    if not is_number(value):
        raise CallRefused(f"{kind}() needs a number, not {describe(value)}")
    try:
        struct.pack("<f" if kind == "float32" else "<d", value)
    except OverflowError:
        raise CallRefused(f"{value} does not fit {kind}") from None
    return Scalar(kind, float(value))
