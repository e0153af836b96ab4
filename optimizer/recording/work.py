"""Recording one operator: a session, its graph, then plan after plan until its time or its number is spent."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.inspection import capture_graph
from gpu_eval.results import Evaluation, EvaluationPolicy
from memory.simulation.tables import OperatorTable, Outcome
from optimizer.facts import SMALL_LAUNCH_DISTANCE, dtype_of, measured_facts
from optimizer.recipes import coverage
from optimizer.recording.explore import Explorer, Strategy

FAULTS = 3  # of the evaluator in one operator, then it is left


class Skipped(Exception):
    """This operator cannot be recorded; one sentence."""


@dataclass(frozen=True)
class Wanted:
    """How an operator is recorded."""

    device: str  # "auto", "cuda" or "opencl"
    policy: EvaluationPolicy
    strategies: Sequence[Strategy]
    plans: int  # at most, those recorded before included
    steps: int
    seed: int


Report = Callable[[OperatorTable, dict[str, Any], dict[str, str]], None]  # table, device facts, versions


def record_operator(
    path: Path, known: OperatorTable | None, wanted: Wanted, deadline: float, report: Report
) -> OperatorTable:
    """Add outcomes to ``known`` (or to a new table) until ``deadline`` on the monotonic clock.

    ``report`` hears of the table after every evaluation. Raises Skipped where no recipe covers the operator.
    """
    source = path.read_text(encoding="utf-8")
    source_hash = hashlib.sha256(source.encode()).hexdigest()[:16]
    if known is not None and known.source_hash != source_hash:
        known = None  # another operator of the same name: its outcomes do not count
    try:
        with EvaluationSession(
            source, device=wanted.device, policy=wanted.policy, operator_name=path.stem
        ) as session:
            return _record(session, path.stem, source_hash, known, wanted, deadline, report)
    except UnusableInput as error:
        raise Skipped(str(error)) from None


def _record(
    session: EvaluationSession,
    name: str,
    source_hash: str,
    known: OperatorTable | None,
    wanted: Wanted,
    deadline: float,
    report: Report,
) -> OperatorTable:
    device = dataclasses.asdict(session.device)
    captured = capture_graph(session)
    graph = captured["graph"]
    covered = coverage(graph, captured["reason"])
    if not covered.covered:
        raise Skipped(covered.sentence)
    table = known or OperatorTable(
        name, covered.family, dtype_of(graph), {"device_kind": session.device.kind}, source_hash
    )
    explorer = Explorer(table, graph, device, wanted.strategies, steps=wanted.steps, seed=wanted.seed)
    launch_us = session.measure_launch()
    faults = 0
    while len(table.plans) < wanted.plans and time.monotonic() < deadline and faults < FAULTS:
        found = explorer.next_plan()
        if found is None:
            break
        plan, text = found
        try:
            evaluation = session.evaluate(text)
        except EvaluatorFault:
            explorer.given_up.add(plan)
            faults += 1
            continue
        explorer.add(plan, outcome_of(evaluation))
        if table.eager_us is None and evaluation.baseline is not None:
            table.eager_us = evaluation.baseline.median_us
            table.facts["small"] = table.eager_us / launch_us < SMALL_LAUNCH_DISTANCE
            explorer.expanded.clear()  # strategies that ask for it
        report(table, device, evaluation.versions)
    return table


def outcome_of(evaluation: Evaluation) -> Outcome:
    """What a table keeps of a verdict."""
    return Outcome(
        verdict=evaluation.verdict.value,
        speedup=rounded(evaluation.speedup) if evaluation.correct else None,
        low=rounded(evaluation.speedup_low) if evaluation.correct else None,
        high=rounded(evaluation.speedup_high) if evaluation.correct else None,
        time_us=rounded(evaluation.candidate.median_us) if evaluation.candidate else None,
        facts={key: rounded(value) for key, value in measured_facts(evaluation.to_json()).items()},
        message=evaluation.message[:200],
    )


def rounded(value: Any) -> Any:
    """Floats to five significant digits: what a measurement holds, and a file that can be read."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
