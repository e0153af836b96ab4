"""What the loop asks of a bank."""

from __future__ import annotations

import random

import pytest

from memory.models import START, Evidence, EvidenceTotals, MemoryBank, TransitionEdge
from memory.policy import EvidenceContext, PolicyConfig
from memory.services import choose_direction, ensure_seed_bank, record_evidence, strategy_options

CONTEXT = EvidenceContext("cuda:Test", "float32", "pointwise")
UNFUSED = {"has_plan": False, "fused": False, "launches": 4, "family": "pointwise", "bottleneck": "memory"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def bank() -> MemoryBank:
    return ensure_seed_bank()


def teach(bank: MemoryBank, step_id: int = 1, **changes):
    fields = {
        "direction": "fusion", "strategy": None, "source": None, "step_id": step_id, "run_id": 1,
        "verdict": "correct", "compiled": True, "correct": True, "improved": True, "utility": 0.8,
        "speedup": 1.74, "device": CONTEXT.device, "dtype": CONTEXT.dtype, "family": CONTEXT.family,
        "proposer": "recipes",
    }  # fmt: skip
    return record_evidence(bank, **{**fields, **changes})


def test_untaught_bank_starts_an_unfused_graph_with_fusion(bank):
    """The seed's priors make the first choice the sensible one."""
    decision = choose_direction(bank, [], UNFUSED, CONTEXT, PolicyConfig(), random.Random(0))
    assert decision.scores[0].key == "fusion"
    assert decision.scores[0].probability > 0.5


def test_options_come_best_first_with_reasons(bank):
    """Proposers see applicable strategies first, and why the others do not apply."""
    options = strategy_options(bank, "fusion", UNFUSED, CONTEXT, PolicyConfig())
    assert options[0].applicable
    assert [option.applicable for option in options] == sorted((o.applicable for o in options), reverse=True)
    assert all(option.reason for option in options if not option.applicable)


def test_a_step_teaches_once(bank):
    """A resumed step writes no second row and counts nothing twice."""
    first = teach(bank)
    again = teach(bank)
    assert Evidence.objects.count() == 1
    assert again.repeated
    assert again.to_json() == {**first.to_json(), "repeated": True}
    assert set(EvidenceTotals.objects.values_list("tries", flat=True)) == {1}


def test_first_traversal_creates_the_edge(bank):
    """A transition that the bank lacks gets its edge when a run takes it."""
    TransitionEdge.objects.filter(source__key="fusion", target__key="boundary-handling").delete()
    change = teach(bank, direction="boundary-handling", source="fusion")
    edge = TransitionEdge.objects.get(pk=change.edge["id"])
    assert (edge.source.key, edge.target.key) == ("fusion", "boundary-handling")
    assert change.edge["before"]["n"] == 0
    assert change.edge["after"]["n"] == 1


def test_frozen_bank_learns_nothing(bank):
    """Neither a frozen bank nor a frozen run leaves a trace."""
    edges = TransitionEdge.objects.count()
    teach(bank, step_id=1, frozen=True)
    teach(bank, step_id=2, config=PolicyConfig(frozen=True))
    MemoryBank.objects.update(frozen=True)
    change = teach(bank, step_id=3)
    assert change.frozen
    assert change.direction["before"] == change.direction["after"]
    assert (Evidence.objects.count(), EvidenceTotals.objects.count()) == (0, 0)
    assert TransitionEdge.objects.count() == edges


def test_change_names_start(bank):
    """The first transition of a run comes from START."""
    assert teach(bank).edge["source"] == START
