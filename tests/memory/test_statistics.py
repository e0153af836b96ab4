"""Totals agree with the evidence log after any sequence of operations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from memory.history import set_excluded
from memory.models import Evidence, EvidenceTotals, LocalNode, MemoryBank, to_units
from memory.statistics import recompute_totals

pytestmark = pytest.mark.django_db

COUNTS = ("tries", "compiled", "correct", "improved")
SUMS = ("utility_units", "square_units")


def stored(bank: MemoryBank) -> dict[tuple[Any, ...], dict[str, int]]:
    names = ("direction_id", "strategy_id", "edge_id", "device", "dtype", "family")
    rows = EvidenceTotals.objects.filter(bank=bank).values(*names, *COUNTS, *SUMS)
    return {
        tuple(row[name] for name in names): {name: row[name] for name in (*COUNTS, *SUMS)} for row in rows
    }


def summed_by_hand(bank: MemoryBank) -> dict[tuple[Any, ...], dict[str, int]]:
    """The totals as plain Python adds them up, row by row."""
    result: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in Evidence.objects.filter(bank=bank, excluded=False).order_by("id"):
        for place, owner in enumerate((row.direction_id, row.strategy_id, row.edge_id)):
            if owner is None:
                continue
            subject: list[int | None] = [None, None, None]
            subject[place] = owner
            key = (*subject, row.device, row.dtype, row.family)
            sums = result.setdefault(key, dict.fromkeys((*COUNTS, *SUMS), 0))
            sums["tries"] += 1
            for name in ("compiled", "correct", "improved"):
                sums[name] += getattr(row, name)
            sums["utility_units"] += to_units(row.utility)
            sums["square_units"] += to_units(row.utility) ** 2
    return result


def random_steps(rng: random.Random, steps: int) -> Iterator[dict[str, Any]]:
    keys = ["access", "fusion", "reuse"]
    strategies = {node.key: node for node in LocalNode.objects.all()}
    for _ in range(steps):
        direction = rng.choice(keys)
        compiled = rng.random() < 0.8
        correct = compiled and rng.random() < 0.8
        yield {
            "place": rng.randrange(3),
            "direction": direction,
            "strategy": rng.choice([None, strategies[f"{direction}-one"], strategies[f"{direction}-two"]]),
            "source": rng.choice([None, *keys]),
            "compiled": compiled,
            "correct": correct,
            "improved": correct and rng.random() < 0.5,
            "utility": rng.uniform(-1, 1) if correct else -0.5,
        }


@pytest.mark.parametrize("seed", range(5))
def test_totals_agree_with_the_log_after_random_operations(bank, teach, seed):
    """Recording, excluding, taking back and repeating leave totals equal to a sum over the log, exactly."""
    rng = random.Random(seed)
    for step in random_steps(rng, 40):
        teach(**step)
        rows = list(Evidence.objects.all())
        if rng.random() < 0.3:
            row = rng.choice(rows)
            set_excluded(row, not row.excluded, "by chance")
        if rng.random() < 0.2:
            teach(step_id=rng.choice(rows).step_id)
    assert stored(bank) == summed_by_hand(bank)
    before = stored(bank)
    recompute_totals(bank)
    assert stored(bank) == before


def test_excluded_evidence_leaves_no_trace(bank, teach):
    """Recording and excluding a row gives the statistics of never having seen it; and it can come back."""
    for step in random_steps(random.Random(3), 10):
        teach(**step)
    recompute_totals(bank)
    before = stored(bank)
    taught = teach(place=1, utility=0.123, direction="reuse", source="access")
    with_it = stored(bank)
    row = Evidence.objects.get(pk=taught.evidence_id)
    set_excluded(row, True, "clock drift")
    assert stored(bank) == before
    set_excluded(row, False)
    assert stored(bank) == with_it
    assert Evidence.objects.get(pk=row.pk).excluded_reason == ""


def test_recompute_repairs_tampered_totals(bank, teach):
    """Whatever happened to the totals, the log restores them."""
    teach()
    good = stored(bank)
    EvidenceTotals.objects.update(tries=99, utility_units=7)
    recompute_totals(bank)
    assert stored(bank) == good


def test_banks_do_not_mix(bank, teach):
    """Evidence of one bank changes no other."""
    other = MemoryBank.objects.create(name="Other")
    teach()
    assert stored(other) == {}


def test_recording_takes_a_fixed_number_of_queries(bank, teach, django_assert_num_queries):
    """Recording reads bucket rows, never the log: the count stays the same when the log has grown."""
    strategy = LocalNode.objects.get(key="fusion-one")
    for _ in range(30):
        teach(strategy=strategy)
    with django_assert_num_queries(10):
        teach(strategy=strategy)
