"""Running an operator's code in float64, though it was written for something narrower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpu_eval.operators.loading import change_plain_tensors

CASTS = {
    torch.Tensor.float: torch.float32,
    torch.Tensor.half: torch.float16,
    torch.Tensor.bfloat16: torch.bfloat16,
}


class Promoted(TorchFunctionMode):
    """Casts to the operator's own types become casts to float64, as do types named in a call. A cast to a
    narrower type than the operator's own is meant, and stays."""

    def __init__(self, narrow: set[torch.dtype]) -> None:
        super().__init__()
        self.narrow = narrow

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if CASTS.get(func) in self.narrow:
            return args[0].double()
        args = tuple(self.widened(value) for value in args)
        return func(*args, **{name: self.widened(value) for name, value in (kwargs or {}).items()})

    def widened(self, value: Any) -> Any:
        """Float64 for a narrower type, anything else as it is."""
        return torch.float64 if isinstance(value, torch.dtype) and value in self.narrow else value


@contextmanager
def in_float64(dtype: torch.dtype | None) -> Iterator[None]:
    """Within, code written for float32, or for the operator's ``dtype``, computes in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Promoted({torch.float32, dtype} if dtype is not None else {torch.float32}):
            yield
    finally:
        torch.set_default_dtype(before)


def promote(value: Any) -> Any:
    """A float64 copy of a floating tensor, a copy of another tensor, the rest as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.is_floating_point() else value.clone()


def to_double(model: torch.nn.Module) -> torch.nn.Module:
    """The model in float64, plain tensor attributes included."""
    model = model.double()
    change_plain_tensors(model, promote)
    return model
