"""Library calls of plans: torch operations over memory that a backend owns. Torch loads on first use only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpu_eval.devices.base import LaunchError
from gpu_eval.plans.library import LIBRARY, LibraryOp
from gpu_eval.plans.program import LibraryCall, SlotView
from gpu_eval.plans.specs import TensorSpec

_DTYPE_KEYWORDS = ("dtype",)


def torch_dtype(name: str) -> Any:
    """torch's dtype of that name."""
    import torch

    return getattr(torch, name)


def function(op: LibraryOp) -> Callable[..., Any]:
    """The torch function behind an allow-listed name."""
    import torch

    return functools.reduce(getattr, op.path.split("."), torch)  # type: ignore[arg-type]


def infer(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    """Result specs, from torch's own shape rules on meta tensors. Raises LaunchError with torch's first line."""
    import torch

    def meta(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return torch.empty(value.shape, dtype=torch_dtype(value.dtype), device="meta")
        return [meta(item) for item in value] if isinstance(value, tuple) else value

    with torch.inference_mode():
        result = _guarded(op, function(LIBRARY[op]), [meta(value) for value in args], _keywords(op, kwargs, meta))
    results = result if isinstance(result, (tuple, list)) else (result,)
    specs = []
    for item in results:
        if not isinstance(item, torch.Tensor):
            raise LaunchError(f"lib.{op} returned {type(item).__name__}, not a tensor")
        specs.append(TensorSpec(tuple(item.shape), str(item.dtype).removeprefix("torch.")))
    return tuple(specs)


def prepared_call(step: LibraryCall, tensor: Callable[[SlotView], Any]) -> Callable[[], None]:
    """A closure that runs ``step`` over the tensors ``tensor(view)`` gives, and leaves the results in its outs."""
    import torch

    def bound(value: Any) -> Any:
        if isinstance(value, SlotView):
            return tensor(value)
        return [bound(item) for item in value] if isinstance(value, tuple) else value

    op = LIBRARY[step.op]
    call = function(op)
    args = [bound(value) for value in step.args]
    kwargs = _keywords(step.op, dict(step.kwargs), bound)
    outs = [tensor(view) for view in step.outs]
    if op.out and len(outs) == 1:
        kwargs["out"] = outs[0]

        def run() -> None:
            with torch.inference_mode():
                _guarded(step.op, call, args, kwargs)

        return run

    def run_and_copy() -> None:
        with torch.inference_mode():
            result = _guarded(step.op, call, args, kwargs)
            results = result if isinstance(result, (tuple, list)) else (result,)
            for out, value in zip(outs, results, strict=True):
                out.copy_(value)

    return run_and_copy


def _keywords(op: str, kwargs: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    converted = {}
    for key, value in kwargs.items():
        if key in _DTYPE_KEYWORDS and isinstance(value, str):
            try:
                converted[key] = torch_dtype(value)
            except AttributeError:
                raise LaunchError(f"lib.{op}: unknown dtype {value!r}") from None
        else:
            converted[key] = convert(value)
    return converted


def _guarded(op: str, call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Torch's refusals as LaunchError. Out of memory stays torch's own error: the backend knows what it means."""
    import torch

    try:
        return call(*args, **kwargs)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LaunchError(f"lib.{op}: {first[:300]}") from None
