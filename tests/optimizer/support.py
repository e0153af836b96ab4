"""A small operator, plans that say how they will fare, and the loop's two seams played by them.

A plan's text carries its fate in a comment, so that any process judges it alike: ``# fate: correct 1.5`` is
correct at 1.5 times eager, ``# fate: wrong`` is wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import Group, User

from gpu_eval.results import Check, DeviceFacts, Evaluation, Timing, Verdict
from memory.models import MemoryBank
from memory.services import ensure_seed_bank
from optimizer.choices import OperatorStatus
from optimizer.loop.evaluation import Evaluator, OnPhase, Subject
from optimizer.models import HealthReport, Operator, Run
from optimizer.proposers import (
    CandidateView,
    Failure,
    NoProposal,
    Proposal,
    Proposer,
    SearchState,
    StrategyChoice,
    StrategyOption,
)

OPERATOR = '''"""Twice x plus a bias, never negative."""
import torch
import torch.nn as nn

rows = 4096
cols = 1024
PRESETS = {"cpu": {"rows": 256, "cols": 512}}


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return torch.relu(x * 2.0 + self.bias)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return [cols]
'''

KERNEL = '''language = "opencl"
kernels = r"""
__kernel void twice(__global const float* x, __global const float* b, __global float* y, int n, int c) {
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        y[i] = fmax(x[i] * FACTOR + b[i % c], 0.0f);
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("twice", grid=2, block=BLOCK, args=[x, params["bias"], y, int32(x.numel), int32(x.shape[1])])
    return y
'''

DEVICE = DeviceFacts("opencl", "Test CPU", 2, peak_bandwidth_gbs=30.0, peak_fp32_gflops=200.0)
GRAPH = {
    "version": 1,
    "captured_by": "torch.export",
    "inputs": [
        {
            "id": "x",
            "name": "x",
            "kind": "tensor",
            "shape": [256, 512],
            "dtype": "float32",
            "contiguous": True,
        }
    ],
    "params": [
        {"id": "b", "name": "bias", "buffer": False, "shape": [512], "dtype": "float32", "contiguous": True}
    ],
    "constants": [],
    "nodes": [
        {"id": name, "op": op, "args": args, "kwargs": {}, "shape": [256, 512], "dtype": "float32"}
        for name, op, args in (
            ("mul", "aten.mul.Tensor", [{"ref": "x"}, 2.0]),
            ("add", "aten.add.Tensor", [{"ref": "mul"}, {"ref": "b"}]),
            ("relu", "aten.relu.default", [{"ref": "add"}]),
        )
    ],
    "outputs": [{"ref": "relu"}],
}
REPORT: dict[str, Any] = {
    "inputs": [{"name": "x", "shape": [256, 512], "dtype": "float32", "kind": "tensor"}],
    "outputs": [{"shape": [256, 512], "dtype": "float32"}],
    "params_count": 512,
    "params_bytes": 2048,
    "flops": 393216,
    "bytes": 1050624,
    "floor_us": 35.0,
    "eager_us": 400.0,
    "compile_us": None,
    "compile_note": "not measured",
    "launch_distance": 13.0,
    "memory_bytes": 1060000,
    "device": {"kind": "opencl", "name": "Test CPU", "compute_units": 2, "max_threads_per_block": 4096},
    "preset": "cpu",
    "precision": "fp32",
    "gates": [{"name": "zeros_pass", "passed": True, "sentence": ""}],
    "blocked": False,
    "sentence": "",
}

FATE = re.compile(r"# fate: (\w+) ?([\d.]*)")
SCRIPT: dict[int, list[str]] = {
    1: ["correct 1.5"],
    2: ["compile_error", "correct 3.0"],
    3: ["wrong", "wrong", "wrong"],
    4: ["correct 2.0"],
}


def plan(fate: str, step: int = 0, attempt: int = 0, block: int = 64, factor: str = "2.0f") -> str:
    """A plan of the operator above; ``step`` and ``attempt`` only make its text its own."""
    text = KERNEL.replace("BLOCK", str(block)).replace("FACTOR", factor)
    return f"# fate: {fate}\n# step {step}, attempt {attempt}\n{text}"


def evaluation(fate: str, speedup: float | None = None) -> Evaluation:
    """What a stub judge says of a plan."""
    if fate != "correct" or speedup is None:
        return Evaluation(
            Verdict(fate), f"It was {fate}.", DEVICE, [Check("round 1", False, f"It was {fate}.")]
        )
    kernel, eager = 400.0 / speedup, 400.0
    return Evaluation(
        Verdict.CORRECT,
        "",
        DEVICE,
        [Check("round 1", True, "", {"largest_allowed": 2e-5})],
        candidate=Timing(kernel, kernel, kernel, [kernel] * 10),
        baseline=Timing(eager, eager, eager, [eager] * 10),
        speedup=speedup,
        speedup_low=speedup * 0.97,
        speedup_high=speedup * 1.03,
        faster=speedup * 0.97 > 1,
        bottleneck="memory",
        phase_seconds={"compile": 0.1, "check": 0.1, "time": 0.2},
    )


class FateEvaluator(Evaluator):
    """Judges a plan by the fate in its text. ``calls`` counts evaluations of this instance."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def evaluate(
        self, subject: Subject, plan: str, plan_hash: str, kind: str, on_phase: OnPhase
    ) -> Evaluation:
        self.calls.append((plan_hash, kind))
        for phase in ("compile", "check", "time"):
            on_phase(phase)
        found = FATE.search(plan)
        assert found
        return evaluation(found[1], float(found[2]) if found[2] else None)

    def inspect(self, subject: Subject) -> Any:
        raise AssertionError("the tests store the report")


class ScriptedProposer(Proposer):
    """Writes the plans of `SCRIPT`; chooses its strategies by the random numbers it is given."""

    name = "scripted"
    title = "Scripted"

    def __init__(self, script: dict[int, list[str]] | None = None) -> None:
        self.script = SCRIPT if script is None else script

    def choose_strategy(
        self, state: SearchState, options: Sequence[StrategyOption], rng: random.Random
    ) -> StrategyChoice:
        usable = [option for option in options if option.applicable] or list(options)
        return StrategyChoice(
            rng.choice(usable), "By the script.", [{"key": option.key} for option in options]
        )

    def write(self, state: SearchState, option: StrategyOption, rng: random.Random) -> Proposal | NoProposal:
        return self.scripted(state, 0)

    def repair(
        self,
        state: SearchState,
        option: StrategyOption,
        failed: CandidateView,
        failure: Failure,
        attempt: int,
        rng: random.Random,
    ) -> Proposal | NoProposal:
        return self.scripted(state, attempt)

    def scripted(self, state: SearchState, attempt: int) -> Proposal | NoProposal:
        fates = self.script.get(state.step_index, [])
        if attempt >= len(fates):
            return NoProposal("The script has no more.")
        text = plan(fates[attempt], state.step_index, attempt)
        return Proposal(text, state.language, {}, f"Fate {fates[attempt]}")


def make_operator(name: str = "twice", **fields: Any) -> Operator:
    """An operator as inspection leaves it."""
    operator = Operator.objects.create(
        **{
            "name": name,
            "source": OPERATOR,
            "content_hash": "0" * 64,
            "family": "pointwise",
            "status": OperatorStatus.READY,
            **fields,
        }
    )
    HealthReport.objects.create(
        operator=operator, device_kind="opencl", device_key="opencl:Test CPU", report=REPORT, graph=GRAPH
    )
    return operator


def make_run(operator: Operator | None = None, bank: MemoryBank | None = None, **fields: Any) -> Run:
    """A queued run without a task in the queue."""
    return Run.objects.create(
        **{
            "operator": operator or make_operator(),
            "bank": bank or ensure_seed_bank(),
            "device": "opencl",
            "steps_total": 4,
            "seed": 7,
            **fields,
        }
    )


def person(role: str) -> User:
    """A user with one role; "" for none."""
    user = User.objects.create_user(f"a-{role or 'nobody'}")
    if role:
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user
