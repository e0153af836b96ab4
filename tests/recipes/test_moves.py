"""Moves change kernels or say why they cannot; schedules survive storage."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from optimizer.recipes import (
    MOVES,
    NotApplicable,
    RecipeFacts,
    Schedule,
    applicable_moves,
    apply_recipe,
    generate_plan,
    naive_schedule,
    repair,
    schedule_facts,
)
from tests.recipes.harness import captured
from tests.recipes.walks import random_schedule, walk

NAMES = (
    "fuse_pointwise fuse_prologue fuse_epilogue fuse_all vector_width items_per_thread block_size grid_stride waves "
    "row_per_warp row_per_block rows_per_block row_in_registers row_in_shared warp_shuffle shared_tree "
    "online_softmax single_pass_moments welford split_rows streaming_loads streaming_stores read_only_loads "
    "fast_math reciprocal_multiply fma_contract exact_tile guarded_tail unroll hoist_broadcast broadcast_in_shared "
    "index_32bit precompute_parameters library_reference recompute_instead_of_store flush_denormals "
    "two_accumulators four_accumulators"
).split()


class Normalised(nn.Module):
    """Both families in one: a prologue, moments, a softmax-free tail with broadcasts and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.gain = nn.Parameter(torch.randn(256))

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return F.gelu(self.norm(x * 2 + residual)) * (1.0 + self.gain) / 3.0 + residual


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x * 0.5, -1)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x * 2.0 + self.bias) * x / 3.0


class Centred(nn.Module):
    """A value that both a reduction and a point-wise operation read."""

    def forward(self, x: Tensor) -> Tensor:
        doubled = x * 2.0
        return doubled - doubled.mean(-1, keepdim=True)


OPERATORS = [
    (Normalised(), [torch.randn(64, 256), torch.randn(64, 256)]),
    (Softmax(), [torch.randn(64, 4096)]),
    (Gate(), [torch.randn(128, 64)]),
    (Centred(), [torch.randn(16, 64)]),
]
GRAPHS = [captured(model, inputs) for model, inputs in OPERATORS]


def kernels(text: str) -> str:
    """The plan without comments."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith(("//", "#")) or line.startswith("#pragma"))


def device(kind: str) -> dict[str, Any]:
    return {"kind": kind, "compute_units": 132 if kind == "cuda" else 2}


def test_every_move_of_the_memory_exists() -> None:
    """Strategies of stored banks name these moves."""
    assert set(NAMES) <= set(MOVES)
    assert all(MOVES[name].describe() for name in NAMES)


@pytest.mark.parametrize("kind", ["opencl", "cuda"])
def test_an_applied_move_changes_the_kernels(kind: str) -> None:
    """A search step is never spent on a plan that is the parent's."""
    rng = random.Random(1)
    for graph in GRAPHS:
        facts = RecipeFacts(graph, device(kind))
        for schedule in [naive_schedule(kind), *walk(graph, device(kind), 6, rng)]:
            before = kernels(generate_plan(graph, schedule, kind, device(kind)))
            for move, after in applicable_moves(schedule, facts):
                changed = kernels(generate_plan(graph, after, kind, device(kind)))
                assert changed != before, f"{move.describe()} on {schedule.to_json()}"


@pytest.mark.parametrize("kind", ["opencl", "cuda"])
def test_every_move_applies_somewhere(kind: str) -> None:
    """No name of the memory is a dead end on a device that its idea concerns."""
    elsewhere = {
        "cuda": {"fma_contract", "flush_denormals"},
        "opencl": {
            "row_in_registers",
            "warp_shuffle",
            "shared_tree",
            "streaming_loads",
            "broadcast_in_shared",
        },
    }[kind]
    starts = [
        Schedule(),
        Schedule(fuse_all=True, row_strategy="block", index_32bit=False),
        Schedule(fuse_all=True, row_strategy="warp", warp_shuffle=True, vector_width=4),
        Schedule(fuse_prologue=True, grid_stride=True, exact_tile=True, row_strategy="block"),
        Schedule(exact_tile=True),
        Schedule(fuse_pointwise=True, fuse_prologue=True, fuse_epilogue=True),
        Schedule(fuse_all=True, vector_width=4, index_32bit=True, hoist_broadcast=True),
    ]
    found = {
        move.name
        for graph in GRAPHS
        for schedule in starts
        for move, _ in applicable_moves(schedule, RecipeFacts(graph, device(kind)))
    }
    assert set(NAMES) - found == elsewhere


def test_a_move_that_cannot_apply_says_why() -> None:
    """The proposer shows this sentence beside the strategy."""
    facts = RecipeFacts(GRAPHS[2], device("opencl"))
    for recipe in (
        {"move": "online_softmax"},
        {"move": "warp_shuffle"},
        {"move": "vector_width", "width": 3},
        {"move": "block_size", "lanes": 4},
        {"move": "no_such_move"},
        {"move": "guarded_tail"},
    ):
        answer = apply_recipe(recipe, Schedule(), facts)
        assert isinstance(answer, NotApplicable)
        assert answer.reason.endswith((".", "?"))


def test_moves_bind_arguments_like_recipes() -> None:
    """`MOVES[name](**arguments)` and a recipe's JSON are the same move."""
    facts = RecipeFacts(GRAPHS[2], device("opencl"))
    bound = MOVES["vector_width"](width=8).apply(Schedule(), facts)
    assert (
        bound
        == apply_recipe({"move": "vector_width", "width": 8}, Schedule(), facts)
        == Schedule(vector_width=8)
    )


def test_schedules_survive_storage() -> None:
    """Candidates keep their schedule as JSON, and the next step starts from it."""
    rng = random.Random(0)
    for _ in range(50):
        schedule = random_schedule(rng, fast=True)
        assert Schedule.from_json(schedule.to_json()) == schedule
    with pytest.raises(ValueError, match="no 'warp_specialised'"):
        Schedule.from_json({"warp_specialised": True})
    with pytest.raises(ValueError, match="vector_width"):
        Schedule(vector_width=3)


def test_repair_ends_and_never_repeats() -> None:
    """Each repair is a new, plainer schedule; in the end there is none left."""
    rng = random.Random(3)
    for verdict in (
        "wrong",
        "compile_error",
        "crashed",
        "launch_error",
        "out_of_memory",
        "timeout",
        "nondeterministic",
    ):
        schedule: Schedule | None = random_schedule(rng, fast=True)
        seen = []
        while schedule is not None:
            assert schedule not in seen
            seen.append(schedule)
            schedule = repair(schedule, verdict)
        assert len(seen) < 20


def test_repair_undoes_the_likely_cause_first() -> None:
    """Fast maths is the first suspect of a wrong result, the vector width of a crash."""
    schedule = Schedule(fuse_all=True, fast_math=True, vector_width=8)
    assert repair(schedule, "wrong") == dataclasses.replace(schedule, fast_math=False)
    assert repair(schedule, "crashed") == dataclasses.replace(schedule, vector_width=4)


def test_diffs_show_just_the_strategy() -> None:
    """The page shows a step as a diff: one knob must not shuffle the rest of the text."""
    before = generate_plan(GRAPHS[2], Schedule(fuse_all=True), "cuda", device("cuda")).splitlines()
    after = generate_plan(
        GRAPHS[2], Schedule(fuse_all=True, block_size=128), "cuda", device("cuda")
    ).splitlines()
    changed = [line for line in after if line not in before]
    assert len(changed) == 1
    assert "block=128" in changed[0]


def test_facts_describe_operator_and_schedule() -> None:
    """Triggers of the memory read these."""
    facts = schedule_facts(GRAPHS[0], Schedule(fuse_all=True, vector_width=4, row_strategy="warp"))
    assert facts["family"] == "row_reduction"
    assert (facts["rows"], facts["row_length"], facts["elements"]) == (64, 256, 64 * 256)
    assert facts["has_moments"]
    assert not facts["has_softmax"]
    assert facts["has_broadcast"]
    assert (facts["kernels"], facts["fused"], facts["row_strategy"]) == (1, True, "warp")
    assert schedule_facts(GRAPHS[1], None)["has_softmax"]
    assert schedule_facts(GRAPHS[2], Schedule())["row_strategy"] == "none"
