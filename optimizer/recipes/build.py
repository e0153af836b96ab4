"""From a captured graph (JSON) to the intermediate form, or the operation that no recipe covers."""

from __future__ import annotations

import keyword
import re
from typing import Any

from optimizer.recipes import views
from optimizer.recipes.aten_pointwise import POINTWISE
from optimizer.recipes.aten_reductions import REDUCTIONS
from optimizer.recipes.aten_views import MULTI_VIEWS, VIEWS
from optimizer.recipes.builder import SUPPORTED_DTYPES, Builder, Handle
from optimizer.recipes.ir import Leaf, Program
from optimizer.recipes.unsupported import Unsupported

KNOWN_VERSION = 1
# Words of the plan language, and names that kernels use themselves.
RESERVED = set(
    "empty zeros empty_like reshape transpose slice contiguous launch int32 int64 float32 float64 cdiv min max range "
    "lib params language kernels forward prepare row col lane i j k n rows cols vec part".split()
)
_DROPPED_KWARGS = {
    "memory_format",
    "layout",
    "device",
    "pin_memory",
    "non_blocking",
    "dtype",
    "half_to_float",
}


def build_program(graph: dict[str, Any]) -> Program:
    """Read a graph. Raises Unsupported naming the first operation that no recipe covers."""
    return _Reader(graph).read()


class _Reader:
    def __init__(self, graph: dict[str, Any]) -> None:
        if graph.get("version") != KNOWN_VERSION:
            raise Unsupported(
                "the graph", f"has version {graph.get('version')}; recipes read {KNOWN_VERSION}"
            )
        self.graph = graph
        self.builder = Builder()
        self.values: dict[str, Any] = {}
        self.leaves: dict[str, Leaf] = {}
        self.input_names: list[str] = []
        self.taken: set[str] = set(RESERVED)

    def read(self) -> Program:
        for entry in self.graph["inputs"]:
            self._read_input(entry)
        for entry in self.graph["params"]:
            self._read_param(entry)
        for entry in self.graph["constants"]:
            self._read_constant(entry)
        for node in self.graph["nodes"]:
            self.values[node["id"]] = self._read_node(node)
        results = []
        for index, item in enumerate(self.graph["outputs"]):
            handle = self.values[item["ref"]] if isinstance(item, dict) and "ref" in item else None
            if isinstance(handle, Unsupported):
                raise handle
            if not isinstance(handle, Handle):
                raise Unsupported(f"output {index}", "is not a tensor")
            results.append((item["ref"], handle))
        tuple_output = len(results) > 1
        return self.builder.finish(results, self.leaves, self.input_names, tuple_output)

    def _unique(self, wish: str) -> str:
        """A name that the plan language allows: ASCII, no double underscores, not one of its words."""
        base = re.sub(r"[\W_]+", "_", wish, flags=re.ASCII).strip("_") or "input"
        if base[0].isdigit() or keyword.iskeyword(base) or base in RESERVED:
            base = f"input_{base}"
        name, count = base, 2
        while name in self.taken:
            name, count = f"{base}{count}", count + 1
        self.taken.add(name)
        return name

    def _read_input(self, entry: dict[str, Any]) -> None:
        name = self._unique(entry["name"])
        self.input_names.append(name)
        key = entry["id"]
        if entry["kind"] == "tensor":
            leaf = Leaf(
                key,
                name,
                "tensor",
                tuple(entry["shape"]),
                entry["dtype"],
                name,
                entry.get("contiguous", True),
            )
            self.leaves[key] = leaf
            self.values[key] = self._view_of(leaf)
        elif entry["kind"] == "scalar" and not entry.get("specialised"):
            self.leaves[key] = Leaf(key, name, "scalar", (), entry["dtype"], name)
            self.values[key] = self.builder.scalar(key, "float32")
        else:
            self.values[key] = entry.get("value")

    def _read_param(self, entry: dict[str, Any]) -> None:
        name = self._unique(entry["name"].replace(".", "_"))
        leaf = Leaf(
            entry["id"], name, "param", tuple(entry["shape"]), entry["dtype"], f'params["{entry["name"]}"]',
            entry.get("contiguous", True),
        )  # fmt: skip
        self.leaves[entry["id"]] = leaf
        self.values[entry["id"]] = self._view_of(leaf)

    def _read_constant(self, entry: dict[str, Any]) -> None:
        value = _decoded(entry.get("value"))
        if value is None:
            self.values[entry["id"]] = Unsupported(
                entry["name"], "is a tensor that is neither a parameter nor a buffer"
            )
        elif entry["dtype"] in SUPPORTED_DTYPES:
            handle = self.builder.constant(value, entry["dtype"])
            shape = tuple(entry["shape"])
            self.values[entry["id"]] = Handle(shape, entry["dtype"], handle.node, (None,) * len(shape))

    @staticmethod
    def _view_of(leaf: Leaf) -> Handle:
        return Handle(
            leaf.shape, leaf.dtype, view=views.whole(leaf.id, leaf.shape, leaf.dtype, leaf.expression)
        )

    def _argument(self, item: Any) -> Any:
        if isinstance(item, dict):
            if "ref" in item:
                value = self.values.get(item["ref"])
                if isinstance(value, Unsupported):
                    raise value
                return value
            if "float" in item:
                return float(item["float"])
            return item.get("dtype")
        if isinstance(item, list):
            return [self._argument(entry) for entry in item]
        return item

    def _read_node(self, node: dict[str, Any]) -> Any:
        if node["op"] == "getitem":
            return self._item(node)
        if node["op"].startswith("aten._assert"):
            return None  # checks of the tracer compute nothing
        namespace, _, rest = node["op"].partition(".")
        base = rest.split(".")[0]
        self.builder.origin = node["id"]
        self.builder.op_name = f"{namespace}.{base}"
        args = [self._argument(item) for item in node["args"]]
        kwargs = {name: self._argument(item) for name, item in node["kwargs"].items()}
        if namespace != "aten":
            raise self.builder.refuse("is not a PyTorch operation of the ATen library")
        shape, dtype = _facts(node)
        if base in MULTI_VIEWS:
            return MULTI_VIEWS[base](self.builder, *args, **kwargs, shape=shape)
        if base in VIEWS:
            return self._checked(VIEWS[base](self.builder, *args, **kwargs, shape=shape), shape)
        if base == "dropout" and len(args) > 2 and args[2] is False:
            return args[0]
        if base in ("full", "zeros", "ones", "scalar_tensor"):
            return self._filled(base, args, shape, dtype)
        entry = POINTWISE.get(base) or REDUCTIONS.get(base)
        if entry is None:
            raise self.builder.refuse("has no recipe")
        if dtype not in SUPPORTED_DTYPES:
            raise self.builder.refuse(f"yields {dtype}; recipes know {', '.join(SUPPORTED_DTYPES)}")
        kwargs = {name: value for name, value in kwargs.items() if name not in _DROPPED_KWARGS}
        if base in ("sum", "mean", "prod") and len(args) > 3:
            args = args[:3]
        try:
            result = entry(self.builder, *args, **kwargs, dtype=dtype)
        except (TypeError, AttributeError, KeyError) as error:
            raise self.builder.refuse("has arguments that no recipe understands") from error
        return self._checked(result, shape) if isinstance(result, Handle) else result

    def _checked(self, handle: Handle, shape: tuple[int, ...]) -> Handle:
        if handle.shape != shape:
            raise self.builder.refuse(f"gave {list(handle.shape)} where PyTorch says {list(shape)}")
        return handle

    def _item(self, node: dict[str, Any]) -> Any:
        source = self.values[node["args"][0]["ref"]]
        value = source[node["args"][1]]
        if value is None:
            return Unsupported(node["args"][0]["ref"], "yields indices, which no recipe computes")
        return value

    def _filled(self, base: str, args: list[Any], shape: tuple[int, ...], dtype: str) -> Handle:
        if dtype not in SUPPORTED_DTYPES:
            raise self.builder.refuse(f"yields {dtype}; recipes know {', '.join(SUPPORTED_DTYPES)}")
        value = {"zeros": 0, "ones": 1}.get(base)
        if base == "full":
            value = args[1]
        elif base == "scalar_tensor":
            value = args[0]
        if not isinstance(value, (bool, int, float)):
            raise self.builder.refuse("is filled with a value only known at run time")
        handle = self.builder.constant(value, dtype)
        return self.builder.expand(handle, shape) if shape else Handle((), dtype, handle.node)


def _facts(node: dict[str, Any]) -> tuple[tuple[int, ...], str]:
    facts = node["results"][0] if "results" in node else node
    if facts.get("shape") is None:
        return (), facts.get("dtype", "")
    return tuple(facts["shape"]), facts["dtype"]


def _decoded(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and "float" in value else value
