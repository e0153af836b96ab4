"""Several workers teach one bank at once (PostgreSQL; SQLite lets one writer in at a time)."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from memory.importing import import_bank
from memory.models import Evidence, EvidenceTotals, TransitionEdge
from memory.services import record_evidence
from tests.memory.conftest import bank_data

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="needs PostgreSQL"),
]
WORKERS, STEPS = 4, 8


def at_once(action) -> None:
    """Run ``action(worker)`` in every worker from a common start; raise what any of them raised."""
    errors: list[Exception] = []
    start = threading.Barrier(WORKERS)

    def work(worker: int) -> None:
        try:
            start.wait()
            action(worker)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def record(bank, step_id: int, source: str | None = None) -> None:
    record_evidence(
        bank, direction="reuse", strategy=None, source=source, step_id=step_id, run_id=1, verdict="correct",
        compiled=True, correct=True, improved=True, utility=0.25, speedup=1.2, device="cuda:H200",
        dtype="float32", family="pointwise", proposer="recipes",
    )  # fmt: skip


def test_no_count_is_lost():
    """Workers that meet in one bucket all count."""
    bank = import_bank(bank_data())
    at_once(lambda worker: [record(bank, worker * STEPS + number) for number in range(STEPS)])
    for totals in EvidenceTotals.objects.filter(bank=bank):
        assert (totals.tries, totals.utility_sum) == (WORKERS * STEPS, 0.25 * WORKERS * STEPS)


def test_one_step_counts_once_however_many_workers_report_it():
    """A step that two workers finish at the same moment has one row, one count and one edge."""
    bank = import_bank(bank_data())
    at_once(lambda worker: [record(bank, number, "fusion") for number in range(STEPS)])
    assert Evidence.objects.count() == STEPS
    assert {totals.tries for totals in EvidenceTotals.objects.all()} == {STEPS}
    assert TransitionEdge.objects.filter(source__key="fusion", target__key="reuse").count() == 1
