"""Capture a module with its example inputs as a JSON graph of functional ATen operations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpu_eval.capture.encode import GraphEncoder, describe_constant, describe_tensor

if TYPE_CHECKING:
    import torch
    from torch import nn

GRAPH_VERSION = 1


def capture(model: nn.Module, inputs: Sequence[Any]) -> dict[str, Any] | str:
    """Trace ``model(*inputs)`` without running it on data: the graph, or one sentence saying why there is none.

    Python floats among ``inputs`` stay symbolic where the module allows it: they are traced as 0-d float64
    tensors, which promote like Python numbers. Where it does not, they are baked in and marked ``specialised``.
    Layer norms, softmaxes, activations and the like stay single nodes. Never raises for a module that cannot be
    traced.
    """
    first_error: Exception | None = None
    for trace in (_export_symbolic_scalars, _export, _make_fx):
        try:
            return trace(model, list(inputs))
        except _Untraceable as error:
            return str(error)
        except Exception as error:  # any failure inside a foreign module or torch's tracer means "no graph"
            first_error = first_error or error
    return f"PyTorch could not trace the module: {_one_line(first_error)}"


class _Untraceable(Exception):
    """A graph would exist, but not one that says the whole truth."""


def _one_line(error: Exception | None) -> str:
    text = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    return text[:300]


def _export_symbolic_scalars(model: nn.Module, inputs: list[Any]) -> dict[str, Any]:
    import torch

    floats = [index for index, value in enumerate(inputs) if isinstance(value, float)]
    if not floats:
        return _export(model, inputs)
    traced = list(inputs)
    for index in floats:
        traced[index] = torch.tensor(inputs[index], dtype=torch.float64)
    return _export(model, traced, dict.fromkeys(floats, "float64"))


def _export(
    model: nn.Module, inputs: list[Any], symbolic_scalars: dict[int, str] | None = None
) -> dict[str, Any]:
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, tuple(inputs), strict=False)
        program = program.run_decompositions({})  # functional, composites kept
    signature = program.graph_signature
    mutated = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if mutated:
        raise _Untraceable(
            f"Forward writes to {', '.join(sorted(set(mutated)))}, so it is not a pure function."
        )
    encoder = GraphEncoder()
    header = _export_header(program, inputs, symbolic_scalars or {})
    return _finish("torch.export", header, encoder.encode(program.graph))


def _export_header(program: Any, inputs: list[Any], symbolic_scalars: dict[int, str]) -> dict[str, Any]:
    from torch.export.graph_signature import InputKind

    header: dict[str, Any] = {"inputs": [], "params": [], "constants": []}
    metas = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", "")
        if spec.kind is InputKind.USER_INPUT:
            index = len(header["inputs"])
            header["inputs"].append(_describe_input(name, inputs[index], symbolic_scalars.get(index)))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            entry = {"id": name, "name": spec.target, "buffer": spec.kind is InputKind.BUFFER}
            header["params"].append(entry | describe_tensor(metas[name]))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            entry = {"id": name, "name": spec.target}
            header["constants"].append(entry | describe_constant(program.constants[spec.target]))
        else:
            raise _Untraceable(f"The graph has an input of kind {spec.kind.name}, which is not supported.")
    if len(header["inputs"]) != len(inputs):
        raise _Untraceable("Inputs that are containers of tensors are not supported.")
    return header


def _describe_input(name: str, value: Any, scalar_dtype: str | None) -> dict[str, Any]:
    if scalar_dtype is not None:
        return {"id": name, "name": name, "kind": "scalar", "dtype": scalar_dtype, "specialised": False}
    if hasattr(value, "shape"):
        return {"id": name, "name": name, "kind": "tensor"} | describe_tensor(value)
    if isinstance(value, (bool, int, float)):
        entry = {"id": name, "name": name, "kind": "scalar", "dtype": type(value).__name__}
        return entry | {"specialised": True, "value": value}
    if value is None or isinstance(value, str):
        return {"id": name, "name": name, "kind": "none" if value is None else "text", "specialised": True}
    raise _Untraceable(f"Input {name!r} is a {type(value).__name__}; only tensors and numbers are supported.")


def _make_fx(model: nn.Module, inputs: list[Any]) -> dict[str, Any]:
    """The fallback: record the dispatcher's calls on fake tensors."""
    import torch
    from torch.func import functional_call, functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    before = {name: value._version for name, value in state.items()}
    positions = [index for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)]

    def run(weights: list[torch.Tensor], tensors: list[torch.Tensor]) -> Any:
        arguments = list(inputs)
        for position, tensor in zip(positions, tensors, strict=True):
            arguments[position] = tensor
        return functional_call(model, dict(zip(state, weights, strict=True)), tuple(arguments))

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = make_fx(functionalize(run), tracing_mode="fake", _allow_non_fake_inputs=True)(
            list(state.values()), [inputs[position] for position in positions]
        )
    if any(value._version != before[name] for name, value in state.items()):
        raise _Untraceable("Forward writes to a buffer, so it is not a pure function.")
    placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"]
    header: dict[str, Any] = {"inputs": [], "params": [], "constants": []}
    buffers = dict(model.named_buffers())
    for node, (name, value) in zip(placeholders, state.items(), strict=False):
        entry = {"id": node.name, "name": name, "buffer": name in buffers}
        header["params"].append(entry | describe_tensor(value))
    tensor_nodes = iter(placeholders[len(state) :])
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            node = next(tensor_nodes)
            header["inputs"].append(_describe_input(node.name, value, None) | {"name": f"input_{index}"})
        else:
            header["inputs"].append(_describe_input(f"input_{index}", value, None))
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            entry = {"id": node.name, "name": str(node.target)}
            header["constants"].append(entry | describe_constant(getattr(traced, str(node.target))))
    return _finish("make_fx", header, GraphEncoder().encode(traced.graph))


def _finish(tracer: str, header: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return {"version": GRAPH_VERSION, "captured_by": tracer, **header, **body}
