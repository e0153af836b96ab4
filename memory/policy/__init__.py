"""HTAM's selection policy (arXiv 2605.29734) as pure functions: plain Python, no Django, no numpy."""

from memory.policy.conditions import FACTS, OPERATORS, describe, explain_unmet, holds, match
from memory.policy.config import PolicyConfig, PolicyError
from memory.policy.decisions import START, Decision, DirectionScore, DirectionView, EdgeView, PrefixTerm
from memory.policy.directions import NoDirection, position_weights, select_direction, softmax
from memory.policy.evidence import (
    POOLED,
    BucketTotals,
    BucketWeights,
    EvidenceContext,
    Posterior,
    posterior,
    posterior_mean,
    utility,
)
from memory.policy.strategies import StrategyScore, StrategyView, is_applicable, rank_strategies

__all__ = [
    "FACTS",
    "OPERATORS",
    "POOLED",
    "START",
    "BucketTotals",
    "BucketWeights",
    "Decision",
    "DirectionScore",
    "DirectionView",
    "EdgeView",
    "EvidenceContext",
    "NoDirection",
    "PolicyConfig",
    "PolicyError",
    "Posterior",
    "PrefixTerm",
    "StrategyScore",
    "StrategyView",
    "describe",
    "explain_unmet",
    "holds",
    "is_applicable",
    "match",
    "position_weights",
    "posterior",
    "posterior_mean",
    "rank_strategies",
    "select_direction",
    "softmax",
    "utility",
]
