"""Point-wise kernels: one flat index over the result, broadcast operands addressed from it."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.recipes.emit.access import (
    Access, Span, coordinate_texts, is_linear, largest_power, merged, offset_text, span_strides,
)  # fmt: skip
from optimizer.recipes.emit.code import Code
from optimizer.recipes.emit.kernel import Kernel, KernelEmitter
from optimizer.recipes.emit.memory import ITEM_BYTES
from optimizer.recipes.emit.tile import Place, Store

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
        self.items = self.schedule.items_per_thread
        code = Code()
        self.size_argument("n", self.size_expression(self.axes))
        with code.block(self.head()):
            grid, block = self._body(code)
        return self.finished(code, grid, block)

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

    def _vector_types(self) -> bool:
        """OpenCL masks have the width of what was compared, so 64-bit values stay scalar."""
        nodes = [self.program.nodes[n] for n in [*self.needed(self.spec.roots), *self.loads]]
        return all(ITEM_BYTES[node.dtype] <= 4 for node in nodes)

    @property
    def ragged(self) -> bool:
        return self.total % self.width != 0

    def _body(self, code: Code) -> tuple[str, str]:
        if self.width > 1:
            kind = "aligned " if self.cuda else ""
            code.comment(
                self.notes.add(f"vector width: {self.width} neighbouring elements in one {kind}access")
            )
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
        loads = {node_id: self._place(access) for node_id, access in self.loads.items()}
        stores = [Store(root, self._place(access)) for root, access in self.stores.items()]
        self.tile.emit(code, self.width, self.spec.roots, loads, self.known, stores, there=there)

    def _coordinates(self, code: Code, index: str) -> None:
        """Row and column of the flat index, where some operand needs them."""
        self.flat = index
        flat = [is_linear(access, self.spans) for access in [*self.loads.values(), *self.stores.values()]]
        self.coordinates: list[str] = []
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


def broadcast_span(spans: Sequence[Span], accesses: Sequence[Access]) -> bool:
    return len(spans) > 1 and any(0 in span_strides(access, spans) for access in accesses)
