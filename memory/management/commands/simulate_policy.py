"""Replay policies on recorded outcomes and compare them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.bankfile import BankError, parse_bank
from memory.management.unusable import unusable
from memory.seeding import SEED_FILE
from memory.simulation.curves import summarise
from memory.simulation.figure import draw
from memory.simulation.policies import POLICIES
from memory.simulation.reading import load_tables
from memory.simulation.replay import Setup, replay_all
from memory.simulation.tables import Tables, TablesError

COMPARED = ("full", "no-hierarchy", "no-prefix", "frozen", "random")


class Command(BaseCommand):
    help = (
        "Replay selection policies on outcome tables recorded by `python -m optimizer.recording`, and give "
        "best-so-far curves with 95 % intervals. Policies: "
        + "; ".join(f"{name} ({words})" for name, (words, _) in POLICIES.items())
        + "."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "tables", type=Path, help="outcome tables (schema: memory/schema/outcomes-1.json)"
        )
        parser.add_argument(
            "--policies", default=",".join(COMPARED), help=f"names, or all; default {','.join(COMPARED)}"
        )
        parser.add_argument("--replays", type=int, default=1000, help="of each policy (1000)")
        parser.add_argument("--steps", type=int, default=6, help="of a run (6)")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument(
            "--bank", type=Path, default=SEED_FILE, help="bank file to start from; the seed bank"
        )
        parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
        parser.add_argument("--plot", type=Path, help="SVG file to write")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        names = list(POLICIES) if options["policies"] == "all" else options["policies"].split(",")
        for name in names:
            if name not in POLICIES:
                unusable(self, f"There is no policy {name!r}; there are: {', '.join(POLICIES)}.")
        if not 2 <= options["replays"] <= 100_000 or not 1 <= options["steps"] <= 100:
            unusable(self, "Replays are 2 to 100000 and steps 1 to 100.")
        try:
            tables = load_tables(options["tables"])
            document = parse_bank(options["bank"].read_bytes())
        except (TablesError, BankError) as error:
            unusable(self, str(error))
        except OSError as error:
            unusable(self, f"{options['bank']} cannot be read: {error.strerror}.")
        if not tables.operators:
            unusable(self, f"{options['tables']} holds no operator.")
        setup = Setup(tables, document, options["steps"], options["seed"])
        summary = summarise(tables, replay_all(setup, names, options["replays"], options["jobs"]))
        summary = {**facts(tables, options), **summary}
        if options["plot"]:
            self._plot(options["plot"], summary)
        if options["json"]:
            self.stdout.write(json.dumps(summary, allow_nan=False, ensure_ascii=False))
        else:
            self._table(summary)

    def _plot(self, path: Path, summary: dict[str, Any]) -> None:
        title = (
            f"Best so far over {len(summary['operators'])} operators, {summary['replays']} replays a policy"
        )
        try:
            path.write_text(draw(summary, title), encoding="utf-8")
        except OSError as error:
            unusable(self, f"Cannot write {path}: {error.strerror}.")

    def _table(self, summary: dict[str, Any]) -> None:
        best = summary["best_recorded"]
        self.stdout.write(
            f"{len(summary['operators'])} operators on {summary['device']}, {summary['replays']} replays, "
            f"{summary['steps']} steps; best recorded {best:.3f}x (geometric means)"
        )
        head = f"{'policy':16} {'final speed-up':24} {'95 % of best':>12} {'lost':>6}"
        self.stdout.write(f"{head}  final over full, 95 % over operators")
        for name, policy in summary["policies"].items():
            final = policy["final"]
            line = f"{name:16} {final['speedup']:.3f}x [{final['low']:.3f}, {final['high']:.3f}]"
            line = f"{line:41} {policy['reached'][-1]:>12.1%} {policy['lost']:>6.1%}"
            if "against" in policy:
                row = policy["against"]["final"]
                line += f"  {row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            self.stdout.write(line)


def facts(tables: Tables, options: dict[str, Any]) -> dict[str, Any]:
    """What was replayed."""
    return {
        "tables": options["tables"].name,
        "device": tables.device.get("name", "an unknown device"),
        "plans": sum(len(table.plans) for table in tables.operators.values()),
        "replays": options["replays"],
        "steps": options["steps"],
        "seed": options["seed"],
    }
