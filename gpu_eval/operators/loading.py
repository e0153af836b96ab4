"""An operator file brought to life: executed with a preset, its model built, its inputs drawn.

This runs foreign code, so only the judge (a sandboxed process) may call it. torch is imported lazily.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpu_eval.errors import UnusableInput
from gpu_eval.operators.source import OperatorSource, bound_names, parse_python

if TYPE_CHECKING:
    import torch

MODULE_NAME = "operator_under_test"


def load_module(source: OperatorSource, preset: str | None) -> ModuleType:
    """Execute the file with the constants of ``preset`` in force. Exceptions of its code pass through."""
    tree = parse_python(source.text, source.filename)
    if preset is not None:
        tree = with_preset(tree, source.presets[preset])
    module = ModuleType(MODULE_NAME)
    module.__file__ = source.filename
    sys.modules[MODULE_NAME] = module  # dataclasses and torch.export look modules up by name
    lines = source.text.splitlines(keepends=True)
    linecache.cache[source.filename] = (len(source.text), None, lines, source.filename)
    exec(compile(tree, source.filename, "exec"), module.__dict__)
    return module


def with_preset(tree: ast.Module, values: dict[str, Any]) -> ast.Module:
    """The same module with ``name = value`` put after each top-level assignment to an overridden name.

    Doing it there, rather than after execution, lets constants derived from others follow.
    """
    body: list[ast.stmt] = []
    for node in tree.body:
        body.append(node)
        for name in sorted(bound_names(node) & values.keys()):
            override = ast.parse(f"{name} = {values[name]!r}").body[0]
            body.append(ast.fix_missing_locations(ast.copy_location(override, node)))
    tree.body = body
    return tree


def build_model(module: ModuleType, device: str, dtype: torch.dtype | None, seed: int) -> torch.nn.Module:
    """`Model(*get_init_inputs())` on ``device``, floating tensors cast to ``dtype`` (None: left alone)."""
    import torch

    get_init_inputs = getattr(module, "get_init_inputs", None)
    set_seed(seed, device)
    with torch.device(device):
        arguments = list(get_init_inputs()) if get_init_inputs is not None else []
        arguments = [move(value, device, dtype) for value in arguments]
        model = module.Model(*arguments)
    if not isinstance(model, torch.nn.Module):
        raise UnusableInput("Model is not a torch.nn.Module.")
    model = model.to(device)
    if dtype is not None:
        model = model.to(dtype)
    move_plain_tensors(model, device, dtype)
    return model


def make_inputs(module: ModuleType, device: str, dtype: torch.dtype | None, seed: int) -> list[Any]:
    """What `get_inputs()` returns under ``seed``: tensors created on ``device``, and Python scalars.

    Raises UnusableInput when it returns anything else.
    """
    import torch

    set_seed(seed, device)
    with torch.device(device), torch.no_grad():
        values = module.get_inputs()
    if not isinstance(values, (list, tuple)):
        raise UnusableInput(
            f"get_inputs() returned {type(values).__name__}; it must return a list of inputs."
        )
    for index, value in enumerate(values):
        if not isinstance(value, (torch.Tensor, bool, int, float)):
            kind = type(value).__name__
            raise UnusableInput(f"get_inputs()[{index}] is a {kind}; inputs are tensors and Python numbers.")
    return [move(value, device, dtype) for value in values]


def move(value: Any, device: str, dtype: torch.dtype | None) -> Any:
    """A tensor on ``device``, contiguous and cast if floating; anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().to(device)
    if dtype is not None and value.is_floating_point():
        value = value.to(dtype)
    return value.contiguous()


def move_plain_tensors(model: torch.nn.Module, device: str, dtype: torch.dtype | None) -> None:
    """Move tensors kept as plain attributes, which `Module.to` misses."""
    for module in model.modules():
        for name, value in plain_tensors(module).items():
            setattr(module, name, move(value, device, dtype))


def plain_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Tensors that a module holds as plain attributes, neither parameter nor buffer."""
    import torch

    return {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}


def named_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters, buffers and plain tensor attributes by dotted name: what a plan sees as ``params``."""
    weights: dict[str, torch.Tensor] = dict(model.named_parameters())
    weights.update(model.named_buffers())
    for prefix, module in model.named_modules():
        for name, value in plain_tensors(module).items():
            weights[f"{prefix}.{name}" if prefix else name] = value
    return {name: value.detach() for name, value in weights.items()}


def set_seed(seed: int, device: str) -> None:
    """Seed the generators that the operator's code may draw from.

    On the CPU only that one: `torch.manual_seed` queues a call for every absent GPU, which costs
    milliseconds.
    """
    import torch

    if device == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Within, torch's random state is ``seed``'s; afterwards what it was before."""
    import torch

    devices = [torch.cuda.current_device()] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        set_seed(seed, device)
        yield
