"""The seed bank: complete, well-formed, written once, and sensible before any evidence."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from django.core.management import call_command

from memory.bankfile import parse_bank
from memory.exporting import dump_bank, export_bank
from memory.models import GlobalNode, MemoryBank
from memory.policy import POOLED, START, PolicyConfig
from memory.seeding import SEED_FILE, SEED_NAME, ensure_seed_bank
from memory.services import choose_direction, strategy_options
from optimizer.recipes import MOVES as MOVES_AT_HAND

KEYS = {
    "memory-access", "data-reuse", "parallelism-occupancy", "instruction-throughput", "fusion",
    "reduction-structure", "boundary-handling", "precision-numerics", "launch-overhead",
    "library-substitution",
}  # fmt: skip
MOVES = {
    "fuse_pointwise", "fuse_prologue", "fuse_epilogue", "fuse_all", "vector_width", "items_per_thread",
    "block_size", "grid_stride", "waves", "row_per_warp", "row_per_block", "rows_per_block",
    "row_in_registers", "row_in_shared", "warp_shuffle", "shared_tree", "online_softmax",
    "single_pass_moments", "welford", "split_rows", "streaming_loads", "streaming_stores",
    "read_only_loads", "fast_math", "reciprocal_multiply", "fma_contract", "exact_tile", "guarded_tail",
    "unroll", "hoist_broadcast", "broadcast_in_shared", "index_32bit", "precompute_parameters",
    "library_reference", "recompute_instead_of_store", "flush_denormals", "two_accumulators",
    "four_accumulators",
}  # fmt: skip


@pytest.fixture(scope="module")
def seed() -> dict[str, Any]:
    return parse_bank(SEED_FILE.read_bytes())


def strategies_of(seed: dict[str, Any]) -> list[dict[str, Any]]:
    return [strategy for direction in seed["directions"] for strategy in direction["strategies"]]


def test_size(seed):
    """At least 10 directions, 55 strategies and 65 edges, START reaching every direction."""
    keys = {direction["key"] for direction in seed["directions"]}
    assert keys >= KEYS
    assert len(strategies_of(seed)) >= 55
    assert len(seed["edges"]) >= 65
    assert {edge["target"] for edge in seed["edges"] if edge["source"] == START} == keys
    assert seed["name"] == SEED_NAME


def test_every_recipe_move_is_used(seed):
    """The search can reach every move through the memory."""
    recipes = [strategy["recipe"] for strategy in strategies_of(seed) if strategy["recipe"]]
    assert {recipe["move"] for recipe in recipes} >= MOVES
    assert len(recipes) >= 35


def test_every_part_is_written_out(seed):
    """Each text says something, and no sentence is used twice."""
    sentences: Counter[str] = Counter()
    for direction in seed["directions"]:
        assert direction["goals"]
        assert direction["triggers"]
        sentences.update([direction["intent"], *direction["goals"], *direction["risks"]])
    for strategy in strategies_of(seed):
        assert strategy["checks"]
        sentences.update([strategy["edit_pattern"], strategy["applies_when"]])
        sentences.update([*strategy["checks"], *strategy["risks"]])
    for edge in seed["edges"]:
        assert edge["risks"]
        sentences.update([edge["applies_when"], edge["rationale"], *edge["risks"]])
    assert [text for text, count in sentences.items() if count > 1] == []
    assert [text for text in sentences if len(text.split()) < 3] == []


def test_recipes_exist(seed):
    """Every recipe names a move that the recipe proposer has, with arguments that it takes."""
    for strategy in strategies_of(seed):
        recipe = dict(strategy["recipe"] or {})
        if recipe:
            choices = MOVES_AT_HAND[recipe.pop("move")].choices
            assert all(value in choices[name] for name, value in recipe.items()), strategy["key"]


@pytest.mark.django_db
def test_file_is_in_canonical_form():
    """Exporting the imported seed gives the file back, so that diffs of it stay readable."""
    assert dump_bank(export_bank(ensure_seed_bank())) == SEED_FILE.read_text(encoding="utf-8")


@pytest.mark.django_db
def test_seeding_keeps_what_people_changed(capsys):
    """A second start neither doubles nor resets the bank."""
    call_command("seed_memory")
    GlobalNode.objects.filter(key="fusion").update(prior_utility=-0.9)
    call_command("seed_memory")
    assert "already there" in capsys.readouterr().out
    assert MemoryBank.objects.count() == 1
    assert GlobalNode.objects.get(key="fusion").prior_utility == -0.9


POINTWISE = {
    "family": "pointwise", "dtype": "float32", "device_kind": "opencl", "has_plan": False,
    "bottleneck": "unknown", "step_index": 1, "steps_left": 6, "failures_in_a_row": 0, "small": False,
    "fused": False, "launches": 4, "kernels": 4, "vector_width": 1, "items_per_thread": 1, "block_size": 256,
    "row_strategy": "none", "elements": 4194304, "transcendental": True, "has_broadcast": True,
    "has_reduction": False, "has_softmax": False, "has_moments": False, "divisible": True,
    "streaming": True, "fast_math": False, "uses_library": False,
}  # fmt: skip
FUSED = POINTWISE | {"has_plan": True, "fused": True, "launches": 1, "kernels": 1, "bottleneck": "memory"}
SOFTMAX = POINTWISE | {
    "family": "row_reduction", "device_kind": "cuda", "fused": True, "launches": 1, "kernels": 1,
    "has_reduction": True, "has_softmax": True, "rows": 4096, "row_length": 1024, "row_strategy": "thread",
}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("facts", "prefix", "best"),
    [
        (POINTWISE, [], "fusion"),
        (FUSED, ["fusion"], "memory-access"),
        (SOFTMAX, [], "reduction-structure"),
        (SOFTMAX | {"has_plan": True}, ["fusion"], "reduction-structure"),
        (SOFTMAX | {"has_plan": True, "row_strategy": "warp"}, ["reduction-structure"], "memory-access"),
    ],
)
def test_untaught_bank_does_the_sensible_thing(facts, prefix, best):
    """Priors alone lead from fusion or row mapping to memory access, as an engineer would go."""

    def executable(node):
        return node.recipe is not None

    decision = choose_direction(
        ensure_seed_bank(), prefix, facts, POOLED, PolicyConfig(), random.Random(0), usable=executable
    )
    assert decision.scores[0].key == best
    assert decision.scores[0].probability > 0.5


@pytest.mark.django_db
def test_nothing_is_chosen_that_cannot_apply():
    """A point-wise operator is never sent to reduction structure, a fused one never to fusion."""
    bank = ensure_seed_bank()
    decision = choose_direction(bank, ["fusion"], FUSED, POOLED, PolicyConfig(), random.Random(0))
    for key in ("fusion", "reduction-structure"):
        score = decision.score_of(key)
        assert (score.probability, score.match) == (0.0, -1.0)
        assert score.unavailable_reason == "None of its strategies applies now."


@pytest.mark.django_db
def test_cpu_prefers_wide_vectors():
    """On a CPU device the first choice of memory access is the eight-wide form."""
    options = strategy_options(ensure_seed_bank(), "memory-access", FUSED, POOLED, PolicyConfig())
    assert options[0].recipe == {"move": "vector_width", "width": 8}
