"""A second look at a failed comparison: is the candidate right for inputs within rounding of these?

Where an operator jumps (rounding, thresholds, choices) two honest kernels land on different sides of a step,
and where it cancels almost everything no two agree. PyTorch is run on inputs moved by a unit or two in the
last place: an element that its own answers spread over is judged by that spread, not by one of them. Indices
that point to equal values (ties) are equally right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NUDGES = 6
NUDGE_ULPS = 2.0

Run = Callable[[list[Any], int], list[torch.Tensor]]  # inputs, seed -> outputs


def nearby_outputs(run: Run, inputs: list[Any], seed: int, index: int) -> list[torch.Tensor]:
    """One output of PyTorch for each of `NUDGES` inputs within rounding of ``inputs``."""
    return [run(nudged(inputs, seed + nudge), seed)[index] for nudge in range(NUDGES)]


def nudged(inputs: list[Any], seed: int) -> list[Any]:
    """Every floating element moved by up to `NUDGE_ULPS` units in its last place; zeros stay zero."""
    moved = []
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            generator = torch.Generator(device=value.device).manual_seed((seed + index) % 2**63)
            step = torch.rand(value.shape, generator=generator, device=value.device, dtype=value.dtype)
            moved.append(value + value * step.sub_(0.5).mul_(2 * NUDGE_ULPS * torch.finfo(value.dtype).eps))
        else:
            moved.append(value)
    return moved


def settled(
    actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, near: list[torch.Tensor], allowed: float
) -> torch.Tensor:
    """``exact``, but where the nearby answers differ by more than ``allowed`` of their scale, the value that is
    nearest to ``actual`` in their span."""
    low, high = eager.to(exact.dtype), eager.to(exact.dtype)
    for answer in (exact, *near):
        low, high = torch.fmin(low, answer.to(exact.dtype)), torch.fmax(high, answer.to(exact.dtype))
    level = exact.double().square().mean().sqrt()
    unstable = (high - low) > allowed * (exact.abs() + level)
    return torch.where(unstable, actual.to(exact.dtype).clamp(low, high), exact)


@dataclass
class Choice:
    """One operation that returned indices: into what, along which dimension, and the indices themselves."""

    values: torch.Tensor
    dim: int
    indices: torch.Tensor


class ChoiceRecorder(TorchDispatchMode):
    """Notes, while active, every operation that returns indices into a tensor of values."""

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name, overload = func._overloadpacket.__name__, func._overloadname
        if name in ("argmax", "argmin"):
            self.note(args, kwargs, result, place=1)
        elif name in ("max", "min", "median", "nanmedian", "mode") and overload.startswith("dim"):
            self.note(args, kwargs, result[1], place=1)
        elif name == "sort":
            self.note(args, kwargs, result[1], place=2 if overload == "stable" else 1)
        elif name in ("topk", "kthvalue"):
            self.note(args, kwargs, result[1], place=2)
        return result

    def note(self, args: Any, kwargs: Any, indices: torch.Tensor, place: int) -> None:
        """Keep one operation; its ``dim`` is a keyword or the argument at ``place``."""
        dim = (kwargs or {}).get("dim", args[place] if len(args) > place else None)
        values = args[0]
        if dim is None and place == 1 and indices.ndim == 0:
            values, dim = values.reshape(-1), 0
        self.choices.append(Choice(values, -1 if dim is None else int(dim), indices))


def chosen_alike(actual: torch.Tensor, eager: torch.Tensor, run: Callable[[], Any], allowed: float) -> bool:
    """Whether ``actual`` points to values as good as those that ``eager`` points to. ``run`` calls PyTorch."""
    with ChoiceRecorder() as recorder:
        run()
    for choice in recorder.choices:
        if choice.indices.numel() == eager.numel() and torch.equal(
            choice.indices.reshape(eager.shape).to(eager.dtype), eager
        ):
            return points_alike(choice, actual.reshape(choice.indices.shape).long(), allowed)
    return False


def points_alike(choice: Choice, indices: torch.Tensor, allowed: float) -> bool:
    """Whether ``indices`` are in range, each used once a row, and lead to the values that were chosen."""
    values, dim = choice.values, choice.dim
    chosen = choice.indices
    if chosen.ndim < values.ndim:
        indices, chosen = indices.unsqueeze(dim), chosen.unsqueeze(dim)
    if bool((indices < 0).any()) or bool((indices >= values.shape[dim]).any()):
        return False
    ordered = indices.sort(dim).values
    if bool((ordered.diff(dim=dim) == 0).any()):
        return False
    mine, theirs = values.gather(dim, indices).double(), values.gather(dim, chosen).double()
    level = theirs.square().mean().sqrt()
    return bool(((mine - theirs).abs() <= allowed * (theirs.abs() + level)).all())
