"""Is the arena right? Guards, inputs and weights untouched, outputs written and near the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_eval.judge.arena import Arena, poison
from gpu_eval.judge.compare import (
    Comparison,
    Rounding,
    compare_exact,
    compare_kernelbench,
    compare_strict,
    honest_floor,
    strict_tolerance,
)
from gpu_eval.judge.errors import ErrorProfile, error_profile
from gpu_eval.judge.nearby import Run, chosen_alike, nearby_outputs, settled
from gpu_eval.results import Protocol

SAMPLE = 65_536  # elements of an output that are kept to tell whether it changes with its input


@dataclass
class Expected:
    """One prepared call: pristine inputs, and what PyTorch makes of them (empty until computed).

    ``precise``: in float64, where the operator can be run in it; else ``near``: for inputs moved by rounding.
    """

    inputs: list[Any]
    variant: str
    seed: int
    eager: list[torch.Tensor] = field(default_factory=list)
    precise: list[torch.Tensor] | None = None
    near: list[torch.Tensor] | None = None

    def own_errors(self) -> list[ErrorProfile]:
        """PyTorch's errors, an output each: against float64, or what moving the inputs by rounding does."""
        against = self.precise or self.near
        if against is None:
            return [ErrorProfile() for _ in self.eager]
        return [
            error_profile(eager, exact) if eager.is_floating_point() else ErrorProfile()
            for eager, exact in zip(self.eager, against, strict=True)
        ]


@dataclass(frozen=True)
class Lane:
    """One set of buffers in the arena that a call works on: inputs by name, outputs in order."""

    inputs: dict[str, torch.Tensor]
    outputs: list[torch.Tensor]

    def place(self, inputs: list[Any]) -> None:
        """Copy the tensors among ``inputs`` into the arena and poison the outputs."""
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        for shared, value in zip(self.inputs.values(), tensors, strict=True):
            shared.copy_(value)
        self.poison()

    def poison(self) -> None:
        """Fill the outputs with what no kernel would leave there."""
        for output in self.outputs:
            poison(output)


@dataclass
class Verifier:
    """Looks at the arena's tensors: those of every lane, and the weights that all lanes share.

    ``regions`` names what lies in the arena, in its order, for sentences about guard bytes; ``run`` calls
    PyTorch for a second look at a failure (see `gpu_eval.judge.nearby`).
    """

    arena: Arena
    protocol: Protocol
    rounding: Rounding
    lanes: list[Lane]
    weights: dict[str, torch.Tensor]
    regions: list[str] = field(default_factory=list)
    run: Run | None = None
    pristine_weights: dict[str, torch.Tensor] = field(default_factory=dict)
    first_answer: list[torch.Tensor] = field(default_factory=list)
    last_samples: list[Sample] = field(default_factory=list)

    def begin(self, weights: dict[str, torch.Tensor]) -> None:
        """Arm the guards, put the weights in place, poison every lane's outputs."""
        self.arena.arm_guards()
        self.place_weights(weights)
        self.last_samples = []
        for lane in self.lanes:
            lane.poison()

    def place_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Copy weights into the arena; ``weights`` themselves are the pristine copies."""
        self.pristine_weights = weights
        for name, value in weights.items():
            self.weights[name].copy_(value)

    def remember(self, lane: Lane) -> None:
        """Keep the outputs for `verify_repeated`."""
        self.first_answer = [output.clone() for output in lane.outputs]

    def verify(self, expected: Expected, own: list[ErrorProfile] | None, lane: Lane) -> dict[str, Any]:
        """``{"passed", "message", "numbers", "variant"}``; the message is a sentence when it failed."""
        answer = {"passed": False, "message": "", "numbers": {}, "variant": expected.variant}
        if sentence := self.untouched(expected, lane):
            return {**answer, "message": sentence}
        for index, output in enumerate(lane.outputs):
            comparison = self.compare(index, output, expected, own)
            if not comparison.passed:
                comparison = self.second_look(index, output, expected, own, comparison)
            if not comparison.passed:
                message = self.explain(index, lane, expected, comparison.message)
                return {**answer, "message": message, "numbers": comparison.numbers}
            answer["numbers"] = answer["numbers"] or comparison.numbers
        if sentence := self.stuck(expected, lane):
            return {**answer, "message": sentence}
        return {**answer, "passed": True}

    def verify_repeated(self, expected: Expected, lane: Lane) -> dict[str, Any]:
        """The same input again: bit for bit the same outputs, or apart by rounding only."""
        answer = {"passed": False, "message": "", "numbers": {}, "identical": False}
        if sentence := self.untouched(expected, lane):
            return {**answer, "message": sentence}
        pairs = list(zip(self.first_answer, lane.outputs, strict=True))
        if all(same_bits(first, again) for first, again in pairs):
            return {**answer, "passed": True, "identical": True}
        own = expected.own_errors()
        for index, (first, again) in enumerate(pairs):
            if not self.repeats(first, again, own[index] if own else ErrorProfile()):
                if not first.is_floating_point() and self.tied(index, again, expected):
                    continue
                message = f"{self.title(index)} differs between two calls with the same input."
                return {**answer, "message": message}
        return {**answer, "passed": True}

    def repeats(self, first: torch.Tensor, again: torch.Tensor, own: ErrorProfile | None = None) -> bool:
        """Whether two answers are equal up to the rounding that a changed order of additions makes."""
        if not first.is_floating_point():
            return torch.equal(first, again)
        if not torch.equal(torch.isfinite(first), torch.isfinite(again)):
            return False
        tolerance = strict_tolerance(first.dtype, self.rounding, own or ErrorProfile(), first.numel())
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
        tolerance = strict_tolerance(
            output.dtype, self.rounding, error, output.numel(), reference_is_own=precise is None
        )
        return compare_strict(output, eager, precise if precise is not None else eager, tolerance)

    def second_look(
        self,
        index: int,
        output: torch.Tensor,
        expected: Expected,
        own: list[ErrorProfile] | None,
        failed: Comparison,
    ) -> Comparison:
        """``failed``, or a pass where inputs within rounding, or a tie, explain the difference."""
        if self.run is None or self.protocol is Protocol.KERNELBENCH or not failed.numbers:
            return failed
        if not output.is_floating_point() and self.tied(index, output, expected):
            return Comparison(True, "", {"different_elements": 0})
        near = nearby_outputs(self.run, expected.inputs, expected.seed, index)
        eager = expected.eager[index]
        if not output.is_floating_point():
            return compare_exact(output, eager, None, near)
        exact = expected.precise[index] if expected.precise is not None else eager
        error = own[index] if own is not None else ErrorProfile()
        tolerance = strict_tolerance(
            output.dtype, self.rounding, error, output.numel(), expected.precise is None
        )
        target = settled(output, eager, exact, near, tolerance.largest / 2)
        again = compare_strict(output, eager, target, tolerance)
        return again if again.passed else failed

    def tied(self, index: int, output: torch.Tensor, expected: Expected) -> bool:
        """Whether an output of indices differs from PyTorch's by ties only."""
        run = self.run
        if run is None or output.dtype == torch.bool:
            return False
        allowed = honest_floor(torch.float32, self.rounding).largest
        return chosen_alike(
            output, expected.eager[index], lambda: run(expected.inputs, expected.seed), allowed
        )

    def stuck(self, expected: Expected, lane: Lane) -> str:
        """A sentence when the outputs are the last call's, bit for bit, and PyTorch's are not."""
        samples = [Sample.of(*pair) for pair in zip(lane.outputs, expected.eager, strict=True)]
        before, self.last_samples = self.last_samples, samples
        if not before or self.protocol is Protocol.KERNELBENCH:
            return ""
        pairs = list(zip(before, samples, strict=True))
        same = all(one.fingerprint == other.fingerprint for one, other in pairs)
        if same and any(one.expects_another(other, self.rounding) for one, other in pairs):
            return "The output is the same for different inputs, where PyTorch's differ."
        return ""

    def untouched(self, expected: Expected, lane: Lane) -> str:
        """A sentence when inputs, weights or guard bytes were changed, else nothing."""
        tensors = [value for value in expected.inputs if isinstance(value, torch.Tensor)]
        for (name, shared), pristine in zip(lane.inputs.items(), tensors, strict=True):
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
        names = self.regions
        before = f"after {names[gap - 1]}" if gap else ""
        after = f"before {names[gap]}" if gap < len(names) else ""
        return " and ".join(part for part in (before, after) if part)

    def explain(self, index: int, lane: Lane, expected: Expected, reason: str) -> str:
        """The sentence for a wrong output, with a hint where it is recognisable."""
        output, hint = lane.outputs[index], ""
        for name, value in lane.inputs.items():
            if value.shape == output.shape and value.dtype == output.dtype and same_bits(value, output):
                hint = f' It equals the input "{name}".'
        flat = output.reshape(-1)
        if not hint and output.numel() > 1 and bool((flat == flat[0]).all()):
            hint = f" Every element is {flat[0].item():.6g}."
        variant = "" if expected.variant == "own" else f" (inputs: {expected.variant})"
        return f"{self.title(index)} is wrong{variant}: {reason}.{hint}"

    def title(self, index: int) -> str:
        return "The output" if len(self.lanes[0].outputs) == 1 else f"Output {index}"


@dataclass(frozen=True)
class Sample:
    """Enough of one output to tell whether it is the same again, and of PyTorch's to tell whether it should
    be."""

    fingerprint: tuple[int, ...]
    eager: torch.Tensor

    @classmethod
    def of(cls, output: torch.Tensor, eager: torch.Tensor) -> Sample:
        flat = eager.reshape(-1)
        step = max(1, flat.numel() // SAMPLE)
        return cls(fingerprint(output), flat[::step][:SAMPLE].clone())

    def expects_another(self, later: Sample, rounding: Rounding) -> bool:
        """Whether PyTorch's answers differ by more than rounding."""
        if not self.eager.is_floating_point():
            return not torch.equal(self.eager, later.eager)
        difference = error_profile(later.eager, self.eager.double())
        return difference.rms > honest_floor(self.eager.dtype, Rounding()).rms


def fingerprint(tensor: torch.Tensor) -> tuple[int, ...]:
    """Numbers that two tensors share when they hold the same bytes, and hardly ever otherwise."""
    words = raw(tensor)
    step = max(1, words.numel() // SAMPLE)
    places = words[::step][:SAMPLE].long()
    weights = torch.arange(1, places.numel() + 1, device=places.device)
    return tuple(torch.stack([words.sum(dtype=torch.int64), (places * weights).sum()]).tolist())


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
