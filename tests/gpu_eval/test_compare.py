"""The comparison with the reference, on tensors made by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gpu_eval.judge.arena import HostArena, lay_out, poison, poisoned  # noqa: E402
from gpu_eval.judge.compare import (  # noqa: E402
    Rounding,
    compare_exact,
    compare_kernelbench,
    compare_strict,
    strict_tolerance,
)
from gpu_eval.judge.errors import ErrorProfile, error_profile  # noqa: E402

MANY = 4096  # elements
SHORT = Rounding(depth=1)
TOLERANCE = strict_tolerance(torch.float32, SHORT, ErrorProfile(), MANY)


def noisy(exact: torch.Tensor, ulps: float) -> torch.Tensor:
    """Float32 values off by up to ``ulps`` units in the last place, either way."""
    sign = torch.randint(0, 2, exact.shape).mul(2).sub(1)
    return (exact * (1 + sign * ulps * torch.finfo(torch.float32).eps)).float()


@pytest.fixture
def exact() -> torch.Tensor:
    """A float64 reference."""
    torch.manual_seed(0)
    return torch.randn(64, 64, dtype=torch.float64)


def test_rounding_passes_and_less_than_fp32_does_not(exact: torch.Tensor) -> None:
    """Protects both sides: a few units in the last place are honest, half precision inside is not."""
    eager = exact.float()
    assert compare_strict(noisy(exact, 2), eager, exact, TOLERANCE).passed
    assert not compare_strict(exact.half().float(), eager, exact, TOLERANCE).passed
    assert not compare_strict(exact.bfloat16().float(), eager, exact, TOLERANCE).passed


def test_tolerance_follows_pytorchs_own_error(exact: torch.Tensor) -> None:
    """Protects ill-conditioned operators: a candidate may err about as PyTorch does."""
    own = error_profile(noisy(exact, 100), exact)
    tolerance = strict_tolerance(torch.float32, SHORT, own, MANY)
    assert compare_strict(noisy(exact, 200), exact.float(), exact, tolerance).passed
    assert not compare_strict(noisy(exact, 2000), exact.float(), exact, tolerance).passed


def test_small_outputs_are_judged_by_their_own_scale(exact: torch.Tensor) -> None:
    """Protects softmax-like outputs: zeros must not pass because the answers are tiny."""
    tiny = exact * 1e-9
    assert compare_strict(noisy(tiny, 1), tiny.float(), tiny, TOLERANCE).passed
    assert not compare_strict(torch.zeros(64, 64), tiny.float(), tiny, TOLERANCE).passed


def test_long_sums_may_err_more() -> None:
    """Protects sequential sums from a tolerance made for trees of additions."""
    short = strict_tolerance(torch.float32, SHORT, ErrorProfile(), MANY)
    long = strict_tolerance(torch.float32, Rounding(depth=10_000), ErrorProfile(), MANY)
    assert long.largest > 5 * short.largest
    assert long.rms > 5 * short.rms


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_spurious_non_finite_values_fail(exact: torch.Tensor, bad: float) -> None:
    """Protects against NaN and infinity where PyTorch is finite."""
    actual = exact.float()
    actual[3, 5] = bad
    comparison = compare_strict(actual, exact.float(), exact, TOLERANCE)
    assert not comparison.passed
    assert "(3, 5)" in comparison.message


def test_expected_non_finite_values_must_be_there(exact: torch.Tensor) -> None:
    """Protects masks of NaN and infinity: equal ones pass, a number in their place does not."""
    exact[0, 0], exact[1, 1] = float("nan"), float("-inf")
    eager = exact.float()
    assert compare_strict(eager.clone(), eager, exact, TOLERANCE).passed
    for place in ((0, 0), (1, 1)):
        actual = eager.clone()
        actual[place] = 0.0
        assert not compare_strict(actual, eager, exact, TOLERANCE).passed


def test_a_better_answer_than_pytorchs_passes(exact: torch.Tensor) -> None:
    """Protects stable kernels: where fp32 PyTorch overflows and float64 does not, the true value is right."""
    eager = exact.float()
    eager[2, 2] = float("inf")
    assert compare_strict(exact.float(), eager, exact, TOLERANCE).passed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_poison_is_found_wherever_nothing_was_written(dtype: torch.dtype) -> None:
    """Protects the poison: it marks each element, and an ordinary value is not taken for it."""
    values = torch.empty(5, 7, dtype=dtype)
    poison(values)
    assert poisoned(values).all()
    values[2, 3] = 1
    assert int(poisoned(values).sum()) == 34
    assert not poisoned(torch.zeros(4, dtype=dtype)).any()


def test_poison_fills_scalars_and_empty_tensors() -> None:
    """Protects 0-d and empty outputs."""
    scalar = torch.zeros(())
    poison(scalar)
    assert poisoned(scalar).item()
    poison(torch.empty(0))


def test_integers_are_compared_exactly() -> None:
    """Protects argmax and masks: every element counts, and either precision's tie is fine."""
    expected = torch.tensor([1, 2, 3])
    assert compare_exact(expected.clone(), expected, None).passed
    assert not compare_exact(torch.tensor([1, 2, 4]), expected, None).passed
    assert compare_exact(torch.tensor([1, 2, 4]), expected, torch.tensor([1, 2, 4])).passed


def test_kernelbench_protocol_is_allclose(exact: torch.Tensor) -> None:
    """Protects comparable figures: 1e-4 both ways, as the public harness has it."""
    eager = exact.float()
    assert compare_kernelbench(eager + 5e-5, eager).passed
    assert not compare_kernelbench(eager + 1e-2, eager).passed
    assert compare_kernelbench(eager.half() + 1e-3, eager.half()).passed


def test_guards_lie_around_every_tensor(tmp_path) -> None:
    """Protects neighbours: one byte before or after any tensor is noticed."""
    arena = HostArena([100, 0, 4096], tmp_path / "arena")
    arena.arm_guards()
    assert arena.broken_guard() is None
    for index, region in enumerate(arena.regions):
        for offset, gap in ((region.offset - 1, index), (region.offset + region.nbytes, index + 1)):
            saved = int(arena.memory[offset])
            arena.memory[offset] = 1
            assert arena.broken_guard() == gap
            arena.memory[offset] = saved
    assert arena.broken_guard() is None


def test_layout_is_aligned_and_disjoint() -> None:
    """Protects vector loads: tensors start on page boundaries and do not overlap."""
    regions, total = lay_out([1, 5000, 64])
    ends = [region.offset + region.nbytes for region in regions]
    assert all(region.offset % 4096 == 0 for region in regions)
    assert all(end < region.offset for end, region in zip(ends, regions[1:], strict=False))
    assert ends[-1] < total
