"""The recorder's command line: several operators side by side, one file, written as it goes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_eval.results import EvaluationPolicy
from memory.simulation.tables import Tables, TablesError
from optimizer.recording.explore import strategies_of
from optimizer.recording.recorder import Recorder
from optimizer.recording.work import Wanted

ROOT = Path(__file__).resolve().parents[2]
SEED_BANK = ROOT / "memory" / "seed" / "htam-seed.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 when every operator has outcomes, 2 for unusable input."""
    options = parser().parse_args(arguments)
    try:
        bank = json.loads(options.bank.read_text(encoding="utf-8"))
        tables = read_tables(options.out)
        paths = operator_paths(options.operators)
    except (OSError, ValueError, KeyError) as error:
        print(f"{error}".replace("\n", " "), file=sys.stderr)
        return 2
    policy = EvaluationPolicy(correctness_rounds=options.rounds, timed_calls=options.calls)
    wanted = Wanted(options.device, policy, strategies_of(bank), options.plans, options.steps, options.seed)
    tables.bank = bank["name"]
    tables.policy = {"correctness_rounds": options.rounds, "timed_calls": options.calls}
    return Recorder(tables, options.out, wanted, options.jobs, options.budget_s).run(paths)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m optimizer.recording",
        description="Evaluate what the bank's strategies lead to, operator by operator, into one table file. "
        "A file that is there already is gone on with.",
    )
    made.add_argument("operators", nargs="+", type=Path, help="operator files, or folders of them")
    made.add_argument("--out", type=Path, required=True, help="the table file (JSON), written as it goes")
    made.add_argument("--device", default="auto", choices=["auto", "cuda", "opencl"])
    made.add_argument("--bank", type=Path, default=SEED_BANK, help="bank file with the strategies to try")
    made.add_argument("--plans", type=int, default=16, help="most evaluated plans an operator (16)")
    made.add_argument("--steps", type=int, default=6, help="length of the searches that choose plans (6)")
    made.add_argument("--budget-s", type=float, default=420.0, help="wall time for all operators (420)")
    made.add_argument("--jobs", type=int, default=1, help="operators side by side; timings take turns (1)")
    made.add_argument("--rounds", type=int, default=2, help="correctness rounds an evaluation (2)")
    made.add_argument("--calls", type=int, default=30, help="timed calls an evaluation (30)")
    made.add_argument("--seed", type=int, default=0)
    return made


def operator_paths(named: Sequence[Path]) -> list[Path]:
    """The operator files, each name once. Raises ValueError naming what is missing or doubled."""
    found: dict[str, Path] = {}
    for item in named:
        files = sorted(item.glob("[a-z]*.py")) if item.is_dir() else [item]
        if not files or not all(path.is_file() for path in files):
            raise ValueError(f"{item}: there is no operator file.")
        for path in files:
            if path.stem in found:
                raise ValueError(f"{path}: there is a second operator called {path.stem!r}.")
            found[path.stem] = path
    return list(found.values())


def read_tables(path: Path) -> Tables:
    """The tables recorded so far; empty ones where there is no file."""
    if not path.exists():
        return Tables({}, "", {}, {})
    try:
        return Tables.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (TablesError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be gone on with: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
