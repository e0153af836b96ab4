"""Generated kernels against PyTorch: random operators, random schedules, every sample.

The OpenCL tests run on PoCL, the CUDA tests where there is an NVIDIA GPU. Seeds are fixed; raise
``HTAM_FUZZ_SEEDS`` to look further.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from optimizer.recipes import Schedule, coverage, generate_plan
from tests.recipes.harness import PlanRunner, assert_close, captured
from tests.recipes.operators import RandomPointwise, RandomReduction
from tests.recipes.samples import SAMPLES, load_sample
from tests.recipes.walks import random_schedule, walk

SEEDS = int(os.environ.get("HTAM_FUZZ_SEEDS", "6"))
ROW_SCHEDULES = [
    Schedule(),
    Schedule(fuse_prologue=True, fuse_epilogue=True, row_strategy="warp", vector_width=2, accumulators=2),
    Schedule(fuse_all=True, row_strategy="block", vector_width=8, row_storage="shared", index_32bit=True,
             online_softmax=True, moments="single_pass", block_size=64),
    Schedule(fuse_all=True, row_strategy="block", vector_width=4, row_storage="registers", warp_shuffle=True,
             accumulators=2, rows_per_block=2, moments="welford", read_only_loads=True),
    Schedule(fuse_all=True, row_strategy="warp", vector_width=4, row_storage="registers", warp_shuffle=True,
             online_softmax=True, streaming_stores=True, streaming_loads=True, exact_tile=True, index_32bit=True),
    Schedule(row_strategy="split", split_parts=4, vector_width=4, online_softmax=True, moments="single_pass"),
    Schedule(row_strategy="split", split_parts=3, moments="welford", accumulators=4, warp_shuffle=True),
]  # fmt: skip
POINT_SCHEDULES = [
    Schedule(),
    Schedule(fuse_pointwise=True, vector_width=4, items_per_thread=2),
    Schedule(fuse_all=True, vector_width=8, index_32bit=True, hoist_broadcast=True, streaming_stores=True),
    Schedule(fuse_all=True, vector_width=16, grid_stride=True, read_only_loads=True, exact_tile=True),
    Schedule(
        fuse_all=True, vector_width=4, broadcast_in_shared=True, reciprocal_multiply=True, fma_contract=True
    ),
]


@pytest.fixture(scope="module", params=["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def runner(request: pytest.FixtureRequest) -> Iterator[PlanRunner]:
    opened = PlanRunner(request.param)
    yield opened
    opened.backend.close()


def check(runner: PlanRunner, model: nn.Module, inputs: list[Any], schedules: list[Schedule]) -> None:
    graph = captured(model, inputs)
    found = coverage(graph)
    assert found.covered, found.sentence
    with torch.no_grad():
        expected = model(*inputs)
    for schedule in schedules:
        text = generate_plan(graph, schedule, runner.kind, runner.device)
        got = runner.run(text, model, inputs)
        assert_close(
            got,
            expected,
            f"{schedule.to_json()}\n{text}",
            loose=schedule.fast_math or schedule.moments == "single_pass",
        )


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("family", [RandomPointwise, RandomReduction])
def test_random_operators(runner: PlanRunner, family: type, seed: int) -> None:
    """Whatever the search combines, the kernels compute what PyTorch computes, NaN and infinities included."""
    rng = random.Random(seed * 7 + 1)
    torch.manual_seed(seed)
    model = family(rng, specials=seed % 3 == 0)
    inputs = model.inputs()
    graph = captured(model, inputs)
    last = walk(graph, runner.device, 8, rng)[-1]
    check(runner, model, inputs, [Schedule(), random_schedule(rng), last])


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def rows_with_specials(rows: int, cols: int) -> Tensor:
    """Rows of numbers; then one each with NaN, +inf, -inf, both, and nothing but -inf."""
    x = torch.randn(rows + 5, cols) * 3
    x[0, cols // 2] = float("nan")
    x[1, 0] = float("inf")
    x[2, cols - 1] = -float("inf")
    x[3, 0], x[3, cols - 1] = float("inf"), -float("inf")
    x[4] = -float("inf")
    return x


REDUCING = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, correction=0),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
}


WITHOUT_TAIL = ("layer_norm", "logsumexp", "softmax")  # rows that whole vectors fill


@pytest.mark.parametrize(
    ("name", "cols"), [*((name, 33) for name in sorted(REDUCING)), *((name, 64) for name in WITHOUT_TAIL)]
)
def test_reductions_hand_special_values_on(runner: PlanRunner, name: str, cols: int) -> None:
    """NaN, infinities and rows of -inf give what PyTorch gives, in every form of the reduction."""
    torch.manual_seed(0)
    check(runner, Lambda(REDUCING[name]), [rows_with_specials(3, cols)], ROW_SCHEDULES)


@pytest.mark.parametrize("shape", [(0, 8), (1, 1), (1, 7), (5, 1), (3, 1, 16), (2, 5, 129)])
def test_odd_shapes(runner: PlanRunner, shape: tuple[int, ...]) -> None:
    """Empty tensors, single elements and size-1 dimensions fall back without a special plan."""
    torch.manual_seed(0)
    bias = torch.randn(shape[-1:])
    check(runner, Lambda(lambda x, b: F.gelu(x + b) * x), [torch.randn(shape), bias], POINT_SCHEDULES)
    check(runner, Lambda(lambda x: torch.softmax(x * 2, -1) + x), [torch.randn(shape)], ROW_SCHEDULES)


@pytest.mark.parametrize(
    ("left", "right"),
    [((6, 8), (8,)), ((6, 8), (6, 1)), ((6, 1), (1, 8)), ((4, 6, 32), (6, 1)), ((4, 6, 32), (4, 1, 32)),
     ((2, 3, 4, 64), (3, 1, 1)), ((8,), ()), ((5, 96), (1, 96))],
)  # fmt: skip
def test_broadcast_patterns(runner: PlanRunner, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Operands that lack dimensions are addressed right under every layout."""
    torch.manual_seed(0)
    check(
        runner,
        Lambda(lambda a, b: torch.tanh(a * b) + a - b),
        [torch.randn(left), torch.randn(right)],
        POINT_SCHEDULES,
    )


def test_names_of_any_language_reach_c(runner: PlanRunner) -> None:
    """Operands named like C keywords, built-in functions or the generator's own variables stay apart."""

    class Named(nn.Module):
        def forward(self, double: Tensor, exp: Tensor, rows: Tensor, größe: Tensor) -> Tensor:
            return torch.softmax(torch.exp(double) * exp + rows * größe, -1)

    torch.manual_seed(0)
    check(runner, Named(), [torch.randn(3, 16) for _ in range(4)], ROW_SCHEDULES[2:6:3])


def test_views_of_inputs_cost_no_copy(runner: PlanRunner) -> None:
    """Transposes, slices and splits of an input are strides of a load."""
    torch.manual_seed(0)

    def mixed(x: Tensor, y: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return F.silu(first) * second + y.transpose(0, 1) + x[:, 3:4]

    check(runner, Lambda(mixed), [torch.randn(6, 16), torch.randn(8, 6)], POINT_SCHEDULES)


def test_masks_and_integers(runner: PlanRunner) -> None:
    """Boolean and integer operands and results keep their types."""
    torch.manual_seed(0)
    x, mask = torch.randn(7, 24), torch.rand(7, 24) > 0.5
    count = torch.randint(-5, 5, (7, 24))

    def mixed(x: Tensor, mask: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.where(mask, x, -1.0) * count, (x > 0) & mask, count + 2

    check(runner, Lambda(mixed), [x, mask, count], POINT_SCHEDULES)


def test_steps_and_signs(runner: PlanRunner) -> None:
    """Functions that jump agree on both sides of the jump and on it."""
    x = torch.tensor([-2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, float("inf"), float("nan")])

    def mixed(x: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.floor(x),
            torch.ceil(x),
            torch.round(x),
            torch.trunc(x),
            torch.sign(x),
            torch.remainder(x, 0.75),
        )

    check(runner, Lambda(mixed), [x], POINT_SCHEDULES)


def test_parameters_are_prepared_once(runner: PlanRunner) -> None:
    """Work on parameters alone moves to prepare, which sees no input, also where shapes are an input's."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 16))
            self.unused_later = nn.Parameter(torch.randn(16))

        def forward(self, x: Tensor) -> Tensor:
            return x * torch.exp(self.weight) + (1.0 + self.unused_later)

    torch.manual_seed(0)
    schedules = [Schedule(precompute_parameters=True), Schedule(fuse_all=True, precompute_parameters=True)]
    model, inputs = Shifted(), [torch.randn(6, 16)]
    assert "def prepare" in generate_plan(captured(model, inputs), schedules[1], runner.kind, runner.device)
    check(runner, model, inputs, schedules)


def test_scalar_inputs_are_arguments(runner: PlanRunner) -> None:
    """A number among the inputs reaches the kernel at call time."""
    torch.manual_seed(0)
    model = Lambda(lambda x, s: x * s + torch.exp(x / (s + 2.0)))
    graph = captured(model, [torch.randn(65), 0.25])
    text = generate_plan(graph, Schedule(fuse_all=True, vector_width=4), runner.kind, runner.device)
    for value in (0.25, -1.5):
        x = torch.randn(65)
        assert_close(runner.run(text, model, [x, value]), model(x, value), text)


def test_long_rows_keep_their_digits(runner: PlanRunner) -> None:
    """A million additions one after another would lose four digits in float32."""
    torch.manual_seed(0)
    check(runner, Lambda(lambda x: (x * x).mean(-1)), [torch.rand(2, 1 << 19)], ROW_SCHEDULES)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples(runner: PlanRunner, path: Any) -> None:
    """Every sample is covered and right from the naive schedule to the boldest one."""
    torch.manual_seed(0)
    small = {"rows": 37, "cols": 192, "batch": 3, "channels": 5, "height": 8, "width": 12}
    model, inputs = load_sample(path, **small)
    bold = Schedule(fuse_all=True, vector_width=8, row_strategy="block", row_storage="shared", warp_shuffle=True,
                    fast_math=True, reciprocal_multiply=True, streaming_stores=True, online_softmax=True,
                    moments="single_pass", hoist_broadcast=True, index_32bit=True,
                    precompute_parameters=True)  # fmt: skip
    check(runner, model, inputs, [Schedule(), ROW_SCHEDULES[4], bold, Schedule(library=True)])
