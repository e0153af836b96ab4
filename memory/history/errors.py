"""Why a change of a bank is refused: values with a sentence, for REST to answer with."""

from __future__ import annotations

from collections.abc import Sequence

from memory.models import Change, CuratedPart, MemoryBank


class Refused(ValueError):
    """A change cannot be made, and nothing of it was saved. The message is one sentence."""


class Frozen(Refused):
    """The bank is frozen."""

    def __init__(self, bank: MemoryBank) -> None:
        super().__init__(f"The bank {bank.name!r} is frozen: nothing in it changes until it is thawed.")


class Stale(Refused):
    """Somebody saved a newer version meanwhile. ``part`` is as stored now, ``version`` what was edited."""

    def __init__(self, part: CuratedPart | MemoryBank, version: int) -> None:
        super().__init__("Somebody saved a newer version meanwhile; compare and save again.")
        self.part = part
        self.version = version


class Conflict(Refused):
    """Later changes stand in the way; they are named in ``changes``, newest first."""

    def __init__(self, sentence: str, changes: Sequence[Change] = ()) -> None:
        super().__init__(sentence)
        self.changes = list(changes)
