"""Library calls of plans: torch operations over memory that a backend owns. Torch loads on first use only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gpu_eval.devices.base import DeviceLost, LaunchError, OutOfDeviceMemory, Tf32
from gpu_eval.plans.errors import LibraryRefused
from gpu_eval.plans.library import LIBRARY, LibraryOp
from gpu_eval.plans.program import Allocate, Copy, Launch, LibraryCall, Program, SlotView, Step
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


def warm_up(device: str) -> None:
    """Have torch load what its first operations on ``device`` ("cuda", "cpu") load: seconds, on some machines."""
    import torch

    for place in ("meta", device):
        x = torch.zeros((8, 8), device=place)
        torch.relu(torch.matmul(x, x)).softmax(-1).sum(-1)


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


def set_tf32(allow: Tf32) -> None:
    """Whether torch may round fp32 operands to TF32 in matrix products and in convolutions."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allow.products
    torch.backends.cudnn.allow_tf32 = allow.convolutions


class LibraryCalls:
    """The library calls of one executor. ``tensor(view)`` gives the torch tensor over a view's memory.

    Many operations allocate their result. Where only library calls read it, it stays where torch put it, as in
    eager PyTorch: copying it would make a call slower than the same call of the reference. Such results are
    copied into their slots by `collect`, after the clock has stopped.
    """

    def __init__(self, program: Program, tensor: Callable[[SlotView], Any]) -> None:
        self.program = program
        self.tensor = tensor
        self.kept = kept_slots(program)
        # By slot, of the last call. They live until the next one, so that those of several executors lie in
        # several places, as the lanes do and as the reference's do.
        self.results: dict[int, Any] = {}

    def prepared(self, step: LibraryCall) -> Callable[[], None]:
        """A closure that runs ``step`` and leaves the results in its outs, or kept."""
        call = function(LIBRARY[step.op])
        if _writes_out(step):
            out = {"out": self.tensor(step.outs[0])}
            stores: list[Callable[[Any], Any]] = []
        else:
            out = {}
            stores = [self._store(view) for view in step.outs]
        if not any(view.slot in self.kept for view in _views((step.args, step.kwargs))):
            args, kwargs = self._arguments(step)
            return lambda: _run(step.op, lambda: call(*args, **kwargs, **out), stores)

        def run() -> None:
            args, kwargs = self._arguments(step)
            _run(step.op, lambda: call(*args, **kwargs, **out), stores)

        return run

    def collect(self) -> None:
        """Put kept results that are the program's outputs into their slots."""
        for view in self.program.outputs:
            if view.slot in self.results:
                self.tensor(view).copy_(self.results[view.slot].reshape(view.shape))

    @property
    def collects(self) -> bool:
        """Whether `collect` has anything to do."""
        return any(view.slot in self.kept for view in self.program.outputs)

    def _arguments(self, step: LibraryCall) -> tuple[list[Any], dict[str, Any]]:
        return [self._bound(value) for value in step.args], _keywords(dict(step.kwargs), self._bound)

    def _bound(self, value: Any) -> Any:
        if isinstance(value, SlotView):
            if value.slot in self.kept:
                return self.results[value.slot].as_strided(value.shape, value.strides, value.offset)
            return self.tensor(value)
        return [self._bound(item) for item in value] if isinstance(value, tuple) else value

    def _store(self, view: SlotView) -> Callable[[Any], Any]:
        """What is done with one result: kept, or copied into its memory."""
        if view.slot in self.kept:
            return lambda value: self.results.__setitem__(view.slot, value.contiguous())
        return self.tensor(view).copy_


def kept_slots(program: Program) -> frozenset[int]:
    """Slots that only library calls write and read, by operations that allocate their result."""
    kept = {
        view.slot
        for step in program.steps
        if isinstance(step, LibraryCall) and not _writes_out(step)
        for view in step.outs
    }
    for step in program.steps:
        if isinstance(step, LibraryCall):
            written = {view.slot for view in step.outs} if _writes_out(step) else set()
            kept -= written
        elif isinstance(step, Launch):
            kept -= {view.slot for view in _views(step.args)}
        elif isinstance(step, Copy):
            kept -= {step.source.slot, step.target.slot}
    kept -= {step.slot for step in program.steps if isinstance(step, Allocate) and step.zero}
    kept -= {view.slot for step in program.prepare_steps for view in _step_views(step)}
    return frozenset(kept)


def _step_views(step: Step) -> list[SlotView]:
    if isinstance(step, LibraryCall):
        return _views((step.args, step.kwargs, step.outs))
    if isinstance(step, Launch):
        return _views(step.args)
    return [step.source, step.target] if isinstance(step, Copy) else []


def _views(value: Any) -> list[SlotView]:
    """Every view inside nested tuples."""
    if isinstance(value, SlotView):
        return [value]
    return [view for item in value for view in _views(item)] if isinstance(value, (tuple, list)) else []


def _writes_out(step: LibraryCall) -> bool:
    """Whether torch writes this call's result into memory that is given."""
    op = LIBRARY[step.op]
    return op.out and len(step.outs) == 1 and _takes_out(function(op), step)


def _run(op: str, call: Callable[[], Any], stores: list[Callable[[Any], Any]]) -> None:
    """Call, and hand each result to its store. Torch's failures become this package's."""
    try:
        result = call()
        if stores:
            for store, value in zip(stores, _as_tuple(result), strict=True):
                store(value)
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
