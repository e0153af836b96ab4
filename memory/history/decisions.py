"""Decisions on proposals in the ledger: each with the proposal's state before and after, so that it is undone with
the change that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memory.history.moments import Moment
from memory.history.recording import Recorder
from memory.models import Change, Proposal, ProposalStatus

STATE = ("status", "decided_by_id", "decided_at", "decision_reason", "decided_changes", "auto")
UNDECIDED: dict[str, Any] = {
    "status": ProposalStatus.PENDING.value,
    "decided_by_id": None,
    "decided_at": None,
    "decision_reason": "",
    "decided_changes": None,
    "auto": False,
}
WITHDRAWN = {**UNDECIDED, "status": ProposalStatus.WITHDRAWN.value}


def state_of(proposal: Proposal) -> dict[str, Any]:
    """What a decision sets, as JSON."""
    state = {name: getattr(proposal, name) for name in STATE}
    at = state["decided_at"]
    return {**state, "status": str(state["status"]), "decided_at": at.isoformat() if at else None}


def decide(
    recorder: Recorder, proposal: Proposal, after: dict[str, Any], before: dict[str, Any] | None = None
) -> None:
    """Put the proposal into the state ``after`` (all of `STATE`), noted in the recorder's change.

    ``before`` stands for its present state where that is no state to go back to.
    """
    old = before or state_of(proposal)
    at = after["decided_at"]
    for name in STATE:
        setattr(proposal, name, after[name])
    proposal.decided_at = datetime.fromisoformat(at) if at else None
    proposal.save(update_fields=[name.removesuffix("_id") for name in STATE])
    change = recorder.change
    entry = {"id": proposal.pk, "before": old, "after": after}
    change.facts = {**change.facts, "proposals": [*change.facts.get("proposals", []), entry]}
    change.save(update_fields=["facts"])


def entries(change: Change) -> list[dict[str, Any]]:
    """The decisions of a change: id of the proposal, state before, state after."""
    return change.facts.get("proposals", [])


def undo_decisions(recorder: Recorder, change: Change) -> None:
    """Put the proposals that ``change`` decided back."""
    for entry in reversed(entries(change)):
        proposal = Proposal.objects.select_for_update().filter(pk=entry["id"]).first()
        if proposal is not None and state_of(proposal) != entry["before"]:
            decide(recorder, proposal, entry["before"])


def later_decisions(change: Change) -> set[int]:
    """Ids of later changes that decided the same proposals otherwise."""
    found: set[int] = set()
    for entry in entries(change):
        proposal = Proposal.objects.filter(pk=entry["id"]).first()
        if proposal is None or state_of(proposal) == entry["after"]:
            continue
        later = decided_since(change.bank_id, change.pk)
        found |= {other.pk for other in later if any(row["id"] == proposal.pk for row in entries(other))}
    return found


def decided_since(bank_id: int, change_id: int) -> Iterator[Change]:
    """Later changes of the bank that decided proposals, newest first."""
    rows = Change.objects.filter(bank=bank_id, pk__gt=change_id, facts__has_key="proposals")
    return rows.order_by("-pk").iterator()


def restore_decisions(recorder: Recorder, moment: Moment) -> None:
    """Take decisions since the moment back. What was proposed since waits: it speaks of evidence, which stays."""
    then: dict[int, dict[str, Any]] = {}
    for change in decided_since(recorder.bank.pk, moment.change):
        for entry in reversed(entries(change)):
            proposed = entry["before"]["status"] == ProposalStatus.WITHDRAWN
            then[entry["id"]] = entry["after"] if proposed else entry["before"]
    for proposal in Proposal.objects.select_for_update().filter(pk__in=list(then)).order_by("pk"):
        if state_of(proposal) != then[proposal.pk]:
            decide(recorder, proposal, then[proposal.pk])
