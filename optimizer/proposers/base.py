"""The seam for whatever writes kernels. Plain Python: a proposer sees views and returns values, never
database rows."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class StrategyOption(Protocol):
    """What a proposer reads of a strategy that the memory offers (memory.services.StrategyOption is one)."""

    @property
    def id(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def edit_pattern(self) -> str: ...
    @property
    def recipe(self) -> dict[str, Any] | None: ...
    @property
    def posterior(self) -> float: ...
    @property
    def n(self) -> float: ...
    @property
    def applicable(self) -> bool: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class CandidateView:
    """A plan as a proposer sees it. ``speedup`` is over PyTorch eager; None where it is not correct."""

    plan: str
    plan_hash: str
    language: str
    schedule: dict[str, Any]
    speedup: float | None = None


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed: the verdict, its sentence, the compiler's log and the checks that did not
    hold."""

    verdict: str
    message: str
    compiler_log: str = ""
    failed_checks: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class SearchState:
    """s_t as a proposer sees it. ``facts`` is the flat dict that the memory's conditions read."""

    step_index: int  # 1..T
    facts: dict[str, Any]
    operator_name: str
    operator_source: str
    graph: dict[str, Any] | None  # the captured ATen graph
    graph_reason: str  # why there is none
    device: dict[str, Any]  # gpu_eval.results.DeviceFacts as JSON
    language: str  # "cuda" or "opencl"
    precision: str
    library: str  # "allow" or "forbid"
    parent: CandidateView | None  # the best correct plan so far; None: start from PyTorch
    tried: list[CandidateView] = field(default_factory=list)  # every plan of this run, oldest first
    history: list[dict[str, Any]] = field(default_factory=list)  # earlier steps as short rows
    best: dict[str, Any] = field(default_factory=dict)  # the parent's bottleneck, peaks, kernels, in words
    last: dict[str, Any] | None = None  # how the step before ended, with the check that failed
    hints: list[str] = field(default_factory=list)  # what a person who watches the run says to this step


@dataclass(frozen=True)
class StrategyChoice:
    """The chosen option, or None where no option can be carried out, with the reason in a sentence.

    ``scores`` holds one JSON-able dict an option: id, key, title, score, probability, usable, reason.
    """

    option: StrategyOption | None
    reason: str
    scores: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Proposal:
    """One plan text with what changed in words. ``schedule`` is {} unless recipes made it.

    ``lesson`` is what the memory's review queue is told when the plan proves faster: under "strategy" the fields
    of a new strategy (title, edit_pattern, applies_when, conditions, checks, risks) where the edit is one that no
    strategy describes, under "edit" new values of the strategy used (applies_when, risks). {} for nothing.
    """

    plan: str
    language: str
    schedule: dict[str, Any]
    note: str
    lesson: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoProposal:
    """Nothing to evaluate, and why, in a sentence."""

    reason: str


class Proposer(ABC):
    """Chooses among a direction's strategies, writes plans and repairs failed ones.

    Contract, kept by every implementation and tested for each:

    - Expected failure is a value: no applicable option is ``StrategyChoice(None, reason)``, nothing to write
      is ``NoProposal(reason)``. An exception is a fault and fails the run.
    - Given equal arguments and equal ``rng`` states, results are equal: runs can be replayed. All randomness
      comes from ``rng``.
    - ``choose_strategy`` returns one of the options given, and only one that ``can_use`` accepts.
    - A plan is text for `gpu_eval.plans`; its language is ``state.language``.
    - Nothing is kept between calls that a fresh instance could not rebuild: a run goes on in another process.
    - Module import is cheap: no torch, no device library, no network.
    """

    name: str = ""
    title: str = ""

    def refuses(self, graph: dict[str, Any] | None, graph_reason: str) -> str:
        """Why this proposer cannot work on an operator at all, in a sentence; "" where it can."""
        return ""

    def can_use(self, state: SearchState, recipe: dict[str, Any] | None) -> bool:
        """Whether a strategy with this recipe could be carried out now. Cheap; directions without one are
        passed."""
        return True

    @abstractmethod
    def choose_strategy(
        self, state: SearchState, options: Sequence[StrategyOption], rng: random.Random
    ) -> StrategyChoice:
        """Choose one of the options, in the order the memory ranked them."""

    @abstractmethod
    def write(self, state: SearchState, option: StrategyOption, rng: random.Random) -> Proposal | NoProposal:
        """Write the plan that carries out the option on ``state.parent``."""

    @abstractmethod
    def repair(
        self,
        state: SearchState,
        option: StrategyOption,
        failed: CandidateView,
        failure: Failure,
        attempt: int,
        rng: random.Random,
    ) -> Proposal | NoProposal:
        """Write a plan in place of one that failed to compile, to run or to be correct. ``attempt`` counts
        from 1."""
