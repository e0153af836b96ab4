"""What a step's stages share: the rows in hand, the seams, and the one way to save a stage's result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from memory.policy import EvidenceContext, PolicyConfig
from memory.services import StrategyOption, strategy_options
from optimizer.choices import Stage
from optimizer.loop import events, transitions
from optimizer.loop.evaluation import Evaluator, Subject
from optimizer.loop.events import Event
from optimizer.loop.summary import dtype_of
from optimizer.models import Candidate, HealthReport, Run, RunEvent, Step
from optimizer.proposers import CandidateView, Proposer, SearchState
from optimizer.serializers import LIGHT_EVALUATIONS, deciding_evaluation
from optimizer.services.operators import subject_of

Listener = Callable[[RunEvent], None]


def ignore(_: RunEvent) -> None:
    """The listener of a run that nobody watches from this process."""


@dataclass
class Saving:
    """A stage's result in the making: the fields of the step, the stage to go to, the events that tell of it.

    ``last`` makes the closing events after the step has moved, from its rows as they then are.
    """

    to: Stage | None
    fields: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    last: Callable[[], list[Event]] = list

    def event(self, kind: str, /, **payload: Any) -> None:
        self.events.append((kind, payload))


@dataclass
class StepContext:
    """One step in one worker's hands."""

    run: Run
    step: Step
    report: HealthReport
    proposer: Proposer
    evaluator: Evaluator
    owner: str
    listener: Listener = ignore
    stage_started: float = field(default_factory=time.monotonic)
    known_state: SearchState | None = None
    known_options: list[StrategyOption] | None = None

    @property
    def config(self) -> PolicyConfig:
        return PolicyConfig.from_json(self.run.policy)

    @property
    def evidence_context(self) -> EvidenceContext:
        return EvidenceContext(self.report.device_key, dtype_of(self.report), self.run.operator.family)

    @property
    def subject(self) -> Subject:
        return subject_of(self.run.operator, self.report.device_kind)

    def rng(self, purpose: str) -> random.Random:
        """Randomness that depends on the run's seed and the place in the run only, so that a replay decides
        the same."""
        return random.Random(f"{self.run.seed}:{self.step.index}:{purpose}")

    @contextmanager
    def saving(self, to: Stage | None = None, **fields: Any) -> Iterator[Saving]:
        """Save a result with its events, and the move to another stage if one is given: all or nothing.

        Raises LostLease, saving nothing, where the run was cancelled or went to another worker.
        """
        save = Saving(to, fields)
        with transaction.atomic():
            transitions.fence(self.run.pk, self.owner)
            yield save
            if save.to is not None:
                self.move(save.to, save)
            rows = events.append(self.run.pk, [*save.events, *save.last()])
        self.tell(rows)

    def move(self, to: Stage, save: Saving) -> None:
        """Move the step on, adding the time that its stage took."""
        now = time.monotonic()
        seconds = dict(self.step.stage_seconds)
        seconds[self.step.stage] = round(seconds.get(self.step.stage, 0.0) + now - self.stage_started, 4)
        self.stage_started = now
        fields = {**save.fields, "stage_seconds": seconds}
        transitions.move_step(self.step, to, **fields)
        for name, value in {**fields, "stage": to}.items():
            setattr(self.step, name, value)
        save.event("step.stage", step=self.step.pk, index=self.step.index, stage=to.value)

    def emit(self, kind: str, /, **payload: Any) -> None:
        """Append one event between stages, if the run is still ours."""
        with transaction.atomic():
            transitions.fence(self.run.pk, self.owner, events_coming=1)
            rows = events.insert(self.run.pk, [(kind, payload)])
        self.tell(rows)

    def tell(self, rows: list[RunEvent]) -> None:
        for row in rows:
            self.listener(row)

    def search_state(self) -> SearchState:
        """The proposer's view of the step, read once until a plan or a verdict is added."""
        if self.known_state is None:
            self.known_state = self._read_state()
        return self.known_state

    def options(self) -> list[StrategyOption]:
        """The strategies of the step's direction, ranked once a step.

        Without the hierarchy the bank ranks all strategies in one list, of which these are the direction's: its
        probability was the sum of theirs.
        """
        if self.step.direction is None:
            return []
        if self.known_options is None:
            key, facts = self.step.direction.key, self.step.state["facts"]
            ranked = strategy_options(self.run.bank, key, facts, self.evidence_context, self.config)
            self.known_options = [option for option in ranked if option.direction == key]
        return self.known_options

    def _read_state(self) -> SearchState:
        operator = self.run.operator
        tried = Candidate.objects.filter(step__run=self.run).order_by("step__index", "attempt")
        return SearchState(
            step_index=self.step.index,
            facts=self.step.state["facts"],
            operator_name=operator.name,
            operator_source=operator.source,
            graph=self.report.graph,
            graph_reason=self.report.graph_reason,
            device=self.report.report["device"],
            language="cuda" if self.report.device_kind == "cuda" else "opencl",
            precision=operator.precision,
            library=operator.library_policy,
            parent=view(self.step.parent) if self.step.parent else None,
            tried=[view(candidate) for candidate in tried.prefetch_related(LIGHT_EVALUATIONS)],
            history=self.step.state["recent"],
            best=self.step.state.get("best", {}),
            last=self.step.state.get("last"),
            hints=(self.step.state.get("steering") or {}).get("hints", []),
        )


def view(candidate: Candidate) -> CandidateView:
    evaluation = deciding_evaluation(candidate)
    speedup = evaluation.speedup if evaluation and evaluation.verdict == "correct" else None
    return CandidateView(candidate.plan, candidate.plan_hash, candidate.language, candidate.schedule, speedup)
