"""Whether a stored strategy describes what a new one would say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ENOUGH = 0.6  # share of common words from which on two edit patterns say the same
WORD = re.compile(r"[a-z0-9]+")


def described_by(fields: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Same recipe, same title, or an edit pattern of mostly the same words (Jaccard index of at least `ENOUGH`).

    Two strategies with different recipes are different whatever their words: they differ in a parameter.
    """
    mine, theirs = fields.get("recipe"), stored.get("recipe")
    if mine and theirs:
        return bool(mine == theirs)
    if words(fields.get("title", "")) == words(stored.get("title", "")):
        return True
    return jaccard(words(fields.get("edit_pattern", "")), words(stored.get("edit_pattern", ""))) >= ENOUGH


def words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.lower()))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Size of the intersection over size of the union, 0..1; 0 where both are empty."""
    union = one | other
    return len(one & other) / len(union) if union else 0.0
