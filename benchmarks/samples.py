"""Whole runs over the sample operators: what six steps of recipes reach here, beside eager and torch.compile.

    python -m benchmarks.samples [--device auto] [--seed 0] [--plans FOLDER] [NAME ...]

Each sample is one `manage.py optimize` on a database of its own, so that no run learns from another. Prints a line a
sample, then the geometric mean of the best speed-ups, counting a sample without a faster kernel as 1.0x.
"best us" is derived: eager as the run's first evaluation measured it, over the best ratio. With
``--plans`` the best plans are kept in the layout of `python -m gpu_eval batch`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "optimizer" / "samples"
REPORT = (
    "import json; from optimizer.models import HealthReport; "
    "print(json.dumps(HealthReport.objects.latest('id').report))"
)
COLUMNS = "{:26} {:>9} {:>9} {:>9} {:>9} {:>8} {:>15} {:>7} {:>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Six steps of recipes on every sample operator.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="samples; all of them by default")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--plans", type=Path, metavar="FOLDER", help="keep the best plans here")
    options = parser.parse_args()
    names = options.names or sorted(path.stem for path in SAMPLES.glob("[!_]*.py"))
    print(
        COLUMNS.format(
            "sample", "eager us", "compile", "floor", "best us", "speed-up", "95 %", "correct", "s"
        )
    )
    best = []
    for name in names:
        start = time.monotonic()
        run, steps, plan, health = optimise(SAMPLES / f"{name}.py", options.device, options.seed)
        print(row(name, run, steps, health, time.monotonic() - start), flush=True)
        best.append(run["best_speedup"] or 1.0)
        if options.plans and plan:
            keep(options.plans / name, SAMPLES / f"{name}.py", plan)
    geomean = math.exp(sum(map(math.log, best)) / len(best))
    print(f"geometric mean of the best over {len(best)} samples: {geomean:.2f}x")


def optimise(
    path: Path, device: str, seed: str
) -> tuple[dict[str, Any], list[dict[str, Any]], str | None, dict[str, Any]]:
    """One run on a fresh database: its row, its steps, the best plan and the operator's health report."""
    with tempfile.TemporaryDirectory(prefix="htam-bench-") as folder:
        environment = {**os.environ, "HTAM_VAR_DIR": folder, "HTAM_LOG_LEVEL": "ERROR"}
        environment["HTAM_DATABASE_URL"] = f"sqlite:///{folder}/bench.sqlite3"

        def manage(*arguments: str) -> str:
            command = [sys.executable, str(ROOT / "manage.py"), *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{path.stem}: {' '.join(arguments)} failed.\n{done.stderr[-2000:]}")
            return done.stdout

        manage("migrate", "-v0")
        manage("seed_memory")
        result = json.loads(manage("optimize", str(path), "--device", device, "--seed", seed, "--json"))
        health = json.loads(manage("shell", "-v0", "-c", REPORT).splitlines()[-1])
    return result["run"], result["steps"], result["best_plan"], health


def row(
    name: str, run: dict[str, Any], steps: list[dict[str, Any]], health: dict[str, Any], seconds: float
) -> str:
    """One line of the table. Times in microseconds."""

    def us(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    speedup, low, high = (run[key] for key in ("best_speedup", "best_speedup_low", "best_speedup_high"))
    correct = sum(step["outcome"] in ("faster", "correct", "slower") for step in steps)
    best_us = run["baseline_us"] / speedup if speedup and run["baseline_us"] else None
    return COLUMNS.format(
        name, us(health["eager_us"]), us(health["compile_us"]), us(health["floor_us"]), us(best_us),
        f"{speedup:.2f}x" if speedup else "-", f"[{low:.2f}, {high:.2f}]" if speedup else "-",
        f"{correct}/{len(steps)}", f"{seconds:.0f}",
    )  # fmt: skip


def keep(folder: Path, operator: Path, plan: str) -> None:
    """Store operator and plan as ``FOLDER/NAME/operator.py`` and ``best.plan.py``."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(operator, folder / "operator.py")
    (folder / "best.plan.py").write_text(plan, encoding="utf-8")


if __name__ == "__main__":
    main()
