"""Who works on one row: a thread, a warp or a block on a GPU; one work-item on a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.states import State
from optimizer.recipes.emit.tile import Inside

if TYPE_CHECKING:
    from optimizer.recipes.emit.rows import RowsEmitter

ElementTile = Callable[[Code, str, int, dict[int, Expr]], None]


@dataclass(frozen=True)
class ReducePass:
    """One walk along a row that finishes ``states``.

    ``shifts``: for sums of squares the value they are taken around, by node. ``row_known``: texts of what is known
    for the row. ``kept_done``: values that an earlier pass left on chip; ``new_kept``: those that this one leaves.
    """

    states: Sequence[State]
    shifts: dict[int, str]
    row_known: dict[int, Expr]
    kept_done: frozenset[int]
    new_kept: Sequence[int]

    @property
    def targets(self) -> list[int]:
        return [*(state.node.args[0] for state in self.states), *self.new_kept]


class Group(ABC):
    """The threads that share a row, and the loops they run over its columns."""

    kept_where = ""

    def __init__(self, rows: RowsEmitter) -> None:
        self.kernel = rows
        self.schedule = rows.schedule

    @abstractmethod
    def launch(self, rows: str) -> tuple[str, str]:
        """Grid and block as plan text; ``rows`` is the row count as plan text."""

    @abstractmethod
    def rows(self, code: Code) -> AbstractContextManager[None]:
        """A context in which ``row`` is set."""

    @abstractmethod
    def describe(self, code: Code, note: Callable[[str], str]) -> None:
        """Comments on the strategies in use."""

    @abstractmethod
    def can_keep(self, count: int) -> bool:
        """Whether ``count`` values for each element of a row fit on chip."""

    @abstractmethod
    def declare_kept(self, code: Code, name: str) -> None: ...

    @abstractmethod
    def first_lane(self, code: Code) -> AbstractContextManager[None]:
        """A context that one thread of the group enters."""

    @abstractmethod
    def reduce_loop(self, code: Code, work: ReducePass, accumulators: int) -> None:
        """Run over the row; afterwards every thread of the group holds the finished states."""

    @abstractmethod
    def element_loop(self, code: Code, tile: ElementTile, kept_done: frozenset[int]) -> None:
        """Run over the row and call ``tile`` with column, width and what is known there."""

    @abstractmethod
    def chain_length(self) -> int:
        """Additions that one accumulator takes in one after another."""

    @abstractmethod
    def parts_loop(self, parts: int) -> str:
        """The head of a loop in which this thread visits its share of a row's ``part`` numbers."""

    @abstractmethod
    def combine(self, code: Code, state: State) -> None:
        """Merge the group's running results; every thread gets the whole."""

    def _row_guard(self, code: Code, at_once: int) -> None:
        """Leave where a block reaches beyond the last row."""
        if at_once == 1 or (self.schedule.exact_tile and self.kernel.walkers % at_once == 0):
            return
        code.add(f"if ({self.kernel.row_name} >= {self.kernel.rows_name}) return;")

    def _updates(self, work: ReducePass, into: Sequence[State], width: int) -> Inside:
        """Takes a tile's values into the running results."""

        def inside(code: Code, env: dict[int, Expr]) -> None:
            for state, target in zip(work.states, into, strict=True):
                value = env[state.node.args[0]]
                self.kernel.states.update(code, target, value, width, work.shifts[state.node.id])

        return inside
