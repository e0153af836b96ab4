"""FX graphs as JSON: nodes, arguments, tensor facts."""

from __future__ import annotations

import math
import operator
from typing import Any

SMALL_CONSTANT = 1  # constants of this many elements travel by value


def describe_tensor(value: Any) -> dict[str, Any]:
    """Shape, dtype (torch's name without the prefix) and whether the strides are contiguous."""
    return {
        "shape": [int(size) for size in value.shape],
        "dtype": dtype_name(value.dtype),
        "contiguous": bool(value.is_contiguous()),
    }


def describe_constant(value: Any) -> dict[str, Any]:
    """A tensor that is neither parameter nor buffer; ``value`` only when it holds a single number."""
    facts = describe_tensor(value)
    facts["value"] = None
    if value.numel() == SMALL_CONSTANT and not value.is_complex():
        facts["value"] = encode_number(value.reshape(()).item())
    return facts


def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def encode_number(value: float | int | bool) -> Any:
    """JSON has no infinity and no NaN: those become ``{"float": "inf"}``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


class GraphEncoder:
    """Encodes one FX graph of ATen calls."""

    def encode(self, graph: Any) -> dict[str, Any]:
        nodes = [self._node(node) for node in graph.nodes if node.op == "call_function"]
        output = next(node for node in graph.nodes if node.op == "output")
        results = output.args[0]
        is_tuple = isinstance(results, (tuple, list))
        outputs = [self._argument(item) for item in (results if is_tuple else [results])]
        return {"nodes": nodes, "outputs": outputs}

    def _node(self, node: Any) -> dict[str, Any]:
        entry: dict[str, Any] = {"id": node.name, "op": self._target(node.target)}
        entry["args"] = [self._argument(item) for item in node.args]
        entry["kwargs"] = {name: self._argument(item) for name, item in node.kwargs.items()}
        value = node.meta.get("val")
        if value is None and "tensor_meta" in node.meta:
            value = node.meta["tensor_meta"]
        if isinstance(value, (tuple, list)):
            entry["results"] = [self._facts(item) for item in value]
        else:
            entry |= self._facts(value)
        return entry

    def _facts(self, value: Any) -> dict[str, Any]:
        if value is None or not hasattr(value, "shape"):
            return {"shape": None, "dtype": type(value).__name__}
        return {"shape": [int(size) for size in value.shape], "dtype": dtype_name(value.dtype)}

    def _target(self, target: Any) -> str:
        if target is operator.getitem:
            return "getitem"
        return str(target)

    def _argument(self, value: Any) -> Any:
        if hasattr(value, "op") and hasattr(value, "name") and hasattr(value, "graph"):
            return {"ref": value.name}
        if isinstance(value, (list, tuple)):
            return [self._argument(item) for item in value]
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return encode_number(value)
        if type(value).__name__ == "dtype":
            return {"dtype": dtype_name(value)}
        return {"other": str(value)}
