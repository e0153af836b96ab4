"""Capture: modules become JSON graphs that say the whole truth, or a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpu_eval.capture import GRAPH_VERSION, capture, estimate_bytes, estimate_flops


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.linear = nn.Linear(16, 8, bias=False)
        self.register_buffer("offset", torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.softmax(self.norm(x) + self.offset, dim=-1))


class Scaled(nn.Module):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return x * factor


class Specialised(nn.Module):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return x * 2 if factor > 0.5 else x


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.randn(4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.hidden


class DataDependent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.sum()) > 0 else x[x > 0]


def graph_of(model: nn.Module, inputs: list[Any]) -> dict[str, Any]:
    graph = capture(model, inputs)
    assert isinstance(graph, dict), graph
    return graph


def test_graph_is_json_with_dotted_parameters_and_whole_composites() -> None:
    """Recipes recognise softmax and layer_norm, and plans name parameters as the module does."""
    graph = graph_of(Block(), [torch.randn(4, 16)])
    assert json.loads(json.dumps(graph)) == graph
    assert graph["version"] == GRAPH_VERSION
    assert {entry["name"] for entry in graph["params"]} == {
        "norm.weight",
        "norm.bias",
        "linear.weight",
        "offset",
    }
    assert [entry["name"] for entry in graph["params"] if entry["buffer"]] == ["offset"]
    operations = [node["op"].split(".")[1] for node in graph["nodes"]]
    assert operations == ["layer_norm", "add", "softmax", "linear"]


def test_shapes_and_dtypes_of_nodes_are_those_of_the_run() -> None:
    """Kernels are generated from these facts alone."""
    graph = graph_of(Block(), [torch.randn(4, 16)])
    assert graph["nodes"][-1]["shape"] == [4, 8]
    assert graph["nodes"][-1]["dtype"] == "float32"
    assert graph["inputs"] == [
        {"id": "x", "name": "x", "kind": "tensor", "shape": [4, 16], "dtype": "float32", "contiguous": True}
    ]


def test_float_inputs_stay_symbolic() -> None:
    """A plan must follow a number that changes from call to call."""
    scalar = graph_of(Scaled(), [torch.randn(4), 0.5])["inputs"][1]
    assert (scalar["kind"], scalar["specialised"]) == ("scalar", False)


def test_a_float_that_steers_python_is_baked_in_and_marked() -> None:
    """A graph that only holds for one value of an input says so."""
    scalar = graph_of(Specialised(), [torch.randn(4), 0.75])["inputs"][1]
    assert (scalar["kind"], scalar["specialised"], scalar["value"]) == ("scalar", True, 0.75)


def test_tensors_that_are_no_parameters_are_constants() -> None:
    """Plain tensor attributes cannot be reached by a plan, so they are listed apart."""
    graph = graph_of(Plain(), [torch.randn(4)])
    assert [entry["name"] for entry in graph["constants"]] == ["hidden"]
    assert graph["params"] == []


def test_written_buffers_refuse_the_graph() -> None:
    """A functional graph of a module that writes its state would hide the write."""
    reason = capture(nn.BatchNorm1d(4), [torch.randn(8, 4)])
    assert isinstance(reason, str)
    assert "running_mean" in reason


def test_control_flow_on_data_gives_a_sentence() -> None:
    """Whatever a foreign module does, capture answers with one line instead of raising."""
    reason = capture(DataDependent(), [torch.randn(8)])
    assert isinstance(reason, str)
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("model", "inputs", "flops"),
    [
        (nn.Linear(16, 8, bias=False), [torch.randn(4, 16)], 2 * 4 * 8 * 16),
        (nn.ReLU(), [torch.randn(10, 10)], 100),
        (nn.Conv2d(3, 5, 3, bias=False), [torch.randn(2, 3, 8, 8)], 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)),
    ],
)
def test_flops_follow_the_usual_convention(model: nn.Module, inputs: list[Any], flops: int) -> None:
    """A multiply-add is two operations; the roofline floor is computed from this."""
    assert estimate_flops(graph_of(model, inputs)) == flops


def test_bytes_count_each_operand_once() -> None:
    """The floor counts what any implementation must move, not PyTorch's intermediates."""

    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x * 2) + x

    assert estimate_bytes(graph_of(Chain(), [torch.randn(8, 4)])) == 2 * 8 * 4 * 4
