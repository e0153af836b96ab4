"""Work of a captured graph: floating-point operations and the bytes that must move.

The convention is the usual one of roofline models: one fused multiply-add is two operations, and every other
arithmetic result counts one, also a transcendental one (a lower bound, since `exp` takes many instructions).
"""

from __future__ import annotations

import math
from typing import Any

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

VIEWS = {
    "view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice", "select",
    "split", "chunk", "alias", "detach", "getitem", "clone", "contiguous", "unbind", "split_with_sizes",
    "flatten", "narrow", "_unsafe_view", "lift_fresh_copy", "_to_copy", "to", "empty", "full", "zeros",
    "ones", "arange",
}  # fmt: skip

# Operations for each element of the larger of input and output.
PER_ELEMENT = {
    "gelu": 5, "silu": 4, "sigmoid": 3, "mish": 5, "softplus": 3, "elu": 3, "selu": 4, "celu": 4,
    "hardswish": 4, "hardsigmoid": 3, "log_sigmoid": 4, "softmax": 5, "_softmax": 5, "log_softmax": 5,
    "_log_softmax": 5,
    "layer_norm": 8, "native_layer_norm": 8, "rms_norm": 4, "_fused_rms_norm": 4, "group_norm": 8,
    "native_group_norm": 8, "batch_norm": 8, "_native_batch_norm_legit_functional": 8, "instance_norm": 8,
    "logsumexp": 4, "var": 4, "std": 4, "var_mean": 4, "linalg_vector_norm": 2, "addcmul": 3, "addcdiv": 3,
}  # fmt: skip


def estimate_flops(graph: dict[str, Any]) -> int:
    """Operations of one forward call. Products and convolutions count 2 for each multiply-add."""
    shapes = _shapes(graph)
    return sum(_node_flops(node, shapes) for node in graph["nodes"])


def estimate_bytes(graph: dict[str, Any]) -> int:
    """Bytes any implementation moves: each input and parameter read once, each output written once."""
    facts = _facts(graph)
    used = {ref for node in graph["nodes"] for ref in _references(node)} | {
        item["ref"] for item in graph["outputs"] if isinstance(item, dict) and "ref" in item
    }
    leaves = [*graph["inputs"], *graph["params"], *graph["constants"]]
    read = sum(_size(leaf) for leaf in leaves if leaf["id"] in used and leaf.get("shape") is not None)
    written = [facts[item["ref"]] for item in graph["outputs"] if isinstance(item, dict) and "ref" in item]
    return read + sum(_size(fact) for fact in written)


def _size(fact: dict[str, Any]) -> int:
    if fact.get("shape") is None:
        return 0
    return math.prod(fact["shape"]) * ITEM_BYTES.get(fact["dtype"], 4)


def _facts(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    facts = {leaf["id"]: leaf for leaf in [*graph["inputs"], *graph["params"], *graph["constants"]]}
    for node in graph["nodes"]:
        if node["op"] == "getitem":
            source = facts[node["args"][0]["ref"]]
            facts[node["id"]] = source.get("results", [node] * 64)[node["args"][1]]
        else:
            facts[node["id"]] = node
    return facts


def _shapes(graph: dict[str, Any]) -> dict[str, list[int]]:
    return {name: fact["shape"] for name, fact in _facts(graph).items() if fact.get("shape") is not None}


def _references(node: dict[str, Any]) -> list[str]:
    """Names of the tensors a node reads, in the order of its arguments."""
    found: list[str] = []

    def visit(item: Any) -> None:
        if isinstance(item, dict) and "ref" in item:
            found.append(item["ref"])
        elif isinstance(item, list):
            for entry in item:
                visit(entry)

    visit([*node["args"], *node["kwargs"].values()])
    return found


def _node_flops(node: dict[str, Any], shapes: dict[str, list[int]]) -> int:
    name = node["op"].removeprefix("aten.").split(".")[0]
    if name in VIEWS:
        return 0
    operands = [shapes[ref] for ref in _references(node) if ref in shapes]
    results = [entry["shape"] for entry in node.get("results", [node]) if entry.get("shape") is not None]
    result = math.prod(results[0]) if results else 0
    if name in ("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "dot", "mv", "addmv"):
        left = operands[1] if name in ("addmm", "baddbmm", "addmv") and len(operands) > 1 else operands[0]
        return 2 * result * (left[-1] if left else 1)
    if name.startswith("conv") or name == "_convolution":
        transposed = "transpose" in name or (len(node["args"]) > 6 and node["args"][6] is True)
        return 2 * (math.prod(operands[0]) if transposed else result) * math.prod(operands[1][1:])
    if name == "scaled_dot_product_attention":
        query, key = operands[0], operands[1]
        return 4 * math.prod(query) * key[-2]
    largest = max([result, *(math.prod(shape) for shape in operands)], default=0)
    return largest * PER_ELEMENT.get(name, 1)
