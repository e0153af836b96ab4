"""The evidence log over REST: filters, pages, exclusion."""

from __future__ import annotations

import pytest

from memory.models import Evidence, GlobalNode, LocalNode

pytestmark = pytest.mark.django_db


def test_filters(bank, teach, client_as):
    """Each number on a page leads to the rows behind it."""
    strategy = LocalNode.objects.get(key="fusion-one")
    teach(strategy=strategy, run_id=7)
    teach(place=1, direction="access", source="fusion", run_id=8, improved=False)
    client = client_as("viewer")
    edge = Evidence.objects.get(run_id=8).edge_id
    fusion = GlobalNode.objects.get(key="fusion").pk

    def runs(**query):
        return [row["run"] for row in client.get("/api/evidence/", query).json()["results"]]

    assert runs() == [8, 7]
    assert runs(direction=fusion) == [7]
    assert runs(strategy=strategy.pk) == [7]
    assert runs(edge=edge) == [8]
    assert runs(run=8) == [8]
    assert runs(device="cuda:A100") == [8]
    assert runs(improved="true") == [7]
    assert runs(bank=bank.pk + 1) == []
    assert client.get("/api/evidence/", {"edge": "first"}).status_code == 400
    assert client.get("/api/evidence/", {"improved": "yes"}).status_code == 400


def test_rows_name_their_parts(bank, teach, client_as):
    """A row can be read without further requests."""
    teach(strategy=LocalNode.objects.get(key="fusion-one"))
    row = client_as("viewer").get("/api/evidence/").json()["results"][0]
    assert (row["direction_key"], row["strategy_key"], row["source_key"]) == ("fusion", "fusion-one", "START")


def test_pages_take_a_fixed_number_of_queries(bank, teach, client_as, django_assert_num_queries):
    """Roles, count, rows: three queries a page."""
    client = client_as("viewer")
    for _ in range(2):
        for _ in range(6):
            teach(strategy=LocalNode.objects.get(key="fusion-one"))
        with django_assert_num_queries(3):
            page = client.get("/api/evidence/?limit=5").json()
        assert len(page["results"]) == 5
        assert page["next"]


def test_exclusion_needs_a_reason_and_is_reversible(bank, teach, client_as):
    """A curator takes a row out of the statistics and back in; nothing else of it can change."""
    pk = teach(utility=1.0).evidence_id
    client = client_as("curator")
    node = f"/api/directions/{GlobalNode.objects.get(key='fusion').pk}/"
    path = f"/api/evidence/{pk}/"
    assert client.patch(path, {"excluded": True}, format="json").status_code == 400
    taught = client.get(node).json()["statistics"]
    answer = client.patch(
        path, {"excluded": True, "excluded_reason": "clock drift", "utility": -1.0}, format="json"
    )
    assert answer.json()["excluded_reason"] == "clock drift"
    assert client.get(node).json()["statistics"]["tries"] == 0
    assert client.patch(path, {"excluded": False}, format="json").status_code == 200
    assert client.get(node).json()["statistics"] == taught
    assert Evidence.objects.get(pk=pk).utility == 1.0
