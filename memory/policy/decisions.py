"""What selection reads of a bank, and the decision that it writes down term by term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memory.policy.conditions import Condition
from memory.policy.config import PolicyConfig
from memory.policy.evidence import BucketTotals, EvidenceContext

START = "START"  # the virtual node that opens every prefix


@dataclass(frozen=True, slots=True)
class DirectionView:
    """What selection reads of a global node. An unavailable one is scored but gets no probability."""

    key: str
    title: str = ""
    prior: float = 0.0
    triggers: Sequence[Condition] = ()
    totals: Sequence[BucketTotals] = ()
    available: bool = True
    unavailable_reason: str = ""


@dataclass(frozen=True, slots=True)
class EdgeView:
    """What selection reads of a transition edge."""

    prior: float = 0.0
    totals: Sequence[BucketTotals] = ()
    id: int | None = None


class PrefixTerm(NamedTuple):
    """a_i U(g_{t-i} -> h): what one earlier direction says about the candidate."""

    source: str
    weight: float  # a_i
    utility: float  # U
    contribution: float  # a_i U
    n: float  # effective evidence on the edge
    tries: int
    edge_id: int | None  # None: the bank has no such edge
    prior: float = 0.0  # the edge's, as it was: without it a later "what if" could not be exact

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(slots=True)
class DirectionScore:
    """The score of one direction, term by term: score = sum of contributions + value_term + match_term."""

    key: str
    title: str
    prefix_terms: list[PrefixTerm]
    value: float  # V
    value_term: float  # beta V
    match: float
    match_term: float  # gamma match
    matched_triggers: list[Condition]  # the direction's triggers that hold
    unmatched_triggers: list[Condition]
    score: float
    n: float  # effective evidence on the direction
    tries: int
    available: bool
    unavailable_reason: str
    probability: float = 0.0
    prior: float = 0.0  # of the direction, as it was

    @property
    def prefix_term(self) -> float:
        return sum(term.contribution for term in self.prefix_terms)

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        data["prefix_terms"] = [term.to_json() for term in self.prefix_terms]
        data["prefix_term"] = self.prefix_term
        return data


@dataclass(frozen=True)
class Decision:
    """The chosen direction with everything that led to it. ``draw`` is the uniform number that picked it."""

    chosen: str
    mode: str  # "hierarchical", or "flat" without the hierarchy
    draw: float
    prefix: list[str]  # newest first, as far as the policy looked
    scores: list[DirectionScore]  # most probable first
    context: EvidenceContext
    config: PolicyConfig = field(default_factory=PolicyConfig)

    def score_of(self, key: str) -> DirectionScore:
        return next(score for score in self.scores if score.key == key)

    @property
    def probability(self) -> float:
        return self.score_of(self.chosen).probability

    def to_json(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "probability": self.probability,
            "mode": self.mode,
            "draw": self.draw,
            "tau": self.config.tau,
            "config": self.config.to_json(),
            "context": {
                "device": self.context.device,
                "dtype": self.context.dtype,
                "family": self.context.family,
            },
            "prefix": self.prefix,
            "scores": [score.to_json() for score in self.scores],
        }
