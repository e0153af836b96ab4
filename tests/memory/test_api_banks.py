"""Banks over REST: sizes, graph, export, import, clone."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from memory.models import GlobalNode, LocalNode, MemoryBank, TransitionEdge
from tests.memory.conftest import bank_data

pytestmark = pytest.mark.django_db


def test_list_counts_parts(bank, teach, client_as):
    """The list says how big each bank is; kinds do not multiply each other."""
    teach()
    teach()
    MemoryBank.objects.create(name="Empty")
    rows = {row["name"]: row for row in client_as("viewer").get("/api/banks/").json()["results"]}
    names = ["directions_count", "strategies_count", "edges_count", "evidence_count"]
    assert [rows["Small"][name] for name in names] == [3, 6, 4, 2]
    assert [rows["Empty"][name] for name in names] == [0, 0, 0, 0]


def test_graph_holds_every_part_with_its_standing(bank, teach, client_as):
    """The page draws from this alone."""
    teach(utility=1.0, strategy=LocalNode.objects.get(key="fusion-one"))
    graph = client_as("viewer").get(f"/api/banks/{bank.pk}/graph/").json()
    fusion = next(node for node in graph["directions"] if node["key"] == "fusion")
    strategy = next(node for node in graph["strategies"] if node["key"] == "fusion-one")
    edge = next(row for row in graph["edges"] if (row["source"], row["target"]) == (None, "fusion"))
    assert (len(graph["directions"]), len(graph["strategies"]), len(graph["edges"])) == (3, 6, 4)
    for part, prior in ((fusion, 0.1), (strategy, 0.1), (edge, 0.0)):
        assert part["tries"] == 1
        assert part["utility"] == pytest.approx((4 * prior + 1.0) / 5)
        assert part["improve_rate"] == 1.0
    assert strategy["direction"] == "fusion"
    assert edge["source_key"] == "START"


def test_graph_query_count_does_not_grow(bank, teach, client_as, django_assert_num_queries):
    """Roles, the bank, three kinds of parts and their totals, whatever the size."""
    teach()
    client = client_as("viewer")
    for size in (0, 30):
        nodes = GlobalNode.objects.bulk_create(
            GlobalNode(bank=bank, key=f"n{size}-{n}", title="N", intent="I") for n in range(size)
        )
        TransitionEdge.objects.bulk_create(
            TransitionEdge(bank=bank, source=a, target=b) for a in nodes for b in nodes
        )
        with django_assert_num_queries(8):
            assert client.get(f"/api/banks/{bank.pk}/graph/").status_code == 200


def test_export_imports_again(bank, teach, client_as):
    """What the API exports, it imports, byte for byte, as a body and as an uploaded file."""
    teach(strategy=LocalNode.objects.get(key="fusion-one"))
    client = client_as("curator")
    exported = client.get(f"/api/banks/{bank.pk}/export/")
    assert exported["Content-Disposition"] == 'attachment; filename="small.json"'
    text = exported.content.decode()
    made = client.post("/api/banks/import/?name=Second", data=text, content_type="application/json")
    assert made.status_code == 201, made.content
    again = client.get(f"/api/banks/{made.json()['id']}/export/").content.decode()
    assert again == text.replace('"name": "Small"', '"name": "Second"')
    upload = SimpleUploadedFile("bank.json", text.encode())
    made = client.post("/api/banks/import/?name=Third", {"file": upload}, format="multipart")
    assert made.status_code == 201, made.content
    assert made.json()["evidence_count"] == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (json.dumps(bank_data(schema_version=2)), "$.schema_version"),
        (json.dumps(bank_data()), "$.name"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested"),
    ],
)
def test_unusable_file_is_refused(bank, client_as, body, says):
    """A bad file gets its sentence, and nothing is saved."""
    answer = client_as("curator").post("/api/banks/import/", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert says in answer.json()["detail"]
    assert MemoryBank.objects.count() == 1


def test_clone_is_independent(bank, teach, client_as):
    """A copy starts with the same numbers and goes its own way."""
    teach()
    client = client_as("curator")
    copy = client.post(f"/api/banks/{bank.pk}/clone/", {"name": "Copy"}, format="json").json()
    teach()
    assert MemoryBank.objects.get(pk=copy["id"]).evidence.count() == 1
    assert client.post(f"/api/banks/{bank.pk}/clone/", {"name": "Copy"}, format="json").status_code == 400


def test_bank_can_be_frozen(bank, teach, client_as):
    """Freezing is a curator's switch, and runs obey it at once."""
    answer = client_as("curator").patch(
        f"/api/banks/{bank.pk}/", {"frozen": True, "version": 1}, format="json"
    )
    assert answer.json()["frozen"] is True
    assert teach().frozen
