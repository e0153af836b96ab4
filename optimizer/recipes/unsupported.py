"""The one exception of this package: an operator that no recipe covers."""

from __future__ import annotations


class Unsupported(Exception):
    """``op`` is the operation as PyTorch names it, ``reason`` half a sentence that follows it."""

    def __init__(self, op: str, reason: str) -> None:
        super().__init__(f"{op} {reason}")
        self.op = op
        self.reason = reason
