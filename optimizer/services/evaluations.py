"""Storing what the evaluator said of a candidate."""

from __future__ import annotations

from gpu_eval.results import Evaluation
from optimizer.choices import EvaluationKind, outcome_of
from optimizer.models import Candidate, CandidateEvaluation


def store(
    candidate: Candidate, kind: EvaluationKind, result: Evaluation, device_key: str
) -> CandidateEvaluation:
    """A row of its own with copies of the figures. ``device_key`` stands where the result names no device."""
    return CandidateEvaluation.objects.create(
        candidate=candidate,
        kind=kind,
        verdict=result.verdict.value,
        outcome=outcome_of(result.verdict.value, result.speedup_low, result.speedup_high),
        message=result.message,
        result=result.to_json(),
        device_key=result.device.key if result.device else device_key,
        checker=result.checker,
        speedup=result.speedup,
        speedup_low=result.speedup_low,
        speedup_high=result.speedup_high,
        time_us=result.candidate.median_us if result.candidate else None,
        baseline_us=result.baseline.median_us if result.baseline else None,
    )
