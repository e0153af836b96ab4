"""Loads and stores of a few neighbouring elements, with the helper functions that CUDA needs for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optimizer.recipes.emit.code import Code
from optimizer.recipes.emit.dialect import DIALECTS

ITEM_BYTES = {"bool": 1, "int32": 4, "float32": 4, "int64": 8, "float64": 8}
_VECTOR_BASE = {"bool": "uchar", "int32": "int", "float32": "float", "int64": "longlong", "float64": "double"}
_LANES = "xyzw"


@dataclass(frozen=True)
class Hints:
    """Cache behaviour of plain loads and stores."""

    streaming_loads: bool = False
    streaming_stores: bool = False
    read_only_loads: bool = False


@dataclass(frozen=True, order=True)
class Helper:
    """A CUDA device function that moves ``width`` elements. ``guarded``: it takes how many are there."""

    verb: str  # "load" or "store"
    dtype: str
    width: int
    hint: str  # "", "__ldcs", "__ldg" or "__stcs"
    guarded: bool

    @property
    def name(self) -> str:
        suffix = {"__ldcs": "_streaming", "__stcs": "_streaming", "__ldg": "_read_only"}.get(self.hint, "")
        return f"{self.verb}{self.width}{suffix}"

    def text(self) -> str:
        """The function's source."""
        code = Code()
        value = DIALECTS["cuda"].types[self.dtype]
        memory = DIALECTS["cuda"].storage_type(self.dtype)
        const = "const " if self.verb == "load" else ""
        parameters = [
            f"{const}{memory}* p",
            f"{'' if self.verb == 'load' else 'const '}{value} (&v)[{self.width}]",
        ]
        if self.guarded:
            parameters.append("long there")
        head = f"__device__ __forceinline__ void {self.name}({', '.join(parameters)})"
        with code.block(head):
            if self.guarded:
                with code.block(f"if (there >= {self.width})", "} else {"):
                    self._wide(code)
                with code.indented():
                    code.add("#pragma unroll")
                    code.add(f"for (int k = 0; k < {self.width}; ++k)")
                    with code.indented():
                        code.add(self._lane())
                code.add("}")
            else:
                self._wide(code)
        return code.text()

    def _lane(self) -> str:
        if self.verb == "store":
            return "if (k < there) p[k] = v[k];"
        return "v[k] = k < there ? p[k] : 0;"

    def _wide(self, code: Code) -> None:
        size = ITEM_BYTES[self.dtype]
        chunk = min(self.width, 4 if size == 1 else 16 // size)
        vector = f"{_VECTOR_BASE[self.dtype]}{chunk}"
        for start in range(0, self.width, chunk):
            name = f"t{start // chunk}"
            where = f"p + {start}" if start else "p"
            if self.verb == "load":
                source = f"reinterpret_cast<const {vector}*>({where})"
                value = f"{self.hint}({source})" if self.hint else f"*{source}"
                code.add(f"const {vector} {name} = {value};")
                lanes = [f"v[{start + lane}] = {name}.{_LANES[lane]}" for lane in range(chunk)]
                code.add("; ".join(lanes) + ";")
            else:
                lanes = [self._stored(f"v[{start + lane}]") for lane in range(chunk)]
                value = f"make_{vector}({', '.join(lanes)})"
                target = f"reinterpret_cast<{vector}*>({where})"
                code.add(f"{self.hint}({target}, {value});" if self.hint else f"*{target} = {value};")

    def _stored(self, lane: str) -> str:
        return f"(unsigned char){lane}" if self.dtype == "bool" else lane


class CudaMemory:
    """Writes CUDA loads and stores; remembers which helpers they use."""

    def __init__(self, hints: Hints) -> None:
        self.hints = hints
        self.helpers: set[Helper] = set()

    def scalar_load(self, address: str, dtype: str, stream: bool, on_chip: bool = False) -> str:
        """One element. ``address`` is pointer plus offset; ``stream``: it is read only once."""
        hint = "" if on_chip else self._load_hint(stream)
        text = f"{hint}({address})" if hint else _element(address)
        return f"{text} != 0" if dtype == "bool" else text

    def scalar_store(self, code: Code, address: str, value: str, dtype: str) -> None:
        if self.hints.streaming_stores and dtype != "bool":
            code.add(f"__stcs({address}, {value});")
        else:
            code.add(f"{_element(address)} = {value};")

    def wide_load(self, code: Code, array: str, place: Any, width: int, there: str) -> None:
        """``width`` elements into an array. ``place``: a `tile.Place`."""
        hint = "" if place.on_chip else self._load_hint(place.stream)
        helper = Helper("load", place.dtype, width, hint, bool(there))
        self.helpers.add(helper)
        code.add(f"{helper.name}({place.address}, {array}{', ' + there if there else ''});")

    def wide_store(self, code: Code, array: str, address: str, dtype: str, width: int, there: str) -> None:
        hint = "__stcs" if self.hints.streaming_stores else ""
        helper = Helper("store", dtype, width, hint, bool(there))
        self.helpers.add(helper)
        code.add(f"{helper.name}({address}, {array}{', ' + there if there else ''});")

    def _load_hint(self, stream: bool) -> str:
        if self.hints.streaming_loads and stream:
            return "__ldcs"
        return "__ldg" if self.hints.read_only_loads else ""


class OpenclMemory:
    """Writes OpenCL loads and stores. Cache hints on loads mean nothing here."""

    def __init__(self, hints: Hints) -> None:
        self.hints = hints

    def load(self, address: str, dtype: str, width: int) -> str:
        if width == 1:
            text = _element(address)
            return f"{text} != 0" if dtype == "bool" else text
        text = f"vload{width}(0, {address})"
        return f"convert_int{width}({text}) != 0" if dtype == "bool" else text

    def store(self, code: Code, address: str, value: str, dtype: str, width: int, aligned: bool) -> None:
        """``aligned``: the address is a multiple of the vector's size, as a non-temporal store wants."""
        memory = DIALECTS["opencl"].storage_type(dtype)
        if dtype == "bool":
            value = f"({value}) != 0" if width == 1 else f"convert_uchar{width}(-({value}))"
        if width == 1:
            code.add(f"{_element(address)} = {value};")
        elif self.hints.streaming_stores and aligned and dtype != "bool":
            code.add(f"__builtin_nontemporal_store({value}, (__global {memory}{width}*)({address}));")
        else:
            code.add(f"vstore{width}({value}, 0, {address});")


def _element(address: str) -> str:
    pointer, plus, offset = address.partition(" + ")
    return f"{pointer}[{offset}]" if plus else f"*{pointer}"
