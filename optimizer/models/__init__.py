"""Operators, and the runs that optimise them."""

from optimizer.models.events import RunEvent
from optimizer.models.operators import HealthReport, Operator
from optimizer.models.runs import Candidate, CandidateEvaluation, Run, Step
from optimizer.models.workers import WorkerHeartbeat

__all__ = [
    "Candidate",
    "CandidateEvaluation",
    "HealthReport",
    "Operator",
    "Run",
    "RunEvent",
    "Step",
    "WorkerHeartbeat",
]
