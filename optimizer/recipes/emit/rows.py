"""Row kernels: passes over a row, each finishing the reductions of one level, then a pass that writes results."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.recipes.emit.access import (
    Access,
    coordinate_texts,
    is_linear,
    largest_power,
    merged,
    offset_text,
    span_strides,
)  # fmt: skip
from optimizer.recipes.emit.code import ATOM, UNARY, Code, Expr
from optimizer.recipes.emit.groups import Group, ReducePass
from optimizer.recipes.emit.groups_cuda import CudaGroup
from optimizer.recipes.emit.groups_opencl import OpenclGroup
from optimizer.recipes.emit.kept import element_nodes, shared_between_passes
from optimizer.recipes.emit.kernel import Kernel, KernelEmitter, Scratch
from optimizer.recipes.emit.memory import ITEM_BYTES
from optimizer.recipes.emit.states import State, States
from optimizer.recipes.emit.tile import Place, Store
from optimizer.recipes.ir import Node

LONG_CHAIN = 4096  # additions one after another from which float32 sums lose digits that a judge looks at


class RowsEmitter(KernelEmitter):
    """Reduces rows and computes what follows. ``spec.roots``: reductions, row values and whole-row results."""

    row_name, rows_name = "row", "rows"
    first, last = "0", "cols"  # the columns that a walker covers, as C text

    def emit(self) -> Kernel:
        self._plan()
        code = Code()
        with code.block(self.head()):
            self._row_loop(code)
        return self.finished(code, self.grid, self.block, scratch=self._scratch())

    def _scratch(self) -> tuple[Scratch, ...]:
        return ()

    # decisions

    def _plan(self) -> None:
        program = self.program
        self.levels = self._local_levels()
        self.row_axes = self._row_axes()
        self.rows = program.size(self.row_axes)
        self.cols = self._column_count()
        self.declare(self.spec.roots)
        self.load_map = {node_id: self.load_access(node_id) for node_id in self.load_nodes(self.spec.roots)}
        self.store_map = {root: self.store_access(root) for root in self.results()}
        accesses = [*self.load_map.values(), *self.store_map.values()]
        self.row_spans = merged(self.row_axes, program.sizes, accesses)
        self.col_spans = merged(self._col_axes(), program.sizes, accesses)
        self.width = self._width(accesses)
        self.walk = self._walk()
        self.group: Group = (CudaGroup if self.cuda else OpenclGroup)(self)
        self.passes = self._passes()
        self.kept = self._choose_kept()
        self._size_arguments()
        self.states = States(
            program,
            self.tile.dialect,
            self.names,
            self.schedule.fast_math,
            self.group.chain_length() > LONG_CHAIN,
        )

    def _size_arguments(self) -> None:
        rows = self.size_expression(self.row_axes)
        self.size_argument("rows", rows)
        self.size_argument("cols", self.size_expression(self._col_axes()))
        self.grid, self.block = self.group.launch(rows)

    @property
    def walkers(self) -> int:
        """Rows (or pieces of rows) that groups go through, one each."""
        return self.rows

    def _walk(self) -> int:
        """Columns that one thread, warp or block goes through."""
        return self.cols

    def _row_axes(self) -> tuple[int, ...]:
        used: set[int] = set()
        for root in self.spec.roots:
            used |= set(self.stored[root].axes if root in self.stored else self.program.nodes[root].axes)
        return tuple(axis for axis in self.program.rows if axis in used)

    def _col_axes(self) -> tuple[int, ...]:
        return self.program.cols

    def _column_count(self) -> int:
        return self.program.row_length

    def _local_levels(self) -> dict[int, int]:
        """How many reductions of this kernel a value waits for."""
        found: dict[int, int] = {}
        for node_id in self.needed(self.spec.roots):
            node = self.program.nodes[node_id]
            level = max((found.get(arg, 0) for arg in node.args), default=0)
            found[node_id] = level + 1 if node.kind == "reduce" else level
        return found

    def _passes(self) -> list[list[Node]]:
        """Reductions by pass: those of pass p need only results of earlier passes."""
        reduces = [self.program.nodes[n] for n in self.levels if self.program.nodes[n].kind == "reduce"]
        depth = max((self.levels[node.id] for node in reduces), default=0)
        return [[node for node in reduces if self.levels[node.id] == p + 1] for p in range(depth)]

    def _width(self, accesses: Sequence[Access]) -> int:
        wanted = min(self.schedule.vector_width, 8)
        nodes = [self.program.nodes[n] for n in [*self.levels, *self.load_map]]
        if not self.cuda and any(ITEM_BYTES[node.dtype] > 4 for node in nodes):
            return 1
        inner = self.col_spans[-1].size if self.col_spans else 1
        if not self.cuda and len(self.col_spans) <= 1:
            while wanted > 1 and wanted > inner:
                wanted //= 2
            return wanted
        return largest_power(wanted, inner)

    @property
    def element_roots(self) -> list[int]:
        return [
            root for root in self.spec.roots
            if root in self.stored and set(self.stored[root].axes) & set(self._col_axes())
        ]  # fmt: skip

    def _choose_kept(self) -> dict[int, str]:
        """Element values that a later pass reads again -> array name; empty where rows are read again."""
        if self.schedule.row_storage == "reload" or len(self.passes) + bool(self.element_roots) < 2:
            return {}
        wanted = shared_between_passes(self)
        if not wanted or not self.group.can_keep(len(wanted)):
            return {}
        return {node_id: self.names.new(f"{self._kept_name(node_id)}_kept") for node_id in wanted}

    def _kept_name(self, node_id: int) -> str:
        node = self.program.nodes[node_id]
        return self.program.leaves[node.op].name if node.kind == "load" else self.value_names[node_id]

    def pass_targets(self) -> list[list[int]]:
        """What each pass computes, the writing one last."""
        targets = [[node.args[0] for node in reduces] for reduces in self.passes]
        if self.element_roots:
            targets.append(list(self.element_roots))
        return targets

    def is_element(self, node_id: int) -> bool:
        """Whether a value varies along the row."""
        node = self.program.nodes[node_id]
        axes = self.stored[node_id].axes if node_id in self.spec.loads else node.axes
        return bool(set(axes) & set(self._col_axes()))

    # the row

    def _row_loop(self, code: Code) -> None:
        self._describe(code)
        with self.group.rows(code):
            self._row(code)

    def _describe(self, code: Code) -> None:
        note = self.notes.add
        if self.width > 1:
            kind = "aligned " if self.cuda else ""
            code.comment(note(f"vector width: {self.width} neighbouring elements in one {kind}access"))
        self.group.describe(code, note)
        if self.kept:
            where = self.group.kept_where
            code.comment(note(f"row in {where}: later passes do not read the row from memory again"))
        if self.schedule.accumulators > 1 and self.passes:
            count = self.schedule.accumulators
            code.comment(
                note(f"{count} accumulators: {count} independent chains hide the latency of additions")
            )

    def _row(self, code: Code) -> None:
        row_known: dict[int, Expr] = dict(self.known)
        self._row_pointers(code)
        for name in self.kept.values():
            self.group.declare_kept(code, name)
        kept_done: set[int] = set()
        for reduces in self.passes:
            self._row_values(code, row_known, [node.args[0] for node in reduces])
            self._reduce_pass(code, reduces, row_known, kept_done)
        self._finish(code, row_known, kept_done)

    def _finish(self, code: Code, row_known: dict[int, Expr], kept_done: set[int]) -> None:
        roots = self.results()
        element = self.element_roots
        self._row_values(code, row_known, roots)
        row_roots = [root for root in roots if root not in element]
        if row_roots:
            with self.group.first_lane(code):
                for root in row_roots:
                    place = self._place(self.store_map[root], "0")
                    text = row_known[root].text if root in row_known else ""
                    dtype = self.stored[root].dtype
                    self._store_scalar(code, place.address, text, dtype)
        if element:
            self._element_pass(code, element, row_known, kept_done)

    def _store_scalar(self, code: Code, address: str, text: str, dtype: str) -> None:
        if self.cuda:
            self.tile.memory.scalar_store(code, address, text, dtype)  # type: ignore[attr-defined]
        else:
            self.tile.memory.store(code, address, text, dtype, 1, False)  # type: ignore[attr-defined]

    def _row_pointers(self, code: Code) -> None:
        """A pointer to the row's start for each tensor that has rows; row values are loaded here."""
        self.row_pointer: dict[str, str] = {}
        coordinates = self._row_coordinates(code)
        for access in [*self.load_map.values(), *self.store_map.values()]:
            key = self._pointer_key(access)
            if key in self.row_pointer:
                continue
            offset = offset_text(access, self.row_spans, coordinates)
            offset = self._symbolic(offset, access)
            if offset == "0" or not any(span_strides(access, self.col_spans)):
                self.row_pointer[key] = access.pointer if offset == "0" else f"{access.pointer} + {offset}"
                continue
            name = self.names.new(f"{access.pointer}_row")
            const = "const " if any(access is load for load in self.load_map.values()) else ""
            space = "" if self.cuda else "__global "
            restrict = (
                ("__restrict__ " if self.cuda else "restrict ") if self.schedule.read_only_loads else ""
            )
            kind = self.tile.dialect.storage_type(access.dtype)
            code.add(f"{space}{const}{kind}* {restrict}{name} = {access.pointer} + {offset};")
            self.row_pointer[key] = name

    @staticmethod
    def _pointer_key(access: Access) -> str:
        return f"{access.pointer}:{sorted(access.strides.items())}:{access.offset}"

    def _symbolic(self, offset: str, access: Access) -> str:
        """``row * cols`` reads better than ``row * 1024``."""
        return offset.replace(f"row * {self.cols}", "row * cols") if len(self.row_spans) <= 1 else offset

    def _row_coordinates(self, code: Code) -> list[str]:
        if len(self.row_spans) <= 1:
            return ["row"][: len(self.row_spans)]
        names = [f"row{position}" for position in range(len(self.row_spans))]
        for name, text in zip(names, coordinate_texts("row", self.row_spans), strict=True):
            code.add(f"const {self.index} {name} = {text};")
        return names

    def _row_values(self, code: Code, row_known: dict[int, Expr], targets: Sequence[int]) -> None:
        """Emit every row-level value that ``targets`` will need and that can be known by now."""
        wanted = self._row_level(targets, row_known)
        loads = [n for n in wanted if n in self.load_map]
        for node_id in loads:
            access = self.load_map[node_id]
            name = self.names.new(f"{self._kept_name(node_id)}_v")
            text = self._load_scalar(self._place(access, "0").address, access.dtype)
            code.add(f"const {self.tile.dialect.types[access.dtype]} {name} = {text};")
            row_known[node_id] = Expr(name, ATOM, uniform=True)
        rest = [n for n in wanted if n not in row_known and self.program.nodes[n].kind == "op"]
        roots = [n for n in rest if not any(n in self.program.nodes[m].args for m in rest)]
        also = [n for n in rest if n in targets or self._read_by_elements(n)]
        env = self.tile.expressions.emit(code, dict.fromkeys([*also, *roots]), row_known, 1)
        for node_id in rest:
            if node_id in env:
                row_known[node_id] = Expr(env[node_id].text, env[node_id].strength, uniform=True)

    def _load_scalar(self, address: str, dtype: str) -> str:
        if self.cuda:
            return self.tile.memory.scalar_load(address, dtype, False)  # type: ignore[attr-defined]
        return self.tile.memory.load(address, dtype, 1)  # type: ignore[attr-defined]

    def _read_by_elements(self, node_id: int) -> bool:
        return any(
            node_id in node.args and (self.is_element(node.id) or node.kind == "reduce")
            for node in self.program.nodes.values()
        )

    def _row_level(self, targets: Sequence[int], row_known: dict[int, Expr]) -> list[int]:
        needed = set(self.program.needed_for(targets, stop=row_known))
        available: set[int] = set(row_known)
        found: list[int] = []
        for node_id, node in self.program.nodes.items():
            if node_id not in needed or self.is_element(node_id) or node_id in row_known:
                continue
            if node.kind == "const":
                available.add(node_id)
            elif node_id in self.load_map or (
                node.kind == "op" and all(arg in available for arg in node.args)
            ):
                available.add(node_id)
                found.append(node_id)
        return found

    # passes

    def places(
        self,
        targets: Sequence[int],
        known: dict[int, Expr],
        column: str,
        kept: dict[int, Place] | None = None,
    ) -> dict[int, Place]:
        """Where a tile at ``column`` finds what ``targets`` read; ``kept`` holds the places of kept values."""
        kept = kept or {}
        needed = set(self.program.needed_for(targets, stop=[*known, *kept, *self.spec.loads]))
        read = {arg for n in needed for arg in self.program.nodes[n].args} | set(targets)
        found = {
            node_id: self._place(access, column)
            for node_id, access in self.load_map.items()
            if node_id not in known and node_id not in kept and (node_id in needed or node_id in read)
        }
        return found | {node_id: place for node_id, place in kept.items() if node_id in read}

    def _place(self, access: Access, column: str) -> Place:
        base = self.row_pointer[self._pointer_key(access)]
        strides = span_strides(access, self.col_spans)
        if not any(strides):
            return Place("uniform", base, access.dtype, stream=False)
        row_strides = span_strides(access, self.row_spans)
        reused = not any(row_strides) or (len(self.passes) > 1 and not self.kept)
        aligned = all(stride % self.width == 0 for stride in [*row_strides, access.offset])
        if is_linear(Access(access.pointer, access.dtype, access.strides), self.col_spans):
            offset = column
            unit = 1
        else:
            offset = offset_text(
                Access(access.pointer, access.dtype, access.strides),
                self.col_spans,
                self._column_texts(column),
            )
            unit = strides[-1]
            aligned = aligned and all(stride % self.width == 0 for stride in strides[:-1])
        address = f"{base} + {offset}"
        if unit == 0:
            return Place("uniform", address, access.dtype, stream=False)
        if unit == 1 and (aligned or not self.cuda):
            return Place("vector", address, access.dtype, lambda k: f"{address} + {k}", not reused, aligned)
        step = f" * {unit}" if unit != 1 else ""
        return Place("gather", address, access.dtype, lambda k: f"{address} + {k}{step}", not reused, False)

    def _column_texts(self, column: str) -> list[str]:
        if len(self.col_spans) == 1:
            return [column]
        return [f"({text})" for text in coordinate_texts(column, self.col_spans)]

    def _reduce_pass(
        self, code: Code, reduces: Sequence[Node], row_known: dict[int, Expr], kept_done: set[int]
    ) -> None:
        shifts = {node.id: self._shift(code, node, row_known) for node in reduces}
        states = [self.states.new(node, self.state_name(node)) for node in reduces]
        new_kept = self._new_kept([node.args[0] for node in reduces], kept_done)
        work = ReducePass(states, shifts, row_known, frozenset(kept_done), new_kept)
        self.group.reduce_loop(code, work, self.schedule.accumulators)
        kept_done.update(new_kept)
        for state in states:
            self._results(code, state, shifts[state.node.id], row_known)

    def _new_kept(self, targets: Sequence[int], kept_done: set[int]) -> list[int]:
        """Values to keep that a pass over ``targets`` computes."""
        now = element_nodes(self, targets, kept_done)
        return [n for n in self.kept if n not in kept_done and (n in now or n in targets)]

    def state_name(self, node: Node) -> str:
        base = self.value_names.get(node.id, node.op)
        return base if base != node.op else f"row_{base}"

    def _results(self, code: Code, state: State, shift: str, row_known: dict[int, Expr]) -> None:
        node = state.node
        results = self.states.results(state, "cols", shift)
        if len(results) == 1 and node.op not in ("online_softmax", "moments", "welford"):
            strength = UNARY if results[0].startswith("(") else ATOM
            row_known[node.id] = Expr(results[0], strength, uniform=True)
            return
        parts = [n for n in self.program.nodes.values() if n.kind == "part" and n.args == (node.id,)]
        for part in parts:
            name = self.names.new(self.value_names[part.id])
            code.add(f"const {self.tile.dialect.types[part.dtype]} {name} = {results[part.value]};")
            row_known[part.id] = Expr(name, ATOM, uniform=True)

    def _shift(self, code: Code, node: Node, row_known: dict[int, Expr]) -> str:
        """The row's first value: sums of squares around it do not cancel."""
        if node.op != "moments":
            return ""
        target = node.args[0]
        places = self.places([target], row_known, "0")
        known = dict(row_known)
        for node_id, place in places.items():
            name = self.names.new(f"first_{self._kept_name(node_id)}")
            value = self._load_scalar(place.address, place.dtype)
            code.add(f"const {self.tile.dialect.types[place.dtype]} {name} = {value};")
            known[node_id] = Expr(name, ATOM, uniform=True)
        env = self.tile.expressions.emit(code, [target], known, 1)
        return env[target].text

    def _element_pass(
        self, code: Code, element: Sequence[int], row_known: dict[int, Expr], kept_done: set[int]
    ) -> None:
        def tile(inner: Code, column: str, width: int, known: dict[int, Expr]) -> None:
            env = {**row_known, **known}
            loads = self.places(element, env, column)
            stores = [Store(root, self._place(self.store_map[root], column)) for root in element]
            self.tile.emit(inner, width, [], loads, env, stores)

        self.group.element_loop(code, tile, frozenset(kept_done))
