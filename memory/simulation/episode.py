"""One run on one operator, played from a table by the rules of the product's loop.

The plan that a step edits is the last one whose whole interval beat the plan before it; until there is one, the
fastest correct plan; at the start, PyTorch itself. A schedule is tried once a run. Repairs are not played: a plan
that failed is a failed step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.policy import START, utility
from memory.simulation.tables import ROOT, OperatorTable, Outcome

CORRECT_OUTCOMES = frozenset({"faster", "correct", "slower"})


@dataclass(frozen=True, slots=True)
class Played:
    """What one step showed."""

    outcome: Outcome
    utility: float
    improved: bool


class Episode:
    """A run in progress: the parent state, what was tried, the directions taken, the best so far."""

    def __init__(self, table: OperatorTable, steps: int, failure_utility: float = -0.5) -> None:
        self.table = table
        self.steps = steps
        self.failure_utility = failure_utility
        self.index = 1
        self.parent = ROOT
        self.parent_improved = False
        self.tried: set[str] = set()
        self.directions: list[str] = []  # oldest first
        self.last_verdict = ""
        self.failures_in_a_row = 0
        self.best = 1.0  # the fastest confirmed plan over PyTorch eager

    @property
    def prefix(self) -> list[str]:
        """Directions taken, newest first, with `START` last."""
        return [*reversed(self.directions), START]

    def facts(self) -> dict[str, Any]:
        """s_t as the loop would report it."""
        outcome = self.table.outcome(self.parent)
        facts: dict[str, Any] = {
            "family": self.table.family,
            "dtype": self.table.dtype,
            "bottleneck": "unknown",
            **self.table.facts,
            **self.table.states[self.parent].facts,
            **(outcome.facts if outcome else {}),
            "has_plan": self.parent != ROOT,
            "step_index": self.index,
            "steps_left": self.steps - self.index + 1,
            "failures_in_a_row": self.failures_in_a_row,
        }
        if self.last_verdict:
            facts["last_verdict"] = self.last_verdict
        if self.directions:
            facts["last_direction"] = self.directions[-1]
        return facts

    def options(self) -> dict[str, str]:
        """Strategies ("direction/key") that lead to a recorded schedule that this run has not tried."""
        moves = self.table.moves.get(self.parent, {})
        return {key: state for key, state in moves.items() if state not in self.tried}

    def take(self, strategy: str, state: str) -> Played:
        """Carry out a strategy that leads to ``state``, and close the step."""
        outcome = self.table.plans[self.table.states[state].plan]
        before = self.speedup_before()
        gained = step_utility(outcome, before, self.failure_utility)
        improved = outcome.correct and outcome.low is not None and outcome.low > before
        self.tried.add(state)
        self.directions.append(strategy.partition("/")[0])
        self.last_verdict = shown(outcome)
        failed = self.last_verdict not in CORRECT_OUTCOMES
        self.failures_in_a_row = self.failures_in_a_row + 1 if failed else 0
        self._settle_parent(state, outcome, improved)
        self.index += 1
        return Played(outcome, gained, improved)

    def skip(self) -> None:
        """A step without a kernel: nothing that is recorded applies."""
        self.last_verdict = "no_proposal"
        self.failures_in_a_row += 1
        self.index += 1

    def speedup_before(self) -> float:
        """Of the plan that this step edits; one that was not confirmed has not beaten PyTorch."""
        outcome = self.table.outcome(self.parent)
        if outcome is None or outcome.speedup is None:
            return 1.0
        return outcome.speedup if self.parent_improved else min(outcome.speedup, 1.0)

    def _settle_parent(self, state: str, outcome: Outcome, improved: bool) -> None:
        if improved:
            self.parent, self.parent_improved = state, True
            if (outcome.low or 0.0) > 1.0:
                self.best = max(self.best, outcome.speedup or 1.0)
        elif outcome.correct and not self.parent_improved:
            current = self.table.outcome(self.parent)
            if current is None or (outcome.speedup or 0.0) > (current.speedup or 0.0):
                self.parent = state


def step_utility(outcome: Outcome, before: float, failure_utility: float) -> float:
    """u = clip(log2(t_before / t_after), -1, 1); both times are ratios to eager."""
    correct = outcome.correct and bool(outcome.speedup)
    after = 1.0 / outcome.speedup if correct and outcome.speedup else None
    return utility(1.0 / before, after, correct, failure_utility=failure_utility)


def shown(outcome: Outcome) -> str:
    """The verdict as a step shows it: a correct plan is faster or slower when its whole interval says so."""
    if not outcome.correct:
        return outcome.verdict
    if outcome.low is not None and outcome.low > 1.0:
        return "faster"
    if outcome.high is not None and outcome.high < 1.0:
        return "slower"
    return "correct"
