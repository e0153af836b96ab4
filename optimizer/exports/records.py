"""The records of a bundle: verdicts, timings, decisions and versions, as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import platform
from importlib import metadata
from typing import Any

from optimizer.models import Candidate, CandidateEvaluation, Run
from optimizer.serializers import (
    LIGHT_CANDIDATES,
    LIGHT_STEP_PARTS,
    EvaluationSerializer,
    RunSerializer,
    StepDetailSerializer,
)

VERDICT_COLUMNS = (
    "step",
    "attempt",
    "kind",
    "verdict",
    "outcome",
    "speedup",
    "speedup_low",
    "speedup_high",
    "time_us",
    "baseline_us",
    "device_key",
    "plan_hash",
    "message",
)
PACKAGES = ("htam", "Django", "torch", "numpy", "pyopencl", "pycuda", "pocl-binary-distribution")


def evaluations_of(run: Run) -> list[CandidateEvaluation]:
    return list(
        CandidateEvaluation.objects.filter(candidate__step__run=run)
        .select_related("candidate__step")
        .order_by("candidate__step__index", "candidate__attempt", "pk")
    )


def verdict_rows(run: Run) -> list[dict[str, Any]]:
    rows = []
    for evaluation in evaluations_of(run):
        row = {name: getattr(evaluation, name, None) for name in VERDICT_COLUMNS}
        candidate = evaluation.candidate
        row.update(step=candidate.step.index, attempt=candidate.attempt, plan_hash=candidate.plan_hash)
        rows.append(row)
    return rows


def verdicts_json(run: Run) -> str:
    rows = []
    for evaluation in evaluations_of(run):
        candidate = evaluation.candidate
        data = dict(EvaluationSerializer(evaluation).data)
        rows.append({"step": candidate.step.index, "attempt": candidate.attempt, **data})
    return to_json(rows)


def verdicts_csv(run: Run) -> str:
    return to_csv(VERDICT_COLUMNS, [[row[name] for name in VERDICT_COLUMNS] for row in verdict_rows(run)])


def timings_csv(candidate: Candidate) -> str:
    """Every timed call of one candidate, with the PyTorch call taken beside it."""
    rows: list[list[Any]] = []
    for evaluation in candidate.evaluations.order_by("pk"):
        kernel, eager = (
            (evaluation.result.get(name) or {}).get("samples_us", []) for name in ("candidate", "baseline")
        )
        rows += [
            [evaluation.kind, call, *times]
            for call, times in enumerate(zip(kernel, eager, strict=False), start=1)
        ]
    return to_csv(("evaluation", "call", "kernel_us", "pytorch_us"), rows)


def decisions_json(run: Run) -> str:
    """The run and each of its steps with the state, the decision and what the memory learnt."""
    steps = (
        run.steps.select_related("run", "direction", "strategy", "result")
        .prefetch_related(*LIGHT_STEP_PARTS, LIGHT_CANDIDATES)
        .order_by("index")
    )
    about = dict(RunSerializer(run).data)
    about.pop("created_by")
    return to_json({"run": about, "steps": StepDetailSerializer(steps, many=True).data})


def versions_json(run: Run, candidate: Candidate, evaluation: CandidateEvaluation) -> str:
    """What produced the results: packages here, and what the evaluation itself reported."""
    result = evaluation.result
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return to_json(
        {
            "run": run.pk,
            "step": candidate.step.index,
            "attempt": candidate.attempt,
            "plan_sha256": candidate.plan_hash,
            "operator_sha256": run.operator.content_hash,
            "python": platform.python_version(),
            "packages": packages,
            "evaluation": {
                name: result.get(name)
                for name in ("versions", "device", "policy", "seed", "sandbox", "library_calls")
            },
        }
    )


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False, default=str) + "\n"


def to_csv(columns: tuple[str, ...], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[cell(value) for value in row] for row in rows])
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value for a spreadsheet: text that would start a formula there is marked as text."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@"} else value
