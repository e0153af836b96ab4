"""Everything that can write kernels, by name."""

from __future__ import annotations

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

__all__ = [
    "CandidateView",
    "Failure",
    "NoProposal",
    "Proposal",
    "Proposer",
    "SearchState",
    "StrategyChoice",
    "StrategyOption",
    "available_proposers",
    "get_proposer",
]


def available_proposers() -> list[tuple[str, str]]:
    """(name, title) of the proposers that a launch form offers, in the order to show them."""
    return [(proposer.name, proposer.title) for proposer in (get_proposer("recipes"),)]


def get_proposer(name: str) -> Proposer:
    """A fresh proposer. Raises KeyError on an unknown name."""
    from optimizer.proposers.recipes import RecipeProposer

    return {RecipeProposer.name: RecipeProposer}[name]()
