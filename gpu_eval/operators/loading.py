"""An operator file brought to life: executed with a preset, its model built, its inputs drawn.

This runs foreign code, so only the judge (a sandboxed process) may call it. torch is imported lazily.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpu_eval.errors import UnusableInput
from gpu_eval.operators.source import OperatorSource, bound_names, parse_python
from gpu_eval.plans.specs import DTYPE_BYTES

if TYPE_CHECKING:
    import torch

MODULE_NAME = "operator_under_test"
REGISTERED = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}


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
        given = get_init_inputs() if get_init_inputs is not None else []
        arguments, keywords = init_arguments(module.Model, given)
        arguments = [move(value, device, dtype) for value in arguments]
        keywords = {name: move(value, device, dtype) for name, value in keywords.items()}
        model = module.Model(*arguments, **keywords)
    if not isinstance(model, torch.nn.Module):
        raise UnusableInput("Model is not a torch.nn.Module.")
    model = model.to(device)
    if dtype is not None:
        model = model.to(dtype)
    change_plain_tensors(model, lambda value: move(value, device, dtype))
    unfold_buffers(model)
    return model


def init_arguments(model: Any, given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments from what `get_init_inputs` returned.

    A list is positional, a dict holds keywords; ``[[...], {...}]`` is both, unless the constructor takes just
    that. Raises UnusableInput on anything else.
    """
    if isinstance(given, dict):
        return [], dict(given)
    if not isinstance(given, (list, tuple)):
        kind = "nothing" if given is None else f"a {type(given).__name__}"
        raise UnusableInput(f"get_init_inputs() returned {kind}; it must return a list of Model's arguments.")
    values = list(given)
    pair = len(values) == 2 and isinstance(values[0], (list, tuple)) and isinstance(values[1], dict)
    if pair and not accepts(model, values):
        return list(values[0]), dict(values[1])
    return values, {}


def accepts(model: Any, values: list[Any]) -> bool:
    """Whether the constructor takes ``values`` positionally."""
    try:
        inspect.signature(model).bind(*values)
    except (TypeError, ValueError):
        return False
    return True


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
        check_input(index, value)
    return [move(value, device, dtype) for value in values]


def check_input(index: int, value: Any) -> None:
    """Raise UnusableInput for an input that no plan can be given."""
    import torch

    if not isinstance(value, (torch.Tensor, bool, int, float)):
        kind = type(value).__name__
        raise UnusableInput(f"get_inputs()[{index}] is a {kind}; inputs are tensors and Python numbers.")
    if isinstance(value, torch.Tensor):
        check_tensor(f"get_inputs()[{index}]", value)


def check_tensor(what: str, value: torch.Tensor) -> None:
    """Raise UnusableInput for a tensor of a dtype or layout that no plan can handle."""
    import torch

    name = str(value.dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES or value.is_complex():
        raise UnusableInput(
            f"{what} is {name}, which kernels cannot be given; use real numbers of an ordinary width."
        )
    if value.layout is not torch.strided or value.is_quantized or value.is_nested:
        raise UnusableInput(f"{what} is sparse, nested or quantised; tensors must be dense.")


def move(value: Any, device: str, dtype: torch.dtype | None) -> Any:
    """A tensor on ``device``, contiguous and cast if floating; anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().to(device)
    if dtype is not None and value.is_floating_point():
        value = value.to(dtype)
    return value.contiguous() if value.layout is torch.strided else value


def plain_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Tensors that a module holds as plain attributes, or in lists, tuples and dicts there; neither parameter
    nor buffer. Those in a container are named like ``states.0``."""
    is_plain = plainness(module)
    found: dict[str, torch.Tensor] = {}
    for name, value in attributes(module):
        if is_plain(value):
            found[name] = value
        elif isinstance(value, (list, tuple, dict)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            found.update({f"{name}.{key}": item for key, item in items if is_plain(item)})
    return found


def change_plain_tensors(model: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every plain tensor (see `plain_tensors`), which `Module.to` misses."""
    for module in model.modules():
        is_plain = plainness(module)
        for name, value in attributes(module):
            if is_plain(value):
                setattr(module, name, change(value))
            elif isinstance(value, list):
                value[:] = [change(item) if is_plain(item) else item for item in value]
            elif isinstance(value, dict):
                value.update({key: change(item) for key, item in value.items() if is_plain(item)})
            elif type(value) is tuple and any(map(is_plain, value)):
                setattr(module, name, tuple(change(item) if is_plain(item) else item for item in value))


def attributes(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """What a module's author stored on it, registered parts aside."""
    return [(name, value) for name, value in vars(module).items() if name not in REGISTERED]


def plainness(module: torch.nn.Module) -> Callable[[Any], bool]:
    """Tells tensors that are not registered with ``module`` from its parameters and from other things."""
    import torch

    registered = {id(value) for value in (*module.parameters(), *module.buffers())}
    return lambda value: isinstance(value, torch.Tensor) and id(value) not in registered


def unfold_buffers(model: torch.nn.Module) -> None:
    """Make buffers contiguous: one that was expanded cannot be written to."""
    for module in model.modules():
        for name, value in module._buffers.items():
            if value is not None:
                module._buffers[name] = value.contiguous()


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
