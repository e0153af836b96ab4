"""Stored decisions of a bank's runs, for whoever asks what they would have been."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.urls import reverse

from memory.models import MemoryBank
from memory.policy.whatif import first_draw
from memory.preview import StoredDecision
from optimizer.models import Step
from optimizer.proposers.recipes import TEMPERATURE, RecipeProposer

CHUNK = 200


def stored_decisions(bank: MemoryBank, limit: int, *, strategies: bool = False) -> Iterator[StoredDecision]:
    """The newest ``limit`` decisions of runs on the bank, newest first, read in chunks.

    ``strategies`` adds the choices among strategies, of proposers that draw them by posterior value.
    """
    rows = Step.objects.filter(run__bank=bank).exclude(decision={}).order_by("-pk")
    columns = ["run_id", "pk", "index", "run__operator__name", "decision", "direction__key"]
    columns += ["strategy_choice", "run__proposer", "run__seed"] if strategies else []
    for row in rows.values_list(*columns)[:limit].iterator(chunk_size=CHUNK):
        run, step, index, operator, decision, direction = row[:6]
        choice: dict[str, Any] = {}
        seed = 0
        if strategies and row[7] == RecipeProposer.name:
            choice, seed = row[6] or {}, row[8]
        yield StoredDecision(
            run, step, index, operator, decision, direction or decision.get("chosen", ""),
            choice.get("chosen") or "", choice.get("scores") or [],
            first_draw(f"{seed}:{index}:strategy") if choice else 0.0,
            TEMPERATURE,
        )  # fmt: skip


def step_addresses(steps: Iterable[int]) -> dict[int, str]:
    """The pages of the steps that still exist, by id; one query."""
    rows = Step.objects.filter(pk__in=list(steps)).values_list("pk", "run_id", "index")
    return {pk: step_address(run, index) for pk, run, index in rows}


def step_address(run: int, step: int) -> str:
    """The page of a step."""
    return f"{reverse('runs:detail', args=[run])}#step-{step}"
