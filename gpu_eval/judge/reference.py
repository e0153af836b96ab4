"""The operator as PyTorch runs it: eagerly at its own precision, and once more in float64.

Random state is seeded and module state restored around every forward, so that dropout repeats itself and
what one call leaves behind does not reach the next.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import torch

from gpu_eval.errors import UnusableInput
from gpu_eval.judge.errors import error_profile
from gpu_eval.judge.nearby import nudged
from gpu_eval.judge.precise import in_float64, promote, to_double
from gpu_eval.judge.state import kept_state
from gpu_eval.judge.weights import moved
from gpu_eval.operators.loading import build_model, check_tensor, make_inputs, named_weights, seeded
from gpu_eval.results import Precision

T = TypeVar("T")
PRECISION_DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
SANE_ULPS = 2.0**13  # PyTorch's own error beyond which inputs say nothing about a kernel: 1e-3 in float32


class Reference:
    """A model with its weights; ``module`` is the executed operator file."""

    def __init__(self, module: ModuleType, device: str, precision: Precision) -> None:
        self.module = module
        self.device = device
        self.dtype = PRECISION_DTYPES.get(precision)
        self.tf32 = precision is Precision.TF32
        self.model: torch.nn.Module = torch.nn.Identity()
        self.precise_works = True
        self.movable = True  # whether the operator bears other weights than its own
        self.clones_inputs = True  # until forward is known to leave its inputs alone
        self._changing: set[str] = set()
        self._initial: dict[str, torch.Tensor] = {}
        self._precise: torch.nn.Module | None = None

    def build(self, seed: int) -> None:
        """Make the model. Exceptions of the operator's own code pass through."""
        self.model = build_model(self.module, self.device, self.dtype, seed)
        for name, value in self.weights().items():
            check_tensor(f'The weight "{name}"', value)
        self._initial = {name: value.clone() for name, value in self.weights().items()}

    def draw_inputs(self, seed: int) -> list[Any]:
        """Fresh inputs: tensors on the device, Python numbers."""
        return make_inputs(self.module, self.device, self.dtype, seed)

    def weights(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and plain tensors by dotted name: live tensors, not copies."""
        return named_weights(self.model)

    def first(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """The first forward, on copies of ``inputs``. Finds out which parameters it writes to."""
        parameters = [(name, value.detach()) for name, value in self.model.named_parameters()]
        self._changing = {name for name, _ in parameters}
        with kept_state(self.model, self._changing), seeded(seed, self.device), torch.no_grad():
            with torch.device(self.device):
                result = self.model(*clone_all(inputs))
            self._changing = {
                name for name, value in parameters if not torch.equal(value, self._initial[name])
            }
        return as_outputs(result)

    def set_weights(self, seed: int | None) -> None:
        """The weights as initialised (None), or moved a little (see `gpu_eval.judge.weights`)."""
        trained = {name for name, _ in self.model.named_parameters()}
        for index, (name, value) in enumerate(self.weights().items()):
            initial = self._initial[name]
            value.copy_(initial if seed is None else moved(name, initial, name in trained, seed + index))
        self._precise = None

    def try_moving(self, inputs: list[Any], outputs: list[torch.Tensor], seed: int) -> None:
        """Find out whether forward bears moved weights; they are the initial ones afterwards."""
        self.set_weights(seed)
        self.movable = bool(self._initial) and self.bears(inputs, outputs, seed)
        self.set_weights(None)

    def eager(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """Outputs at the operator's precision. ``inputs`` stay as they are."""
        return self._forward(self.model, clone_all(inputs) if self.clones_inputs else inputs, seed)

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
            with in_float64(self.dtype):
                outputs = self._forward(self._precise, [promote(value) for value in inputs], seed)
        except Exception:  # whatever foreign code does not like about float64
            outputs = []
        if not outputs or any(is_narrow(output) for output in outputs):
            self.precise_works = False
            self._precise = None
            return None
        return outputs

    def conditioned(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """Outputs for inputs moved by rounding: how far they are off says what rounding alone does."""
        return self.eager(nudged(inputs, seed), seed)

    def bears(self, inputs: list[Any], outputs: list[torch.Tensor], seed: int) -> bool:
        """Whether ``inputs`` make a test: forward runs, is as finite as ``outputs``, not all zero, and close
        to its float64 answer."""
        try:
            found = self.eager(inputs, seed)
        except Exception:  # foreign code refuses these values in whatever way it likes
            return False
        for own, output in zip(outputs, found, strict=True):
            if not tells_something(output, own):
                return False
        exact = self.precise(inputs, seed) or self.conditioned(inputs, seed)
        return all(is_sane(one, other) for one, other in zip(found, exact, strict=True))

    def timed(
        self, inputs: list[Any], seed: int, clock: Callable[[Callable[[], Any]], tuple[T, Any]]
    ) -> tuple[T, list[torch.Tensor]]:
        """One eager call on ``inputs`` themselves, and what ``clock`` says of it; preparation stays outside."""
        return self.timed_callable(self.model, inputs, seed, clock)

    def timed_callable(
        self,
        call: Callable[..., Any],
        inputs: list[Any],
        seed: int,
        clock: Callable[[Callable[[], Any]], tuple[T, Any]],
    ) -> tuple[T, list[torch.Tensor]]:
        """As `timed`, for ``call`` in the model's place (a compiled model)."""
        with kept_state(self.model, self._changing), seeded(seed, self.device), torch.no_grad():
            elapsed, result = clock(lambda: call(*inputs))
        return elapsed, as_outputs(result)

    def _forward(self, model: torch.nn.Module, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        with (
            kept_state(model, self._changing),
            seeded(seed, self.device),
            torch.no_grad(),
            torch.device(self.device),
        ):
            return as_outputs(model(*inputs))


def as_outputs(result: Any) -> list[torch.Tensor]:
    """Forward's result as a list of tensors. Raises UnusableInput on anything else."""
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if not values:
        raise UnusableInput("Model.forward returned nothing; it must return a tensor or a tuple of tensors.")
    for index, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            kind = "nothing (None)" if value is None else f"a {type(value).__name__}"
            raise UnusableInput(
                f"Model.forward returned {kind}; it must return a tensor or a tuple of tensors."
            )
        check_tensor(
            "Model.forward's output" if len(values) == 1 else f"Model.forward's output {index}", value
        )
    return [value.detach() for value in values]


def clone_all(values: list[Any]) -> list[Any]:
    """Copies of the tensors, the rest as it is."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def is_narrow(output: torch.Tensor) -> bool:
    """Whether a float64 run gave less: the operator's code names a narrower type."""
    return output.is_floating_point() and output.dtype != torch.float64


def tells_something(output: torch.Tensor, own: torch.Tensor) -> bool:
    """Whether an answer is as finite as the one for the operator's own inputs, and not zero everywhere."""
    if not output.is_floating_point() or output.numel() == 0:
        return True
    return bool(output.any()) and finite_share(output) >= finite_share(own)


def finite_share(output: torch.Tensor) -> float:
    """Share of elements that are neither infinite nor NaN."""
    return float(torch.isfinite(output).double().mean()) if output.numel() else 1.0


def is_sane(found: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether an answer is near enough to the exact one to judge others by."""
    if not found.is_floating_point():
        return True
    ulp = torch.finfo(found.dtype).eps
    return error_profile(found, exact).rms <= max(SANE_ULPS * torch.finfo(torch.float32).eps, 16 * ulp)
