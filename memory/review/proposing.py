"""Proposing: a suggestion becomes a waiting proposal, or adds its evidence to the one that waits already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from memory.history import Frozen, Recorder, locked
from memory.history.decisions import UNDECIDED, WITHDRAWN, decide
from memory.models import (
    ChangeKind,
    GlobalNode,
    LocalNode,
    MemoryBank,
    Proposal,
    ProposalKind,
    ProposalStatus,
    TransitionEdge,
)
from memory.review.checking import checked_edge, checked_edit, checked_strategy, part_of, without_ends
from memory.review.deciding import accept
from memory.review.policy import OFF, AutoAccept
from memory.review.similar import described_by


@dataclass(frozen=True)
class Suggestion:
    """What a run would change, and why.

    ``fields`` are as REST takes them: of a new strategy under ``direction``; of ``strategy``, ``direction`` or
    ``edge`` to edit; of a transition, ``source`` (id, None out of START) and ``target`` among them, with ``edge``
    where a run walked it already. ``fingerprint`` is the same for suggestions that ask for the same.
    ``evidence`` holds ids of rows that speak for it.
    """

    kind: str  # ProposalKind
    title: str
    rationale: str
    fields: Mapping[str, Any]
    fingerprint: str
    evidence: Sequence[int]
    direction: GlobalNode | None = None
    strategy: LocalNode | None = None
    edge: TransitionEdge | None = None
    proposer: str = ""
    run_id: int | None = None
    step_id: int | None = None


def propose(bank: MemoryBank, suggestion: Suggestion, auto: AutoAccept = OFF) -> Proposal | None:
    """Put the suggestion into the review queue, and accept it where ``auto`` allows that.

    A suggestion that waits already gains the evidence and the newer words. None where nothing was proposed: one
    that was decided is not made again, nor a strategy that a stored one describes. Raises Frozen, and BadFields
    for fields that a person could not save either.
    """
    with transaction.atomic():
        row = locked(bank)
        if row.frozen:
            raise Frozen(row)
        known = _same(row, suggestion)
        if known is None:
            if suggestion.kind == ProposalKind.STRATEGY and _described(suggestion):
                return None
            known = _new(row, suggestion)
        elif known.status == ProposalStatus.WITHDRAWN:
            _announce(row, known, suggestion)
        if known.status != ProposalStatus.PENDING:
            return None
        _refresh(known, suggestion)
        known.evidence.add(*suggestion.evidence)
        if auto.allows(known):
            reason = f"By the run's policy: {auto.mode}, from {auto.evidence} confirmed steps on."
            accept(known, reason=reason, auto=True, run_id=suggestion.run_id, step_id=suggestion.step_id)
            known.refresh_from_db()
        return known


def _same(bank: MemoryBank, suggestion: Suggestion) -> Proposal | None:
    """The stored proposal that asks for the same: by fingerprint, of new strategies also by their words."""
    rows = Proposal.objects.select_for_update().filter(bank=bank)
    known = rows.filter(fingerprint=suggestion.fingerprint).first()
    if known is not None or suggestion.kind != ProposalKind.STRATEGY:
        return known
    others = rows.filter(kind=ProposalKind.STRATEGY, direction=suggestion.direction).order_by("pk")
    return next((other for other in others if described_by(suggestion.fields, other.changes)), None)


def _described(suggestion: Suggestion) -> bool:
    strategies = LocalNode.objects.filter(direction=suggestion.direction).order_by("pk")
    stored = strategies.values("title", "edit_pattern", "recipe")
    return any(described_by(suggestion.fields, fields) for fields in stored)


def _new(bank: MemoryBank, suggestion: Suggestion) -> Proposal:
    fields = dict(suggestion.fields)
    if suggestion.kind == ProposalKind.STRATEGY:
        assert suggestion.direction is not None, "a new strategy stands under a direction"
        checked_strategy(suggestion.direction, fields)
    elif suggestion.kind == ProposalKind.EDGE and suggestion.edge is None:
        checked_edge(bank.pk, fields)
    else:
        checked_edit(part_of(suggestion), without_ends(fields))
    proposal = Proposal.objects.create(
        bank=bank,
        kind=suggestion.kind,
        title=suggestion.title[:200],
        rationale=suggestion.rationale,
        direction=suggestion.direction,
        strategy=suggestion.strategy,
        edge=suggestion.edge,
        changes=fields,
        proposer=suggestion.proposer,
        run_id=suggestion.run_id,
        step_id=suggestion.step_id,
        fingerprint=suggestion.fingerprint[:200],
    )
    _announce(bank, proposal, suggestion)
    return proposal


def _announce(bank: MemoryBank, proposal: Proposal, suggestion: Suggestion) -> None:
    """Note in the ledger that the run proposed; undoing that withdraws the proposal."""
    recorder = Recorder(
        bank,
        ChangeKind.PROPOSED,
        run_id=suggestion.run_id,
        step_id=suggestion.step_id,
        proposal=proposal,
        facts={"title": proposal.title},
    )
    decide(recorder, proposal, UNDECIDED, WITHDRAWN)


def _refresh(proposal: Proposal, suggestion: Suggestion) -> None:
    """Newer figures in the words; of an edit also in its fields. The key of a new strategy stays."""
    proposal.rationale = suggestion.rationale
    if proposal.kind == ProposalKind.EDIT:
        proposal.title, proposal.changes = suggestion.title[:200], dict(suggestion.fields)
    proposal.save(update_fields=["rationale", "title", "changes"])
