"""A `ModelNew` in its process: built as the operator was, with the operator's weights where it has the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from gpu_eval.child import ExpectedFailure
from gpu_eval.foreign.source import CLASS
from gpu_eval.foreign.values import decode, set_random_state
from gpu_eval.operators.loading import build_model, init_arguments, named_weights, plain_tensors

MOST_OBJECTS = 20_000
MOST_DEPTH = 6
OPAQUE = (type, ModuleType, str, bytes, int, float, bool, type(None), torch.dtype, torch.device)

Specs = Mapping[str, Mapping[str, Any]]


def check_class(module: ModuleType, given: Any, filename: str) -> None:
    """Raise ExpectedFailure ("rejected") unless the file's `ModelNew` is a module that takes ``given``."""
    found = getattr(module, CLASS, None)
    if not (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        what = "has no" if found is None else "has another kind of"
        raise ExpectedFailure("rejected", f"{filename} {what} {CLASS}: it must be a torch.nn.Module.")
    arguments, keywords = init_arguments(found, given)
    if refusal := misfit(found, arguments, keywords):
        raise ExpectedFailure(
            "rejected",
            f"{filename}: {CLASS}() does not take the {len(arguments) + len(keywords)} arguments that the "
            f"operator's get_init_inputs() gives ({refusal}).",
        )


def check_forward(model: torch.nn.Module, inputs: list[Any], filename: str) -> None:
    """Raise ExpectedFailure ("rejected") unless `forward` takes as many inputs as there are."""
    if refusal := misfit(model.forward, inputs, {}):
        raise ExpectedFailure(
            "rejected",
            f"{filename}: {CLASS}.forward() does not take the operator's {len(inputs)} inputs ({refusal}).",
        )


def misfit(call: Any, arguments: list[Any], keywords: dict[str, Any]) -> str:
    """Why ``call`` does not take these arguments, or nothing. What has no signature takes anything."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    return ""


def build(
    module: ModuleType, init: dict[str, Any], device: str, dtype: torch.dtype | None
) -> torch.nn.Module:
    """`ModelNew` from the operator's arguments and random state. Exceptions of its code pass through."""

    def given() -> Any:
        value = decode(init["given"])
        set_random_state(init["random"])
        return value

    like_operator = SimpleNamespace(Model=getattr(module, CLASS), get_init_inputs=given)
    return build_model(like_operator, device, dtype, 0)  # type: ignore[arg-type]


def own_weights(model: torch.nn.Module, specs: Specs) -> str:
    """Why the operator's weights cannot be put into ``model``; empty when they can.

    They can where it has the same tensors and no others: another one may have been computed from them, when the
    module was made, and would no longer fit.
    """
    weights = named_weights(model)
    missing = [name for name in specs if name not in weights]
    if missing:
        return f'it has no "{missing[0]}"'
    for name, spec in specs.items():
        if [list(weights[name].shape), dtype_name(weights[name])] != [list(spec["shape"]), spec["dtype"]]:
            return f'its "{name}" has another shape or type'
    more = [name for name in weights if name not in specs]
    if more:
        return f'it keeps a tensor of its own, "{more[0]}"'
    if holds_others(model, list(weights.values())):
        return "it keeps tensors of its own"
    return ""


def holds_others(model: torch.nn.Module, known: list[torch.Tensor]) -> bool:
    """Whether objects that ``model`` holds have a tensor in them whose memory is not one of ``known``."""
    memories = {memory_of(value) for value in known}
    seen: set[int] = set()
    todo: list[tuple[Any, int]] = [(vars(part), 0) for part in model.modules()]
    while todo and len(seen) < MOST_OBJECTS:
        value, depth = todo.pop()
        if id(value) in seen or isinstance(value, OPAQUE):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.numel() and memory_of(value) not in memories:
                return True
        elif depth < MOST_DEPTH:
            todo += [(item, depth + 1) for item in inside(value)]
    return False


def inside(value: Any) -> Iterator[Any]:
    """What a value holds: items, attributes, a function's captured variables."""
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif inspect.isfunction(value):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # still empty
                continue
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from vars(value).values()


def memory_of(value: torch.Tensor) -> int:
    """Address of a tensor's storage."""
    return int(value.untyped_storage().data_ptr())


def put_weights(model: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Copy ``values`` into the tensors of those names."""
    with torch.no_grad():
        for name, live in named_weights(model).items():
            live.copy_(values[name])


class Restorer:
    """Puts back what a forward changed of buffers and plain tensors: running statistics, hidden states.

    Only those that exist when it is made. Changes are told by torch's counters, so that nothing costs anything
    where nothing changed.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.contents = [
            (live, live.clone(), live._version)
            for name, live in named_weights(model).items()
            if name not in dict(model.named_parameters())
        ]
        self.bindings = [
            (setter(part, name), getattr(part, name, None), part, name)
            for part in model.modules()
            for name in (*part._buffers, *(n for n in plain_tensors(part) if "." not in n))
        ]

    def restore(self) -> None:
        for put, value, part, name in self.bindings:
            if getattr(part, name, None) is not value:
                put(value)
        for index, (live, saved, version) in enumerate(self.contents):
            if live._version != version:
                live.copy_(saved)
                self.contents[index] = (live, saved, live._version)


def setter(part: torch.nn.Module, name: str) -> Callable[[Any], None]:
    """How to bind one attribute of a module."""
    return lambda value: setattr(part, name, value)


def dtype_name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
