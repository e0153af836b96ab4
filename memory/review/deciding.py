"""Accepting, with or without edits, and rejecting. Each is one change of the bank, and undone like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from memory.history import Conflict, Recorder, Refused, changing, survivor
from memory.history.decisions import decide
from memory.models import (
    Change,
    ChangeKind,
    LocalNode,
    Proposal,
    ProposalKind,
    ProposalStatus,
    TransitionEdge,
)
from memory.review.checking import (
    BadFields,
    checked_edge,
    checked_edit,
    checked_strategy,
    part_of,
    without_ends,
)
from memory.review.policy import confirmed


def accept(
    proposal: Proposal,
    *,
    user: Any = None,
    reason: str = "",
    edits: Mapping[str, Any] | None = None,
    version: int | None = None,
    auto: bool = False,
    run_id: int | None = None,
    step_id: int | None = None,
) -> Change:
    """Apply what is proposed, with ``edits`` in place of its fields; ``proposal`` is reloaded.

    ``version`` is that of the edited part as the person saw it; None takes the part as it is. Raises Conflict
    where it was decided already, Stale, Frozen, BadFields, and Refused where its part is gone or was merged.
    """
    facts = {"title": proposal.title, "evidence": confirmed(proposal)}
    why = {"user": user, "reason": reason, "run_id": run_id, "step_id": step_id, "proposal": proposal}
    try:
        with changing(proposal.bank_id, ChangeKind.ACCEPTED, facts=facts, **why) as recorder:
            _lock_waiting(proposal)
            fields = {**proposal.changes, **(edits or {})}
            edited = fields != proposal.changes
            _apply(recorder, proposal, fields, version)
            status = ProposalStatus.EDITED if edited else ProposalStatus.ACCEPTED
            state = _decided(status, user, reason, fields if edited else None, auto)
            decide(recorder, proposal, state)
            return recorder.change
    except IntegrityError:
        raise BadFields({"key": ["This name is taken by now; give another one."]}) from None


def reject(proposal: Proposal, *, user: Any = None, reason: str = "") -> Change:
    """Decline the proposal; it is not made again. ``proposal`` is reloaded. Raises Conflict, Frozen."""
    facts = {"title": proposal.title}
    why = {"user": user, "reason": reason, "proposal": proposal}
    with changing(proposal.bank_id, ChangeKind.REJECTED, facts=facts, **why) as recorder:
        _lock_waiting(proposal)
        decide(recorder, proposal, _decided(ProposalStatus.REJECTED, user, reason, None, False))
        return recorder.change


def _decided(status: str, user: Any, reason: str, fields: Any, auto: bool) -> dict[str, Any]:
    return {
        "status": str(status),
        "decided_by_id": user.pk if user else None,
        "decided_at": timezone.now().isoformat(),
        "decision_reason": reason,
        "decided_changes": fields,
        "auto": auto,
    }


def _lock_waiting(proposal: Proposal) -> None:
    """Reload the proposal under a lock. Raises Conflict unless it waits."""
    Proposal.objects.select_for_update().get(pk=proposal.pk)
    proposal.refresh_from_db()
    if proposal.status == ProposalStatus.PENDING:
        return
    state = proposal.get_status_display().lower()
    by = f" by {proposal.decided_by.username}" if proposal.decided_by else ""
    made = proposal.applied.select_related("user", "bank").order_by("-pk")[:1]
    raise Conflict(f"This proposal was decided meanwhile: {state}{by}.", list(made))


def _apply(recorder: Recorder, proposal: Proposal, fields: dict[str, Any], version: int | None) -> None:
    if proposal.kind == ProposalKind.STRATEGY:
        if proposal.direction is None:
            raise Refused("The direction that it belongs to is gone.")
        values = checked_strategy(survivor(proposal.direction), fields)
        recorder.create(LocalNode(**values))
    elif proposal.kind == ProposalKind.EDGE:
        _apply_edge(recorder, proposal, fields, version)
    else:
        _edit(recorder, part_of(proposal), fields, version)


def _edit(recorder: Recorder, part: Any, fields: Mapping[str, Any], version: int | None) -> None:
    if reason := merged_away(part):
        raise Refused(reason)
    recorder.edit(part, checked_edit(part, fields), version)


def _apply_edge(recorder: Recorder, proposal: Proposal, fields: dict[str, Any], version: int | None) -> None:
    """Write the texts onto the transition; create it where no run or person did so meanwhile."""
    ends = {"source_id": fields.get("source"), "target_id": fields.get("target")}
    edge = proposal.edge or TransitionEdge.objects.filter(bank=recorder.bank, **ends).first()
    if edge is None:
        recorder.create(TransitionEdge(**checked_edge(recorder.bank.pk, fields)))
        return
    _edit(recorder, edge, without_ends(fields), version)


def merged_away(part: Any) -> str:
    """Why a part cannot be edited, in a sentence; "" where it can."""
    if part is not None and part.merged_into_id is not None:
        return "The part that it would edit was merged into another one; reject it, or undo the merge."
    return ""
