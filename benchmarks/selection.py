"""How long choosing a direction takes: 60 directions, a prefix of 6, evidence in 3 buckets. Goal: under 1 ms.

python -m benchmarks.selection
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from memory.policy import (
    BucketTotals,
    DirectionView,
    EdgeView,
    EvidenceContext,
    PolicyConfig,
    select_direction,
)

DIRECTIONS, PREFIX, ROUNDS = 60, 6, 500
TRIGGERS: list[dict[str, Any]] = [
    {"fact": "bottleneck", "op": "in", "value": ["memory", "latency"]},
    {"fact": "vector_width", "op": "le", "value": 2},
    {"fact": "has_plan", "op": "true"},
]
FACTS = {"bottleneck": "memory", "vector_width": 1, "has_plan": True}


def buckets(rng: random.Random) -> tuple[BucketTotals, ...]:
    devices = ("cuda:NVIDIA H200", "cuda:NVIDIA A100", "opencl:cpu")
    return tuple(
        BucketTotals(device, "float32", "pointwise", 9, rng.uniform(-4, 4), rng.uniform(0, 4))
        for device in devices
    )


def main() -> None:
    rng = random.Random(0)
    keys = [f"direction-{number}" for number in range(DIRECTIONS)]
    directions = [DirectionView(key, key, 0.1, TRIGGERS, buckets(rng)) for key in keys]
    edges = {(a, b): EdgeView(0.1, buckets(rng), 1) for a in keys for b in keys}
    context = EvidenceContext("cuda:NVIDIA H200", "float32", "pointwise")
    config = PolicyConfig(prefix_length=PREFIX)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        select_direction(directions, edges, keys[:PREFIX], FACTS, context, config, rng)
        times.append(1e3 * (time.perf_counter() - start))
    times.sort()
    print(
        f"selection over {DIRECTIONS} directions, prefix {PREFIX}, 3 buckets: median "
        f"{statistics.median(times):.3f} ms, p95 {times[int(0.95 * ROUNDS)]:.3f} ms, n = {ROUNDS}"
    )


if __name__ == "__main__":
    main()
