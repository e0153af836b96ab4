"""How a large bank behaves: 60 directions, 1,500 strategies, 3,600 edges and a million evidence rows.

    python -m benchmarks.memory_scale [--evidence 1000000]

Works on a database of its own in a temporary folder. Goals: recording a step under 10 ms, the graph under
500 ms.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

DEVICES = ("cuda:NVIDIA H200", "cuda:NVIDIA A100", "opencl:cpu")
DIRECTIONS, STRATEGIES_EACH = 60, 25


def measure(name: str, action: Callable[[], Any], rounds: int) -> None:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(1e3 * (time.perf_counter() - start))
    times.sort()
    print(f"{name}: median {statistics.median(times):.1f} ms, max {times[-1]:.1f} ms, n = {rounds}")


def fill(count: int) -> Any:
    """A bank of full size with ``count`` evidence rows, written in bulk, totals summed from them."""
    from memory.importing import import_bank
    from memory.models import Evidence
    from memory.statistics import recompute_totals

    bank = import_bank(document())
    nodes = list(bank.directions.prefetch_related("strategies"))
    edges = {(edge.source_id, edge.target_id): edge.pk for edge in bank.edges.all()}
    strategies = {node.pk: [item.pk for item in node.strategies.all()] for node in nodes}
    keys = [node.pk for node in nodes]
    rng = random.Random(0)
    for start in range(0, count, 20_000):
        rows = []
        for number in range(start, min(count, start + 20_000)):
            source, target = rng.choice(keys), rng.choice(keys)
            rows.append(
                Evidence(
                    bank=bank, direction_id=target, strategy_id=rng.choice(strategies[target]),
                    edge_id=edges[source, target], step_id=number, run_id=number // 6, verdict="correct",
                    compiled=True, correct=True, improved=rng.random() < 0.5, utility=rng.uniform(-1, 1),
                    device=rng.choice(DEVICES), dtype="float32", family="pointwise", proposer="recipes",
                )
            )  # fmt: skip
        Evidence.objects.bulk_create(rows, batch_size=1000)
    recompute_totals(bank)
    return bank


def document() -> dict[str, Any]:
    keys = [f"direction-{number:02}" for number in range(DIRECTIONS)]
    text = "A sentence of the length that people write here, with a figure or two in it."

    def strategy(number: int) -> dict[str, Any]:
        return {
            "key": f"strategy-{number:02}", "title": f"Strategy {number}", "edit_pattern": text,
            "applies_when": text, "conditions": [{"fact": "rows", "op": "ge", "value": number}],
            "checks": [text], "risks": [text], "recipe": {"move": "unroll", "factor": number}, "prior": 0.1,
        }  # fmt: skip

    return {
        "schema": "htam-memory-bank", "schema_version": 1, "name": "Large", "description": "",
        "directions": [
            {
                "key": key, "title": key, "intent": text, "goals": [text], "risks": [text], "prior": 0.1,
                "triggers": [{"fact": "bottleneck", "op": "eq", "value": "memory"}],
                "strategies": [strategy(number) for number in range(STRATEGIES_EACH)],
            }
            for key in keys
        ],
        "edges": [
            {"source": a, "target": b, "applies_when": text, "rationale": text, "risks": [], "prior": 0.0}
            for a in keys
            for b in keys
        ],
    }  # fmt: skip


def run(count: int) -> None:
    from django.core.management import call_command

    from memory.exporting import dump_bank, export_bank
    from memory.graph import graph_json
    from memory.models import LocalNode
    from memory.policy import EvidenceContext, PolicyConfig
    from memory.services import choose_direction, record_evidence

    call_command("migrate", verbosity=0)
    bank = fill(count)
    print(f"{DIRECTIONS} directions, {STRATEGIES_EACH} strategies each, all edges, {count} evidence rows")
    keys = list(bank.directions.values_list("key", flat=True))
    context = EvidenceContext(DEVICES[0], "float32", "pointwise")
    config = PolicyConfig(prefix_length=6)
    facts = {"bottleneck": "memory", "rows": 64}
    rng = random.Random(1)
    strategy = LocalNode.objects.select_related("direction").earliest("pk")
    steps = iter(range(10**9, 2 * 10**9))

    def record() -> None:
        record_evidence(
            bank, direction=strategy.direction, strategy=strategy, source=rng.choice(keys),
            step_id=next(steps), run_id=1, verdict="correct", compiled=True, correct=True,
            improved=True, utility=0.2, speedup=1.1, device=DEVICES[0], dtype="float32", family="pointwise",
            proposer="recipes",
        )  # fmt: skip

    measure("choose a direction", lambda: choose_direction(bank, keys[:6], facts, context, config, rng), 20)
    measure("record a step", record, 100)
    measure("graph", lambda: graph_json(bank, context), 10)
    measure("export without evidence", lambda: dump_bank(export_bank(bank, evidence=False)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evidence", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HTAM_DATABASE_URL"] = f"sqlite://{folder}/scale.sqlite3"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "htam_site.settings")
        import django

        django.setup()
        run(arguments.evidence)


if __name__ == "__main__":
    main()
