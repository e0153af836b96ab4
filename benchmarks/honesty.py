"""Timing honesty: PyTorch against itself, and one kernel again and again.

    python -m benchmarks.honesty same [--repeats 100] [--device auto] [--json] [NAME ...]
    python -m benchmarks.honesty repeat PLAN_FOLDER [--repeats 10] [--device auto] [--json]

``same``: plans that only call the operation that the operator calls. Each evaluation is a fresh runner; printed
is how often the 95 % interval of the speed-up holds 1, and how far the ratios lie apart. ``repeat``: every
``NAME/operator.py`` with ``NAME/*.plan.py`` under the folder is judged again and again, in a session of its own
each time; printed is how far the medians of the kernel's time and of the ratio lie apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from gpu_eval.choice import choose_device
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.results import Evaluation

OPERATOR = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, {names}):
        return {call}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
PLAN = """
language = {device!r}
kernels = ""

def forward({names}, params):
    return {call}
"""
# name: (inputs, PyTorch's call, the plan's call, shapes on a GPU, shapes on a CPU)
CASES = {
    "softmax": ("x", "torch.softmax(x, -1)", "lib.softmax(x, -1)", ["16384, 2048"], ["2048, 2048"]),
    "relu": ("x", "torch.relu(x)", "lib.relu(x)", ["1024, 1024"], ["2048, 2048"]),
    "gelu": ("x", "torch.nn.functional.gelu(x)", "lib.gelu(x)", ["4096, 4096"], ["1024, 2048"]),
    "sum": ("x", "torch.sum(x, -1)", "lib.sum(x, -1)", ["8192, 4096"], ["2048, 2048"]),
    "matmul": ("a, b", "torch.matmul(a, b)", "lib.matmul(a, b)", ["2048, 2048"] * 2, ["512, 512"] * 2),
}
RUNNERS_WITH_TORCH = {"cuda": 10, "opencl": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description="How honest the clock is.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    verbs = parser.add_subparsers(dest="verb", required=True)
    same = verbs.add_parser("same")
    same.add_argument("names", nargs="*", metavar="NAME")
    same.add_argument("--repeats", type=int, default=100)
    again = verbs.add_parser("repeat")
    again.add_argument("folder", type=Path)
    again.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    kind = choose_device(options.device).kind
    rows = (
        [against_itself(name, kind, options.repeats) for name in options.names or CASES]
        if options.verb == "same"
        else [repeated(path, kind, options.repeats) for path in sorted(options.folder.glob("*/*.plan.py"))]
    )
    for row in rows:
        print(json.dumps(row) if options.json else "  ".join(f"{key} {shown(row[key])}" for key in row))


def against_itself(name: str, kind: str, repeats: int) -> dict[str, Any]:
    """One operation against itself, ``repeats`` times."""
    names, call, plan_call, large, small = CASES[name]
    inputs = ", ".join(f"torch.randn({shape})" for shape in (large if kind == "cuda" else small))
    operator = OPERATOR.format(names=names, call=call, inputs=inputs)
    plan = PLAN.format(device=kind, names=names, call=plan_call)
    with EvaluationSession(operator, device=kind, kept=(0, RUNNERS_WITH_TORCH[kind])) as session:
        session.runners.settle()
        results = [session.evaluate(plan) for _ in range(repeats)]
    judged = [result for result in results if result.speedup is not None]
    holds = sum((result.speedup_low or 0) <= 1 <= (result.speedup_high or 0) for result in judged)
    ratios = [result.speedup or 0 for result in judged]
    return {
        "operation": name,
        "repeats": repeats,
        "correct": sum(result.correct for result in results),
        "interval_holds_1": holds,
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_sd": statistics.pstdev(ratios),
        "seconds_each": statistics.median(sum(result.phase_seconds.values()) for result in results),
    }


def repeated(path: Path, kind: str, repeats: int) -> dict[str, Any]:
    """One kernel, ``repeats`` times, each in a session of its own."""
    results: list[Evaluation] = []
    for _ in range(repeats):
        operator = (path.parent / "operator.py").read_text()
        with EvaluationSession(operator, device=kind, operator_name=path.parent.name) as session:
            session.runners.settle()
            results.append(session.evaluate(path.read_text()))
    times = [result.candidate.median_us for result in results if result.candidate]
    ratios = [result.speedup for result in results if result.speedup]
    return {
        "plan": f"{path.parent.name}/{path.name}",
        "repeats": repeats,
        "correct": sum(result.correct for result in results),
        "time_median_us": statistics.median(times),
        "time_spread": spread(times),
        "ratio_median": statistics.median(ratios),
        "ratio_spread": spread(ratios),
    }


def spread(values: list[float]) -> float:
    """Largest distance from the median, relative to it."""
    middle = statistics.median(values)
    return max(abs(value - middle) for value in values) / middle


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
