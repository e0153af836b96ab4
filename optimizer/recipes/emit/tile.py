"""One tile: load a few neighbouring elements of every operand, compute, store or accumulate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.recipes.emit.code import ATOM, Code, Expr, Names
from optimizer.recipes.emit.dialect import DIALECTS
from optimizer.recipes.emit.expressions import Expressions
from optimizer.recipes.emit.memory import CudaMemory, Hints, OpenclMemory
from optimizer.recipes.ir import Program

Inside = Callable[[Code, dict[int, Expr]], None]


@dataclass(frozen=True)
class Place:
    """Where a tile finds an operand. ``mode``: "vector" (neighbours), "uniform" (one element), "gather".

    ``address`` is pointer plus offset of the first element, ``lane_address`` that of lane ``k`` (gather).
    ``stream``: nobody reads it again. ``aligned``: vectors start at a multiple of their size. ``on_chip``: shared
    memory, where cache hints mean nothing.
    """

    mode: str
    address: str
    dtype: str
    lane_address: Callable[[str], str] | None = None
    stream: bool = True
    aligned: bool = True
    on_chip: bool = False


@dataclass(frozen=True)
class Store:
    node: int
    place: Place


class Tile(ABC):
    """Emits tiles of one kernel."""

    def __init__(self, program: Program, names: Names, value_names: dict[int, str], hints: Hints) -> None:
        self.program = program
        self.names = names
        self.dialect = DIALECTS[self.language]
        self.value_names = value_names
        self.expressions = Expressions(program, self.dialect, names, value_names)

    language: str

    @abstractmethod
    def emit(
        self,
        code: Code,
        width: int,
        targets: Sequence[int],
        loads: dict[int, Place],
        known: dict[int, Expr],
        stores: Sequence[Store] = (),
        inside: Inside | None = None,
        there: str = "",
    ) -> None:
        """Compute ``targets`` (and what ``stores`` need) from ``loads`` and ``known``; call ``inside`` with the
        texts of all values where single elements (CUDA) or vectors (OpenCL) are at hand. ``there``: how many
        elements the tile really has, where that can be fewer than ``width``."""

    @abstractmethod
    def hoist(self, code: Code, width: int, loads: dict[int, Place]) -> dict[int, Expr]: ...

    def _value_name(self, node_id: int, places: dict[int, Place]) -> str:
        node = self.program.nodes[node_id]
        wish = self.program.leaves[node.op].name if node.kind == "load" else self.value_names[node_id]
        return self.names.new(f"{wish}_v")


class CudaTile(Tile):
    language = "cuda"

    def __init__(self, program: Program, names: Names, value_names: dict[int, str], hints: Hints) -> None:
        super().__init__(program, names, value_names, hints)
        self.memory = CudaMemory(hints)

    def emit(self, code, width, targets, loads, known, stores=(), inside=None, there=""):  # type: ignore[no-untyped-def]
        env = dict(known)
        if width == 1:
            for node_id, place in loads.items():
                env[node_id] = self._scalar(code, node_id, place, place.address, loads)
            env = self.expressions.emit(code, [*targets, *(s.node for s in stores)], env, 1)
            if inside is not None:
                inside(code, env)
            for store in stores:
                self.memory.scalar_store(code, store.place.address, env[store.node].text, store.place.dtype)
            return
        arrays: dict[int, str] = {}
        late: list[int] = []
        for node_id, place in loads.items():
            if place.mode == "vector":
                arrays[node_id] = name = self._value_name(node_id, loads)
                code.add(f"{self.dialect.types[place.dtype]} {name}[{width}];")
                self.memory.wide_load(code, name, place, width, there)
                env[node_id] = Expr(f"{name}[k]")
            elif place.mode == "uniform":
                env[node_id] = self._scalar(code, node_id, place, place.address, loads)
            else:
                late.append(node_id)
        out = {}
        for store in stores:
            if store.place.mode == "vector":
                out[store.node] = name = self.names.new(f"{self.value_names.get(store.node, 'out')}_v")
                code.add(f"{self.dialect.types[store.place.dtype]} {name}[{width}];")
        code.add("#pragma unroll")
        with code.block(f"for (int k = 0; k < {width}; ++k)"):
            for node_id in late:
                address = loads[node_id].lane_address
                assert address is not None
                env[node_id] = self._scalar(code, node_id, loads[node_id], address("k"), loads)
            env = self.expressions.emit(code, [*targets, *(s.node for s in stores)], env, width)
            if inside is not None:
                inside(code, env)
            for store in stores:
                if store.node in out and store.place.mode == "vector":
                    code.add(f"{out[store.node]}[k] = {env[store.node].text};")
                else:
                    address = store.place.lane_address
                    assert address is not None
                    text = address("k")
                    guard = f"if (k < {there}) " if there else ""
                    pointer, _, offset = text.partition(" + ")
                    code.add(f"{guard}{pointer}[{offset}] = {env[store.node].text};")
        for store in stores:
            if store.place.mode == "vector":
                self.memory.wide_store(
                    code, out[store.node], store.place.address, store.place.dtype, width, there
                )

    def hoist(self, code: Code, width: int, loads: dict[int, Place]) -> dict[int, Expr]:
        """Load operands ahead of a loop; tiles inside it get them as known."""
        known: dict[int, Expr] = {}
        for node_id, place in loads.items():
            if width == 1 or place.mode == "uniform":
                known[node_id] = self._scalar(code, node_id, place, place.address, loads)
                continue
            name = self._value_name(node_id, loads)
            code.add(f"{self.dialect.types[place.dtype]} {name}[{width}];")
            self.memory.wide_load(code, name, place, width, "")
            known[node_id] = Expr(f"{name}[k]")
        return known

    def _scalar(self, code: Code, node_id: int, place: Place, address: str, loads: dict[int, Place]) -> Expr:
        name = self._value_name(node_id, loads)
        text = self.memory.scalar_load(address, place.dtype, place.stream, place.on_chip)
        code.add(f"const {self.dialect.types[place.dtype]} {name} = {text};")
        return Expr(name, ATOM, uniform=place.mode == "uniform")


class OpenclTile(Tile):
    language = "opencl"

    def __init__(self, program: Program, names: Names, value_names: dict[int, str], hints: Hints) -> None:
        super().__init__(program, names, value_names, hints)
        self.memory = OpenclMemory(hints)

    def emit(self, code, width, targets, loads, known, stores=(), inside=None, there=""):  # type: ignore[no-untyped-def]
        env = dict(known)
        for node_id, place in loads.items():
            name = self._value_name(node_id, loads)
            uniform = place.mode == "uniform"
            kind = self.dialect.type_of(place.dtype, 1 if uniform else width)
            code.add(f"const {kind} {name} = {self._loaded(place, width)};")
            env[node_id] = Expr(name, ATOM, uniform)
        env = self.expressions.emit(code, [*targets, *(s.node for s in stores)], env, width)
        if inside is not None:
            inside(code, env)
        for store in stores:
            place = store.place
            value = self.dialect.splat(env[store.node], place.dtype, width)
            if place.mode == "vector" or width == 1:
                self.memory.store(code, place.address, value, place.dtype, width, place.aligned)
            else:
                self._scatter(code, place, value, width)

    def hoist(self, code: Code, width: int, loads: dict[int, Place]) -> dict[int, Expr]:
        """Load operands ahead of a loop; tiles inside it get them as known."""
        known: dict[int, Expr] = {}
        for node_id, place in loads.items():
            name = self._value_name(node_id, loads)
            uniform = place.mode == "uniform"
            kind = self.dialect.type_of(place.dtype, 1 if uniform else width)
            code.add(f"const {kind} {name} = {self._loaded(place, width)};")
            known[node_id] = Expr(name, ATOM, uniform)
        return known

    def _loaded(self, place: Place, width: int) -> str:
        if place.mode == "uniform" or width == 1:
            return self.memory.load(place.address, place.dtype, 1)
        if place.mode == "vector":
            return self.memory.load(place.address, place.dtype, width)
        assert place.lane_address is not None
        lanes = [self.memory.load(place.lane_address(str(lane)), place.dtype, 1) for lane in range(width)]
        if place.dtype == "bool":
            lanes = [f"-({lane})" for lane in lanes]
        return f"({self.dialect.type_of(place.dtype, width)})({', '.join(lanes)})"

    def _scatter(self, code: Code, place: Place, value: str, width: int) -> None:
        assert place.lane_address is not None
        name = self.names.new("lanes")
        code.add(f"const {self.dialect.type_of(place.dtype, width)} {name} = {value};")
        for lane in range(width):
            pointer, _, offset = place.lane_address(str(lane)).partition(" + ")
            code.add(f"{pointer}[{offset}] = {name}.s{lane:x}{' != 0' if place.dtype == 'bool' else ''};")


TILES: dict[str, type[Tile]] = {"cuda": CudaTile, "opencl": OpenclTile}
