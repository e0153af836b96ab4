"""Whether a candidate's output is right, judged by its error next to PyTorch's own.

The reference is computed in float64. Errors are relative to the reference's own scale: an element's error
is divided by its magnitude plus the output's root mean square, so a tiny or degenerate output cannot hide
behind an absolute tolerance. The candidate may err `FACTOR` times as much as PyTorch at the operator's
precision, or a few units in the last place of that scale where PyTorch's error happens to be smaller; sums
allow more, growing with the square root of their length as random rounding does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from gpu_eval.judge.arena import poisoned

MAX_FACTOR = 8.0
RMS_FACTOR = 6.0
MAX_FLOOR_ULPS = 16.0
RMS_FLOOR_ULPS = 4.0
TINY = 1e-30

Numbers = dict[str, float | int | str | None]


@dataclass(frozen=True)
class ErrorProfile:
    """Errors relative to the reference's scale: the largest, the root mean square, and the signed mean."""

    largest: float = 0.0
    rms: float = 0.0
    bias: float = 0.0

    def worst(self, other: ErrorProfile) -> ErrorProfile:
        """The larger of each."""
        bias = max(self.bias, other.bias, key=abs)
        return ErrorProfile(max(self.largest, other.largest), max(self.rms, other.rms), bias)


@dataclass(frozen=True)
class Tolerance:
    """The largest and the root-mean-square relative error that still pass."""

    largest: float
    rms: float

    def allows(self, profile: ErrorProfile) -> bool:
        return profile.largest <= self.largest and profile.rms <= self.rms


@dataclass(frozen=True)
class Comparison:
    """One output looked at. ``message`` is a sentence when it failed."""

    passed: bool
    message: str = ""
    numbers: Numbers = field(default_factory=dict)


def strict_tolerance(
    dtype: torch.dtype, depth: float, own: ErrorProfile, reference_is_own: bool = False
) -> Tolerance:
    """What a candidate may err by. ``depth``: the longest sum; ``own``: PyTorch's error on the same input.

    With ``reference_is_own`` the candidate is compared with PyTorch's answer, which errs itself by ``own``.
    """
    ulp = torch.finfo(dtype).eps
    largest = max(MAX_FLOOR_ULPS * ulp * (1 + math.sqrt(depth) / 4), MAX_FACTOR * own.largest)
    rms = max(RMS_FLOOR_ULPS * ulp * (1 + math.sqrt(depth) / 8), RMS_FACTOR * own.rms)
    if reference_is_own:
        largest, rms = largest + own.largest, rms + own.rms
    return Tolerance(largest, rms)


def error_profile(actual: torch.Tensor, exact: torch.Tensor) -> ErrorProfile:
    """Errors of ``actual`` against ``exact`` where both are finite; all zero when nowhere."""
    profile = finite_profile(actual, exact)
    if profile is not None:
        return profile
    both = torch.isfinite(actual) & torch.isfinite(exact)
    if not bool(both.any()):
        return ErrorProfile()
    return finite_profile(actual[both], exact[both].double()) or ErrorProfile(math.inf, math.inf, math.inf)


def finite_profile(actual: torch.Tensor, exact: torch.Tensor) -> ErrorProfile | None:
    """As `error_profile`, in few passes; None when a NaN or an infinity is involved."""
    if exact.numel() == 0:
        return ErrorProfile()
    exact = exact if exact.dtype == torch.float64 else exact.float()
    error = actual.to(exact.dtype) - exact
    level = max(float(torch.linalg.vector_norm(exact)) / math.sqrt(exact.numel()), TINY)
    rms = float(torch.linalg.vector_norm(error)) / math.sqrt(exact.numel()) / level
    bias = float(error.mean()) / level
    largest = float(error.abs_().div_(exact.abs().add_(level)).max())
    if not all(map(math.isfinite, (level, rms, bias, largest))):
        return None
    return ErrorProfile(largest, rms, bias)


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
        "largest_allowed": finite(tolerance.largest),
        "rms_allowed": finite(tolerance.rms),
    }
    if tolerance.allows(profile):
        return Comparison(True, "", numbers)
    return Comparison(False, describe_error(actual, exact, profile, tolerance), numbers)


def compare_exact(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None) -> Comparison:
    """An integer or boolean output: every element equals PyTorch's at one of the two precisions."""
    right = actual == eager
    if exact is not None and exact.shape == actual.shape:
        right = right | (actual == exact.to(actual.dtype))
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
    """Where the largest error is and how far beyond the tolerance."""
    error = (actual.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0)
    where = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape)) if error.ndim else ()
    if profile.largest > tolerance.largest:
        amount = f"the largest relative error is {profile.largest:.3g}, allowed is {tolerance.largest:.3g}"
    else:
        amount = f"the typical relative error is {profile.rms:.3g}, allowed is {tolerance.rms:.3g}"
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
