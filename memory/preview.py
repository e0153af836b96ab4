"""Preview before saving: which stored choices of past runs a change would have flipped.

Each step is looked at by itself, in the state that it stored, with its own random number: a flip is what the same
step of the same run would have chosen. (A run whose first step flips would go on from another state; later steps
are not carried forward.) ``top`` counts steps whose most probable direction changes, whatever was drawn.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memory.models import START, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.policy.whatif import Change, Choice, Priors, direction_choice, strategy_choice

SHIFTS = 20  # largest changes of a probability that are listed
FLIPS = 200  # flips that are listed; all are counted


class StoredDecision(NamedTuple):
    """One step's choices as it stored them."""

    run: int
    step: int
    number: int  # of the step in its run, from 1
    operator: str
    decision: dict[str, Any]
    direction: str  # key; "" where it was deleted since
    strategy: str  # key of the chosen one; "" where there was none
    strategy_scores: list[dict[str, Any]]  # empty unless asked for
    strategy_draw: float  # the random number that chose among them
    strategy_tau: float  # of the softmax over their posterior values


@dataclass
class Preview:
    """What a change does to stored choices. Lists are bounded; counts are not."""

    steps: int = 0
    flat: int = 0  # decisions without a hierarchy: they hold no terms
    pinned: int = 0  # a person chose the direction
    direction_flips: int = 0
    strategy_flips: int = 0
    top_changes: int = 0
    expected: dict[str, list[float]] = field(default_factory=dict)  # direction -> sums of probabilities
    flips: list[dict[str, Any]] = field(default_factory=list)
    shifts: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)  # a heap

    def to_json(self) -> dict[str, Any]:
        shifts = [row for _, _, row in sorted(self.shifts, key=lambda item: (-item[0], item[1]))]
        moved = [
            {"key": key, "before": before, "after": after}
            for key, (before, after) in self.expected.items()
            if abs(after - before) > 1e-9
        ]
        return {
            "steps": self.steps,
            "flat": self.flat,
            "pinned": self.pinned,
            "direction_flips": self.direction_flips,
            "strategy_flips": self.strategy_flips,
            "top_changes": self.top_changes,
            "flips": self.flips,
            "shifts": shifts,
            "expected_choices": sorted(
                moved, key=lambda row: (-abs(row["after"] - row["before"]), row["key"])
            ),
        }


def preview(stored: Iterable[StoredDecision], change: Change, today: Priors) -> Preview:
    """Go over the decisions once. ``today`` holds the bank's priors as they are."""
    found = Preview()
    directions = bool(change.settings or change.priors.directions or change.priors.edges)
    strategies = bool(change.priors.strategies or "n0" in change.settings)
    nothing = Change()
    for row in stored:
        found.steps += 1
        if directions and row.decision.get("pinned"):
            found.pinned += 1
        elif directions:
            after = direction_choice(row.decision, change, today)
            if after is None:
                found.flat += 1
            else:
                before = stored_choice(row.decision)
                _compare_directions(found, row, before, after)
        if strategies and row.strategy:
            again = _strategies(row, change, today)
            if again is not None:
                _compare_strategies(found, row, _strategies(row, nothing, today), again)
    return found


def stored_choice(decision: Mapping[str, Any]) -> Choice:
    """The choice that the step made."""
    return Choice(decision["chosen"], {row["key"]: row["probability"] for row in decision["scores"]})


def _strategies(row: StoredDecision, change: Change, today: Priors) -> Choice | None:
    config = row.decision["config"]
    return strategy_choice(
        row.direction, row.strategy_scores, config, row.strategy_tau, row.strategy_draw, change, today
    )


def _compare_directions(found: Preview, row: StoredDecision, before: Choice, after: Choice) -> None:
    for key, new in after.probabilities.items():
        old = before.probabilities.get(key, 0.0)
        sums = found.expected.setdefault(key, [0.0, 0.0])
        sums[0] += old
        sums[1] += new
    _note_shift(found, row, before, after, "direction")
    found.top_changes += before.top != after.top
    if before.chosen != after.chosen:
        found.direction_flips += 1
        _note_flip(found, row, before, after, "direction")


def _compare_strategies(found: Preview, row: StoredDecision, before: Choice | None, after: Choice) -> None:
    """``before`` is computed as well: a proposer that draws otherwise is not taken for a flip."""
    if before is None or before.chosen != row.strategy:
        return
    _note_shift(found, row, before, after, "strategy")
    if before.chosen != after.chosen:
        found.strategy_flips += 1
        _note_flip(found, row, before, after, "strategy")


def _note_flip(found: Preview, row: StoredDecision, before: Choice, after: Choice, kind: str) -> None:
    if len(found.flips) >= FLIPS:
        return
    found.flips.append(
        {
            **_place(row, kind),
            "before": _option(before.chosen, before, after),
            "after": _option(after.chosen, before, after),
        }
    )


def _note_shift(found: Preview, row: StoredDecision, before: Choice, after: Choice, kind: str) -> None:
    """Keep the step's largest change of a probability among the largest of all."""
    keys = after.probabilities
    key = max(keys, key=lambda key: abs(keys[key] - before.probabilities.get(key, 0.0)))
    size = abs(keys[key] - before.probabilities.get(key, 0.0))
    if size < 1e-9 or (len(found.shifts) == SHIFTS and size <= found.shifts[0][0]):
        return
    entry = (size, -found.steps, {**_place(row, kind), **_option(key, before, after)})
    if len(found.shifts) < SHIFTS:
        heapq.heappush(found.shifts, entry)
    else:
        heapq.heapreplace(found.shifts, entry)


def _place(row: StoredDecision, kind: str) -> dict[str, Any]:
    return {"run": row.run, "step": row.step, "index": row.number, "operator": row.operator, "kind": kind}


def _option(key: str, before: Choice, after: Choice) -> dict[str, Any]:
    return {
        "key": key,
        "probability_before": before.probabilities.get(key, 0.0),
        "probability_after": after.probabilities.get(key, 0.0),
    }


def priors_of(bank: MemoryBank) -> Priors:
    """The bank's priors as they are: three queries."""
    edges = TransitionEdge.objects.filter(bank=bank)
    strategies = LocalNode.objects.filter(direction__bank=bank)
    return Priors(
        dict(GlobalNode.objects.filter(bank=bank).values_list("key", "prior_utility")),
        {
            (source or START, target): prior
            for source, target, prior in edges.values_list("source__key", "target__key", "prior_utility")
        },
        {
            (direction, key): prior
            for direction, key, prior in strategies.values_list("direction__key", "key", "prior_utility")
        },
    )
