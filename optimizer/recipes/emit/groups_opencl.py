"""One work-item of a CPU on one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.groups import ElementTile, Group, ReducePass
from optimizer.recipes.emit.states import State
from optimizer.recipes.emit.tile import Place

MAX_KEPT = 1 << 14  # elements of a row that a work-item may keep: inside the caches of a core
BATCH = 8  # rows of a work-group under "warp": the lanes of a vector unit


class OpenclGroup(Group):
    """One work-item of a CPU walks along its row with vectors; nothing has to be combined across work-items."""

    kept_where = "a private array"

    @property
    def local(self) -> int:
        strategy = self.schedule.row_strategy
        return {"thread": self.schedule.block_size, "warp": BATCH}.get(strategy, 1)

    @property
    def rows_in_turn(self) -> int:
        return self.schedule.rows_per_block if self.local == 1 else 1

    def launch(self, rows: str) -> tuple[str, str]:
        if self.local > 1:
            return f"cdiv({rows}, {self.local})", str(self.local)
        return (f"cdiv({rows}, {self.rows_in_turn})" if self.rows_in_turn > 1 else rows), "1"

    @contextmanager
    def rows(self, code: Code) -> Iterator[None]:
        index, turn, name = self.kernel.index, self.rows_in_turn, self.kernel.row_name
        if turn > 1:
            code.add(f"const {index} first_row = get_global_id(0) * {turn};")
            code.add(f"const {index} last_row = min(first_row + {turn}, {self.kernel.rows_name});")
            with code.block(f"for ({index} {name} = first_row; {name} < last_row; ++{name})"):
                yield
            return
        code.add(f"const {index} {name} = get_global_id(0);")
        self._row_guard(code, self.local)
        yield

    def describe(self, code: Code, note: Callable[[str], str]) -> None:
        if self.local == 1:
            rows = f", {self.rows_in_turn} rows one after the other" if self.rows_in_turn > 1 else ""
            code.comment(
                note(f"a work-group of one work-item for each row{rows}: no barriers, rows spread over cores")
            )
        elif self.schedule.row_strategy == "warp":
            code.comment(note(f"{BATCH} rows a work-group, one work-item each"))

    def can_keep(self, count: int) -> bool:
        return (
            self.local == 1 and self.schedule.row_storage == "shared" and self.kernel.cols * count <= MAX_KEPT
        )

    def declare_kept(self, code: Code, name: str) -> None:
        code.add(f"float {name}[{max(self.kernel.cols, 1)}];")

    @contextmanager
    def first_lane(self, code: Code) -> Iterator[None]:
        yield

    def reduce_loop(self, code: Code, work: ReducePass, accumulators: int) -> None:
        kernel = self.kernel
        width = kernel.width
        if self.schedule.vector_width == 16 and width == 8:
            accumulators = max(accumulators, 2)  # two vectors of eight: wider ones are no type of a CPU
        accumulators = min(accumulators, max(kernel.walk // width, 1))
        if width == 1 and accumulators == 1:
            for state in work.states:
                kernel.states.declare(code, state, 1)
            self._unroll(code)
            with code.block(f"for ({kernel.index} j = {kernel.first}; j < {kernel.last}; ++j)"):
                self._tile(code, "j", 1, work, work.states)
            return
        running = [kernel.states.new(s.node, kernel.state_name(s.node), "_acc") for s in work.states]
        for state in running:
            if accumulators > 1:
                kernel.states.declare_array(code, state, accumulators, width)
            else:
                kernel.states.declare(code, state, width)
        self._wide_loops(code, work, running, accumulators)
        self._to_scalars(code, work.states, running, accumulators, width)
        if width > 1 and kernel.cols % width:
            with code.block(f"for ({kernel.index} j = {self._whole(width)}; j < {kernel.last}; ++j)"):
                self._tile(code, "j", 1, work, work.states)

    def _whole(self, step: int) -> str:
        """The first column after all whole steps."""
        first, last = self.kernel.first, self.kernel.last
        if first == "0":
            return f"{last} / {step} * {step}"
        return f"{first} + ({last} - {first}) / {step} * {step}"

    def _wide_loops(self, code: Code, work: ReducePass, running: Sequence[State], accumulators: int) -> None:
        kernel, index, width = self.kernel, self.kernel.index, self.kernel.width
        first, last = kernel.first, kernel.last
        if accumulators > 1:
            step = width * accumulators
            with code.block(f"for ({index} j = {first}; j + {step} <= {last}; j += {step})"):
                code.add("#pragma unroll")
                with code.block(f"for (int a = 0; a < {accumulators}; ++a)"):
                    code.add(f"const {index} e = j + a{f' * {width}' if width > 1 else ''};")
                    self._tile(code, "e", width, work, [state.indexed("a") for state in running])
            if kernel.cols % step == 0 and last == "cols":
                return
            first = self._whole(step)
        into = [state.indexed("0") for state in running] if accumulators > 1 else running
        self._unroll(code)
        walk = f"j + {width} <= {last}; j += {width}" if width > 1 else f"j < {last}; ++j"
        with code.block(f"for ({index} j = {first}; {walk})"):
            self._tile(code, "j", width, work, into)

    def _tile(self, code: Code, column: str, width: int, work: ReducePass, into: Sequence[State]) -> None:
        kernel = self.kernel
        update = self._updates(work, into, width)

        def inside(inner: Code, env: dict[int, Expr]) -> None:
            for node_id in work.new_kept:
                value = kernel.tile.dialect.splat(env[node_id], "float32", width)
                if width == 1:
                    inner.add(f"{kernel.kept[node_id]}[{column}] = {value};")
                else:
                    inner.add(f"vstore{width}({value}, 0, {kernel.kept[node_id]} + {column});")
            update(inner, env)

        with kernel.names.scope():
            kept = self._kept_places(work.kept_done, column)
            places = kernel.places(work.targets, work.row_known, column, kept)
            kernel.tile.emit(code, width, work.targets, places, dict(work.row_known), (), inside)

    def _kept_places(self, kept_done: frozenset[int], column: str) -> dict[int, Place]:
        return {
            node_id: Place("vector", f"{name} + {column}", "float32", None, False, False)
            for node_id, name in self.kernel.kept.items()
            if node_id in kept_done
        }

    def _unroll(self, code: Code) -> None:
        if self.schedule.unroll > 1:
            code.add(f"#pragma unroll {self.schedule.unroll}")

    def _to_scalars(
        self, code: Code, states: Sequence[State], running: Sequence[State], accumulators: int, width: int
    ) -> None:
        """One value for each state from its accumulators and their lanes."""
        kernel = self.kernel
        for state, array in zip(states, running, strict=True):
            node = state.node
            if accumulators > 1:
                code.add("#pragma unroll")
                with code.block(f"for (int a = 1; a < {accumulators}; ++a)"):
                    kernel.states.merge(code, array.indexed("0").names, array.indexed("a").names, node, width)
                array = array.indexed("0")
            if width == 1:
                kind = kernel.states.type_of(node, 1)
                for name, source in zip(state.names, array.names, strict=True):
                    code.add(f"{kind} {name} = {source};")
                continue
            self._lanes(code, state, array, width)

    def chain_length(self) -> int:
        steps = max(self.kernel.walk // self.kernel.width, 1)
        return steps // min(self.schedule.accumulators, steps)

    def parts_loop(self, parts: int) -> str:
        return f"for (int part = 0; part < {parts}; ++part)"

    def combine(self, code: Code, state: State) -> None:
        """One work-item has it all."""

    def _lanes(self, code: Code, state: State, vector: State, width: int) -> None:
        kernel, kind = self.kernel, self.kernel.states.type_of(state.node, 1)
        width = kernel.states.lanes(state.node, width)
        lanes = [kernel.names.new(f"{name}_lanes") for name in state.names]
        for name, lane, source in zip(state.names, lanes, vector.names, strict=True):
            code.add(f"{kind} {lane}[{width}];")
            code.add(f"vstore{width}({source}, 0, {lane});")
            code.add(f"{kind} {name} = {lane}[0];")
        code.add("#pragma unroll")
        with code.block(f"for (int k = 1; k < {width}; ++k)"):
            kernel.states.merge(code, state.names, [f"{lane}[k]" for lane in lanes], state.node)

    def element_loop(self, code: Code, tile: ElementTile, kept_done: frozenset[int]) -> None:
        index, width, cols = self.kernel.index, self.kernel.width, self.kernel.cols
        if width == 1:
            self._unroll(code)
            with code.block(f"for ({index} j = 0; j < cols; ++j)"):
                self._element(code, tile, kept_done, "j", 1)
            return
        self._unroll(code)
        with code.block(f"for ({index} j = 0; j + {width} <= cols; j += {width})"):
            self._element(code, tile, kept_done, "j", width)
        if cols % width:
            with code.block(f"for ({index} j = {self._whole(width)}; j < cols; ++j)"):
                self._element(code, tile, kept_done, "j", 1)

    def _element(
        self, code: Code, tile: ElementTile, kept_done: frozenset[int], column: str, width: int
    ) -> None:
        with self.kernel.names.scope():
            kept = self.kernel.tile.hoist(code, width, self._kept_places(kept_done, column))
            tile(code, column, width, kept)
