"""History over REST: who changed what and why, the past of a graph, differences, undo."""

from __future__ import annotations

import pytest

from memory.models import Change, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge

pytestmark = pytest.mark.django_db


def edit(client, node, **values):
    node.refresh_from_db()
    answer = client.patch(f"/api/directions/{node.pk}/", {"version": node.version, **values}, format="json")
    assert answer.status_code == 200, answer.content
    return Change.objects.latest("pk").pk


def history(client, bank, **query):
    answer = client.get(f"/api/banks/{bank.pk}/history/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


@pytest.fixture
def fusion(bank) -> GlobalNode:
    return GlobalNode.objects.get(key="fusion")


def test_history_says_who_why_before_and_after(bank, fusion, teach, client_as):
    """The list tells each change in words; its detail holds every field before and after."""
    client = client_as("curator")
    edit(client, fusion, prior_utility=0.4, reason="measured on two devices")
    teach(run_id=7)
    teach(run_id=7)
    rows = history(client, bank)
    assert [row["kind"] for row in rows] == ["learned", "edited", "imported"]
    learned, edited, _ = rows
    assert (learned["run"], learned["by"], learned["evidence_rows"]) == (7, None, 2)
    assert learned["sentence"] == "Run 7 taught 2 evidence rows."
    assert (edited["by"], edited["reason"]) == ("a-curator", "measured on two devices")
    assert edited["items"] == [
        {
            "kind": "direction",
            "id": fusion.pk,
            "label": "fusion",
            "status": "changed",
            "fields": ["prior_utility"],
        }
    ]
    detail = client.get(f"/api/changes/{edited['id']}/").json()
    (row,) = detail["diff"]
    assert row["fields"] == [{"field": "prior_utility", "before": 0.1, "after": 0.4}]
    assert detail["conflicts"] == []


def test_history_filters(bank, fusion, teach, client_as):
    """Each filter narrows to what it names, and a word that is none is refused by its parameter."""
    client = client_as("curator")
    reuse = GlobalNode.objects.get(key="reuse")
    first = edit(client, fusion, prior_utility=0.4)
    second = edit(client, reuse, title="Re-use")
    teach(run_id=3)

    def ids(**query):
        return [row["id"] for row in history(client, bank, **query)]

    assert ids(direction=fusion.pk) == [first]
    assert ids(direction=reuse.pk) == [second]
    assert ids(user="a-curator") == [second, first]
    assert len(ids(run=3)) == len(ids(by="runs")) == 1
    assert ids(kind="edited", after=first) == [second]
    for query in ({"kind": "painted"}, {"by": "cats"}, {"direction": "x"}):
        answer = client.get(f"/api/banks/{bank.pk}/history/", query)
        assert answer.status_code == 400
        assert set(answer.json()) == set(query)


def test_history_page_takes_a_fixed_number_of_queries(bank, fusion, client_as, django_assert_num_queries):
    """A page of changes costs the same however many it holds."""
    client = client_as("curator")
    for title in ("A", "B"):
        for number in range(5):
            edit(client, fusion, title=f"{title}{number}")
        with django_assert_num_queries(7):
            history(client, bank)


def test_graph_at_a_moment(bank, fusion, teach, client_as):
    """The slider shows the bank as a change left it: priors, evidence and parts of that time, not to be saved."""
    client = client_as("curator")
    start = client.get(f"/api/banks/{bank.pk}/timeline/").json()["changes"][0]["id"]
    teach(run_id=1, utility=1.0)
    change = edit(client, fusion, prior_utility=0.9)
    teach(run_id=2, utility=-1.0, direction="reuse", source="reuse")

    def fusion_at(**query):
        graph = client.get(f"/api/banks/{bank.pk}/graph/", query).json()
        node = next(row for row in graph["directions"] if row["key"] == "fusion")
        return graph, (node["prior_utility"], node["tries"], node["version"])

    now, here = fusion_at()
    then, there = fusion_at(at=change)
    begin, first = fusion_at(at=start)
    assert (now["at"], here) == (None, (0.9, 1, 2))
    assert (then["at"]["change"], there) == (change, (0.9, 1, None))
    assert first == (0.1, 0, None)
    pairs = [(edge["source"], edge["target"]) for edge in now["edges"]]
    assert ("reuse", "reuse") in pairs
    assert [(edge["source"], edge["target"]) for edge in then["edges"]] == [
        pair for pair in pairs if pair != ("reuse", "reuse")
    ]
    assert len(begin["edges"]) == 4
    bad = client.get(f"/api/banks/{bank.pk}/graph/", {"at": "yesterday"})
    assert bad.status_code == 400
    assert "no moment" in bad.json()["detail"]


def test_timeline_marks_every_change(bank, fusion, teach, client_as):
    """The slider has a mark for each change, oldest first, and knows where the history begins."""
    client = client_as("curator")
    change = edit(client, fusion, prior_utility=0.9)
    teach(run_id=4)
    found = client.get(f"/api/banks/{bank.pk}/timeline/").json()
    assert [row["kind"] for row in found["changes"]] == ["imported", "edited", "learned"]
    assert found["count"] == 3
    assert found["changes"][1] == {
        "id": change, "at": found["changes"][1]["at"], "kind": "edited", "by": "a-curator", "run": None,
    }  # fmt: skip
    assert found["begins"] == found["changes"][0]["at"]
    assert found["now"]["evidence"] == Evidence.objects.latest("pk").pk


def test_diff_of_moments_and_of_a_run(bank, fusion, teach, client_as):
    """What happened between two moments, and what one run taught, field by field and in statistics."""
    client = client_as("curator")
    change = edit(client, fusion, prior_utility=0.5)
    teach(run_id=5, utility=1.0, source="fusion")
    found = client.get(f"/api/banks/{bank.pk}/diff/", {"from": "start", "to": change}).json()
    (part,) = found["parts"]
    assert (part["label"], part["fields"]) == (
        "fusion", [{"field": "prior_utility", "before": 0.1, "after": 0.5}],
    )  # fmt: skip
    assert found["statistics"] == []
    taught = client.get(f"/api/banks/{bank.pk}/diff/", {"run": 5}).json()
    assert [(row["label"], row["status"]) for row in taught["parts"]] == [("fusion -> fusion", "added")]
    moved = {row["label"]: (row["before"]["tries"], row["after"]["tries"]) for row in taught["statistics"]}
    assert moved == {"fusion": (0, 1), "fusion -> fusion": (0, 1)}
    assert taught["evidence"] == {"added": 1, "excluded_since": 0}


def test_revert_of_one_change_and_its_redo(bank, fusion, client_as):
    """Undo is a change of its own with its reason; undoing it does the change again."""
    client = client_as("curator")
    change = edit(client, fusion, prior_utility=0.9, title="Fuse")
    undone = client.post(f"/api/changes/{change}/revert/", {"reason": "wrong unit"}, format="json").json()
    fusion.refresh_from_db()
    assert (fusion.prior_utility, fusion.title, fusion.version) == (0.1, "Fusion", 3)
    assert undone["change"]["reverts"] == change
    assert undone["change"]["reason"] == "wrong unit"
    assert client.get(f"/api/changes/{change}/").json()["reverted_by"] == [undone["change"]["id"]]
    client.post(f"/api/changes/{undone['change']['id']}/revert/", {}, format="json")
    fusion.refresh_from_db()
    assert (fusion.prior_utility, fusion.title) == (0.9, "Fuse")


def test_revert_names_later_changes_in_the_way(bank, fusion, client_as):
    """409 lists what builds on the change; another field of the same part does not."""
    client = client_as("curator")
    change = edit(client, fusion, prior_utility=0.9)
    later = edit(client, fusion, prior_utility=0.7)
    edit(client, fusion, title="Other")
    answer = client.post(f"/api/changes/{change}/revert/", {}, format="json")
    assert answer.status_code == 409
    assert [row["id"] for row in answer.json()["changes"]] == [later]
    fusion.refresh_from_db()
    assert fusion.prior_utility == 0.7


def test_what_cannot_be_undone_says_so(bank, teach, client_as):
    """How the bank came to be, and what runs taught, have other ways."""
    client = client_as("curator")
    teach(run_id=2)
    for kind, says in (("imported", "nothing before it"), ("learned", "exclude the evidence")):
        change = Change.objects.get(bank=bank, kind=kind)
        answer = client.post(f"/api/changes/{change.pk}/revert/", {}, format="json")
        assert (answer.status_code, says in answer.json()["detail"]) == (400, True)


def test_revert_to_a_moment(bank, fusion, teach, client_as):
    """All later changes go at once; later evidence stays or is excluded, as asked; one undo brings them back."""
    client = client_as("curator")
    change = edit(client, fusion, prior_utility=0.9)
    made = client.post(
        "/api/directions/", {"bank": bank.pk, "key": "new", "title": "New", "intent": "I."}, format="json"
    )
    assert made.status_code == 201
    edit(client, fusion, prior_utility=0.2)
    teach(run_id=9)
    path = f"/api/banks/{bank.pk}/revert/"
    stale = client.post(path, {"to": str(change), "seen": change}, format="json")
    assert stale.status_code == 409
    assert len(stale.json()["changes"]) == 3
    done = client.post(
        path, {"to": str(change), "evidence": "exclude", "reason": "bad day"}, format="json"
    ).json()
    fusion.refresh_from_db()
    assert fusion.prior_utility == 0.9
    assert not GlobalNode.objects.filter(bank=bank, key="new").exists()
    assert Evidence.objects.get(run_id=9).excluded_reason == "bad day"
    again = client.post(f"/api/changes/{done['change']['id']}/revert/", {}, format="json")
    assert again.status_code == 200, again.content
    fusion.refresh_from_db()
    assert fusion.prior_utility == 0.2
    assert GlobalNode.objects.get(bank=bank, key="new").pk == made.json()["id"]
    assert not Evidence.objects.get(run_id=9).excluded
    assert client.post(path, {"to": "never"}, format="json").status_code == 400


def test_exclusion_and_its_reversal(bank, teach, client_as):
    """A run's rows stop counting with a reason and a name, come back, and both stand in the history."""
    client = client_as("curator")
    teach(run_id=6, utility=1.0)
    teach(run_id=6, utility=1.0)
    teach(run_id=8, utility=-1.0)

    def tries():
        return client.get(f"/api/banks/{bank.pk}/graph/").json()["directions"][1]["tries"]

    assert client.post("/api/evidence/exclude/", {"run": 6}, format="json").status_code == 400
    assert client.post("/api/evidence/exclude/", {"reason": "why"}, format="json").status_code == 400
    out = client.post("/api/evidence/exclude/", {"run": 6, "reason": "clock drift"}, format="json").json()
    assert (out["rows"], tries()) == (2, 1)
    row = client.get("/api/evidence/", {"run": 6, "excluded": "true"}).json()["results"][0]
    assert (row["excluded_reason"], row["excluded_by"]) == ("clock drift", "a-curator")
    (change,) = out["changes"]
    assert change["sentence"] == "Excluded 2 evidence rows."
    back = client.post(f"/api/changes/{change['id']}/revert/", {}, format="json")
    assert (back.status_code, tries()) == (200, 3)
    client.post("/api/evidence/exclude/", {"run": 6, "reason": "again"}, format="json")
    into = client.post("/api/evidence/include/", {"run": 6, "reason": "measured anew"}, format="json").json()
    assert (into["rows"], tries()) == (2, 3)
    assert history(client, bank, kind="included")[0]["reason"] == "measured anew"


def test_numbers_opened(bank, teach, client_as):
    """The drawer's figures add up: prior weight, evidence, posterior, who set the prior, the breakdowns."""
    client = client_as("curator")
    fusion = GlobalNode.objects.get(key="fusion")
    edit(client, fusion, prior_utility=0.3, reason="from a paper")
    strategy = LocalNode.objects.get(key="fusion-one")
    teach(strategy=strategy, utility=1.0, human_touched=True)
    teach(place=1, strategy=strategy, utility=0.0, improved=False)
    found = client.get(f"/api/directions/{fusion.pk}/numbers/").json()
    assert found["prior"]["weight"] == pytest.approx(4 / 6)
    assert (found["prior"]["set"]["by"], found["prior"]["set"]["reason"]) == ("a-curator", "from a paper")
    assert found["evidence"] == {"tries": 2, "n": 2.0, "excluded": 0, "mean_utility": 0.5}
    assert found["posterior"]["utility"] == pytest.approx((4 * 0.3 + 1.0) / 6)
    assert {row["value"]: row["tries"] for row in found["by"]["device"]} == {"cuda:H200": 1, "cuda:A100": 1}
    assert {row["value"]: row["tries"] for row in found["by"]["human_touched"]} == {True: 1, False: 1}
    assert found["trend"][-1]["posterior"] == pytest.approx(found["posterior"]["utility"])
    rows = client.get(found["steps"]).json()
    assert rows["count"] == 2
    for path in (
        f"strategies/{strategy.pk}",
        f"edges/{TransitionEdge.objects.get(source=None, target=fusion).pk}",
    ):
        assert client.get(f"/api/{path}/numbers/").json()["evidence"]["tries"] == 2


def test_frozen_bank_refuses_every_change(bank, fusion, teach, client_as):
    """Nothing of a frozen bank can be changed, each refusal is 409 and says so; thawing is the one way out."""
    client = client_as("curator")
    teach(run_id=1)
    change = edit(client, fusion, prior_utility=0.2)
    strategies = list(LocalNode.objects.filter(direction=fusion).order_by("key"))
    other = MemoryBank.objects.create(name="Other")
    path = f"/api/banks/{bank.pk}/"
    assert client.patch(path, {"version": 1, "frozen": True}, format="json").status_code == 200
    merge = {"version": 1, "other": strategies[1].pk, "other_version": 1}
    reuse = GlobalNode.objects.get(key="reuse").pk
    for address, body in [
        (f"/api/changes/{change}/revert/", {}),
        (f"{path}revert/", {"to": "start"}),
        (f"{path}merge/", {"other": other.pk, "take": []}),
        ("/api/evidence/exclude/", {"run": 1, "reason": "r"}),
        (f"/api/strategies/{strategies[0].pk}/merge/", merge),
        (f"/api/strategies/{strategies[0].pk}/move/", {"version": 1, "direction": reuse}),
        (f"/api/strategies/{strategies[0].pk}/split/", {"version": 1, "new": {"key": "k", "title": "K"}}),
        ("/api/directions/", {"bank": bank.pk, "key": "n", "title": "N", "intent": "I."}),
    ]:
        answer = client.post(address, body, format="json")
        assert (answer.status_code, answer.json().get("frozen")) == (409, True), (address, answer.content)
    patched = client.patch(f"/api/directions/{fusion.pk}/", {"version": 2, "title": "T"}, format="json")
    assert (patched.status_code, patched.json()["frozen"]) == (409, True)
    renamed = client.patch(path, {"version": 2, "name": "N"}, format="json")
    assert (renamed.status_code, renamed.json()["frozen"]) == (409, True)
    assert client.patch(path, {"version": 2, "frozen": False}, format="json").status_code == 200
    assert edit(client, fusion, title="T")


def test_two_people_edit_a_bank(bank, client_as):
    """A stale rename gets the stored bank beside one's own, and overwrites nothing."""
    client = client_as("curator")
    path = f"/api/banks/{bank.pk}/"
    assert client.patch(path, {"version": 1, "description": "Mine."}, format="json").status_code == 200
    stale = client.patch(path, {"version": 1, "description": "Yours."}, format="json")
    assert stale.status_code == 409
    assert stale.json()["current"]["description"] == "Mine."
    assert stale.json()["yours"]["description"] == "Yours."
    assert stale.json()["changes"][0]["by"] == "a-curator"
