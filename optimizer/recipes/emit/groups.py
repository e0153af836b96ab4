"""Who works on one row: a thread, a warp or a block on a GPU; one work-item on a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.states import State
from optimizer.recipes.ir import Node

if TYPE_CHECKING:
    from optimizer.recipes.emit.rows import RowsEmitter

WARP = 32
MAX_KEPT_REGISTERS = 64  # 32-bit registers of a thread that may hold a row
MAX_KEPT_BYTES = 40 * 1024  # of a block's 48 kB of static shared memory
MAX_KEPT_CPU = 1 << 14  # elements of a row that a work-item may keep: inside the caches of a core
CPU_BATCH = 8  # rows of a work-group under "warp": the lanes of a vector unit

ElementTile = Callable[[Code, str, int, dict[int, Expr]], None]


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
    def rows(self, code: Code) -> Iterator[None]:
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
    def first_lane(self, code: Code) -> Iterator[None]:
        """A context that one thread of the group enters."""

    @abstractmethod
    def reduce_loop(
        self,
        code: Code,
        states: Sequence[State],
        shifts: dict[int, str],
        row_known: dict[int, Expr],
        kept_done: set[int],
        later: Sequence[int],
        accumulators: int,
    ) -> None:
        """Run over the row; afterwards every thread of the group holds the finished ``states``."""

    @abstractmethod
    def element_loop(self, code: Code, tile: ElementTile, kept_done: set[int]) -> None:
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

    def _new_kept(self, states: Sequence[State], kept_done: set[int]) -> list[int]:
        """Values to keep that this pass computes."""
        kernel = self.kernel
        targets = [state.node.args[0] for state in states]
        now = kernel._element_nodes(targets, list(kept_done))
        return [n for n in kernel.kept if n not in kept_done and (n in now or n in targets)]

    def _updates(
        self, states: Sequence[State], targets: Sequence[State], shifts: dict[int, str], width: int
    ) -> Callable[[Code, dict[int, Expr]], None]:
        def inside(code: Code, env: dict[int, Expr]) -> None:
            for state, target in zip(states, targets, strict=True):
                value = env[state.node.args[0]]
                self.kernel.states.update(code, target, value, width, shifts[state.node.id])

        return inside


class CudaGroup(Group):
    """Threads of a GPU. The row is walked with the group's stride, so neighbours touch neighbours."""

    def __init__(self, rows: RowsEmitter) -> None:
        super().__init__(rows)
        strategy = self.schedule.row_strategy
        self.strategy = strategy if strategy in ("thread", "warp") else "block"
        self.block = self._block_size()
        self.threads = {"thread": 1, "warp": WARP, "block": self.block}[self.strategy]
        self.per_pass = self.threads * rows.width
        self.steps = -(-max(rows.walk, 1) // self.per_pass)
        self.storage = self.schedule.row_storage
        self.kept_where = "registers" if self.storage == "registers" else "shared memory"

    def _block_size(self) -> int:
        size = self.schedule.block_size
        if self.strategy == "warp":
            warps = self.schedule.rows_per_block if self.schedule.rows_per_block > 1 else size // WARP
            return warps * WARP
        if self.strategy == "block":
            busy = -(-max(self.kernel.walk, 1) // self.kernel.width)
            return max(WARP, min(size, -(-busy // WARP) * WARP))
        return size

    @property
    def warps(self) -> int:
        return self.block // WARP

    @property
    def rows_in_turn(self) -> int:
        return self.schedule.rows_per_block if self.strategy == "block" else 1

    @property
    def lane(self) -> str:
        return {"thread": "0", "warp": "lane", "block": "threadIdx.x"}[self.strategy]

    def launch(self, rows: str) -> tuple[str, str]:
        if self.strategy == "thread":
            return f"cdiv({rows}, {self.block})", str(self.block)
        if self.strategy == "warp":
            return (f"cdiv({rows}, {self.warps})" if self.warps > 1 else rows), str(self.block)
        return (f"cdiv({rows}, {self.rows_in_turn})" if self.rows_in_turn > 1 else rows), str(self.block)

    @contextmanager
    def rows(self, code: Code) -> Iterator[None]:
        index = self.kernel.index
        wide = "(long)" if self.kernel.wide else ""
        if self.strategy == "thread":
            code.add(f"const {index} {self.kernel.row_name} = {self.kernel.global_id()};")
            self._row_guard(code, self.block)
            yield
        elif self.strategy == "warp":
            code.add(f"const int lane = threadIdx.x % {WARP};")
            where = (
                f"{wide}blockIdx.x * {self.warps} + threadIdx.x / {WARP}" if self.warps > 1 else "blockIdx.x"
            )
            code.add(f"const {index} {self.kernel.row_name} = {where};")
            self._row_guard(code, self.warps)
            yield
        elif self.rows_in_turn == 1:
            code.add(f"const {index} {self.kernel.row_name} = blockIdx.x;")
            yield
        else:
            turn, name = self.rows_in_turn, self.kernel.row_name
            code.add(
                f"const {index} last_row = min({wide}blockIdx.x * {turn} + {turn}, {self.kernel.rows_name});"
            )
            with code.block(f"for ({index} {name} = {wide}blockIdx.x * {turn}; {name} < last_row; ++{name})"):
                yield

    def describe(self, code: Code, note: Callable[[str], str]) -> None:
        if self.strategy == "warp":
            rows = f", {self.warps} rows a block" if self.warps > 1 else ""
            code.comment(note(f"a warp for each row{rows}: neighbouring lanes read neighbouring elements"))
        elif self.strategy == "block":
            code.comment(note("a block for each row: all its threads share the row"))
            if self.rows_in_turn > 1:
                code.comment(note(f"{self.rows_in_turn} rows a block, one after the other"))
        if self.strategy != "thread" and self.kernel.passes:
            how = "warp shuffles" if self.schedule.warp_shuffle else "a tree in shared memory"
            code.comment(note(f"partial results are combined by {how}"))

    # keeping the row

    def can_keep(self, count: int) -> bool:
        if self.storage == "registers":
            return self.steps * self.kernel.width * count <= MAX_KEPT_REGISTERS
        rows_at_once = self.warps if self.strategy == "warp" else 1
        return self.strategy != "thread" and rows_at_once * self.kernel.cols * count * 4 <= MAX_KEPT_BYTES

    def declare_kept(self, code: Code, name: str) -> None:
        if self.storage == "registers":
            code.add(f"float {name}[{self.steps * self.kernel.width}];")
        elif self.strategy == "warp":
            code.add(f"__shared__ float {name}_block[{self.warps * self.kernel.cols}];")
            code.add(f"float* {name} = {name}_block + threadIdx.x / {WARP} * {self.kernel.cols};")
        else:
            code.add(f"__shared__ float {name}[{self.kernel.cols}];")

    def _kept_text(self, name: str) -> str:
        width = self.kernel.width
        if self.storage == "registers":
            return f"{name}[step]" if width == 1 else f"{name}[step * {width} + k]"
        return f"{name}[j]" if width == 1 else f"{name}[j + k]"

    @contextmanager
    def first_lane(self, code: Code) -> Iterator[None]:
        if self.strategy == "thread":
            yield
        else:
            with code.block(f"if ({self.lane} == 0)"):
                yield

    # loops

    @contextmanager
    def _columns(self, code: Code, accumulators: int = 1) -> Iterator[str]:
        """Loops over this thread's columns ``j``; yields the accumulator's index."""
        kernel, index = self.kernel, self.kernel.index
        lane = self.lane
        exact = (
            self.schedule.exact_tile
            and kernel.last == "cols"
            and kernel.cols % (self.per_pass * accumulators) == 0
        )
        if kernel.kept and self.storage == "registers":
            code.add("#pragma unroll")
            with code.block(f"for (int step = 0; step < {self.steps}; ++step)"):
                start = "step" if self.threads == 1 else f"(step * {self.threads} + {lane})"
                code.add(f"const {index} j = {start}{f' * {kernel.width}' if kernel.width > 1 else ''};")
                picked = "0" if accumulators == 1 else f"step % {accumulators}"
                if kernel.cols % self.per_pass == 0:
                    yield picked
                else:
                    with code.block("if (j < cols)"):
                        yield picked
            return
        start = self._scaled(lane, kernel.width)
        if kernel.first != "0":
            start = kernel.first if start == "0" else f"{kernel.first} + {start}"
        last = kernel.last
        if self.schedule.unroll > 1:
            code.add(f"#pragma unroll {self.schedule.unroll}")
        if accumulators == 1:
            with code.block(f"for ({index} j = {start}; j < {last}; j += {self.per_pass})"):
                yield "0"
            return
        with code.block(f"for ({index} j0 = {start}; j0 < {last}; j0 += {self.per_pass * accumulators})"):
            code.add("#pragma unroll")
            with code.block(f"for (int a = 0; a < {accumulators}; ++a)"):
                code.add(f"const {index} j = j0 + a * {self.per_pass};")
                if exact:
                    yield "a"
                else:
                    with code.block(f"if (j < {last})"):
                        yield "a"

    @staticmethod
    def _scaled(text: str, factor: int) -> str:
        return text if factor == 1 or text == "0" else f"{text} * {factor}"

    def reduce_loop(self, code, states, shifts, row_known, kept_done, later, accumulators):  # type: ignore[no-untyped-def]
        kernel = self.kernel
        accumulators = min(accumulators, self.steps)
        running = list(states)
        if accumulators > 1:
            running = [kernel.states.new(s.node, kernel._state_name(s.node), "_acc") for s in states]
            for state in running:
                kernel.states.declare_array(code, state, accumulators, 1)
        else:
            for state in states:
                kernel.states.declare(code, state, 1)
        new_kept = self._new_kept(states, kept_done)
        targets = [state.node.args[0] for state in states]
        with self.kernel.names.scope(), self._columns(code, accumulators) as picked:
            known = {**row_known, **self._kept_known(kept_done)}
            into = [state.indexed(picked) for state in running] if accumulators > 1 else running
            update = self._updates(states, into, shifts, 1)

            def inside(inner: Code, env: dict[int, Expr]) -> None:
                for node_id in new_kept:
                    inner.add(f"{self._kept_text(kernel.kept[node_id])} = {env[node_id].text};")
                update(inner, env)

            loads = kernel._places([*targets, *new_kept], known, "j")
            kernel.tile.emit(code, kernel.width, [*targets, *new_kept], loads, known, (), inside)
        kept_done.update(new_kept)
        if accumulators > 1:
            self._join(code, states, running, accumulators)
        for state in states:
            self.combine(code, state)

    def _kept_known(self, kept_done: set[int]) -> dict[int, Expr]:
        return {node_id: Expr(self._kept_text(self.kernel.kept[node_id])) for node_id in kept_done}

    def _join(self, code: Code, states: Sequence[State], running: Sequence[State], count: int) -> None:
        for state, array in zip(states, running, strict=True):
            kind = self.kernel.states.type_of(state.node, 1)
            for name, source in zip(state.names, array.names, strict=True):
                code.add(f"{kind} {name} = {source}[0];")
        code.add("#pragma unroll")
        with code.block(f"for (int a = 1; a < {count}; ++a)"):
            for state, array in zip(states, running, strict=True):
                self.kernel.states.merge(code, state.names, array.indexed("a").names, state.node)

    def chain_length(self) -> int:
        return self.steps * self.kernel.width // min(self.schedule.accumulators, self.steps)

    def parts_loop(self, parts: int) -> str:
        return f"for (int part = {self.lane}; part < {parts}; part += {self.threads})"

    def combine(self, code: Code, state: State) -> None:
        if self.strategy == "thread":
            return
        if not self.schedule.warp_shuffle:
            self._tree(code, state)
            return
        self._shuffle(code, state)
        if self.strategy == "block" and self.warps > 1:
            self._across_warps(code, state)

    def _shuffle(self, code: Code, state: State) -> None:
        kind = self.kernel.states.type_of(state.node, 1)
        code.add("#pragma unroll")
        with code.block(f"for (int step = {WARP // 2}; step > 0; step /= 2)"):
            others = [self.kernel.names.new(f"other_{name}") for name in state.names]
            for name, other in zip(state.names, others, strict=True):
                code.add(f"const {kind} {other} = __shfl_xor_sync(0xffffffffu, {name}, step);")
            self.kernel.states.merge(code, state.names, others, state.node)

    def _across_warps(self, code: Code, state: State) -> None:
        scratch = self._scratch(code, state, self.warps)
        with code.block(f"if (threadIdx.x % {WARP} == 0)"):
            for name, store in zip(state.names, scratch, strict=True):
                code.add(f"{store}[threadIdx.x / {WARP}] = {name};")
        code.add("__syncthreads();")
        for name, store in zip(state.names, scratch, strict=True):
            code.add(f"{name} = {store}[0];")
        code.add("#pragma unroll")
        with code.block(f"for (int warp = 1; warp < {self.warps}; ++warp)"):
            self.kernel.states.merge(code, state.names, [f"{store}[warp]" for store in scratch], state.node)
        if self.rows_in_turn > 1:
            code.add("__syncthreads();")

    def _scratch(self, code: Code, state: State, count: int) -> list[str]:
        kind = self.kernel.states.type_of(state.node, 1)
        names = [self.kernel.names.new(f"{name}_scratch") for name in state.names]
        for name in names:
            code.add(f"__shared__ {kind} {name}[{count}];")
        return names

    def _tree(self, code: Code, state: State) -> None:
        scratch = self._scratch(code, state, self.block)
        sync = "__syncwarp();" if self.strategy == "warp" else "__syncthreads();"
        for name, store in zip(state.names, scratch, strict=True):
            code.add(f"{store}[threadIdx.x] = {name};")
        code.add(sync)
        half = 1
        while half * 2 < self.threads:
            half *= 2
        with code.block(f"for (int step = {half}; step > 0; step /= 2)"):
            ragged = self.threads & (self.threads - 1)
            edge = f" && {self.lane} + step < {self.threads}" if ragged else ""
            with code.block(f"if ({self.lane} < step{edge})"):
                self.kernel.states.merge(
                    code,
                    [f"{store}[threadIdx.x]" for store in scratch],
                    [f"{store}[threadIdx.x + step]" for store in scratch],
                    state.node,
                )
            code.add(sync)
        first = "threadIdx.x - lane" if self.strategy == "warp" else "0"
        for name, store in zip(state.names, scratch, strict=True):
            code.add(f"{name} = {store}[{first}];")
        if self.rows_in_turn > 1:
            code.add(sync)

    def element_loop(self, code: Code, tile: ElementTile, kept_done: set[int]) -> None:
        with self.kernel.names.scope(), self._columns(code):
            tile(code, "j", self.kernel.width, self._kept_known(kept_done))


class OpenclGroup(Group):
    """One work-item of a CPU walks along its row with vectors; nothing has to be combined across work-items."""

    kept_where = "a private array"

    @property
    def local(self) -> int:
        strategy = self.schedule.row_strategy
        return {"thread": self.schedule.block_size, "warp": CPU_BATCH}.get(strategy, 1)

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
            code.comment(note(f"{CPU_BATCH} rows a work-group, one work-item each"))

    def can_keep(self, count: int) -> bool:
        return (
            self.local == 1
            and self.schedule.row_storage == "shared"
            and self.kernel.cols * count <= MAX_KEPT_CPU
        )

    def declare_kept(self, code: Code, name: str) -> None:
        code.add(f"float {name}[{max(self.kernel.cols, 1)}];")

    @contextmanager
    def first_lane(self, code: Code) -> Iterator[None]:
        yield

    def reduce_loop(self, code, states, shifts, row_known, kept_done, later, accumulators):  # type: ignore[no-untyped-def]
        kernel, index = self.kernel, self.kernel.index
        width, cols = kernel.width, kernel.cols
        if self.schedule.vector_width == 16 and width == 8:
            accumulators = max(accumulators, 2)  # two vectors of eight: wider ones are no type of a CPU
        accumulators = min(accumulators, max(kernel.walk // width, 1))
        new_kept = self._new_kept(states, kept_done)
        if width == 1 and accumulators == 1:
            for state in states:
                kernel.states.declare(code, state, 1)
            self._unroll(code)
            with code.block(f"for ({index} j = {kernel.first}; j < {kernel.last}; ++j)"):
                self._tile(code, "j", 1, states, states, shifts, row_known, kept_done, new_kept)
            kept_done.update(new_kept)
            return
        running = [kernel.states.new(s.node, kernel._state_name(s.node), "_acc") for s in states]
        for state in running:
            if accumulators > 1:
                kernel.states.declare_array(code, state, accumulators, width)
            else:
                kernel.states.declare(code, state, width)
        self._wide_loops(code, states, running, shifts, row_known, kept_done, new_kept, accumulators)
        self._to_scalars(code, states, running, accumulators, width)
        if width > 1 and cols % width:
            with code.block(f"for ({index} j = {self._whole(width)}; j < {kernel.last}; ++j)"):
                self._tile(code, "j", 1, states, states, shifts, row_known, kept_done, new_kept)
        kept_done.update(new_kept)

    def _whole(self, step: int) -> str:
        """The first column after all whole steps."""
        first, last = self.kernel.first, self.kernel.last
        if first == "0":
            return f"{last} / {step} * {step}"
        return f"{first} + ({last} - {first}) / {step} * {step}"

    def _wide_loops(
        self, code, states, running, shifts, row_known, kept_done, new_kept, accumulators
    ) -> None:  # type: ignore[no-untyped-def]
        kernel, index, width = self.kernel, self.kernel.index, self.kernel.width
        common = (shifts, row_known, kept_done, new_kept)
        first, last = kernel.first, kernel.last
        if accumulators > 1:
            step = width * accumulators
            with code.block(f"for ({index} j = {first}; j + {step} <= {last}; j += {step})"):
                code.add("#pragma unroll")
                with code.block(f"for (int a = 0; a < {accumulators}; ++a)"):
                    code.add(
                        f"const {index} e = j + a * {width};" if width > 1 else f"const {index} e = j + a;"
                    )
                    into = [state.indexed("a") for state in running]
                    self._tile(code, "e", width, states, into, *common)
            if kernel.cols % step == 0 and last == "cols":
                return
            first = self._whole(step)
        into = [state.indexed("0") for state in running] if accumulators > 1 else running
        self._unroll(code)
        step = f"j + {width} <= {last}; j += {width}" if width > 1 else f"j < {last}; ++j"
        with code.block(f"for ({index} j = {first}; {step})"):
            self._tile(code, "j", width, states, into, *common)

    def _tile(self, code, column, width, states, into, shifts, row_known, kept_done, new_kept) -> None:  # type: ignore[no-untyped-def]
        with self.kernel.names.scope():
            self._scoped_tile(code, column, width, states, into, shifts, row_known, kept_done, new_kept)

    def _scoped_tile(self, code, column, width, states, into, shifts, row_known, kept_done, new_kept) -> None:  # type: ignore[no-untyped-def]
        kernel = self.kernel
        known = dict(row_known)
        targets = [state.node.args[0] for state in states]
        places = kernel._places([*targets, *new_kept], {**known, **self._kept_markers(kept_done)}, column)
        places |= self._kept_places(kept_done, column, [*targets, *new_kept], row_known)
        update = self._updates(states, into, shifts, width)

        def inside(inner: Code, env: dict[int, Expr]) -> None:
            for node_id in new_kept:
                name = f"{kernel.kept[node_id]} + {column}"
                value = kernel.tile.dialect.splat(env[node_id], "float32", width)
                if width == 1:
                    inner.add(f"{kernel.kept[node_id]}[{column}] = {value};")
                else:
                    inner.add(f"vstore{width}({value}, 0, {name});")
            update(inner, env)

        kernel.tile.emit(code, width, [*targets, *new_kept], places, known, (), inside)

    def _kept_markers(self, kept_done: set[int]) -> dict[int, Expr]:
        return {node_id: Expr("") for node_id in kept_done}

    def _kept_places(
        self, kept_done: set[int], column: str, targets: Sequence[int], row_known: dict[int, Expr]
    ) -> dict[int, object]:
        from optimizer.recipes.emit.tile import Place

        program = self.kernel.program
        stop = [*kept_done, *row_known, *self.kernel.spec.loads]
        needed = program.needed_for(targets, stop=stop)
        read = {arg for n in needed for arg in program.nodes[n].args} | set(targets)
        return {
            node_id: Place("vector", f"{self.kernel.kept[node_id]} + {column}", "float32", None, False, False)
            for node_id in self.kernel.kept
            if node_id in kept_done and node_id in read
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

    def element_loop(self, code: Code, tile: ElementTile, kept_done: set[int]) -> None:
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

    def _element(self, code: Code, tile: ElementTile, kept_done: set[int], column: str, width: int) -> None:
        with self.kernel.names.scope():
            self._scoped_element(code, tile, kept_done, column, width)

    def _scoped_element(
        self, code: Code, tile: ElementTile, kept_done: set[int], column: str, width: int
    ) -> None:
        known: dict[int, Expr] = {}
        for node_id in kept_done:
            name = self.kernel.kept[node_id]
            value = self.kernel.names.new(f"{name}_v")
            if width == 1:
                code.add(f"const float {value} = {name}[{column}];")
            else:
                code.add(f"const float{width} {value} = vload{width}(0, {name} + {column});")
            known[node_id] = Expr(value)
        tile(code, column, width, known)


GROUPS: dict[str, type[Group]] = {"cuda": CudaGroup, "opencl": OpenclGroup}

__all__ = ["GROUPS", "CudaGroup", "Group", "Node", "OpenclGroup"]
