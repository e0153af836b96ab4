"""An operator as library calls: PyTorch's own kernels in the plan language, the bar that ours must clear."""

from __future__ import annotations

import keyword
import re
from typing import Any

from optimizer.recipes.build import build_program
from optimizer.recipes.unsupported import Unsupported

# ATen base name -> (library name, how many leading arguments it takes, keywords it takes)
_SAME = {
    name: (name, count, ())
    for count, names in {
        1: "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf erfc "
           "sigmoid floor ceil round trunc sign square reciprocal relu relu6 selu silu mish hardsigmoid hardswish "
           "logical_not",
        2: "add sub mul pow maximum minimum fmod remainder atan2 clamp_min clamp_max eq ne lt le gt ge logical_and "
           "logical_or leaky_relu celu softshrink hardshrink prelu mse_loss l1_loss glu",
        3: "clamp lerp where threshold hardtanh softplus softmax log_softmax logsumexp sum mean amax amin",
        4: "linalg_vector_norm elu",
        5: "layer_norm",
    }.items()
    for name in names.split()
}  # fmt: skip
_RENAMED = {
    "linalg_vector_norm": "vector_norm", "log_sigmoid": "logsigmoid", "true_divide": "div", "_softmax": "softmax",
    "_log_softmax": "log_softmax", "native_layer_norm": "layer_norm",
}  # fmt: skip
_EXTRA = {
    "gelu": ("gelu", 1, ("approximate",)), "div": ("div", 2, ("rounding_mode",)), "true_divide": ("div", 2, ()),
    "log_sigmoid": ("logsigmoid", 1, ()), "rms_norm": ("rms_norm", 4, ()), "addcmul": ("addcmul", 3, ("value",)),
    "addcdiv": ("addcdiv", 3, ("value",)), "masked_fill": ("masked_fill", 3, ()),
    "huber_loss": ("huber_loss", 2, ()), "smooth_l1_loss": ("smooth_l1_loss", 2, ()),
}  # fmt: skip
_TABLE = {**_SAME, **_EXTRA}
_SHAPES = {"view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "unflatten"}
_SAME_VALUE = {
    "alias",
    "detach",
    "clone",
    "contiguous",
    "lift_fresh_copy",
    "expand",
    "broadcast_tensors",
    "dropout",
}
_LOSS_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def library_plan(graph: dict[str, Any], language: str) -> str:
    """The plan's text. Raises Unsupported naming the first operation without a library call."""
    return _Writer(graph, language).write()


class _Writer:
    def __init__(self, graph: dict[str, Any], language: str) -> None:
        self.graph = graph
        self.language = language
        self.program = build_program(graph)
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self.taken = set(self.program.input_names) | {
            "params",
            "lib",
            "min",
            "max",
            "slice",
            "range",
            "reshape",
        }

    def write(self) -> str:
        for entry, name in zip(self.graph["inputs"], self.program.input_names, strict=True):
            self.names[entry["id"]] = name
        for entry in self.graph["params"]:
            self.names[entry["id"]] = f'params["{entry["name"]}"]'
        for entry in self.graph["constants"]:
            if entry.get("value") is None or isinstance(entry["value"], dict):
                raise Unsupported(entry["name"], "is a constant tensor that a plan cannot hold")
            self.names[entry["id"]] = repr(entry["value"])
        for node in self.graph["nodes"]:
            self._node(node)
        results = ", ".join(self.names[item["ref"]] for item in self.graph["outputs"])
        parameters = ", ".join([*self.program.input_names, "params"])
        head = [
            "# PyTorch's own operations, called by the host",
            f'language = "{self.language}"',
            'kernels = ""',
        ]
        return (
            "\n".join([*head, "", "", f"def forward({parameters}):", *self.lines, f"    return {results}"])
            + "\n"
        )

    def _node(self, node: dict[str, Any]) -> None:
        base = node["op"].removeprefix("aten.").split(".")[0]
        if node["op"] == "getitem" or base.startswith("_assert"):
            if node["op"] == "getitem":
                self._item(node)
            return
        if base in _SAME_VALUE:
            first = node["args"][0]
            self.names[node["id"]] = self._value(first) if isinstance(first, dict) else ""
            self._many = first if isinstance(first, list) else None
            if self._many is not None:
                self.names[node["id"]] = "\n".join(self._value(item) for item in self._many)
            return
        if base in _SHAPES:
            shape = _tuple(node["shape"])
            self._assign(node["id"], f"reshape(contiguous({self._value(node['args'][0])}), {shape})")
            return
        self._assign(node["id"], self._call(base, node))

    def _item(self, node: dict[str, Any]) -> None:
        source = self.names.get(node["args"][0]["ref"], "")
        pieces = source.split("\n")
        self.names[node["id"]] = pieces[node["args"][1]] if len(pieces) > 1 else source

    def _call(self, base: str, node: dict[str, Any]) -> str:
        entry = _TABLE.get(base)
        if entry is None or node.get("results"):
            raise Unsupported(f"aten.{base}", "has no library call in the plan language")
        name, count, keywords = entry
        args = [self._value(item) for item in node["args"][:count]]
        extra = [f"{key}={self._value(value)}" for key, value in node["kwargs"].items() if key in keywords]
        if set(node["kwargs"]) - set(keywords) - {"dtype"} and base not in ("var", "std"):
            raise Unsupported(f"aten.{base}", "has keywords that its library call does not take")
        if base == "add" or base == "sub":
            extra += [f"alpha={self._value(value)}" for value in node["args"][2:3]]
        if base.endswith("_loss"):
            reduction = node["args"][2] if len(node["args"]) > 2 else 1
            extra.append(f'reduction="{_LOSS_REDUCTIONS[reduction]}"')
            word = {"huber_loss": "delta", "smooth_l1_loss": "beta"}.get(base)
            extra += [f"{word}={self._value(value)}" for value in node["args"][3:4] if word]
        return f"lib.{_RENAMED.get(base, name)}({', '.join([*args, *extra])})"

    def _assign(self, node_id: str, text: str) -> None:
        base = name = re.sub(r"_+", "_", node_id).strip("_")
        count = 2
        while name in self.taken or keyword.iskeyword(name):
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        self.names[node_id] = name
        self.lines.append(f"    {name} = {text}")

    def _value(self, item: Any) -> str:
        if isinstance(item, dict):
            if "ref" in item and item["ref"] in self.names:
                return self.names[item["ref"]]
            raise Unsupported("the graph", "holds a value that a plan cannot write")
        if isinstance(item, list):
            return _tuple([self._value(entry) for entry in item])
        return repr(item)


def _tuple(items: list[Any]) -> str:
    inner = ", ".join(str(item) for item in items)
    return f"({inner},)" if len(items) == 1 else f"({inner})"
