"""Which of its own proposals a run accepts without a curator."""

from __future__ import annotations

from dataclasses import dataclass

from memory.models import Proposal, ProposalKind

MODES = ("off", "edges", "all")


@dataclass(frozen=True)
class AutoAccept:
    """``mode``: "off", "edges" (transitions only) or "all"; ``evidence``: from how many confirmed steps on."""

    mode: str = "off"
    evidence: int = 3

    def allows(self, proposal: Proposal) -> bool:
        if self.mode == "off" or (self.mode == "edges" and proposal.kind != ProposalKind.EDGE):
            return False
        return confirmed(proposal) >= self.evidence


OFF = AutoAccept()


def confirmed(proposal: Proposal) -> int:
    """Steps that speak for the proposal and count; excluded ones do not."""
    return proposal.evidence.filter(excluded=False).count()
