"""Is the arena right? Guards, inputs and weights untouched, outputs written and near the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_eval.judge.arena import Arena, poison
from gpu_eval.judge.compare import (
    Comparison,
    ErrorProfile,
    Numbers,
    compare_exact,
    compare_kernelbench,
    compare_strict,
    error_profile,
    strict_tolerance,
)
from gpu_eval.results import Protocol


@dataclass
class Expected:
    """One prepared call: pristine inputs, and what PyTorch makes of them (empty until computed)."""

    inputs: list[Any]
    variant: str
    seed: int
    eager: list[torch.Tensor] = field(default_factory=list)
    precise: list[torch.Tensor] | None = None

    def own_errors(self) -> list[ErrorProfile]:
        """PyTorch's errors against float64, an output each; zero where there is no float64 answer."""
        if self.precise is None:
            return [ErrorProfile() for _ in self.eager]
        pairs = zip(self.eager, self.precise, strict=True)
        return [
            error_profile(eager, exact) if exact.is_floating_point() else ErrorProfile()
            for eager, exact in pairs
        ]


@dataclass
class Verifier:
    """Looks at the arena's tensors: ``inputs`` and ``weights`` by name, ``outputs`` in order."""

    arena: Arena
    protocol: Protocol
    depth: float
    inputs: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    outputs: list[torch.Tensor]
    pristine_weights: dict[str, torch.Tensor] = field(default_factory=dict)
    first_answer: list[torch.Tensor] = field(default_factory=list)

    def begin(self, weights: dict[str, torch.Tensor]) -> None:
        """Arm the guards, put the weights in place, poison the outputs."""
        self.arena.arm_guards()
        self.place_weights(weights)
        self.poison_outputs()

    def place_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Copy weights into the arena; ``weights`` themselves are the pristine copies."""
        self.pristine_weights = weights
        for name, value in weights.items():
            self.weights[name].copy_(value)

    def place(self, inputs: list[Any]) -> None:
        """Copy inputs into the arena and poison the outputs."""
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        for shared, value in zip(self.inputs.values(), tensors, strict=True):
            shared.copy_(value)
        self.poison_outputs()

    def poison_outputs(self) -> None:
        for output in self.outputs:
            poison(output)

    def remember(self) -> None:
        """Keep the outputs for `verify_repeated`."""
        self.first_answer = [output.clone() for output in self.outputs]

    def verify(self, expected: Expected, own: list[ErrorProfile] | None) -> dict[str, Any]:
        """``{"passed", "message", "numbers", "variant"}``; the message is a sentence when it failed."""
        if sentence := self.untouched(expected):
            return {"passed": False, "message": sentence, "numbers": {}, "variant": expected.variant}
        worst: Numbers = {}
        for index, output in enumerate(self.outputs):
            comparison = self.compare(index, output, expected, own)
            if not comparison.passed:
                message = self.explain(index, output, expected, comparison.message)
                return {
                    "passed": False,
                    "message": message,
                    "numbers": comparison.numbers,
                    "variant": expected.variant,
                }
            worst = comparison.numbers if index == 0 else worst
        return {"passed": True, "message": "", "numbers": worst, "variant": expected.variant}

    def verify_repeated(self, expected: Expected) -> dict[str, Any]:
        """The same input again: bit for bit the same outputs, or apart by rounding only."""
        if sentence := self.untouched(expected):
            return {"passed": False, "message": sentence, "numbers": {}, "identical": False}
        identical = all(
            same_bits(first, again) for first, again in zip(self.first_answer, self.outputs, strict=True)
        )
        if identical:
            return {"passed": True, "message": "", "numbers": {}, "identical": True}
        for index, (first, again) in enumerate(zip(self.first_answer, self.outputs, strict=True)):
            if not self.repeats(first, again):
                message = f"{self.title(index)} differs between two calls with the same input."
                return {"passed": False, "message": message, "numbers": {}, "identical": False}
        return {"passed": True, "message": "", "numbers": {}, "identical": False}

    def repeats(self, first: torch.Tensor, again: torch.Tensor) -> bool:
        """Whether two answers are equal up to the rounding that a changed order of additions makes."""
        if not first.is_floating_point():
            return torch.equal(first, again)
        if not torch.equal(torch.isfinite(first), torch.isfinite(again)):
            return False
        tolerance = strict_tolerance(first.dtype, self.depth, ErrorProfile())
        return tolerance.allows(error_profile(again, first.double()))

    def compare(
        self, index: int, output: torch.Tensor, expected: Expected, own: list[ErrorProfile] | None
    ) -> Comparison:
        """One output under the session's protocol."""
        eager = expected.eager[index]
        precise = expected.precise[index] if expected.precise is not None else None
        if self.protocol is Protocol.KERNELBENCH:
            return compare_kernelbench(output, eager)
        if not output.is_floating_point():
            return compare_exact(output, eager, precise)
        error = own[index] if own is not None else ErrorProfile()
        tolerance = strict_tolerance(output.dtype, self.depth, error, reference_is_own=precise is None)
        exact = precise if precise is not None else eager
        return compare_strict(output, eager, exact, tolerance)

    def untouched(self, expected: Expected) -> str:
        """A sentence when inputs, weights or guard bytes were changed, else nothing."""
        tensors = [value for value in expected.inputs if isinstance(value, torch.Tensor)]
        for (name, shared), pristine in zip(self.inputs.items(), tensors, strict=True):
            if not same_bits(shared, pristine):
                return f'The input "{name}" was changed in place.'
        for name, shared in self.weights.items():
            if not same_bits(shared, self.pristine_weights[name]):
                return f'The parameter "{name}" was changed in place.'
        gap = self.arena.broken_guard()
        if gap is not None:
            return f"A kernel wrote outside its buffers, {self.place_of(gap)}."
        return ""

    def place_of(self, gap: int) -> str:
        """Between which tensors a guard lies."""
        names = [*self.inputs, *self.weights, *(f"output {index}" for index in range(len(self.outputs)))]
        before = f"after {names[gap - 1]}" if gap else ""
        after = f"before {names[gap]}" if gap < len(names) else ""
        return " and ".join(part for part in (before, after) if part)

    def explain(self, index: int, output: torch.Tensor, expected: Expected, reason: str) -> str:
        """The sentence for a wrong output, with a hint where it is recognisable."""
        hint = ""
        for name, value in self.inputs.items():
            if value.shape == output.shape and value.dtype == output.dtype and same_bits(value, output):
                hint = f' It equals the input "{name}".'
        flat = output.reshape(-1)
        if not hint and output.numel() > 1 and bool((flat == flat[0]).all()):
            hint = f" Every element is {flat[0].item():.6g}."
        variant = "" if expected.variant == "own" else f" (inputs: {expected.variant})"
        return f"{self.title(index)} is wrong{variant}: {reason}.{hint}"

    def title(self, index: int) -> str:
        return "The output" if len(self.outputs) == 1 else f"Output {index}"


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bytes."""
    if left.numel() == 0:
        return True
    return torch.equal(raw(left), raw(right))


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's bytes, as wide integers where they fit."""
    flat = tensor.contiguous().view(-1)
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(
        flat.element_size(), torch.uint8
    )
    return flat.view(width)
