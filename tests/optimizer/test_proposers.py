"""The proposer contract, kept by every implementation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gpu_eval.plans import parse_plan
from optimizer.proposers import (
    CandidateView,
    Failure,
    NoProposal,
    Proposal,
    Proposer,
    SearchState,
    StrategyChoice,
    available_proposers,
    get_proposer,
)
from optimizer.proposers.recipes import RecipeProposer
from optimizer.proposers.replay import RecordedStep, ReplayProposer
from optimizer.recipes import MOVES
from tests.optimizer.support import DEVICE, GRAPH, OPERATOR, plan


@dataclass(frozen=True)
class Option:
    """A strategy as the memory offers it."""

    id: int
    key: str
    recipe: dict[str, Any] | None
    posterior: float = 0.1
    n: float = 0.0
    applicable: bool = True
    reason: str = ""
    title: str = "A strategy"
    edit_pattern: str = "Change it."


OPTIONS = [
    Option(1, "fuse", {"move": "fuse_pointwise"}, posterior=0.3),
    Option(2, "vectors", {"move": "vector_width", "width": 4}, posterior=0.2),
    Option(3, "by-hand", None),
    Option(4, "elsewhere", {"move": "block_size", "threads": 128}, applicable=False, reason="Not here."),
]
STATE = SearchState(
    step_index=1,
    facts={"family": "pointwise"},
    operator_name="twice",
    operator_source=OPERATOR,
    graph=GRAPH,
    graph_reason="",
    device={"kind": "opencl", "name": DEVICE.name, "compute_units": 2, "max_threads_per_block": 4096},
    language="opencl",
    precision="fp32",
    library="allow",
    parent=None,
)
RECORDED = {
    1: RecordedStep("vectors", "As before.", [], [Proposal(plan("correct 2.0"), "opencl", {}, "recorded")]),
}
FAILURE = Failure("wrong", "It was wrong.")

PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "recipes": RecipeProposer,
    "replay": lambda: ReplayProposer(RECORDED),
}


def state_after(proposal: Proposal, speedup: float = 1.5) -> SearchState:
    """The state of the next step, with the proposal's plan to edit."""
    view = CandidateView(proposal.plan, "hash", proposal.language, proposal.schedule, speedup)
    return replace(STATE, step_index=2, parent=view, tried=[view])


@pytest.mark.parametrize("name", PROPOSERS)
class TestContract:
    @pytest.fixture
    def proposer(self, name: str) -> Proposer:
        return PROPOSERS[name]()

    def chosen(self, proposer: Proposer, seed: int = 0) -> StrategyChoice:
        return proposer.choose_strategy(STATE, OPTIONS, random.Random(seed))

    def test_it_is_named(self, proposer: Proposer, name: str) -> None:
        """Launch forms and rows name it."""
        assert proposer.name == name
        assert proposer.title

    def test_it_chooses_one_of_the_options(self, proposer: Proposer) -> None:
        """The very object it was given, with a reason in a sentence."""
        choice = self.chosen(proposer)
        assert choice.option in OPTIONS
        assert choice.reason.endswith(".")
        assert choice.option is not None
        assert proposer.can_use(STATE, choice.option.recipe)

    def test_no_option_is_a_value(self, proposer: Proposer) -> None:
        """Nothing to choose from is said, not raised."""
        choice = proposer.choose_strategy(STATE, [], random.Random(0))
        assert choice.option is None
        assert choice.reason

    def test_it_writes_a_plan_of_the_state_s_language(self, proposer: Proposer) -> None:
        """The text parses, and the note says what changed."""
        choice = self.chosen(proposer)
        assert choice.option is not None
        proposal = proposer.write(STATE, choice.option, random.Random(0))
        assert isinstance(proposal, Proposal)
        assert parse_plan(proposal.plan).language == proposal.language == STATE.language
        assert proposal.note

    def test_equal_arguments_give_equal_results(self, proposer: Proposer, name: str) -> None:
        """A run that goes on in another process decides the same."""
        first, second = self.chosen(proposer, 3), self.chosen(PROPOSERS[name](), 3)
        assert first == second
        assert first.option is not None
        written = [PROPOSERS[name]().write(STATE, first.option, random.Random(5)) for _ in range(2)]
        assert written[0] == written[1]

    def test_a_repair_is_a_proposal_or_a_sentence(self, proposer: Proposer) -> None:
        """After a failure there is another plan, or the reason why there is none."""
        view = CandidateView(plan("wrong"), "hash", "opencl", {})
        answer = proposer.repair(STATE, OPTIONS[0], view, FAILURE, 1, random.Random(0))
        assert isinstance(answer, Proposal) or (isinstance(answer, NoProposal) and answer.reason)


class TestRecipes:
    def test_it_uses_only_what_applies_and_has_a_recipe(self) -> None:
        """Strategies whose conditions fail, or that name no move, are never chosen and say why."""
        chosen = {
            RecipeProposer().choose_strategy(STATE, OPTIONS, random.Random(seed)).option.key  # type: ignore[union-attr]
            for seed in range(40)
        }
        assert chosen == {"fuse", "vectors"}
        scores = RecipeProposer().choose_strategy(STATE, OPTIONS, random.Random(0)).scores
        assert [score["usable"] for score in scores] == [True, True, False, False]
        assert all(score["reason"] for score in scores[2:])
        assert sum(score["probability"] for score in scores) == pytest.approx(1.0)

    def test_a_higher_posterior_is_drawn_more_often(self) -> None:
        """Evidence moves the choice."""
        strong = [replace(OPTIONS[0], posterior=0.9), replace(OPTIONS[1], posterior=-0.5)]
        draws = [
            RecipeProposer().choose_strategy(STATE, strong, random.Random(seed)).option for seed in range(50)
        ]
        assert draws.count(strong[0]) > 45

    def test_the_same_schedule_is_not_tried_twice(self) -> None:
        """A move that changes nothing, or leads to a schedule of an earlier step, is not usable."""
        proposer = RecipeProposer()
        first = proposer.write(STATE, OPTIONS[0], random.Random(0))
        assert isinstance(first, Proposal)
        after = state_after(first)
        assert not proposer.can_use(after, OPTIONS[0].recipe)
        assert proposer.can_use(after, OPTIONS[1].recipe)

    def test_moves_accumulate_on_the_parent(self) -> None:
        """A step edits the best plan: what earlier moves did stays."""
        first = RecipeProposer().write(STATE, OPTIONS[0], random.Random(0))
        assert isinstance(first, Proposal)
        second = RecipeProposer().write(state_after(first), OPTIONS[1], random.Random(0))
        assert isinstance(second, Proposal)
        assert second.schedule["fuse_pointwise"]
        assert second.schedule["vector_width"] == 4

    def test_an_operator_that_is_not_covered_is_refused_by_name(self) -> None:
        """The sentence names the operation."""
        graph = {**GRAPH, "nodes": [{**GRAPH["nodes"][0], "op": "aten.convolution.default"}]}
        assert "convolution" in RecipeProposer().refuses(graph, "")
        assert RecipeProposer().refuses(None, "It could not be traced.")
        assert RecipeProposer().refuses(GRAPH, "") == ""

    def test_every_move_of_the_seed_bank_exists(self) -> None:
        """A strategy that names a recipe names one that there is, with arguments that it takes."""
        import json
        from pathlib import Path

        seed = json.loads((Path(__file__).parents[2] / "memory" / "seed" / "htam-seed.json").read_text())
        recipes = [strategy["recipe"] for item in seed["directions"] for strategy in item["strategies"]]
        named = [dict(recipe) for recipe in recipes if recipe]
        assert len(named) > 20
        for recipe in named:
            RecipeProposer().can_use(STATE, recipe)
            assert recipe["move"] in MOVES


class TestReplay:
    def test_a_step_that_was_not_recorded_has_no_strategy(self) -> None:
        """Nothing is made up."""
        choice = ReplayProposer(RECORDED).choose_strategy(
            replace(STATE, step_index=9), OPTIONS, random.Random(0)
        )
        assert choice.option is None

    def test_a_strategy_that_is_gone_is_said(self) -> None:
        """The bank may have changed since."""
        choice = ReplayProposer(RECORDED).choose_strategy(STATE, OPTIONS[:1], random.Random(0))
        assert choice.option is None
        assert "vectors" in choice.reason


def test_launch_forms_offer_what_exists() -> None:
    """Every name on offer leads to a proposer of that name; another is a KeyError."""
    offered = available_proposers()
    assert "recipes" in dict(offered)
    for name, title in offered:
        assert (get_proposer(name).name, get_proposer(name).title) == (name, title)
    with pytest.raises(KeyError):
        get_proposer("oracle")
