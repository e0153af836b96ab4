"""Two-stage reductions for few long rows: pieces of a row in parallel, then one combination for each row."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.kernel import Scratch
from optimizer.recipes.emit.rows import RowsEmitter
from optimizer.recipes.emit.states import COMPONENTS, State
from optimizer.recipes.ir import Node


class _SplitEmitter(RowsEmitter):
    """What both stages agree on: the length of a piece and the tensors between them."""

    @property
    def piece(self) -> int:
        """Columns of one piece: a multiple of the vector width."""
        wanted = -(-max(self.cols, 1) // self.schedule.split_parts)
        step = max(self.schedule.vector_width, 1)
        return -(-wanted // step) * step

    @property
    def parts(self) -> int:
        return -(-max(self.cols, 1) // self.piece)

    def _scratch_names(self, node: Node) -> list[str]:
        base = self.value_names[node.id]
        same = [
            n.id for n in self.program.nodes.values() if n.kind == "reduce" and self.value_names[n.id] == base
        ]
        number = "" if len(same) == 1 else str(same.index(node.id) + 1)
        return [f"{base}{number}{'_' + part if part else ''}_parts" for part in COMPONENTS[node.op]]

    def _reduces(self) -> list[Node]:
        needed = self.program.needed_for(self.spec.roots, stop=self.spec.loads)
        return [self.program.nodes[n] for n in needed if self.program.nodes[n].kind == "reduce"]

    def _declare_scratch(self, const: bool) -> None:
        self.scratch_pointers = {
            node.id: [self._scratch_pointer(name, node.dtype, const) for name in self._scratch_names(node)]
            for node in self._reduces()
        }

    def _scratch_pointer(self, variable: str, dtype: str, const: bool) -> str:
        self._pointer(variable, variable, dtype, const)
        return self.pointers[variable]


class PartialEmitter(_SplitEmitter):
    """Stage one: each group reduces one piece of one row and leaves its running result."""

    row_name, rows_name = "unit", "units"

    def results(self) -> list[int]:
        """Running results go to tensors of their own."""
        return []

    first, last = "first", "last"

    def _size_arguments(self) -> None:
        self._declare_scratch(const=False)
        rows = self.size_expression(self.row_axes)
        units = f"{rows} * {self.parts}" if " " not in rows else f"({rows}) * {self.parts}"
        self.size_argument("units", units)
        self.size_argument("cols", self.size_expression(self._col_axes()))
        self.grid, self.block = self.group.launch(units)

    @property
    def walkers(self) -> int:
        return self.rows * self.parts

    def _walk(self) -> int:
        return self.piece

    def _scratch(self) -> tuple[Scratch, ...]:
        return tuple(
            Scratch(name, max(self.rows * self.parts, 1), node.dtype)
            for node in self._reduces()
            for name in self._scratch_names(node)
        )

    def _row_loop(self, code: Code) -> None:
        note = self.notes.add(
            f"split rows: {self.parts} pieces of a row in parallel, combined by a second kernel"
        )
        code.comment(note)
        super()._row_loop(code)

    def _row(self, code: Code) -> None:
        code.add(f"const {self.index} row = unit / {self.parts};")
        code.add(f"const {self.index} first = unit % {self.parts} * {self.piece};")
        code.add(f"const {self.index} last = min(first + {self.piece}, cols);")
        super()._row(code)

    def _choose_kept(self) -> dict[int, str]:
        return {}

    def _results(self, code: Code, state: State, shift: str, row_known: dict[int, Expr]) -> None:
        with self.group.first_lane(code):
            for pointer, name in zip(self.scratch_pointers[state.node.id], state.names, strict=True):
                code.add(f"{pointer}[unit] = {name};")

    def _finish(self, code: Code, row_known: dict[int, Expr], kept_done: set[int]) -> None:
        """Nothing follows: the second kernel goes on."""


class CombineEmitter(_SplitEmitter):
    """Stage two: one group for each row merges its pieces and computes the row's values."""

    def needed(self, targets: Sequence[int]) -> list[int]:
        """Elements are not looked at again, except the first one that sums of squares are taken around."""
        finished = [
            node.id for node in self.program.nodes.values() if node.kind == "reduce" and node.op != "moments"
        ]
        return self.program.needed_for(targets, stop=[*self.spec.loads, *finished])

    def _passes(self) -> list[list[Node]]:
        return [self._reduces()]

    def _size_arguments(self) -> None:
        self._declare_scratch(const=True)
        super()._size_arguments()

    def _width(self, accesses: Sequence[object]) -> int:  # type: ignore[override]
        return 1

    def _walk(self) -> int:
        return self.parts

    def _choose_kept(self) -> dict[int, str]:
        return {}

    def _describe(self, code: Code) -> None:
        """The first stage's comment says it."""

    def _reduce_pass(
        self, code: Code, reduces: Sequence[Node], row_known: dict[int, Expr], kept_done: set[int]
    ) -> None:
        for node in reduces:
            shift = self._shift(code, node, row_known)
            state = self.states.new(node, self.state_name(node))
            self.states.declare(code, state, 1)
            pointers = self.scratch_pointers[node.id]
            with code.block(self.group.parts_loop(self.parts)):
                parts = [f"{pointer}[row * {self.parts} + part]" for pointer in pointers]
                names = [self.names.new(f"piece_{name}") for name in state.names]
                kind = self.states.type_of(node, 1)
                for name, part in zip(names, parts, strict=True):
                    code.add(f"const {kind} {name} = {part};")
                self.states.merge(code, state.names, names, node)
            self.group.combine(code, state)
            self._results(code, state, shift, row_known)
