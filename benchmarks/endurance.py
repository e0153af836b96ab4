"""Many evaluations in a row: what is left over afterwards.

    python -m benchmarks.endurance [--count 500] [--device auto] [--json]

One session, small tensors, few calls; one candidate in five ends badly (it does not compile, is wrong, writes out of
bounds or, in the middle of the row, hangs). Printed are this process's open files and memory, the processes below
it, scratch folders, shared memory and, on a GPU, the device's used memory: after a warm-up of 20, and at the end. The
last candidate must still be judged correct.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_eval.conditions import Gpu
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.limits import Limits
from gpu_eval.results import EvaluationPolicy
from gpu_eval.tree import descendants

WARM_UP = 20
POLICY = EvaluationPolicy(timed_calls=10, correctness_rounds=2)
LIMITS = Limits(run_s=3.0)
OPERATOR = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(256, 1024)]

def get_init_inputs():
    return []
"""
SIGNATURES = {
    "cuda": ("__global__ void f(const float* x, float* y, int n)", "blockIdx.x * blockDim.x + threadIdx.x"),
    "opencl": ("__kernel void f(__global const float* x, __global float* y, int n)", "get_global_id(0)"),
}
BODIES = {
    "right": "if (i < n) y[i] = x[i] > 0.0f ? x[i] * 2.0f : 0.0f;",
    "broken": "if (i < n) y[i] = nothing;",
    "wrong": "if (i < n) y[i] = x[i];",
    "outside": "if (i < n) y[i] = x[i] > 0.0f ? x[i] * 2.0f : 0.0f; if (i == 0) y[n + 3] = 1.0f;",
    "hangs": "volatile int on = 1; while (on) {} if (i < n) y[i] = 0.0f;",
}
FORWARD = """
def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256, args=[x, y, int32(x.numel)])
    return y
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="What many evaluations leave behind.")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    verdicts: dict[str, int] = {}
    with EvaluationSession(OPERATOR, device=options.device, policy=POLICY, limits=LIMITS) as session:
        kind = session.device.kind
        session.runners.settle()
        before = held(kind)
        start = time.monotonic()
        for number in range(options.count):
            verdict = session.evaluate(plan(kind, body_of(number, options.count))).verdict.value
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            if number == WARM_UP:
                session.runners.settle()
                before = held(kind)
        seconds = time.monotonic() - start
        last = session.evaluate(plan(kind, "right")).verdict.value
        session.runners.settle()
        after = held(kind)
    figures: dict[str, Any] = {
        "evaluations": options.count,
        "seconds": round(seconds, 1),
        "verdicts": verdicts,
        "last": last,
        "before": before,
        "after": after,
        "after_close": held(kind),
    }
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:12} {value}")


def body_of(number: int, count: int) -> str:
    """Which kernel comes at this place of the row."""
    if number == count // 2:
        return "hangs"
    return ("broken", "wrong", "outside")[number // 5 % 3] if number % 5 == 4 else "right"


def plan(kind: str, body: str) -> str:
    signature, index = SIGNATURES[kind]
    kernel = f"{signature} {{ int i = {index}; {BODIES[body]} }}"
    return f"language = {kind!r}\nkernels = r'''{kernel}'''\n{FORWARD}"


def held(kind: str) -> dict[str, int | None]:
    """What this process and those below it hold now."""
    gpu = Gpu.first_visible() if kind == "cuda" else None
    return {
        "open_files": len(os.listdir("/proc/self/fd")),
        "processes": len(descendants(os.getpid())),
        "scratch": len(list(Path(tempfile.gettempdir()).glob("htam-*"))),
        "shared_memory": len(list(Path("/dev/shm").glob("htam-*"))),
        "own_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "device_memory_mb": gpu.memory_used_bytes() // 2**20 if gpu else None,
    }


if __name__ == "__main__":
    main()
