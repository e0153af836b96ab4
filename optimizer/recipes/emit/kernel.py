"""What every kernel emitter shares: pointers, sizes, the signature and the launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimizer.recipes.emit.access import Access
from optimizer.recipes.emit.code import Code, Expr, Names
from optimizer.recipes.emit.expressions import origin_names
from optimizer.recipes.emit.memory import Hints
from optimizer.recipes.emit.quick import quick_helpers
from optimizer.recipes.emit.tile import TILES, Tile
from optimizer.recipes.ir import Output, Program, contiguous_strides
from optimizer.recipes.partition import KernelSpec
from optimizer.recipes.schedule import Schedule

INT32_SAFE = 2**30  # elements up to which index arithmetic, strides of a whole grid included, fits an int


@dataclass(frozen=True)
class Scratch:
    """A tensor that one kernel leaves for the next: its name in the plan, elements and dtype."""

    variable: str
    count: int
    dtype: str


@dataclass(frozen=True)
class Kernel:
    """One kernel and how the plan launches it."""

    name: str
    text: str
    grid: str
    block: str
    args: tuple[str, ...]
    helpers: tuple[str, ...] = ()  # device functions it calls, in order
    scratch: tuple[Scratch, ...] = ()  # tensors the plan allocates before it


@dataclass
class Stored:
    """A value in memory between kernels or at the end: its name in the plan, axes in storage order."""

    node: int
    variable: str
    axes: tuple[int, ...]
    dtype: str
    outputs: list[Output] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """What the generator knows of the device."""

    language: str
    compute_units: int
    shared_bytes: int = 48 * 1024


class KernelEmitter(ABC):
    """Emits one kernel of a partition. Subclasses write the body."""

    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        spec: KernelSpec,
        stored: dict[int, Stored],
        target: Target,
        name: str,
        notes: Notes,
    ) -> None:
        self.program = program
        self.schedule = schedule
        self.spec = spec
        self.stored = stored
        self.target = target
        self.cuda = target.language == "cuda"
        self.name = name
        self.names = Names()
        self.names.new(name)
        self.value_names = origin_names(program)
        self.notes = notes
        self.wide = not schedule.index_32bit or self._elements() >= INT32_SAFE
        self.index = "long" if self.wide else "int"
        hints = Hints(schedule.streaming_loads, schedule.streaming_stores, schedule.read_only_loads)
        self.pointers: dict[str, str] = {}  # plan expression -> pointer name
        self.signature: list[str] = []
        self.args: list[str] = []
        self.tile: Tile = TILES[target.language](program, self.names, self.value_names, hints)
        self.known: dict[int, Expr] = {}

    @abstractmethod
    def emit(self) -> Kernel:
        """The kernel's text and launch."""

    # what the kernel reads and writes

    def _elements(self) -> int:
        """The largest extent that an index of this kernel can reach."""
        program = self.program
        largest = (
            program.row_count * max(program.row_length, 1) if program.cols else program.size(program.rows)
        )
        for node in program.nodes.values():
            if node.kind == "load":
                reach = sum((program.sizes[a] - 1) * s for a, s in zip(node.axes, node.strides, strict=True))
                largest = max(largest, reach + node.offset + 1)
        return largest

    def needed(self, targets: Sequence[int]) -> list[int]:
        return self.program.needed_for(targets, stop=self.spec.loads)

    def load_nodes(self, targets: Sequence[int]) -> list[int]:
        """Leaves and stored values that computing ``targets`` reads, in program order."""
        needed = set(self.needed(targets)) | (set(targets) & self.spec.loads)
        read = {arg for node_id in needed for arg in self.program.nodes[node_id].args}
        return [
            node_id
            for node_id, node in self.program.nodes.items()
            if (node.kind == "load" and node_id in needed) or (node_id in self.spec.loads and node_id in read)
        ]

    def load_access(self, node_id: int) -> Access:
        node = self.program.nodes[node_id]
        if node_id in self.spec.loads:
            return self._stored_access(self.stored[node_id], self.pointers[self.stored[node_id].variable])
        leaf = self.program.leaves[node.op]
        strides = dict(zip(node.axes, node.strides, strict=True))
        return Access(self.pointers[leaf.expression], node.dtype, strides, node.offset)

    def store_access(self, node_id: int) -> Access:
        item = self.stored[node_id]
        return self._stored_access(item, self.pointers[item.variable])

    def _stored_access(self, item: Stored, pointer: str) -> Access:
        sizes = [self.program.sizes[axis] for axis in item.axes]
        return Access(pointer, item.dtype, dict(zip(item.axes, contiguous_strides(sizes), strict=True)))

    def results(self) -> list[int]:
        """Roots that this kernel stores in tensors of the plan."""
        return [root for root in self.spec.roots if root in self.stored]

    def declare(self, roots: Sequence[int]) -> None:
        """Pointers and scalars of the signature: operands in the operator's order, then results."""
        loads = self.load_nodes(roots)
        leaves = [self.program.nodes[n].op for n in loads if n not in self.spec.loads]
        for key, leaf in self.program.leaves.items():
            if leaf.kind != "scalar" and key in leaves:
                self._pointer(leaf.expression, leaf.name, leaf.dtype, const=True)
        for node_id in loads:
            if node_id in self.spec.loads:
                item = self.stored[node_id]
                self._pointer(item.variable, item.variable, item.dtype, const=True)
        for node_id in self.needed(roots):
            node = self.program.nodes[node_id]
            if node.kind == "scalar":
                self._scalar(node_id)
        for node_id in self.results():
            item = self.stored[node_id]
            self._pointer(item.variable, item.variable, item.dtype, const=False)

    def _pointer(self, expression: str, wish: str, dtype: str, const: bool) -> None:
        if expression in self.pointers:
            return
        name = self.names.new(wish)
        self.pointers[expression] = name
        space = "" if self.cuda else "__global "
        kind = self.tile.dialect.storage_type(dtype)
        restrict = ("__restrict__ " if self.cuda else "restrict ") if self.schedule.read_only_loads else ""
        self.signature.append(f"{space}{'const ' if const else ''}{kind}* {restrict}{name}")
        self.args.append(expression)

    def _scalar(self, node_id: int) -> None:
        node = self.program.nodes[node_id]
        leaf = self.program.leaves[node.op]
        key = f"{leaf.expression}:{node.dtype}"
        if key not in self.pointers:
            self.pointers[key] = self.names.new(leaf.name)
            self.signature.append(f"const {self.tile.dialect.types[node.dtype]} {self.pointers[key]}")
            word = {"float32": "float32", "float64": "float64", "int64": "int64"}.get(node.dtype, "int32")
            self.args.append(f"{word}({leaf.expression})")
        self.known[node_id] = Expr(self.pointers[key], uniform=True)

    def size_argument(self, name: str, expression: str) -> None:
        self.signature.append(f"const {self.index} {name}")
        self.args.append(f"{'int64' if self.wide else 'int32'}({expression})")

    def size_expression(self, axes: Sequence[int]) -> str:
        """How the plan writes a product of sizes: from an input's shape where it can, else the number."""
        product = self.program.size(axes)
        names = [self.program.size_names[axis] for axis in axes]
        if not names or not all(names):
            return str(product)
        tensor = names[0].split(".shape")[0]
        if all(name.startswith(f"{tensor}.shape") for name in names):
            for leaf in self.program.leaves.values():
                if leaf.expression == tensor and _count(leaf.shape) == product:
                    return f"{tensor}.numel"
        return " * ".join(names)

    # text

    def head(self) -> str:
        mark = "__global__ void" if self.cuda else "__kernel void"
        start = f"{mark} {self.name}("
        one = start + ", ".join(self.signature) + ")"
        if len(one) <= 110:
            return one
        pad = " " * len(start)
        lines, line = [], start
        for position, parameter in enumerate(self.signature):
            last = position == len(self.signature) - 1
            piece = parameter + (")" if last else ", ")
            if len(line) + len(piece) > 110 and line.strip() and line != start:
                lines.append(line.rstrip())
                line = pad
            line += piece
        return "\n".join([*lines, line])

    def finished(self, code: Code, grid: str, block: str, **extra: object) -> Kernel:
        helpers = [helper.text() for helper in sorted(getattr(self.tile.memory, "helpers", ()))]  # type: ignore[attr-defined]
        helpers = [*quick_helpers(code.text(), self.target.language), *helpers]
        return Kernel(self.name, code.text(), grid, block, tuple(self.args), tuple(helpers), **extra)  # type: ignore[arg-type]

    def global_id(self) -> str:
        if not self.cuda:
            return "get_global_id(0)"
        return (
            "(long)blockIdx.x * blockDim.x + threadIdx.x"
            if self.wide
            else "blockIdx.x * blockDim.x + threadIdx.x"
        )


class Notes:
    """Strategies that really shaped the text, in order, each once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> str:
        if line not in self.lines:
            self.lines.append(line)
        return line


def _count(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
