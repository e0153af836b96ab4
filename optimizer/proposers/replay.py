"""Issues again what a stored run proposed: its strategies, plans and repairs, step by step."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class RecordedStep:
    """What one step of the stored run chose and wrote. ``strategy`` is None where it found none usable."""

    strategy: str | None  # key
    reason: str
    scores: list[dict[str, Any]]
    proposals: list[Proposal]  # by attempt
    ending: str = ""  # the sentence with which the proposer had nothing more to offer


class ReplayProposer(Proposer):
    """Knows the steps of one stored run. A step that run did not take, or took otherwise, has no proposal."""

    name = "replay"
    title = "Replay of a stored run"

    def __init__(self, steps: Mapping[int, RecordedStep]) -> None:
        self.steps = steps

    def choose_strategy(
        self, state: SearchState, options: Sequence[StrategyOption], rng: random.Random
    ) -> StrategyChoice:
        recorded = self.steps.get(state.step_index)
        if recorded is None:
            return StrategyChoice(None, f"The stored run has no step {state.step_index}.")
        if recorded.strategy is None:
            return StrategyChoice(None, recorded.reason, recorded.scores)
        for option in options:
            if option.key == recorded.strategy:
                return StrategyChoice(option, recorded.reason, recorded.scores)
        return StrategyChoice(
            None, f"The stored run took {recorded.strategy!r} here, which is not among the options now."
        )

    def write(self, state: SearchState, option: StrategyOption, rng: random.Random) -> Proposal | NoProposal:
        return self._recorded(state, 0)

    def repair(
        self,
        state: SearchState,
        option: StrategyOption,
        failed: CandidateView,
        failure: Failure,
        attempt: int,
        rng: random.Random,
    ) -> Proposal | NoProposal:
        return self._recorded(state, attempt)

    def _recorded(self, state: SearchState, attempt: int) -> Proposal | NoProposal:
        recorded = self.steps.get(state.step_index)
        if recorded is None or attempt >= len(recorded.proposals):
            ending = recorded.ending if recorded else ""
            return NoProposal(ending or f"The stored run wrote nothing at attempt {attempt} of this step.")
        return recorded.proposals[attempt]
