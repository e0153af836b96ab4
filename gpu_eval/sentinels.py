"""Three plans with a known end: if the evaluator gets one of them wrong, it may not judge anything here.

A wrong kernel must be called wrong, a needlessly slow one slow, and PyTorch's own operation must come out about
as fast as PyTorch. Workers ask once at their start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.results import Evaluation, EvaluationPolicy, Verdict

POLICY = EvaluationPolicy(timed_calls=30)
SAME = (0.75, 1.33)  # a ratio within is "about 1": wide, since a worker may start while the machine is busy
ROUNDS = 40  # of the slow kernel, each as much work as the operator itself

OPERATOR = """
import torch
import torch.nn as nn

rows = 8192
PRESETS = {"cpu": {"rows": 2048}}


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


def get_inputs():
    return [torch.randn(rows, 1024)]


def get_init_inputs():
    return []
"""

KERNELS = {
    "cuda": """
__global__ void work(const float* x, float* y, int n, int rounds, float shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = 0.0f;
    for (int round = 0; round < rounds; ++round) value = 1.0f / (1.0f + expf(-x[i] - 1e-30f * value));
    y[i] = value + shift;
}
""",
    "opencl": """
__kernel void work(__global const float* x, __global float* y, int n, int rounds, float shift) {
    int i = get_global_id(0);
    if (i >= n) return;
    float value = 0.0f;
    for (int round = 0; round < rounds; ++round) value = 1.0f / (1.0f + exp(-x[i] - 1e-30f * value));
    y[i] = value + shift;
}
""",
}
FORWARD = """
def forward(x, params):
    y = empty_like(x)
    launch("work", grid=cdiv(x.numel, 256), block=256,
           args=[x, y, int32(x.numel), int32({rounds}), float32({shift})])
    return y
"""
SAME_FORWARD = """
def forward(x, params):
    return lib.sigmoid(x)
"""


@dataclass(frozen=True)
class SentinelResult:
    """What became of one sentinel. The sentence says what was expected and what came out."""

    name: str
    passed: bool
    sentence: str


def check_device(kind: str) -> list[SentinelResult]:
    """Evaluate all sentinels on the device of ``kind``. Raises EvaluatorFault when nothing can be evaluated."""
    with EvaluationSession(OPERATOR, device=kind, policy=POLICY, operator_name="sentinel") as session:
        return [
            judged("wrong", session.evaluate(plan(kind, 1, 0.001)), is_wrong, "wrong"),
            judged(
                "slow", session.evaluate(plan(kind, ROUNDS, 0.0)), is_slow, "correct and slower than PyTorch"
            ),
            judged(
                "same", session.evaluate(same_plan(kind)), is_same, "correct and about as fast as PyTorch"
            ),
        ]


def plan(kind: str, rounds: int, shift: float) -> str:
    """A sigmoid that takes ``rounds`` times the work and adds ``shift``."""
    return f"language = {kind!r}\nkernels = r'''{KERNELS[kind]}'''\n" + FORWARD.format(
        rounds=rounds, shift=shift
    )


def same_plan(kind: str) -> str:
    """PyTorch's own operation."""
    return f"language = {kind!r}\nkernels = ''\n{SAME_FORWARD}"


def judged(
    name: str, evaluation: Evaluation, expected: Callable[[Evaluation], bool], words: str
) -> SentinelResult:
    """One evaluation held against what it must be."""
    found = evaluation.verdict.value
    if evaluation.speedup is not None:
        found += f" at {evaluation.speedup:.2f} times PyTorch's speed"
    passed = expected(evaluation)
    message = f" ({evaluation.message})" if evaluation.message and not passed else ""
    return SentinelResult(name, passed, f"The {name} sentinel must be {words}; it was {found}{message}.")


def is_wrong(evaluation: Evaluation) -> bool:
    return evaluation.verdict is Verdict.WRONG


def is_slow(evaluation: Evaluation) -> bool:
    return evaluation.correct and evaluation.speedup_high is not None and evaluation.speedup_high < 1


def is_same(evaluation: Evaluation) -> bool:
    return evaluation.correct and evaluation.speedup is not None and SAME[0] <= evaluation.speedup <= SAME[1]
