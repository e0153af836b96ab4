"""The one exception of this package."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan that cannot be used: one clear sentence with the place it is about.

    Attributes:
        message: the sentence, without the place.
        line: 1-based line of the plan text; 0 when the error is about no single place.
        column: 1-based column; 0 likewise.
        filename: what the caller named the plan.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, filename: str = "plan") -> None:
        self.message = message
        self.line = line
        self.column = column
        self.filename = filename
        super().__init__(self.describe())

    def describe(self) -> str:
        """``plan:12:5: message``, or ``plan: message`` where no place is known."""
        place = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.filename}{place}: {self.message}"


class LibraryRefused(ValueError):
    """What `infer_library` raises for a library call that torch would not take; `bind` adds the place."""
