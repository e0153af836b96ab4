"""Directions, strategies and edges over REST: roles, versions, validation, creation, filters."""

from __future__ import annotations

import pytest

from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from tests.memory.conftest import bank_data

pytestmark = pytest.mark.django_db


def paths(bank: MemoryBank) -> list[str]:
    direction = GlobalNode.objects.get(bank=bank, key="fusion")
    strategy = LocalNode.objects.filter(direction=direction).first()
    edge = TransitionEdge.objects.filter(bank=bank).first()
    return [
        f"/api/banks/{bank.pk}/", f"/api/directions/{direction.pk}/", f"/api/strategies/{strategy.pk}/",
        f"/api/edges/{edge.pk}/",
    ]  # fmt: skip


READ = ["/api/banks/", "/api/directions/", "/api/strategies/", "/api/edges/", "/api/evidence/"]


@pytest.mark.parametrize(
    ("role", "read", "write"),
    [
        ("", {401, 403}, {401, 403}),
        ("none", {403}, {403}),
        ("viewer", {200}, {403}),
        ("operator", {200}, {403}),
        ("curator", {200}, {200}),
    ],
)
def test_roles(bank, teach, client_as, role, read, write):
    """Any role reads, only curators write, nobody else sees a thing; on every route of the memory."""
    evidence = teach().evidence_id
    client = client_as(role)
    for path in [*READ, *paths(bank), f"/api/banks/{bank.pk}/graph/", f"/api/banks/{bank.pk}/export/"]:
        assert client.get(path).status_code in read, path
    for path in paths(bank):
        assert client.patch(path, {"version": 1}, format="json").status_code in write, path
    exclusion = {"excluded": True, "excluded_reason": "clock drift"}
    assert client.patch(f"/api/evidence/{evidence}/", exclusion, format="json").status_code in write
    made = {201} if write == {200} else write
    assert client.post("/api/banks/", {"name": "Mine"}, format="json").status_code in made
    assert client.post("/api/banks/import/", bank_data(name="In"), format="json").status_code in made
    assert client.post(f"/api/banks/{bank.pk}/clone/", {"name": "Copy"}, format="json").status_code in made
    node = {"bank": bank.pk, "key": "new", "title": "New", "intent": "Try."}
    assert client.post("/api/directions/", node, format="json").status_code in made


def test_nothing_is_deleted(bank, client_as):
    """Parts retire; evidence and statistics keep what they refer to."""
    client = client_as("curator")
    for path in paths(bank):
        assert client.delete(path).status_code == 405


def test_save_raises_version_and_names_the_author(bank, client_as):
    """A change is stored with who made it."""
    node = GlobalNode.objects.get(key="fusion")
    answer = client_as("curator").patch(
        f"/api/directions/{node.pk}/",
        {"version": 1, "prior_utility": 0.6, "goals": ["One launch."]},
        format="json",
    )
    assert answer.status_code == 200
    node.refresh_from_db()
    assert (node.version, node.prior_utility, node.goals) == (2, 0.6, ["One launch."])
    assert answer.json()["updated_by"] == "a-curator"


@pytest.mark.parametrize("kind", ["directions", "strategies", "edges"])
def test_stale_save_gets_the_newer_text(bank, client_as, kind):
    """Two people edit one part: the second is shown the first one's text, and nothing is overwritten."""
    path = {"directions": paths(bank)[1], "strategies": paths(bank)[2], "edges": paths(bank)[3]}[kind]
    client = client_as("curator")
    assert client.patch(path, {"version": 1, "prior_utility": 0.7}, format="json").status_code == 200
    stale = client.patch(path, {"version": 1, "prior_utility": -0.7}, format="json")
    assert stale.status_code == 409
    found = stale.json()
    assert set(found) == {"detail", "current", "changes", "yours"}
    assert (found["current"]["prior_utility"], found["current"]["version"]) == (0.7, 2)
    (between,) = found["changes"]
    assert (between["by"], between["fields"][0]["after"]) == ("a-curator", 0.7)
    assert found["yours"]["prior_utility"] == -0.7
    assert client.get(path).json()["prior_utility"] == 0.7


def test_save_must_name_its_version(bank, client_as):
    """A save that does not say what it edited is no save."""
    answer = client_as("curator").patch(paths(bank)[1], {"prior_utility": 0.5}, format="json")
    assert answer.status_code == 400
    assert "version" in answer.json()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("prior_utility", 1.4, "prior_utility must be a number between -1 and 1."),
        ("prior_utility", "nan", "prior_utility must be a number between -1 and 1."),
        ("prior_utility", True, "prior_utility must be a number between -1 and 1."),
        ("triggers", [{"fact": "moon", "op": "true"}], "triggers[0].fact"),
        ("triggers", [{"fact": "rows", "op": "ge", "value": "many"}], "triggers[0].value"),
        ("triggers", {"fact": "rows"}, "triggers"),
        ("goals", [1], "goals[0]"),
        ("goals", ["a\x00b"], "NUL"),
        ("x", "inf", "x must be a number between -1000000 and 1000000 pixels."),
        ("title", "", "title"),
        ("key", "other", "key cannot change"),
    ],
)
def test_bad_value_is_refused_by_name(bank, client_as, field, value, says):
    """The answer names the field and its range; nothing is saved."""
    answer = client_as("curator").patch(paths(bank)[1], {"version": 1, field: value}, format="json")
    assert answer.status_code == 400
    assert field in answer.json()
    assert says in str(answer.json())
    assert GlobalNode.objects.get(key="fusion").version == 1


def test_strategy_is_created_under_its_direction(bank, client_as):
    """A new strategy arrives with version 1 and no statistics."""
    direction = GlobalNode.objects.get(key="fusion")
    data = {
        "direction": direction.pk, "key": "epilogue", "title": "Epilogue", "edit_pattern": "Fold it in.",
        "applies_when": "A point-wise tail.", "conditions": [{"fact": "launches", "op": "ge", "value": 2}],
        "recipe": {"move": "fuse_epilogue"}, "prior_utility": 0.3,
    }  # fmt: skip
    client = client_as("curator")
    answer = client.post("/api/strategies/", data, format="json")
    assert answer.status_code == 201, answer.json()
    assert (answer.json()["version"], answer.json()["statistics"]["tries"]) == (1, 0)
    assert client.post("/api/strategies/", data, format="json").status_code == 400


@pytest.mark.parametrize("recipe", [{"width": 4}, {"move": "Rm -rf"}, [1], {"move": "x", "deep": {"a": 1}}])
def test_bad_recipe_is_refused(bank, client_as, recipe):
    """A recipe names a move and plain arguments."""
    answer = client_as("curator").patch(paths(bank)[2], {"version": 1, "recipe": recipe}, format="json")
    assert answer.status_code == 400
    assert "recipe" in answer.json()


def test_edges_join_directions_of_one_bank_once(bank, client_as):
    """No second edge for a pair, none across banks; out of START the source is null."""
    client = client_as("curator")
    reuse = GlobalNode.objects.get(key="reuse")
    first = client.post("/api/edges/", {"bank": bank.pk, "source": None, "target": reuse.pk}, format="json")
    assert first.status_code == 201, first.json()
    assert first.json()["source_key"] == "START"
    again = client.post("/api/edges/", {"bank": bank.pk, "target": reuse.pk}, format="json")
    assert again.status_code == 400
    other = MemoryBank.objects.create(name="Other")
    foreign = GlobalNode.objects.create(bank=other, key="far", title="Far", intent="Far.")
    answer = client.post(
        "/api/edges/", {"bank": bank.pk, "source": foreign.pk, "target": reuse.pk}, format="json"
    )
    assert answer.status_code == 400
    assert "source" in answer.json()


def test_lists_filter_and_refuse_nonsense(bank, client_as):
    """Filters are ids; a word is answered with what was expected."""
    client = client_as("viewer")
    direction = GlobalNode.objects.get(key="fusion")
    rows = client.get("/api/strategies/", {"direction": direction.pk}).json()
    assert {row["direction_key"] for row in rows["results"]} == {"fusion"}
    assert client.get("/api/edges/", {"bank": bank.pk, "target": direction.pk}).json()["count"] == 1
    assert client.get("/api/strategies/", {"direction": "x"}).status_code == 400
    assert client.get("/api/directions/", {"retired": "true"}).json()["count"] == 0
    assert client.get("/api/directions/", {"retired": "perhaps"}).status_code == 400


def test_statistics_follow_the_context(bank, teach, client_as):
    """The same node looks different from another device: its evidence weighs less there."""
    for _ in range(5):
        teach(place=0, utility=1.0)
    client = client_as("viewer")
    path = paths(bank)[1]
    pooled = client.get(path).json()["statistics"]
    near = client.get(path, {"device": "cuda:H200"}).json()["statistics"]
    far = client.get(path, {"device": "opencl:PoCL"}).json()["statistics"]
    assert pooled["utility"] == near["utility"] > far["utility"] > 0.1
    assert pooled["tries"] == far["tries"] == 5
    assert pooled["improve_rate"] == 1.0
    assert pooled["utility_low"] < pooled["utility"] < pooled["utility_high"] <= 1.0


def test_detail_shows_the_trend(bank, teach, client_as, django_assert_num_queries):
    """The newest counted steps, oldest first, on the detail only; excluded ones are not part of it."""
    for number in range(4):
        teach(utility=0.1 * number)
    Evidence.objects.filter(utility=0.0).update(excluded=True)
    client = client_as("viewer")
    path = paths(bank)[1]
    with django_assert_num_queries(4):
        recent = client.get(path).json()["recent"]
    assert [row["utility"] for row in recent] == pytest.approx([0.1, 0.2, 0.3])
    assert client.get("/api/directions/").json()["results"][0]["recent"] is None


@pytest.mark.parametrize("kind", ["directions", "strategies", "edges"])
def test_list_query_count_does_not_grow(bank, teach, client_as, django_assert_num_queries, kind):
    """Roles, count, rows and their totals: four queries however many rows there are."""
    teach()
    client = client_as("viewer")
    direction = GlobalNode.objects.get(key="fusion")
    for size in (40, 80):
        with django_assert_num_queries(4):
            assert client.get(f"/api/{kind}/?limit=500").status_code == 200
        LocalNode.objects.bulk_create(
            LocalNode(direction=direction, key=f"s{size}-{n}", title="S", edit_pattern="E", applies_when="A")
            for n in range(size)
        )
