"""What to evaluate next: the plan that random searches on the table so far most often want and do not find.

That spends a bounded number of evaluations where searches go, without favouring any policy that is compared later.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.policy import holds
from memory.simulation.episode import Episode
from memory.simulation.tables import ROOT, OperatorTable, Outcome, State, state_key
from optimizer.recipes import (
    RecipeFacts,
    Schedule,
    apply_recipe,
    generate_plan,
    naive_schedule,
    schedule_facts,
)

WALKS = 200  # random searches a choice
# Facts that change during a run while its plan stays the same: conditions on them are looked at step by step.
RUN_FACTS = frozenset({"step_index", "steps_left", "failures_in_a_row", "last_verdict", "last_direction"})


@dataclass(frozen=True)
class Strategy:
    """A strategy that a recipe carries out."""

    name: str  # "direction/key"
    recipe: dict[str, Any]
    conditions: Sequence[Mapping[str, Any]]


def strategies_of(bank: Mapping[str, Any]) -> list[Strategy]:
    """The strategies of a bank document that name a recipe, in its order."""
    return [
        Strategy(f"{direction['key']}/{item['key']}", item["recipe"], item["conditions"])
        for direction in bank["directions"]
        if not direction.get("retired")
        for item in direction["strategies"]
        if item["recipe"] and not item.get("retired")
    ]


class Explorer:
    """Grows one operator's table: states and moves as walks reach them, outcomes as the caller adds them."""

    def __init__(
        self,
        table: OperatorTable,
        graph: dict[str, Any],
        device: dict[str, Any],
        strategies: Sequence[Strategy],
        *,
        steps: int = 6,
        seed: int = 0,
    ) -> None:
        self.table = table
        self.facts = RecipeFacts(graph, device)
        self.strategies = strategies
        self.by_name = {strategy.name: strategy for strategy in strategies}
        self.steps = steps
        self.rng = random.Random(f"{seed}:{table.name}")
        self.expanded: set[str] = set()
        self.schedules: dict[str, Schedule] = {}  # by state
        self.texts: dict[str, str] = {}  # plan text by hash
        self.given_up: set[str] = set()  # plans that the evaluator could not judge
        self.schedules[ROOT] = naive_schedule(self.facts.language)
        operator = schedule_facts(graph, None)
        table.facts |= {
            key: value for key, value in operator.items() if value is not None and key != "family"
        }
        table.states.setdefault(ROOT, State({}, "", self._schedule_facts(self.schedules[ROOT])))

    def next_plan(self) -> tuple[str, str] | None:
        """(hash, text) of the plan to evaluate; None when walks find everything that they want."""
        missing: Counter[str] = Counter()
        for _ in range(WALKS):
            self._walk(missing)
        wanted = [plan for plan in missing if plan not in self.given_up]
        if not wanted:
            return None
        plan = max(wanted, key=lambda plan: (missing[plan], plan))
        return plan, self.texts[plan]

    def add(self, plan: str, outcome: Outcome) -> None:
        self.table.plans[plan] = outcome

    def _walk(self, missing: Counter[str]) -> None:
        """One random search: a direction with options at random, then a strategy of it at random."""
        episode = Episode(self.table, self.steps)
        while episode.index <= self.steps:
            self._expand(episode.parent)
            options = self._applicable(episode)
            if not options:
                return
            wanted, state = self._pick(options)
            plan = self.table.states[state].plan
            if plan not in self.table.plans:
                missing[plan] += 1
                recorded = {
                    name: to for name, to in options.items() if self.table.states[to].plan in self.table.plans
                }
                if not recorded:
                    return
                wanted, state = self._pick(recorded)
            episode.take(wanted, state)

    def _pick(self, options: Mapping[str, str]) -> tuple[str, str]:
        direction = self.rng.choice(sorted({name.partition("/")[0] for name in options}))
        name = self.rng.choice(sorted(name for name in options if name.partition("/")[0] == direction))
        return name, options[name]

    def _applicable(self, episode: Episode) -> dict[str, str]:
        facts = episode.facts()
        return {
            name: state
            for name, state in episode.options().items()
            if all(holds(condition, facts) for condition in self.by_name[name].conditions)
        }

    def _expand(self, name: str) -> None:
        """Find the moves out of a state, once, and the states that they lead to."""
        if name in self.expanded:
            return
        self.expanded.add(name)
        schedule = self._schedule_of(name)
        episode = Episode(self.table, self.steps)
        episode.parent = name
        known = episode.facts()
        found: dict[str, str] = {}
        for strategy in self.strategies:
            fixed = [item for item in strategy.conditions if item["fact"] not in RUN_FACTS]
            if not all(holds(condition, known) for condition in fixed):
                continue
            after = apply_recipe(strategy.recipe, schedule, self.facts)
            if isinstance(after, Schedule):
                found[strategy.name] = self._state_of(after)
        self.table.moves[name] = found

    def _schedule_of(self, name: str) -> Schedule:
        if name not in self.schedules:
            self.schedules[name] = Schedule.from_json(self.table.states[name].schedule)
        return self.schedules[name]

    def _state_of(self, schedule: Schedule) -> str:
        name = state_key(schedule.to_json())
        if name not in self.schedules:
            self.schedules[name] = schedule
            text = generate_plan(self.facts.graph, schedule, self.facts.language, self.facts.device)
            plan = plan_hash(text)
            self.texts[plan] = text
            self.table.states[name] = State(schedule.to_json(), plan, self._schedule_facts(schedule))
        return name

    def _schedule_facts(self, schedule: Schedule) -> dict[str, Any]:
        """What follows from the schedule, beyond what the operator is."""
        facts = schedule_facts(self.facts.graph, schedule)
        known = {*self.table.facts, "family"}
        return {key: value for key, value in facts.items() if value is not None and key not in known}


def plan_hash(text: str) -> str:
    """A short name of a plan's text: schedules that make the same plan share its outcome."""
    return state_key({"plan": text})
