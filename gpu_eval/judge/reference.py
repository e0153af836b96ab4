"""The operator as PyTorch runs it: eagerly at its own precision, and once more in float64.

Random state is seeded and module state restored around every forward, so that dropout repeats itself and
running statistics of one call do not leak into the next.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from gpu_eval.errors import UnusableInput
from gpu_eval.operators.loading import build_model, make_inputs, named_weights, seeded
from gpu_eval.results import Precision

PRECISION_DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
PERTURBATION = 0.1  # of a weight's own spread, or of 1 where it is constant


class Reference:
    """A model with its weights; ``module`` is the executed operator file."""

    def __init__(self, module: ModuleType, device: str, precision: Precision) -> None:
        self.module = module
        self.device = device
        self.dtype = PRECISION_DTYPES.get(precision)
        self.model: torch.nn.Module = torch.nn.Identity()
        self.precise_works = True
        self._initial: dict[str, torch.Tensor] = {}
        self._precise: torch.nn.Module | None = None

    def build(self, seed: int) -> None:
        """Make the model. Exceptions of the operator's own code pass through."""
        self.model = build_model(self.module, self.device, self.dtype, seed)
        self._initial = {name: value.clone() for name, value in self.weights().items()}

    def draw_inputs(self, seed: int) -> list[Any]:
        """Fresh inputs: tensors on the device, Python numbers."""
        return make_inputs(self.module, self.device, self.dtype, seed)

    def weights(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and plain tensors by dotted name: live tensors, not copies."""
        return named_weights(self.model)

    def set_weights(self, seed: int | None) -> None:
        """The weights as initialised (None), or with parameters moved a little.

        A moved weight exposes a kernel that took ones and zeros, as normalisations start with, for granted.
        """
        trained = {name for name, _ in self.model.named_parameters()}
        generator = torch.Generator(device="cpu").manual_seed(seed or 0)
        for name, value in self.weights().items():
            value.copy_(self._initial[name])
            if seed is not None and name in trained and value.is_floating_point() and value.numel():
                noise = torch.randn(value.shape, generator=generator).to(value.device, value.dtype)
                spread = float(value.float().std(unbiased=False))
                value.add_(noise * (PERTURBATION * (spread if spread > 1e-6 else 1.0)))
        self._precise = None

    def eager(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """Outputs at the operator's precision. ``inputs`` stay as they are."""
        return self._forward(self.model, clone_all(inputs), seed)

    def run_in_place(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """As `eager`, but forward gets ``inputs`` themselves and may change them."""
        return self._forward(self.model, inputs, seed)

    def precise(self, inputs: list[Any], seed: int) -> list[torch.Tensor] | None:
        """Outputs in float64, or None where the operator cannot run in it."""
        if not self.precise_works:
            return None
        try:
            if self._precise is None:
                self._precise = to_double(copy.deepcopy(self.model))
            return self._forward(self._precise, [double(value) for value in inputs], seed)
        except (RuntimeError, TypeError, NotImplementedError, MemoryError):
            self.precise_works = False
            self._precise = None
            return None

    def timed(
        self, inputs: list[Any], seed: int, clock: Callable[[Callable[[], Any]], tuple[float, Any]]
    ) -> tuple[float, list[torch.Tensor]]:
        """One eager call under ``clock``, with its time in microseconds; preparation stays outside."""
        return self.timed_callable(self.model, inputs, seed, clock)

    def timed_callable(
        self,
        call: Callable[..., Any],
        inputs: list[Any],
        seed: int,
        clock: Callable[[Callable[[], Any]], tuple[float, Any]],
    ) -> tuple[float, list[torch.Tensor]]:
        """As `timed`, for ``call`` in the model's place (a compiled model)."""
        arguments = clone_all(inputs)
        state = self._snapshot()
        with seeded(seed, self.device), torch.no_grad():
            elapsed, result = clock(lambda: call(*arguments))
        restore(state)
        return elapsed, as_outputs(result)

    def _forward(self, model: torch.nn.Module, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        state = self._snapshot() if model is self.model else []
        with seeded(seed, self.device), torch.no_grad(), torch.device(self.device):
            result = model(*inputs)
        restore(state)
        return as_outputs(result)

    def _snapshot(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Copies of the tensors that a forward may change besides parameters."""
        parameters = {id(value) for value in self.model.parameters()}
        trained = {name for name, value in self.model.named_parameters() if id(value) in parameters}
        return [(value, value.clone()) for name, value in self.weights().items() if name not in trained]


def restore(state: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Put a snapshot back."""
    for live, saved in state:
        live.copy_(saved)


def as_outputs(result: Any) -> list[torch.Tensor]:
    """Forward's result as a list of tensors. Raises UnusableInput on anything else."""
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if not values:
        raise UnusableInput("Model.forward returned nothing; it must return a tensor or a tuple of tensors.")
    for value in values:
        if not isinstance(value, torch.Tensor):
            kind = "nothing (None)" if value is None else f"a {type(value).__name__}"
            raise UnusableInput(
                f"Model.forward returned {kind}; it must return a tensor or a tuple of tensors."
            )
    return [value.detach() for value in values]


def clone_all(values: list[Any]) -> list[Any]:
    """Copies of the tensors, the rest as it is."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def double(value: Any) -> Any:
    """A float64 copy of a floating tensor, a copy of another tensor, the rest as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.is_floating_point() else value.clone()


def to_double(model: torch.nn.Module) -> torch.nn.Module:
    """The model in float64, plain tensor attributes included."""
    model = model.double()
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(module, name, value.double())
    return model
