"""Many verdicts: every plan of every operator under one folder, a session an operator and device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_eval.devices.probe import probe_devices
from gpu_eval.errors import UnusableInput
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.files import device_for, read_operator, read_plan
from gpu_eval.results import Evaluation, EvaluationPolicy

OPERATOR_FILE = "operator.py"
PLAN_PATTERN = "*.plan.py"


@dataclass(frozen=True)
class BatchEntry:
    """One line: a verdict, or why there is none (``error``: unusable, ``skipped``: no such device here)."""

    operator: str
    plan: str
    evaluation: Evaluation | None = None
    error: str = ""
    skipped: str = ""

    def to_json(self) -> dict[str, Any]:
        """The names next to the evaluation's own keys."""
        data: dict[str, Any] = {"operator": self.operator, "plan": self.plan}
        if self.evaluation is not None:
            return {**data, **self.evaluation.to_json()}
        return {**data, "error": self.error} if self.error else {**data, "skipped": self.skipped}

    def text(self) -> str:
        """One line for a terminal."""
        name = f"{self.operator}/{self.plan}"
        if self.evaluation is None:
            return f"{name}: {'unusable' if self.error else 'skipped'}: {self.error or self.skipped}"
        evaluation = self.evaluation
        if evaluation.speedup is None:
            return f"{name}: {evaluation.verdict}: {evaluation.message}"
        interval = f"{evaluation.speedup_low:.2f} to {evaluation.speedup_high:.2f}"
        return f"{name}: {evaluation.verdict}, {evaluation.speedup:.2f}x ({interval})"


def run(folder: Path, device: str, policy: EvaluationPolicy) -> Iterator[BatchEntry]:
    """Judge everything under ``folder``. Raises UnusableInput when there is nothing to judge."""
    operators = sorted(folder.glob(f"*/{OPERATOR_FILE}"))
    if not operators:
        raise UnusableInput(f"{folder} holds no NAME/{OPERATOR_FILE}.")
    for path in operators:
        yield from run_operator(path, device, policy)


def run_operator(path: Path, device: str, policy: EvaluationPolicy) -> Iterator[BatchEntry]:
    """Judge one operator's plans, those for one device in one session."""
    name = path.parent.name
    groups: dict[str, list[Path]] = {}
    for plan in sorted(path.parent.glob(PLAN_PATTERN)):
        try:
            groups.setdefault(device_for(read_plan(plan), device), []).append(plan)
        except UnusableInput as error:
            yield BatchEntry(name, plan.name, error=str(error))
    present = {facts.kind for facts in probe_devices()}
    for kind, plans in groups.items():
        if kind != "auto" and kind not in present:
            for plan in plans:
                yield BatchEntry(name, plan.name, skipped=f"this machine has no usable {kind} device")
            continue
        yield from run_session(path, kind, plans, policy)


def run_session(path: Path, kind: str, plans: list[Path], policy: EvaluationPolicy) -> Iterator[BatchEntry]:
    """Judge plans of one operator on one device."""
    name = path.parent.name
    left = list(plans)
    try:
        source = read_operator(path)
        with EvaluationSession(source, device=kind, policy=policy, operator_name=name) as session:
            while left:
                evaluation = session.evaluate(read_plan(left[0]))
                yield BatchEntry(name, left.pop(0).name, evaluation=evaluation)
    except UnusableInput as error:
        for plan in left:
            yield BatchEntry(name, plan.name, error=str(error))
