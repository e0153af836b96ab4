"""What recipes cover, and the sentence where they do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from optimizer.recipes import Unsupported, coverage, generate_plan, schedule_facts
from optimizer.recipes.schedule import Schedule
from tests.recipes.harness import captured


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


X = torch.randn(6, 8)


@pytest.mark.parametrize(
    ("function", "inputs", "family"),
    [
        (lambda x: F.gelu(x) * 2, [X], "pointwise"),
        (lambda x, y: x + y.transpose(0, 1), [X, torch.randn(8, 6)], "pointwise"),
        (lambda x: F.glu(x, -1), [X], "pointwise"),
        (lambda x: x[:, 2:6] * 3, [X], "pointwise"),
        (lambda x: torch.softmax(x, -1), [X], "row_reduction"),
        (lambda x: x.sum(), [X], "row_reduction"),
        (lambda x: F.mse_loss(x, x * 2), [X], "row_reduction"),
        (lambda x: x.max(-1).values, [X], "row_reduction"),
        (lambda x: F.layer_norm(x, (6, 8)), [X], "row_reduction"),
    ],
)
def test_covered_families(function: Any, inputs: list[Any], family: str) -> None:
    """Each family is recognised from the graph alone."""
    found = coverage(captured(Lambda(function), inputs))
    assert (found.covered, found.family, found.unsupported) == (True, family, ()), found.sentence


@pytest.mark.parametrize(
    ("function", "inputs", "op", "words"),
    [
        (lambda x: x @ x.transpose(0, 1), [X], "aten.matmul", "has no recipe"),
        (lambda x: torch.cumsum(x, -1), [X], "aten.cumsum", "has no recipe"),
        (lambda x: x.sum(0), [X], "sum_1", "not the last ones"),
        (lambda x: x.max(-1).indices, [X], "max_1", "indices"),
        (lambda x: F.relu(x).reshape(4, 12) + 1, [X], "aten.view", "reshapes an intermediate"),
        (lambda x: torch.sort(x, -1).values, [X], "aten.sort", "has no recipe"),
        (lambda x: x.half() * 2, [X], "aten.to", "float16"),
    ],
)
def test_uncovered_operations_are_named(function: Any, inputs: list[Any], op: str, words: str) -> None:
    """The launch page tells which operation no recipe covers, and why; no half-done plan exists."""
    graph = captured(Lambda(function), inputs)
    found = coverage(graph)
    assert not found.covered
    assert found.family == "other"
    assert words in found.sentence
    assert op.split(".")[-1] in found.unsupported[0] or op in found.sentence
    with pytest.raises(Unsupported):
        generate_plan(graph, Schedule(), "opencl", {})
    assert schedule_facts(graph, None) == {}


def test_without_a_graph_the_reason_is_passed_on() -> None:
    """An operator that could not be traced says so in the same place."""
    found = coverage(None, "Forward writes to running_mean.")
    assert not found.covered
    assert "running_mean" in found.sentence


def test_another_graph_version_is_refused() -> None:
    """Graphs stored by another release are not misread."""
    graph = captured(Lambda(torch.relu), [X]) | {"version": 99}
    assert "version 99" in coverage(graph).sentence
