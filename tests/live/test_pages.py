"""Pages of runs and memory on the server: filters, and query counts that do not grow with the data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from htam_site.accounts.people import add_person
from memory.models import GlobalNode, MemoryBank
from memory.services import ensure_seed_bank
from optimizer.models import Candidate, CandidateEvaluation, Operator, Run, Step

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(add_person("vera", ["viewer"]))
    return client


@pytest.fixture
def bank() -> MemoryBank:
    return ensure_seed_bank()


def make_run(bank: MemoryBank, name: str, steps: int = 2, **fields: Any) -> Run:
    operator, _ = Operator.objects.get_or_create(name=name, defaults={"source": "", "content_hash": "0"})
    run = Run.objects.create(
        operator=operator, bank=bank, created_by=User.objects.first(), event_seq=7, **fields
    )
    for index in range(1, steps + 1):
        direction = GlobalNode.objects.filter(bank=bank).first()
        step = Step.objects.create(run=run, index=index, stage="done", direction=direction, outcome="faster")
        candidate = Candidate.objects.create(step=step, plan="", plan_hash="0", language="opencl")
        CandidateEvaluation.objects.create(
            candidate=candidate, verdict="correct", outcome="faster", result={}, speedup=2.0
        )
        step.result = candidate
        step.save()
    return run


def queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def test_run_list_takes_as_many_queries_for_many_runs(client: Client, bank: MemoryBank) -> None:
    """Protects a fast list: no query per row."""
    make_run(bank, "one")
    few = queries(client, "/runs/")
    for number in range(12):
        make_run(bank, f"operator {number}")
    assert queries(client, "/runs/") == few


def test_run_page_takes_as_many_queries_for_many_steps(client: Client, bank: MemoryBank) -> None:
    """Protects a fast reload: no query per step."""
    short = make_run(bank, "short", steps=1)
    long = make_run(bank, "long", steps=9)
    assert queries(client, f"/runs/{long.pk}/") == queries(client, f"/runs/{short.pk}/")


def test_bank_list_takes_as_many_queries_for_many_banks(client: Client, bank: MemoryBank) -> None:
    """Protects a fast list: sizes are counted in the one query."""
    few = queries(client, "/memory/")
    for number in range(8):
        MemoryBank.objects.create(name=f"bank {number}")
    assert queries(client, "/memory/") == few


def test_run_list_pages_long_histories(client: Client, bank: MemoryBank) -> None:
    """Protects: ten thousand runs are a list of pages, newest first."""
    first = make_run(bank, "many", steps=0)
    Run.objects.bulk_create(Run(operator=first.operator, bank=bank) for _ in range(10_000))
    page = client.get("/runs/").content.decode()
    assert page.count("<tr data-href=") == 50
    assert "10001" in page
    last = client.get("/runs/?page=201").content.decode()
    assert f'data-href="/runs/{first.pk}/"' in last


@pytest.mark.parametrize(
    "query", ["status=nonsense", "operator=x", "operator=" + "9" * 40, "page=-3", "q=%00", "method=%00"]
)
def test_senseless_filters_are_ignored(client: Client, bank: MemoryBank, query: str) -> None:
    """Protects: a query string that makes no sense is no error."""
    make_run(bank, "one")
    assert client.get(f"/runs/?{query}").status_code == 200


def test_page_carries_state_and_cursor(client: Client, bank: MemoryBank) -> None:
    """Protects the live view: steps and cursor in the page belong together and are not executable."""
    run = make_run(bank, "</script><b>name", steps=2)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    text = page.partition('<script id="run-page" type="application/json">')[2].partition("</script>")[0]
    data = json.loads(text)
    assert data["cursor"] == 7
    assert [step["index"] for step in data["steps"]] == [1, 2]
    assert data["run"]["operator"]["name"] == "</script><b>name"
    assert data["may_operate"] is False


def test_unknown_rows_are_not_found(client: Client) -> None:
    """Protects: a run or bank that does not exist answers 404."""
    assert client.get("/runs/999/").status_code == 404
    assert client.get("/memory/999/").status_code == 404
