"""A model's state around a forward: what the call changes is put back.

Running statistics, hidden states kept for the next call, call counters and rebound attributes would otherwise
make one call's answer depend on how many came before it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpu_eval.operators.loading import named_weights


class ModelState:
    """What ``model`` holds now. ``changing``: names of parameters that forward writes to; the others are
    trusted to stay, since copying them would cost as much again."""

    def __init__(self, model: torch.nn.Module, changing: set[str]) -> None:
        trusted = {name for name, _ in model.named_parameters()} - changing
        self.tensors = [
            (value, value.clone()) for name, value in named_weights(model).items() if name not in trusted
        ]
        self.modules = [(module, dict(vars(module)), containers(module)) for module in model.modules()]

    def restore(self) -> None:
        """Bindings first, then contents. What did not change is not touched: torch.compile watches it."""
        for module, attributes, copies in self.modules:
            put_back(vars(module), attributes)
            for container, content in copies:
                put_back(container, content)
        for live, saved in self.tensors:
            live.copy_(saved)


def put_back(container: Any, content: Any) -> None:
    """Make a list or dict hold the very objects that ``content`` holds."""
    if isinstance(container, list):
        if len(container) != len(content) or any(map(operator.is_not, container, content)):
            container[:] = content
    elif container.keys() != content.keys() or any(container[key] is not content[key] for key in content):
        container.clear()
        container.update(content)


def containers(module: torch.nn.Module) -> list[tuple[Any, Any]]:
    """Lists and dicts among a module's attributes, each with a shallow copy."""
    return [(value, value.copy()) for value in vars(module).values() if type(value) in (list, dict)]


@contextmanager
def kept_state(model: torch.nn.Module, changing: set[str]) -> Iterator[None]:
    """Whatever happens within, ``model`` is afterwards what it was."""
    state = ModelState(model, changing)
    try:
        yield
    finally:
        state.restore()
