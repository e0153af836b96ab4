"""One session a device for a whole module; every candidate gets its own runner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.limits import Limits
from gpu_eval.results import EvaluationPolicy
from tests.gpu_eval.candidates import OPERATOR

SHORT = Limits(run_s=6.0, compile_s=30.0, bind_s=30.0, timing_budget_s=0.5, operator_stage_s=20.0)
DEVICES = ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each kind of device that this machine is asked to test."""
    return str(request.param)


@pytest.fixture(scope="module")
def session(device: str) -> Iterator[EvaluationSession]:
    """A warm session of the plain operator, with few timed calls."""
    policy = EvaluationPolicy(timed_calls=12)
    with EvaluationSession(OPERATOR, device=device, policy=policy, limits=SHORT) as opened:
        yield opened
