"""Kernels without a language model: a strategy's recipe move changes the schedule, the generator writes the
plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.policy import softmax
from optimizer.proposers.base import (
    CandidateView,
    Failure,
    NoProposal,
    Proposal,
    Proposer,
    SearchState,
    StrategyChoice,
    StrategyOption,
)
from optimizer.recipes import (
    NotApplicable,
    RecipeFacts,
    Schedule,
    apply_recipe,
    coverage,
    generate_plan,
    naive_schedule,
)
from optimizer.recipes import repair as more_careful

TEMPERATURE = 0.12  # of the softmax over the options' posterior utilities


@dataclass(frozen=True)
class Outcome:
    """What a recipe would do to the parent's schedule: the new schedule, or why not."""

    schedule: Schedule | None
    reason: str = ""


class RecipeProposer(Proposer):
    """Carries out strategies that name a recipe move. Never proposes a schedule that this run tried
    before."""

    name = "recipes"
    title = "Recipes (no language model)"

    def refuses(self, graph: dict[str, Any] | None, graph_reason: str) -> str:
        covered = coverage(graph, graph_reason)
        return "" if covered.covered else covered.sentence

    def can_use(self, state: SearchState, recipe: dict[str, Any] | None) -> bool:
        return outcome_of(state, recipe).schedule is not None

    def choose_strategy(
        self, state: SearchState, options: Sequence[StrategyOption], rng: random.Random
    ) -> StrategyChoice:
        outcomes = [outcome_of(state, option.recipe) for option in options]
        usable = [
            index
            for index, (option, outcome) in enumerate(zip(options, outcomes, strict=True))
            if option.applicable and outcome.schedule is not None
        ]
        probabilities = dict.fromkeys(range(len(options)), 0.0)
        probabilities.update(
            zip(usable, softmax([options[index].posterior for index in usable], TEMPERATURE), strict=True)
        )
        scores = [
            {
                "id": option.id,
                "key": option.key,
                "title": option.title,
                "score": option.posterior,
                "n": option.n,
                "probability": probabilities[index],
                "usable": index in usable,
                "reason": outcome.reason or option.reason,
            }
            for index, (option, outcome) in enumerate(zip(options, outcomes, strict=True))
        ]
        if not usable:
            return StrategyChoice(None, nothing_usable(scores), scores)
        chosen = rng.choices(usable, [probabilities[index] for index in usable])[0]
        return StrategyChoice(
            options[chosen], reason_for(options[chosen], probabilities[chosen], len(usable)), scores
        )

    def write(self, state: SearchState, option: StrategyOption, rng: random.Random) -> Proposal | NoProposal:
        outcome = outcome_of(state, option.recipe)
        if outcome.schedule is None:
            return NoProposal(outcome.reason)
        note = f"{option.title}: {describe(option.recipe)}"
        return generate(state, outcome.schedule, note)

    def repair(
        self,
        state: SearchState,
        option: StrategyOption,
        failed: CandidateView,
        failure: Failure,
        attempt: int,
        rng: random.Random,
    ) -> Proposal | NoProposal:
        """The nearest schedule without what most likely broke the failed one, unless this run tried it."""
        tried = [view.schedule for view in state.tried]
        careful = more_careful(Schedule.from_json(failed.schedule), failure.verdict)
        while careful is not None and careful.to_json() in tried:
            careful = more_careful(careful, failure.verdict)
        if careful is None:
            return NoProposal("No more careful schedule is left to try after this failure.")
        return generate(state, careful, f"{option.title}, repaired after {failure.verdict.replace('_', ' ')}")


def outcome_of(state: SearchState, recipe: dict[str, Any] | None) -> Outcome:
    """What the recipe's move makes of the parent's schedule (of the naive one at the start)."""
    if not recipe:
        return Outcome(None, "It names no recipe.")
    assert state.graph is not None  # refuses() holds back operators without a graph
    after = apply_recipe(recipe, current_schedule(state), RecipeFacts(state.graph, state.device))
    if isinstance(after, NotApplicable):
        return Outcome(None, after.reason)
    if after.to_json() in [view.schedule for view in state.tried]:
        return Outcome(None, "This run tried the same schedule before.")
    return Outcome(after)


def current_schedule(state: SearchState) -> Schedule:
    if state.parent is not None and state.parent.schedule:
        return Schedule.from_json(state.parent.schedule)
    return naive_schedule(state.language)


def generate(state: SearchState, schedule: Schedule, note: str) -> Proposal:
    assert state.graph is not None
    plan = generate_plan(state.graph, schedule, state.language, state.device, [note])
    return Proposal(plan, state.language, schedule.to_json(), note)


def describe(recipe: dict[str, Any] | None) -> str:
    arguments = dict(recipe or {})
    name = arguments.pop("move", "")
    inside = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name}({inside})" if inside else name


def reason_for(option: StrategyOption, probability: float, count: int) -> str:
    only = (
        "the only usable strategy here"
        if count == 1
        else f"drawn with {probability:.0%} among {count} usable ones"
    )
    return f"Expected utility {option.posterior:+.2f} from {option.n:.1f} observations; {only}."


def nothing_usable(scores: list[dict[str, Any]]) -> str:
    if not scores:
        return "This direction has no strategy."
    first = scores[0]
    return f"No strategy of this direction can be used now; {first['title']!r}: {first['reason']}"
