"""Operators, and the runs that optimise them."""

from optimizer.models.events import RunEvent
from optimizer.models.operators import HealthReport, Operator
from optimizer.models.reverifications import Reverification
from optimizer.models.runs import Candidate, CandidateEvaluation, Run, Step
from optimizer.models.steering import Steer
from optimizer.models.workers import WorkerHeartbeat

__all__ = [
    "Candidate",
    "CandidateEvaluation",
    "HealthReport",
    "Operator",
    "Reverification",
    "Run",
    "RunEvent",
    "Steer",
    "Step",
    "WorkerHeartbeat",
]
