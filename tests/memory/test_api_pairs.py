"""Two banks over REST: clone, compare, merge what a person chose."""

from __future__ import annotations

import pytest

from memory.models import Evidence, GlobalNode, LocalNode, MemoryBank

pytestmark = pytest.mark.django_db


@pytest.fixture
def curator(client_as):
    return client_as("curator")


@pytest.fixture
def copy(bank, teach, curator) -> MemoryBank:
    """A clone, after one step was taught."""
    teach(strategy=LocalNode.objects.get(key="fusion-one"))
    made = curator.post(f"/api/banks/{bank.pk}/clone/", {"name": "Copy"}, format="json")
    assert made.status_code == 201, made.content
    return MemoryBank.objects.get(pk=made.json()["id"])


def patch(client, node, **values):
    answer = client.patch(f"/api/directions/{node.pk}/", {"version": node.version, **values}, format="json")
    assert answer.status_code == 200, answer.content


def test_clone_keeps_numbers_and_begins_a_history(bank, copy, curator):
    """Same parts, same statistics, its own history, thawed even if the original is frozen."""
    shown = curator.get(f"/api/banks/{copy.pk}/").json()
    assert (shown["cloned_from"], shown["evidence_count"], shown["frozen"]) == (bank.pk, 1, False)

    def figures(pk):
        graph = curator.get(f"/api/banks/{pk}/graph/").json()
        return [
            (row["key"], row["utility"], row["tries"]) for row in graph["directions"] + graph["strategies"]
        ]

    assert figures(copy.pk) == figures(bank.pk)
    rows = curator.get(f"/api/banks/{copy.pk}/history/").json()["results"]
    assert [row["kind"] for row in rows] == ["cloned"]
    assert curator.post(f"/api/banks/{bank.pk}/clone/", {"name": ""}, format="json").status_code == 400


def test_compare_shows_differences_and_conflicts(bank, copy, curator, teach):
    """A field that both changed since the clone is a conflict; one that only one changed is none."""
    patch(curator, bank.directions.get(key="fusion"), title="Here", intent="Same.")
    patch(curator, copy.directions.get(key="fusion"), title="There", intent="Same.")
    patch(curator, copy.directions.get(key="reuse"), prior_utility=0.7)
    teach(direction="access")
    found = curator.get(f"/api/banks/{bank.pk}/compare/", {"with": copy.pk}).json()
    parts = {row["id"]: row for row in found["parts"]}
    assert found["related"] is True
    assert set(parts) == {"direction:fusion", "direction:reuse"}
    assert parts["direction:fusion"]["fields"] == [
        {"field": "title", "here": "Here", "there": "There", "base": "Fusion", "conflict": True}
    ]
    assert (parts["direction:fusion"]["conflict"], parts["direction:reuse"]["conflict"]) == (True, False)
    assert {row["label"] for row in found["statistics"]} == {"START -> access", "access"}
    for query in ({}, {"with": "x"}, {"with": 10**6}):
        assert curator.get(f"/api/banks/{bank.pk}/compare/", query).status_code == 400


def test_merge_takes_what_was_chosen_and_is_undone_at_once(bank, copy, curator, teach):
    """A reviewed diff: only the chosen parts come, with new evidence if asked, as one change of the history."""
    fusion, reuse = (copy.directions.get(key=key) for key in ("fusion", "reuse"))
    patch(curator, fusion, title="Better")
    patch(curator, reuse, title="Not wanted")
    curator.post(
        "/api/strategies/",
        {"direction": fusion.pk, "key": "more", "title": "More", "edit_pattern": "E.", "applies_when": "A."},
        format="json",
    )
    Evidence.objects.filter(bank=copy).update(step_id=999)  # a step that the original has not seen
    path = f"/api/banks/{bank.pk}/merge/"
    body = {"other": copy.pk, "take": ["direction:fusion", "strategy:fusion/more"], "reason": "reviewed"}
    done = curator.post(path, {**body, "versions": {"direction:fusion": 1}}, format="json")
    assert done.status_code == 200, done.content
    assert (done.json()["created"], done.json()["changed"]) == (1, 1)
    assert bank.directions.get(key="fusion").title == "Better"
    assert bank.directions.get(key="reuse").title == "Reuse"
    assert LocalNode.objects.filter(direction__bank=bank, key="more").exists()
    change = done.json()["change"]
    assert (change["kind"], change["reason"], change["by"]) == ("bank_merged", "reviewed", "a-curator")
    undone = curator.post(f"/api/changes/{change['id']}/revert/", {}, format="json")
    assert undone.status_code == 200, undone.content
    assert bank.directions.get(key="fusion").title == "Fusion"
    assert not LocalNode.objects.filter(direction__bank=bank, key="more").exists()


def test_merge_refuses_what_changed_since_the_comparison(bank, copy, curator):
    """A part that somebody saved meanwhile is not overwritten, and nothing else is taken either."""
    patch(curator, copy.directions.get(key="fusion"), title="Better")
    patch(curator, copy.directions.get(key="reuse"), title="Better too")
    patch(curator, bank.directions.get(key="fusion"), title="Meanwhile")
    body = {
        "other": copy.pk,
        "take": ["direction:reuse", "direction:fusion"],
        "versions": {"direction:fusion": 1},
    }
    answer = curator.post(f"/api/banks/{bank.pk}/merge/", body, format="json")
    assert answer.status_code == 400
    assert "direction:fusion" in answer.json()["detail"]
    assert bank.directions.get(key="reuse").title == "Reuse"
    for wrong in ({"other": bank.pk}, {"other": 10**6}, {"other": copy.pk, "take": ["direction:none"]}):
        assert curator.post(f"/api/banks/{bank.pk}/merge/", wrong, format="json").status_code == 400


def test_merge_brings_new_evidence_once(bank, copy, curator):
    """Evidence that the bank lacks comes along and counts; a second merge brings nothing twice."""
    teach_copy(copy)
    before = GlobalNode.objects.get(bank=bank, key="fusion").evidence.filter(excluded=False).count()
    body = {"other": copy.pk, "take": [], "evidence": True}
    done = curator.post(f"/api/banks/{bank.pk}/merge/", body, format="json")
    assert done.json()["evidence"] == 1, done.content
    after = GlobalNode.objects.get(bank=bank, key="fusion").evidence.filter(excluded=False)
    assert after.count() == before + 1
    again = curator.post(f"/api/banks/{bank.pk}/merge/", body, format="json")
    assert again.status_code == 400
    assert after.count() == before + 1


def teach_copy(copy: MemoryBank) -> None:
    from memory.services import record_evidence

    record_evidence(
        copy, direction="fusion", strategy=None, source=None, step_id=500, run_id=50, verdict="correct",
        compiled=True, correct=True, improved=True, utility=0.5, speedup=1.4, device="cuda:H200",
        dtype="float32", family="pointwise", proposer="recipes",
    )  # fmt: skip
