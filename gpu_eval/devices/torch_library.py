"""Library calls of plans: torch operations over memory that a backend owns. Torch loads on first use only."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from gpu_eval.devices.base import DeviceLost, LaunchError, OutOfDeviceMemory
from gpu_eval.plans.errors import LibraryRefused
from gpu_eval.plans.library import LIBRARY, LibraryOp
from gpu_eval.plans.program import LibraryCall, SlotView
from gpu_eval.plans.specs import TensorSpec

_REFUSALS = (
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    AttributeError,
    OverflowError,
)


def torch_dtype(name: str) -> Any:
    """torch's dtype of that name."""
    import torch

    return getattr(torch, name)


def function(op: LibraryOp) -> Callable[..., Any]:
    """The torch function behind an allow-listed name."""
    import torch

    found: Any = torch
    for name in op.path.split("."):
        found = getattr(found, name)
    return found


def infer(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    """Result specs, from torch's own shape rules on meta tensors.

    Raises LibraryRefused with torch's first line.
    """
    call = function(LIBRARY[op])
    try:
        keywords = _keywords(kwargs, _meta)
        values = [_meta(value) for value in args]
        _refuse_in_place(op, call, values, keywords)
        results = _as_tuple(call(*values, **keywords))
    except LibraryRefused:
        raise
    except _REFUSALS as error:
        raise LibraryRefused(f"lib.{op}: {_first_line(error)}") from None
    return tuple(_spec(op, result) for result in results)


def set_tf32(allow: bool) -> None:
    """Whether torch may round fp32 operands to TF32 in matrix products and convolutions."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allow
    torch.backends.cudnn.allow_tf32 = allow


def prepared_call(step: LibraryCall, tensor: Callable[[SlotView], Any]) -> Callable[[], None]:
    """A closure that runs ``step`` over the tensors ``tensor(view)`` gives, and leaves the results in its
    outs.
    """

    def bound(value: Any) -> Any:
        if isinstance(value, SlotView):
            return tensor(value)
        return [bound(item) for item in value] if isinstance(value, tuple) else value

    op = LIBRARY[step.op]
    call = function(op)
    args = [bound(value) for value in step.args]
    kwargs = _keywords(dict(step.kwargs), bound)
    outs = [tensor(view) for view in step.outs]
    if op.out and len(outs) == 1 and _takes_out(call, step):
        kwargs["out"] = outs[0]
        return functools.partial(_run, step.op, call, args, kwargs, [])
    return functools.partial(_run, step.op, call, args, kwargs, outs)


def _run(op: str, call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], outs: list[Any]) -> None:
    """Call, and copy the results into ``outs``. Torch's failures become this package's."""
    try:
        result = call(*args, **kwargs)
        if outs:
            for out, value in zip(outs, _as_tuple(result), strict=True):
                out.copy_(value)
    except _REFUSALS as error:
        text = _first_line(error)
        if "out of memory" in text.lower() or "can't allocate memory" in text.lower():
            raise OutOfDeviceMemory(f"lib.{op}: {text}") from None
        if "CUDA error" in text:
            raise DeviceLost(f"lib.{op}: {text}") from None
        raise LaunchError(f"lib.{op}: {text}") from None


def _takes_out(call: Callable[..., Any], step: LibraryCall) -> bool:
    """Whether this form of the operation writes into a given tensor; asked on meta tensors."""
    import torch

    out = torch.empty(step.outs[0].shape, dtype=torch_dtype(step.outs[0].dtype), device="meta")
    try:
        call(*[_meta(value) for value in step.args], out=out, **_keywords(dict(step.kwargs), _meta))
    except _REFUSALS:
        return False
    return tuple(out.shape) == step.outs[0].shape


def _meta(value: Any) -> Any:
    """The argument with every tensor replaced by one that has no memory."""
    import torch

    if isinstance(value, SlotView):
        dtype = torch_dtype(value.dtype)
        return torch.empty_strided(value.shape, value.strides, dtype=dtype, device="meta")
    if isinstance(value, TensorSpec):
        return torch.empty(value.shape, dtype=torch_dtype(value.dtype), device="meta")
    return [_meta(item) for item in value] if isinstance(value, tuple) else value


def _keywords(kwargs: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Keyword arguments for torch; ``dtype="float32"`` becomes a dtype."""
    return {
        key: torch_dtype(value) if key == "dtype" and isinstance(value, str) else convert(value)
        for key, value in kwargs.items()
    }


def _refuse_in_place(op: str, call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Inputs and weights are read only, however the call spells it."""
    try:
        given = inspect.signature(call).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return  # compiled functions have no signature, and none of the listed ones writes in place
    if given.get("inplace"):
        raise LibraryRefused(f"lib.{op}: inplace is not allowed")
    if given.get("max_norm") is not None:
        raise LibraryRefused(f"lib.{op}: max_norm rewrites the weights and is not allowed")
    updates = given.get("training") or given.get("use_input_stats", op == "instance_norm")
    if given.get("running_mean") is not None and updates:
        raise LibraryRefused(f"lib.{op}: running statistics would be rewritten; pass None for them")
    if given.get("dropout_p"):
        raise LibraryRefused(f"lib.{op}: random numbers are not allowed")


def _spec(op: str, result: Any) -> TensorSpec:
    import torch

    if not isinstance(result, torch.Tensor):
        raise LibraryRefused(f"lib.{op} gives {type(result).__name__}, not a tensor")
    return TensorSpec(tuple(result.shape), str(result.dtype).removeprefix("torch."))


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
