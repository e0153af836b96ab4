"""The memory's tables: the graph, the evidence behind its numbers, its history, and what runs propose."""

from memory.models.evidence import GRID, Evidence, EvidenceTotals, to_units
from memory.models.graph import (
    START,
    UTILITY_RANGE,
    CuratedPart,
    GlobalNode,
    LocalNode,
    MemoryBank,
    TransitionEdge,
)
from memory.models.history import Change, ChangeItem, ChangeKind, EvidenceMark
from memory.models.proposals import Proposal, ProposalKind, ProposalStatus

__all__ = [
    "GRID",
    "START",
    "UTILITY_RANGE",
    "Change",
    "ChangeItem",
    "ChangeKind",
    "CuratedPart",
    "Evidence",
    "EvidenceMark",
    "EvidenceTotals",
    "GlobalNode",
    "LocalNode",
    "MemoryBank",
    "Proposal",
    "ProposalKind",
    "ProposalStatus",
    "TransitionEdge",
    "to_units",
]
