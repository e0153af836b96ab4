"""Threads of a GPU on one row: a thread, a warp or a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.groups import ElementTile, Group, ReducePass
from optimizer.recipes.emit.states import State

if TYPE_CHECKING:
    from optimizer.recipes.emit.rows import RowsEmitter

WARP = 32
MAX_KEPT_REGISTERS = 64  # 32-bit registers of a thread that may hold a row
MAX_KEPT_BYTES = 40 * 1024  # of a block's 48 kB of static shared memory


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

    def reduce_loop(self, code: Code, work: ReducePass, accumulators: int) -> None:
        kernel = self.kernel
        accumulators = min(accumulators, self.steps)
        running = list(work.states)
        if accumulators > 1:
            running = [kernel.states.new(s.node, kernel.state_name(s.node), "_acc") for s in work.states]
            for state in running:
                kernel.states.declare_array(code, state, accumulators, 1)
        else:
            for state in running:
                kernel.states.declare(code, state, 1)
        with kernel.names.scope(), self._columns(code, accumulators) as picked:
            into = [state.indexed(picked) for state in running] if accumulators > 1 else running
            self._tile(code, work, into)
        if accumulators > 1:
            self._join(code, work.states, running, accumulators)
        for state in work.states:
            self.combine(code, state)

    def _tile(self, code: Code, work: ReducePass, into: Sequence[State]) -> None:
        kernel = self.kernel
        known = {**work.row_known, **self._kept_known(work.kept_done)}
        update = self._updates(work, into, 1)

        def inside(inner: Code, env: dict[int, Expr]) -> None:
            for node_id in work.new_kept:
                inner.add(f"{self._kept_text(kernel.kept[node_id])} = {env[node_id].text};")
            update(inner, env)

        loads = kernel.places(work.targets, known, "j")
        kernel.tile.emit(code, kernel.width, work.targets, loads, known, (), inside)

    def _kept_known(self, kept_done: frozenset[int]) -> dict[int, Expr]:
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

    def element_loop(self, code: Code, tile: ElementTile, kept_done: frozenset[int]) -> None:
        with self.kernel.names.scope(), self._columns(code):
            tile(code, "j", self.kernel.width, self._kept_known(kept_done))
