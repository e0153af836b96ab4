"""Whether a candidate's output is right, judged by its error next to PyTorch's own.

The reference is computed in float64. The candidate may err a few times as much as PyTorch at the operator's
precision, or, where PyTorch's error happens to be smaller, as much as an honest kernel does: a few units in
the last place, more for sums, growing with the square root of their length as random rounding does. Four
statistics are held against that (see `gpu_eval.judge.errors`): the largest error shows a wrong element, the
root mean square a precision lost everywhere, the signed mean a sum of a part or a truncated series, the tail
a precision lost in some elements. `benchmarks.margins` prints what honest kernels and cheats score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from gpu_eval.judge.arena import poisoned
from gpu_eval.judge.errors import ErrorProfile, error_profile, finite_profile

LARGEST_FACTOR = 8.0  # times PyTorch's own
RMS_FACTOR = 6.0
BIAS_FACTOR = 8.0
TAIL_FACTOR = 8.0
CHAIN = 4096  # the longest sum that an honest kernel leaves to one accumulator
FEW_OUTPUTS = 2.0  # standard deviations by which the mean square of a handful of errors may exceed its mean

Numbers = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Rounding:
    """What decides how much honest kernels of an operator err. ``depth``: terms of its longest sum;
    ``tf32``: whether it has products of matrices that may be rounded to TF32."""

    depth: float = 1.0
    tf32: bool = False


@dataclass(frozen=True)
class Floor:
    """The errors that are honest whatever PyTorch's own are, and the caps that none may exceed."""

    largest: float
    rms: float
    largest_cap: float
    rms_cap: float


@dataclass(frozen=True)
class Tolerance:
    """The error statistics that still pass."""

    largest: float
    rms: float
    bias: float = math.inf
    tail: float = math.inf

    def allows(self, profile: ErrorProfile) -> bool:
        return (
            profile.largest <= self.largest
            and profile.rms <= self.rms
            and abs(profile.bias) <= self.bias
            and profile.tail <= self.tail
        )


@dataclass(frozen=True)
class Comparison:
    """One output looked at. ``message`` is a sentence when it failed."""

    passed: bool
    message: str = ""
    numbers: Numbers = field(default_factory=dict)


def honest_floor(dtype: torch.dtype, rounding: Rounding) -> Floor:
    """What honest kernels err by at most.

    Half precision is rounded once, at the end: its sums are made in float32, so their length adds nothing.
    """
    ulp = torch.finfo(dtype).eps
    if dtype in (torch.float16, torch.bfloat16):
        return Floor(4 * ulp, ulp, max(0.05, 32 * ulp), max(0.02, 12 * ulp))
    chain = math.sqrt(min(max(rounding.depth, 1.0), CHAIN))
    largest, rms = (16 + 2 * chain) * ulp, (3 + 0.7 * chain) * ulp
    if rounding.tf32 and dtype == torch.float32:
        largest, rms = max(largest, 2.0**-9), max(rms, 2.0**-11)
    return Floor(largest, rms, 0.05, 0.02)


def strict_tolerance(
    dtype: torch.dtype,
    rounding: Rounding,
    own: ErrorProfile,
    elements: int,
    reference_is_own: bool = False,
) -> Tolerance:
    """What a candidate may err by over ``elements``; ``own``: PyTorch's error on inputs like these.

    With ``reference_is_own`` the candidate is compared with PyTorch's answer, which errs itself by ``own``.
    """
    floor = honest_floor(dtype, rounding)
    few = 1 + FEW_OUTPUTS / math.sqrt(max(elements, 1))
    largest = max(floor.largest, LARGEST_FACTOR * own.largest)
    rms = max(floor.rms, RMS_FACTOR * own.rms) * few
    bias = max(floor.rms / 2, BIAS_FACTOR * abs(own.bias)) * few
    tail = max(floor.largest / 2, TAIL_FACTOR * own.tail)
    if reference_is_own:
        largest, rms, bias, tail = (
            largest + own.largest,
            rms + own.rms,
            bias + abs(own.bias),
            tail + own.tail,
        )
    return Tolerance(min(largest, floor.largest_cap), min(rms, floor.rms_cap * few), bias, tail)


def compare_strict(
    actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, tolerance: Tolerance
) -> Comparison:
    """A floating output against the reference; where each is finite must agree with PyTorch first."""
    profile = finite_profile(actual, exact)
    if profile is None or not tolerance.allows(profile):
        if sentence := unwritten(actual):
            return Comparison(False, sentence)
        if sentence := wrong_non_finite(actual, eager, exact):
            return Comparison(False, sentence)
        profile = error_profile(actual, exact)
    numbers: Numbers = {
        "largest_error": finite(profile.largest),
        "rms_error": finite(profile.rms),
        "bias": finite(profile.bias),
        "tail_error": finite(profile.tail),
        "largest_allowed": finite(tolerance.largest),
        "rms_allowed": finite(tolerance.rms),
        "bias_allowed": finite(tolerance.bias),
        "tail_allowed": finite(tolerance.tail),
    }
    if tolerance.allows(profile):
        return Comparison(True, "", numbers)
    return Comparison(False, describe_error(actual, exact, profile, tolerance), numbers)


def compare_exact(
    actual: torch.Tensor,
    eager: torch.Tensor,
    exact: torch.Tensor | None,
    near: Sequence[torch.Tensor] = (),
) -> Comparison:
    """An integer or boolean output: every element equals PyTorch's at one of the two precisions, or one of
    its answers ``near`` by."""
    if actual.dtype == torch.bool and (sentence := unwritten(actual)):
        return Comparison(False, sentence)  # its poison counts as true
    right = actual == eager
    for answer in (exact, *near):
        if answer is not None and answer.shape == actual.shape:
            right |= actual == answer.to(actual.dtype)
    wrong = int((~right).sum())
    if wrong == 0:
        return Comparison(True, "", {"different_elements": 0})
    if sentence := unwritten(actual):
        return Comparison(False, sentence)
    where = first_index(~right)
    return Comparison(
        False,
        f"{wrong} of {actual.numel()} elements differ; at {where} it is {actual[where].item()}, "
        f"expected {eager[where].item()}",
        {"different_elements": wrong},
    )


def compare_kernelbench(actual: torch.Tensor, eager: torch.Tensor) -> Comparison:
    """The public harness's rule: `torch.allclose` with 1e-4 both ways (1e-2 for half precision)."""
    if sentence := unwritten(actual):
        return Comparison(False, sentence)
    bound = 1e-2 if eager.dtype in (torch.float16, torch.bfloat16) else 1e-4
    numbers: Numbers = {"atol": bound, "rtol": bound}
    if not eager.is_floating_point():
        return compare_exact(actual, eager, None)
    if torch.allclose(actual, eager, rtol=bound, atol=bound):
        return Comparison(True, "", numbers)
    difference = (actual.double() - eager.double()).abs()
    numbers["largest_difference"] = finite(float(difference.nan_to_num(0.0, 0.0, 0.0).max()))
    return Comparison(
        False, f"it is not within {bound:g} (absolute and relative) of PyTorch's output", numbers
    )


def unwritten(actual: torch.Tensor) -> str:
    """A sentence when elements still hold the poison, else nothing."""
    if not actual.is_floating_point() and actual.dtype != torch.bool and actual.element_size() < 4:
        return ""  # one or two bytes of poison are an ordinary value
    mask = poisoned(actual)
    count = int(mask.sum())
    if count == 0:
        return ""
    if count == actual.numel():
        return "it was never written"
    return f"{count} of {actual.numel()} elements were never written, the first at {first_index(mask)}"


def wrong_non_finite(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> str:
    """A sentence when NaN or infinity is where it should not be, or is missing; else nothing."""
    good = torch.isfinite(actual)
    expected = torch.isfinite(eager)
    if bool(good.all()) and bool(expected.all()):
        return ""
    spurious = ~good & expected
    if count := int(spurious.sum()):
        where = first_index(spurious)
        return (
            f"{count} of {actual.numel()} elements are NaN or infinite where PyTorch's are finite, "
            f"the first at {where}"
        )
    both_bad = ~expected & ~torch.isfinite(exact)
    same = (torch.isnan(actual) & torch.isnan(eager)) | (actual == eager)
    missing = both_bad & ~same & (good | (torch.isnan(actual) != torch.isnan(eager)))
    if count := int(missing.sum()):
        where = first_index(missing)
        return (
            f"{count} elements should be NaN or infinite and are not, the first at {where}: "
            f"expected {eager[where].item()}, got {actual[where].item()}"
        )
    return ""


def describe_error(
    actual: torch.Tensor, exact: torch.Tensor, profile: ErrorProfile, tolerance: Tolerance
) -> str:
    """Which statistic is beyond the tolerance, and where the largest error is."""
    error = (actual.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)
    where = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape)) if error.ndim else ()
    if profile.largest > tolerance.largest:
        amount = f"the largest relative error is {profile.largest:.3g}, allowed is {tolerance.largest:.3g}"
    elif profile.rms > tolerance.rms:
        amount = f"the typical relative error is {profile.rms:.3g}, allowed is {tolerance.rms:.3g}"
    elif abs(profile.bias) > tolerance.bias:
        amount = f"it is off to one side by {profile.bias:.3g} of its scale, allowed is {tolerance.bias:.3g}"
    else:
        amount = f"one element in a hundred errs by {profile.tail:.3g}, allowed is {tolerance.tail:.3g}"
    place = f" at {list(where)}" if where else ""
    return f"{amount};{place} it is {actual[where].item():.7g}, expected {exact[where].item():.7g}"


def first_index(mask: torch.Tensor) -> tuple[int, ...]:
    """Index of the first true element; empty for a 0-d tensor."""
    if mask.ndim == 0:
        return ()
    flat = int(mask.reshape(-1).to(torch.uint8).argmax())
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), mask.shape))


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON cannot carry."""
    return value if math.isfinite(value) else None
