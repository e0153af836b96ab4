"""What the loop itself costs a step: everything but the proposer and the evaluation.

    python benchmarks/loop_overhead.py [--steps 30]

Runs a whole run on a database of its own, with an evaluator that answers at once, and prints milliseconds a
step: the step's wall time less the time spent inside the proposer and the evaluator.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Milliseconds of the loop's own work a step.")
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory(prefix="htam-bench-") as folder:
        os.environ.setdefault("HTAM_DATABASE_URL", f"sqlite:///{folder}/bench.sqlite3")
        os.environ.update(HTAM_VAR_DIR=folder, HTAM_LOG_LEVEL="WARNING")
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "htam_site.settings")
        sys.path.insert(0, str(ROOT))
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        own = measure(steps)
    figures = {
        "steps": len(own),
        "median_ms": round(statistics.median(own), 1),
        "p95_ms": round(statistics.quantiles(own, n=20)[18], 1),
        "worst_ms": round(max(own), 1),
    }
    print(json.dumps(figures))


def measure(steps: int) -> list[float]:
    """Own milliseconds of each step of one run."""
    from memory.services import ensure_seed_bank
    from optimizer.loop import engine
    from optimizer.models import Run
    from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_operator

    outside = Stopwatch()
    script = {index: ["wrong", f"correct {1 + index / 10}"] for index in range(1, steps + 1)}
    proposer, evaluator = ScriptedProposer(script), FateEvaluator()
    for seam, names in (
        (proposer, ("can_use", "choose_strategy", "write", "repair")),
        (evaluator, ("evaluate",)),
    ):
        for name in names:
            setattr(seam, name, outside.around(getattr(seam, name)))
    run = Run.objects.create(
        operator=make_operator(), bank=ensure_seed_bank(), device="opencl", steps_total=steps, repair_tries=1
    )
    own = []
    while True:
        outside.seconds = 0.0
        started = time.perf_counter()
        progress = engine.run_step(run.pk, evaluator, proposer=proposer)
        own.append(1000 * (time.perf_counter() - started - outside.seconds))
        if progress is not engine.Progress.MORE:
            run.refresh_from_db()
            if run.status != "finished":
                raise SystemExit(f"The run ended as {run.status}: {run.error}")
            return own


class Stopwatch:
    """Sums the time spent inside the functions that it wraps, less what those spend on emitting events."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            args = tuple(
                self.paused(item) if callable(item) and not isinstance(item, type) else item for item in args
            )
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started

        return timed

    def paused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A callback into the loop: its time is the loop's own."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds -= time.perf_counter() - started

        return timed


if __name__ == "__main__":
    main()
