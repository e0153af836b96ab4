"""The review queue: proposals with evidence, decisions as changes that can be undone, a run's own policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.history import Conflict, Frozen, exclude_evidence, parse_moment, revert, revert_to
from memory.models import Change, ChangeItem, Evidence, GlobalNode, LocalNode, Proposal, TransitionEdge
from memory.review import AutoAccept, BadFields, Suggestion, accept, propose, reject
from memory.review.similar import described_by

pytestmark = pytest.mark.django_db

ALL = AutoAccept("all", 1)


@pytest.fixture
def fusion(bank) -> GlobalNode:
    return GlobalNode.objects.get(key="fusion")


@pytest.fixture
def suggest(bank, fusion, teach):
    """A suggestion with one improved step behind it; ``kind`` and fields as told."""
    strategy = LocalNode.objects.get(key="fusion-one")

    def make(kind: str = "edit", **changes: Any) -> Suggestion:
        fields: dict[str, dict[str, Any]] = {
            "edit": {"fields": {"applies_when": "Rows are long."}, "strategy": strategy, "fingerprint": "edit:1"},
            "strategy": {
                "fields": {
                    "key": "wide", "title": "Wide loads", "edit_pattern": "Load eight at once.", "applies_when": "A."
                },
                "direction": fusion,
                "fingerprint": "strategy:fusion/wide",
            },
            "edge": {
                "fields": {"source": fusion.pk, "target": fusion.pk, "rationale": "It paid off."},
                "fingerprint": "edge:fusion->fusion",
            },
        }  # fmt: skip
        step = teach(strategy=strategy, speedup=1.5, run_id=5)
        return Suggestion(
            **{
                "kind": kind, "title": f"An {kind}", "rationale": "Measured.", "evidence": [step.evidence_id],
                "run_id": 5, "step_id": 1, **fields[kind], **changes,
            }
        )  # fmt: skip

    return make


def status(proposal: Proposal) -> str:
    proposal.refresh_from_db()
    return proposal.status


def test_a_proposal_waits_and_changes_nothing(bank, suggest):
    """Until a curator decides, the memory says what it said; the ledger notes who proposed."""
    proposal = propose(bank, suggest("strategy"))
    assert status(proposal) == "pending"
    assert not LocalNode.objects.filter(key="wide").exists()
    change = Change.objects.latest("pk")
    assert (change.kind, change.run_id, change.proposal_id, change.items.count()) == (
        "proposed",
        5,
        proposal.pk,
        0,
    )


def test_the_same_again_adds_evidence_instead_of_a_row(bank, suggest):
    """Duplicates of what waits merge: evidence adds up, newer words win, the queue does not grow."""
    first = propose(bank, suggest("edit"))
    again = propose(bank, suggest("edit", rationale="Newer.", fields={"applies_when": "Rows are very long."}))
    assert again == first
    first.refresh_from_db()
    assert (first.evidence.count(), first.rationale) == (2, "Newer.")
    assert first.changes == {"applies_when": "Rows are very long."}
    assert Change.objects.filter(kind="proposed").count() == 1


def test_other_words_for_the_same_strategy_merge_too(bank, fusion, suggest):
    """A model words one idea differently each time; mostly equal edit patterns are one proposal."""
    fields = {
        "key": "a",
        "title": "Vector loads",
        "edit_pattern": "Load four floats at once as a float4.",
        "applies_when": "A.",
    }
    first = propose(bank, suggest("strategy", fields=fields, fingerprint="strategy:fusion/a"))
    other = {
        **fields,
        "key": "b",
        "title": "Use float4",
        "edit_pattern": "Load four floats at once as one float4.",
    }
    assert propose(bank, suggest("strategy", fields=other, fingerprint="strategy:fusion/b")) == first
    stored = LocalNode.objects.create(
        direction=fusion,
        key="tiles",
        title="Tiles",
        edit_pattern="Stage a tile in shared memory.",
        applies_when="A.",
    )
    known = {**fields, "key": "c", "title": "T", "edit_pattern": "Stage one tile in shared memory."}
    assert propose(bank, suggest("strategy", fields=known, fingerprint="strategy:fusion/c")) is None
    assert stored.proposals.count() == 0


def test_what_was_decided_is_not_proposed_again(bank, suggest):
    """A rejection stays one: neither a new row nor a new state."""
    proposal = propose(bank, suggest("edit"))
    reject(proposal, reason="too vague")
    assert propose(bank, suggest("edit"), ALL) is None
    assert (status(proposal), proposal.evidence.count(), Proposal.objects.count()) == ("rejected", 1, 1)


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("strategy", {"key": "UPPER", "title": "T", "edit_pattern": "E", "applies_when": "A"}, "key:"),
        ("strategy", {"key": "k", "title": "T", "applies_when": "A"}, "edit_pattern:"),
        (
            "strategy",
            {"key": "fusion-one", "title": "T", "edit_pattern": "E", "applies_when": "A"},
            "fusion-one",
        ),
        ("edit", {"risks": "none"}, "risks:"),
        ("edit", {"paint": "blue"}, "paint: There is no such field"),
        ("edit", {"retired": True}, "retired:"),
        ("edge", {"source": None, "target": 10**9}, "target:"),
    ],
)
def test_unusable_fields_are_refused_by_name(bank, suggest, kind, fields, says):
    """What a person could not save, a run cannot propose; nothing of it is stored."""
    with pytest.raises(BadFields, match=says):
        propose(bank, suggest(kind, fields=fields))
    assert Proposal.objects.count() == 0
    assert not Change.objects.filter(kind="proposed").exists()


def test_accepting_each_kind_applies_it(bank, fusion, suggest, django_user_model):
    """A strategy comes to be, an edit is written, a transition gets its words; each is one change by the curator."""
    user = django_user_model.objects.create_user("cora")
    made = {kind: propose(bank, suggest(kind)) for kind in ("strategy", "edit", "edge")}
    for kind, proposal in made.items():
        change = accept(proposal, user=user, reason="good")
        assert (change.kind, change.user, change.reason, change.proposal) == (
            "accepted",
            user,
            "good",
            proposal,
        )
        assert (status(proposal), proposal.decided_by, proposal.auto) == ("accepted", user, False), kind
    assert LocalNode.objects.get(key="wide").direction == fusion
    assert LocalNode.objects.get(key="fusion-one").applies_when == "Rows are long."
    assert TransitionEdge.objects.get(source=fusion, target=fusion).rationale == "It paid off."


def test_accepting_with_edits_keeps_both_versions(bank, suggest):
    """What was proposed and what was applied can be told apart afterwards."""
    proposal = propose(bank, suggest("edit"))
    accept(proposal, edits={"applies_when": "Rows of 4096 and more."})
    assert status(proposal) == "edited"
    assert proposal.changes == {"applies_when": "Rows are long."}
    assert proposal.decided_changes == {"applies_when": "Rows of 4096 and more."}
    assert LocalNode.objects.get(key="fusion-one").applies_when == "Rows of 4096 and more."


def test_a_walked_transition_gets_words_not_a_twin(bank, fusion, suggest, teach):
    """The run made the edge by walking it; accepting describes that edge and counts its evidence no second time."""
    suggestion = suggest("edge")
    teach(direction="fusion", source="fusion")
    edge = TransitionEdge.objects.get(source=fusion, target=fusion)
    accept(propose(bank, replace(suggestion, edge=edge)))
    again = TransitionEdge.objects.get(source=fusion, target=fusion)
    assert (again.pk, again.rationale, again.prior_utility) == (edge.pk, "It paid off.", 0.0)


def test_undoing_an_acceptance_lets_it_wait_again(bank, suggest):
    """One undo takes the change and the decision back; its redo brings both again."""
    for kind in ("strategy", "edit"):
        proposal = propose(bank, suggest(kind))
        change = accept(proposal, reason="good")
        undo, notes = revert(change)
        assert (status(proposal), proposal.decided_by, proposal.decision_reason, notes) == (
            "pending",
            None,
            "",
            [],
        )
        revert(undo)
        assert (status(proposal), proposal.decision_reason) == ("accepted", "good")
    assert LocalNode.objects.filter(key="wide").count() == 1
    assert LocalNode.objects.get(key="fusion-one").applies_when == "Rows are long."


def test_undoing_a_rejection_and_the_proposing(bank, suggest):
    """A rejection undone waits again; proposing undone withdraws, and new evidence brings it back."""
    proposal = propose(bank, suggest("edit"))
    revert(reject(proposal))
    assert status(proposal) == "pending"
    revert(Change.objects.get(kind="proposed"))
    assert status(proposal) == "withdrawn"
    assert propose(bank, suggest("edit")) == proposal
    assert (status(proposal), proposal.evidence.count()) == ("pending", 2)


def test_an_older_decision_is_not_undone_under_a_newer_one(bank, suggest):
    """Proposing cannot be undone once it was accepted: the acceptance is named as what stands in the way."""
    proposal = propose(bank, suggest("edit"))
    change = accept(proposal)
    with pytest.raises(Conflict) as caught:
        revert(Change.objects.get(kind="proposed"))
    assert [other.pk for other in caught.value.changes] == [change.pk]
    assert status(proposal) == "accepted"


def test_going_back_to_a_moment_takes_decisions_back(bank, suggest):
    """The strategy goes and its proposal waits again; what was proposed since waits as well."""
    proposal = propose(bank, suggest("strategy"))
    moment = parse_moment(bank, str(Change.objects.latest("pk").pk))
    accept(proposal)
    later = propose(bank, suggest("edit"))
    reject(later)
    change, _ = revert_to(bank, moment)
    assert (status(proposal), status(later)) == ("pending", "pending")
    assert not LocalNode.objects.filter(key="wide").exists()
    revert(change)
    assert (status(proposal), status(later)) == ("accepted", "rejected")
    assert LocalNode.objects.filter(key="wide").exists()


def test_a_proposal_is_decided_once(bank, suggest):
    """Two curators press a: the second is told, and nothing is applied twice."""
    proposal = propose(bank, suggest("strategy"))
    other = Proposal.objects.get(pk=proposal.pk)
    change = accept(proposal)
    for decide in (accept, reject):
        with pytest.raises(Conflict, match="decided meanwhile: accepted") as caught:
            decide(other)
        assert [made.pk for made in caught.value.changes] == [change.pk]
    assert ChangeItem.objects.filter(label="fusion/wide").count() == 1


def test_frozen_bank_takes_neither_proposals_nor_decisions(bank, suggest):
    """Frozen is frozen, for runs and for curators."""
    proposal, new = propose(bank, suggest("edit")), suggest("strategy")
    type(bank).objects.update(frozen=True)
    for action in (lambda: propose(bank, new), lambda: accept(proposal), lambda: reject(proposal)):
        with pytest.raises(Frozen):
            action()
    assert Proposal.objects.count() == 1


@pytest.mark.parametrize(
    ("mode", "kind", "needed", "becomes"),
    [
        ("off", "edge", 1, "pending"),
        ("edges", "edge", 1, "accepted"),
        ("edges", "edge", 2, "pending"),
        ("edges", "edit", 1, "pending"),
        ("all", "strategy", 1, "accepted"),
        ("all", "edit", 2, "pending"),
    ],
)
def test_auto_accept_keeps_to_its_policy(bank, suggest, mode, kind, needed, becomes):
    """Off accepts nothing, edges only transitions, all everything, each from n confirmed steps on."""
    assert status(propose(bank, suggest(kind), AutoAccept(mode, needed))) == becomes


def test_auto_accept_waits_for_confirmed_steps(bank, suggest):
    """The n-th counted step accepts; an excluded one does not count. The change names the run, not a person."""
    auto = AutoAccept("all", 2)
    first = suggest("edit")
    proposal = propose(bank, first, auto)
    exclude_evidence(first.evidence, "cheat found")
    propose(bank, suggest("edit"), auto)
    assert status(proposal) == "pending"
    propose(bank, suggest("edit"), auto)
    assert (status(proposal), proposal.auto, proposal.decided_by) == ("accepted", True, None)
    change = Change.objects.get(kind="accepted")
    assert (change.user, change.run_id) == (None, 5)
    revert(change)
    assert (status(proposal), proposal.auto) == ("pending", False)


def test_recipes_with_other_parameters_are_other_strategies():
    """Width 4 does not describe width 8, whatever their words; one recipe is one strategy."""
    four = {"title": "Wide", "edit_pattern": "Vectorise.", "recipe": {"move": "vector_width", "width": 4}}
    eight = {**four, "recipe": {"move": "vector_width", "width": 8}}
    assert not described_by(eight, four)
    assert described_by({**four, "title": "Else", "edit_pattern": "Else."}, four)
    assert not described_by(
        {"title": "", "edit_pattern": "One thing."}, {"title": "T", "edit_pattern": "Another."}
    )


# over REST


@pytest.fixture
def waiting(bank, suggest) -> Proposal:
    proposal = propose(bank, suggest("edit"))
    assert proposal is not None
    propose(bank, suggest("edit"))
    return proposal


def test_list_and_detail_show_evidence_with_ratios(bank, waiting, client_as):
    """Whoever reviews sees what is now and what is proposed, and the measured steps behind it."""
    client = client_as("viewer")
    page = client.get("/api/proposals/", {"bank": bank.pk, "status": "pending"}).json()
    assert page["count"] == 1
    detail = client.get(f"/api/proposals/{waiting.pk}/").json()
    assert page["results"] == [detail]
    assert detail["fields"] == [
        {"field": "applies_when", "now": "Always.", "proposed": "Rows are long.", "decided": None}
    ]
    assert (detail["version"], detail["blocked"], detail["strategy"]["key"]) == (1, "", "fusion-one")
    found = detail["evidence"]
    assert (found["rows"], found["confirmed"], found["improved"], found["speedup_median"]) == (2, 2, 2, 1.5)
    assert [row["run"] for row in found["steps"]] == [5, 5]
    assert client.get(found["more"]).json()["count"] == 2
    exclude_evidence(Evidence.objects.filter(pk=found["steps"][0]["evidence"]), "drift")
    again = client.get(f"/api/proposals/{waiting.pk}/").json()["evidence"]
    assert (again["confirmed"], again["excluded"], again["steps"][0]["excluded_reason"]) == (1, 1, "drift")
    assert client.get("/api/banks/").json()["results"][0]["proposals_waiting"] == 1


def test_list_filters_and_query_count(bank, suggest, waiting, client_as, django_assert_num_queries):
    """Filters narrow, unknown words are refused, and a page costs the same however long."""
    client = client_as("viewer")
    reject(propose(bank, suggest("edge")))

    def ids(**query):
        answer = client.get("/api/proposals/", query)
        assert answer.status_code == 200
        return [row["kind"] for row in answer.json()["results"]]

    assert ids(status="pending,rejected") == ["edge", "edit"]
    assert ids(status="rejected") == ids(kind="edge") == ["edge"]
    assert ids(strategy=waiting.strategy_id) == ["edit"]
    assert ids(run=6) == []
    assert client.get("/api/proposals/", {"status": "maybe"}).status_code == 400
    for number in range(2):
        fields = {
            "key": f"s-{number}",
            "title": f"S {number}",
            "edit_pattern": f"P{number}",
            "applies_when": "A.",
        }
        propose(bank, suggest("strategy", fields=fields, fingerprint=f"strategy:{number}"))
        with django_assert_num_queries(6):
            ids()


def test_curator_accepts_with_edits_over_rest(bank, waiting, client_as):
    """The answer holds the decision and the change that undoes it."""
    client = client_as("curator")
    path = f"/api/proposals/{waiting.pk}/accept/"
    bad = client.post(path, {"changes": {"risks": "none"}}, format="json")
    assert (bad.status_code, "risks" in bad.json()["changes"]) == (400, True)
    body = {"changes": {"applies_when": "Long rows."}, "version": 1, "reason": "clearer"}
    done = client.post(path, body, format="json")
    assert done.status_code == 200, done.content
    proposal, change = done.json()["proposal"], done.json()["change"]
    assert (proposal["status"], proposal["decided_by"], proposal["decision_reason"]) == (
        "edited",
        "a-curator",
        "clearer",
    )
    assert proposal["fields"][0]["decided"] == "Long rows."
    assert proposal["applied"][-1] == change["id"]
    assert change["sentence"] == "Accepted: An edit (2 confirmed steps)."
    again = client.post(path, body, format="json")
    assert (again.status_code, again.json()["changes"][0]["id"]) == (409, change["id"])
    assert client.post(f"/api/changes/{change['id']}/revert/", {}, format="json").status_code == 200
    assert client.get(f"/api/proposals/{waiting.pk}/").json()["status"] == "pending"


def test_accepting_an_edit_of_a_part_that_changed_meanwhile(waiting, client_as):
    """A stale review gets the newer part, and the proposal still waits."""
    client = client_as("curator")
    part = f"/api/strategies/{waiting.strategy_id}/"
    assert client.patch(part, {"version": 1, "applies_when": "Mine."}, format="json").status_code == 200
    path = f"/api/proposals/{waiting.pk}/accept/"
    stale = client.post(path, {"version": 1}, format="json")
    assert stale.status_code == 409
    assert (stale.json()["current"]["applies_when"], stale.json()["current"]["version"]) == ("Mine.", 2)
    assert client.get(f"/api/proposals/{waiting.pk}/").json()["status"] == "pending"
    assert client.post(path, {"version": 2}, format="json").status_code == 200


def test_curator_rejects_over_rest(waiting, client_as):
    """With a reason, and with a change that can be reverted."""
    client = client_as("curator")
    done = client.post(f"/api/proposals/{waiting.pk}/reject/", {"reason": "noise"}, format="json").json()
    assert (done["proposal"]["status"], done["change"]["kind"], done["change"]["reason"]) == (
        "rejected",
        "rejected",
        "noise",
    )
    assert client_as("operator").post(f"/api/proposals/{waiting.pk}/reject/").status_code == 403


def test_a_proposal_for_a_merged_part_says_it_is_blocked(bank, waiting, client_as):
    """It cannot be accepted before the merge is undone, and says so beforehand."""
    client = client_as("curator")
    other = LocalNode.objects.get(key="fusion-two")
    body = {"version": 1, "other": waiting.strategy_id, "other_version": 1}
    assert client.post(f"/api/strategies/{other.pk}/merge/", body, format="json").status_code == 200
    assert "was merged" in client.get(f"/api/proposals/{waiting.pk}/").json()["blocked"]
    answer = client.post(f"/api/proposals/{waiting.pk}/accept/", {}, format="json")
    assert (answer.status_code, "was merged" in answer.json()["detail"]) == (400, True)
