"""The review queue: runs propose changes of a bank with the evidence for them, curators decide."""

from memory.review.checking import BadFields
from memory.review.deciding import accept, reject
from memory.review.policy import OFF, AutoAccept
from memory.review.proposing import Suggestion, propose

__all__ = ["OFF", "AutoAccept", "BadFields", "Suggestion", "accept", "propose", "reject"]
