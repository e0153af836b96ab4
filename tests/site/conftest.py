"""People of every role, and one of each thing a page shows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from htam_site.accounts.people import add_person
from memory.history import opened
from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank, Proposal, TransitionEdge
from optimizer.models import (
    Candidate,
    CandidateEvaluation,
    HealthReport,
    Operator,
    Reverification,
    Run,
    Step,
)

SOURCE = '''"""Twice the input."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
'''

PLAN = '''language = "opencl"
kernels = r"""
__kernel void twice(__global const float* x, __global float* y) {
    y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("twice", grid=1, block=128, args=[x, y])
    return y
'''

REPORT = {
    "inputs": [{"name": "x", "shape": [8, 16], "dtype": "float32", "kind": "tensor"}],
    "outputs": [{"name": "", "shape": [8, 16], "dtype": "float32"}],
    "params_count": 0,
    "params_bytes": 0,
    "flops": 128,
    "bytes": 1024,
    "floor_us": 0.5,
    "eager_us": 12.34,
    "compile_us": None,
    "compile_note": "",
    "launch_distance": 1.5,
    "memory_bytes": 2048,
    "device": {"kind": "opencl", "name": "CPU", "compute_units": 2},
    "preset": "",
    "precision": "fp32",
    "gates": [{"name": "zeros_pass", "passed": True, "sentence": ""}],
    "blocked": False,
    "sentence": "",
}


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """One person a role, one without any, and a superuser."""
    made = {role: add_person(role, [role]) for role in ("viewer", "operator", "curator")}
    made["nobody"] = add_person("nobody", [])
    made["superuser"] = User.objects.create_superuser("root")
    return made


@pytest.fixture
def signed_in(people: dict[str, User]) -> dict[str, Client]:
    """A client for each of `people`, and "anonymous"."""
    clients = {"anonymous": Client()}
    for role, person in people.items():
        clients[role] = Client()
        clients[role].force_login(person)
    return clients


@pytest.fixture
def things(people: dict[str, User]) -> SimpleNamespace:
    """An inspected operator with a finished run, and a bank with evidence from it."""
    operator = Operator.objects.create(
        name="twice",
        source=SOURCE,
        content_hash="0" * 64,
        family="pointwise",
        status="ready",
        owner=people["operator"],
    )
    HealthReport.objects.create(
        operator=operator,
        device_kind="opencl",
        device_key="opencl:CPU",
        report=REPORT,
        graph_reason="not captured",
    )
    bank = MemoryBank.objects.create(name="bank")
    direction = GlobalNode.objects.create(bank=bank, key="fusion", title="Fusion", intent="Fewer passes.")
    strategy = LocalNode.objects.create(
        direction=direction,
        key="fuse-all",
        title="Fuse all",
        edit_pattern="One kernel.",
        applies_when="Always.",
    )
    edge = TransitionEdge.objects.create(bank=bank, source=None, target=direction)
    run = Run.objects.create(operator=operator, bank=bank, created_by=people["operator"])
    step = Step.objects.create(run=run, index=1, direction=direction, strategy=strategy)
    candidate = Candidate.objects.create(step=step, plan=PLAN, plan_hash="1" * 64, language="opencl")
    evaluation = CandidateEvaluation.objects.create(
        candidate=candidate, verdict="correct", outcome="faster", result={"verdict": "correct", "message": ""}
    )
    reverification = Reverification.objects.create(evaluation=evaluation)
    evidence = Evidence.objects.create(
        bank=bank,
        direction=direction,
        strategy=strategy,
        edge=edge,
        run_id=run.pk,
        step_id=step.pk,
        verdict="correct",
        compiled=True,
        correct=True,
        improved=True,
        utility=0.5,
        device="opencl:CPU",
        dtype="float32",
        family="pointwise",
        proposer="recipes",
    )
    return SimpleNamespace(
        operator=operator,
        bank=bank,
        direction=direction,
        strategy=strategy,
        edge=edge,
        run=run,
        step=step,
        candidate=candidate,
        evaluation=evaluation,
        reverification=reverification,
        evidence=evidence,
        change=opened(bank),
        proposal=Proposal.objects.create(
            bank=bank, kind="edit", title="Edit", strategy=strategy, changes={"applies_when": "Often."}
        ),
    )
