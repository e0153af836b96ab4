"""Point-wise kernels: one flat index over the result, broadcast operands addressed from it."""

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
from optimizer.recipes.emit.code import Code, Expr
from optimizer.recipes.emit.kernel import Kernel, KernelEmitter
from optimizer.recipes.emit.memory import ITEM_BYTES
from optimizer.recipes.emit.tile import Place, Store

MIN_HOIST_COLUMNS = 32
STAGED_LIMIT = 4096  # elements of a broadcast operand that a block keeps in shared memory


class PointwiseEmitter(KernelEmitter):
    """``spec.roots`` all vary over the same axes."""

    def emit(self) -> Kernel:
        self.axes = self._domain()
        self.declare(self.spec.roots)
        self.loads = {node_id: self.load_access(node_id) for node_id in self.load_nodes(self.spec.roots)}
        self.stores = {root: self.store_access(root) for root in self.spec.roots}
        accesses = [*self.loads.values(), *self.stores.values()]
        self.spans = merged(self.axes, self.program.sizes, accesses)
        self.total = self.program.size(self.axes)
        self.width = self._width(accesses)
        self.items = self.schedule.items_per_thread * self._doubled()
        self.coordinates: list[str] = []
        layout = self._layout()
        code = Code()
        if layout == "flat":
            self.size_argument("n", self.size_expression(self.axes))
        else:
            self.size_argument("rows", self.size_expression(self._row_axes()))
            self.size_argument("cols", self.size_expression(self.spans[-1].axes))
        with code.block(self.head()):
            self._describe(code)
            grid, block = {"flat": self._body, "columns": self._by_columns, "rows": self._by_rows}[layout](
                code
            )
        return self.finished(code, grid, block)

    def _layout(self) -> str:
        """How threads are laid over the data: "flat", or by rows or columns so that broadcast operands are hoisted.

        "columns": a thread keeps its columns and walks down the rows. "rows": a block (a work-item on a CPU) keeps
        its row and walks along it.
        """
        if (
            not self.schedule.hoist_broadcast
            or len(self.spans) < 2
            or self.spans[-1].size < MIN_HOIST_COLUMNS
        ):
            return "flat"
        accesses = self.loads.values()
        if self.cuda and any(self._column_only(access) for access in accesses):
            return "columns"
        if any(self._column_only(access) or self._row_only(access) for access in accesses):
            return "rows"
        return "flat"

    def _column_only(self, access: Access) -> bool:
        strides = span_strides(access, self.spans)
        return strides[-1] != 0 and not any(strides[:-1])

    def _row_only(self, access: Access) -> bool:
        strides = span_strides(access, self.spans)
        return strides[-1] == 0 and any(strides[:-1])

    def _row_axes(self) -> tuple[int, ...]:
        return tuple(axis for span in self.spans[:-1] for axis in span.axes)

    def _describe(self, code: Code) -> None:
        if self.width > 1:
            kind = "aligned " if self.cuda else ""
            width = self.width * self._doubled()
            code.comment(self.notes.add(f"vector width: {width} neighbouring elements in one {kind}access"))

    # layouts that hoist

    def _by_columns(self, code: Code) -> tuple[str, str]:
        cols, width = self.spans[-1].size, self.width
        threads = -(-cols // width)
        block = min(self.schedule.block_size, -(-threads // 32) * 32)
        code.comment(
            self.notes.add("hoisted broadcast: a thread keeps its columns' operands and walks down the rows")
        )
        code.add(f"const {self.index} col = {self._scaled(self.global_id(), width)};")
        if not (self.schedule.exact_tile and cols % (width * block) == 0):
            code.add("if (col >= cols) return;")
        self.flat = "i"
        self.coordinates = [*self._outer_names(), "col"]
        hoisted = {n: self._place(access) for n, access in self.loads.items() if self._column_only(access)}
        known = self.tile.hoist(code, width, hoisted)
        with code.block(f"for ({self.index} row = blockIdx.y; row < rows; row += gridDim.y)"):
            self._row_tile(code, known)
        columns = self.size_expression(self.spans[-1].axes)
        columns = columns if " " not in columns else f"({columns})"
        per_block = f"{block} * {width}" if width > 1 else str(block)
        across = -(-cols // (block * width))
        rows = self.program.size(self._row_axes())
        down = max(1, min(rows, 65535, self.target.compute_units * self.schedule.waves // across or 1))
        return f"(cdiv({columns}, {per_block}), {down})", str(block)

    def _by_rows(self, code: Code) -> tuple[str, str]:
        cols, width = self.spans[-1].size, self.width
        code.comment(self.notes.add("hoisted broadcast: what is the same along a row is read once a row"))
        code.add(f"const {self.index} row = {'blockIdx.x' if self.cuda else 'get_global_id(0)'};")
        names = self._outer_names()
        self.flat, self.coordinates = "i", [*names, "col"]
        self._outer_coordinates(code, names)
        hoisted = {n: self._place(access) for n, access in self.loads.items() if self._row_only(access)}
        known = {**self.known, **self.tile.hoist(code, width, hoisted)}
        for node_id, expr in self._row_values(code, known).items():
            known.setdefault(node_id, expr)
        busy = -(-cols // width)
        threads = min(self.schedule.block_size, -(-busy // 32) * 32) if self.cuda else 1
        start = self._scaled("threadIdx.x", width) if self.cuda else "0"
        if self.schedule.unroll > 1:
            code.add(f"#pragma unroll {self.schedule.unroll}")
        with code.block(f"for ({self.index} col = {start}; col < cols; col += {threads * width})"):
            self._row_tile(code, known, coordinates=False)
        rows = self.size_expression(self._row_axes())
        return rows, str(threads)

    def _outer_names(self) -> list[str]:
        outer = len(self.spans) - 1
        return ["row"] if outer == 1 else [f"row{position}" for position in range(outer)]

    def _outer_coordinates(self, code: Code, names: list[str]) -> None:
        if len(names) == 1:
            return
        accesses = [*self.loads.values(), *self.stores.values()]
        for position, text in enumerate(coordinate_texts("row", self.spans[:-1])):
            if any(
                span_strides(access, self.spans)[position] and not is_linear(access, self.spans)
                for access in accesses
            ):
                code.add(f"const {self.index} {names[position]} = {text};")

    def _row_values(self, code: Code, known: dict[int, Expr]) -> dict[int, Expr]:
        """Values that depend on the row only, computed ahead of the walk along it."""
        inner = set(self.spans[-1].axes)
        nodes = self.program.nodes
        needed = self.needed(self.spec.roots)
        fixed = [
            n for n in needed if nodes[n].kind == "op" and nodes[n].axes and not set(nodes[n].axes) & inner
        ]
        ready = [
            n
            for n in fixed
            if all(arg in known or nodes[arg].kind == "const" or arg in fixed for arg in nodes[n].args)
        ]
        read = {arg for n in needed if n not in ready for arg in nodes[n].args}
        targets = [n for n in ready if n in read]
        env = self.tile.expressions.emit(code, targets, known, 1)
        return {n: Expr(env[n].text, env[n].strength, uniform=True) for n in targets}

    def _row_tile(self, code: Code, known: dict[int, Expr], coordinates: bool = True) -> None:
        """One vector at (row, col), with the hoisted operands known."""
        if coordinates:
            self._outer_coordinates(code, self._outer_names())
        accesses = [*self.loads.values(), *self.stores.values()]
        if any(is_linear(access, self.spans) for access in accesses):
            code.add(f"const {self.index} i = row * cols + col;")
        known = {**self.known, **known}
        targets = self.spec.roots
        read = set(self.program.needed_for(targets, stop=[*known, *self.spec.loads]))
        read |= {arg for n in read for arg in self.program.nodes[n].args}
        loads = {n: self._place(a) for n, a in self.loads.items() if n not in known and n in read}
        stores = [Store(root, self._place(access)) for root, access in self.stores.items()]
        self.tile.emit(code, self.width, targets, loads, known, stores)

    def _domain(self) -> tuple[int, ...]:
        axes = self.stored[self.spec.roots[0]].axes
        order = [*self.program.rows, *self.program.cols]
        return axes if len(self.spec.roots) == 1 else tuple(sorted(axes, key=order.index))

    def _width(self, accesses: Sequence[Access]) -> int:
        """The vector width that this kernel can use: vectors never cross a row of a broadcast operand."""
        wanted = min(self.schedule.vector_width, 8)
        if not self.cuda and not self._vector_types():
            return 1
        if len(self.spans) <= 1:
            while wanted > 1 and wanted > self.total:
                wanted //= 2
            steps = {stride for access in accesses for stride in span_strides(access, self.spans)}
            simple = steps <= {0, 1} and not any(access.offset for access in accesses)
            return wanted if simple else largest_power(wanted, self.total)
        return largest_power(wanted, self.spans[-1].size)

    def _doubled(self) -> int:
        """Sixteen elements on a CPU are two vectors of eight: wider ones are no type of its hardware."""
        return 2 if self.schedule.vector_width == 16 and self.width == 8 and not self.cuda else 1

    def _vector_types(self) -> bool:
        """OpenCL masks have the width of what was compared, so 64-bit values stay scalar."""
        nodes = [self.program.nodes[n] for n in [*self.needed(self.spec.roots), *self.loads]]
        return all(ITEM_BYTES[node.dtype] <= 4 for node in nodes)

    @property
    def ragged(self) -> bool:
        return self.total % self.width != 0

    def _body(self, code: Code) -> tuple[str, str]:
        self._stage(code)
        if self.schedule.grid_stride:
            return self._grid_stride(code)
        block = self.schedule.block_size
        per_thread = self.width * self.items
        exact = self.schedule.exact_tile and self.total % (block * per_thread) == 0
        if exact:
            code.comment(
                self.notes.add("exact tile: the grid covers the data exactly, so nothing is checked")
            )
        if self.items == 1:
            code.add(f"const {self.index} i = {self._scaled(self.global_id(), self.width)};")
            if not exact:
                code.add("if (i >= n) return;")
            self._tile(code)
        else:
            self._several(code, exact)
        return f"cdiv({self._count_text()}, {block}{f' * {per_thread}' if per_thread > 1 else ''})", str(
            block
        )

    def _stage(self, code: Code) -> None:
        """Copy operands that are the same for every row into shared memory, once a block."""
        self.staged: dict[int, str] = {}
        if not (self.cuda and self.schedule.broadcast_in_shared and len(self.spans) > 1):
            return
        size = self.spans[-1].size
        for node_id, access in self.loads.items():
            if not self._column_only(access) or access.stride(self.spans[-1]) != 1 or access.offset:
                continue
            if size * (len(self.staged) + 1) > STAGED_LIMIT or access.dtype == "bool":
                continue
            name = self.names.new(f"{access.pointer}_shared")
            if not self.staged:
                code.comment(self.notes.add("broadcast in shared memory: a block reads the operand once"))
            code.add(f"__shared__ __align__(16) {self.tile.dialect.types[access.dtype]} {name}[{size}];")
            code.add(
                f"for (int c = threadIdx.x; c < {size}; c += blockDim.x) {name}[c] = {access.pointer}[c];"
            )
            self.staged[node_id] = name
        if self.staged:
            code.add("__syncthreads();")

    def _load_place(self, node_id: int) -> Place:
        place = self._place(self.loads[node_id])
        name = self.staged.get(node_id)
        if name is None:
            return place
        pointer = self.loads[node_id].pointer
        address = place.address.replace(pointer, name, 1)
        lane = place.lane_address
        moved = (lambda k: lane(k).replace(pointer, name, 1)) if lane is not None else None
        return Place(place.mode, address, place.dtype, moved, False, place.aligned, on_chip=True)

    def _several(self, code: Code, exact: bool) -> None:
        """``items`` vectors a thread: a block's stride apart on a GPU, neighbours on a CPU."""
        width, items = self.width, self.items
        code.comment(self.notes.add(f"items per thread: {items} independent accesses are in flight at once"))
        if self.cuda:
            threads = "(long)blockDim.x" if self.wide else "blockDim.x"
            code.add(
                f"const {self.index} first = {self._scaled(f'blockIdx.x * {threads} * {items} + threadIdx.x', width)};"
            )
            step = f"item * blockDim.x{f' * {width}' if width > 1 else ''}"
        else:
            code.add(f"const {self.index} first = {self._scaled(self.global_id(), width * items)};")
            step = f"item * {width}" if width > 1 else "item"
        code.add("#pragma unroll")
        with code.block(f"for (int item = 0; item < {items}; ++item)"):
            code.add(f"const {self.index} i = first + {step};")
            if exact:
                self._tile(code)
            else:
                with code.block("if (i < n)"):
                    self._tile(code)

    def _grid_stride(self, code: Code) -> tuple[str, str]:
        blocks = max(1, self.target.compute_units * self.schedule.waves)
        unroll = max(self.schedule.unroll, self.items)
        width = self.width
        if self.cuda:
            blocks = max(1, min(blocks, -(-self.total // (self.schedule.block_size * width))))
            code.comment(self.notes.add("grid stride: a fixed grid walks over the data"))
            start = self._scaled(self.global_id(), width)
            stride = self._scaled(f"{'(long)' if self.wide else ''}gridDim.x * blockDim.x", width)
            if unroll > 1:
                code.add(f"#pragma unroll {unroll}")
            with code.block(f"for ({self.index} i = {start}; i < n; i += {stride})"):
                self._tile(code)
            return str(blocks), str(self.schedule.block_size)
        code.comment(
            self.notes.add("grid stride: few work-items, each with one contiguous piece of the data")
        )
        blocks = max(1, min(blocks, -(-self.total // width)))
        code.add(f"const {self.index} piece = (n / {width} + {blocks}) / {blocks} * {width};")
        code.add(f"const {self.index} first = get_global_id(0) * piece;")
        code.add(f"const {self.index} last = min(first + piece, n);")
        if unroll > 1:
            code.add(f"#pragma unroll {unroll}")
        with code.block(f"for ({self.index} i = first; i < last; i += {width})"):
            self._tile(code)
        return str(blocks), "1"

    def _scaled(self, text: str, factor: int) -> str:
        if factor == 1:
            return text
        return f"({text}) * {factor}" if " " in text else f"{text} * {factor}"

    def _count_text(self) -> str:
        text = self.size_expression(self.axes)
        return text if text.isidentifier() or text.isdigit() or text.endswith(".numel") else f"({text})"

    def _tile(self, code: Code) -> None:
        index, there = "i", ""
        if self.ragged and self.cuda:
            there = "n - i"
        elif self.ragged:
            code.comment("the last vector moves back so that it ends with the data")
            code.add(f"const {self.index} e = min(i, n - {self.width});")
            index = "e"
        self._coordinates(code, index)
        loads = {node_id: self._load_place(node_id) for node_id in self.loads}
        stores = [Store(root, self._place(access)) for root, access in self.stores.items()]
        self.tile.emit(code, self.width, self.spec.roots, loads, self.known, stores, there=there)

    def _coordinates(self, code: Code, index: str) -> None:
        """Row and column of the flat index, where some operand needs them."""
        self.flat = index
        flat = [is_linear(access, self.spans) for access in [*self.loads.values(), *self.stores.values()]]
        self.coordinates = []
        if all(flat) or not self.spans:
            return
        names = (
            ["row", "col"]
            if len(self.spans) == 2
            else [f"i{position}" for position in range(len(self.spans))]
        )
        if len(self.spans) == 1:
            self.coordinates = [index]
            return
        accesses = [*self.loads.values(), *self.stores.values()]
        texts = coordinate_texts(index, self.spans)
        for position, (name, text) in enumerate(zip(names, texts, strict=True)):
            used = any(
                span_strides(access, self.spans)[position] and not is_linear(access, self.spans)
                for access in accesses
            )
            if used:
                code.add(f"const {self.index} {name} = {text};")
            self.coordinates.append(name)

    def _place(self, access: Access) -> Place:
        spans = self.spans
        strides = span_strides(access, spans)
        if not any(strides):
            return Place("uniform", _plus(access.pointer, str(access.offset)), access.dtype, stream=False)
        if is_linear(access, spans):
            lane = lambda k: f"{access.pointer} + {self.flat} + {k}"  # noqa: E731
            return Place(
                "vector", f"{access.pointer} + {self.flat}", access.dtype, lane, aligned=not self.ragged
            )
        offset = offset_text(access, spans, self.coordinates or [self.flat])
        address = _plus(access.pointer, offset)
        reused = any(stride == 0 for stride in strides)
        inner = strides[-1]
        if inner == 0:
            return Place("uniform", address, access.dtype, stream=False)
        aligned = all(stride % self.width == 0 for stride in [*strides[:-1], access.offset])
        if inner == 1 and (aligned or not self.cuda) and not self.ragged:
            lane = lambda k: f"{address} + {k}"  # noqa: E731
            return Place("vector", address, access.dtype, lane, not reused, aligned)
        step = f" * {inner}" if inner != 1 else ""
        return Place("gather", address, access.dtype, lambda k: f"{address} + {k}{step}", not reused, False)


def _plus(pointer: str, offset: str) -> str:
    return pointer if offset == "0" else f"{pointer} + {offset}"
