"""Random operators of the two families, as modules that PyTorch itself can run for comparison."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.relu, torch.sigmoid, torch.tanh, F.silu, F.gelu, F.mish, F.hardswish, F.softplus, F.elu, F.selu, F.relu6,
    F.leaky_relu, F.hardtanh, F.hardsigmoid, F.logsigmoid, F.softsign, F.tanhshrink, torch.abs, torch.neg, torch.sin,
    torch.cos, torch.erf, torch.square,
    lambda x: F.gelu(x, approximate="tanh"), lambda x: torch.clamp(x, -0.5, 1.25), lambda x: torch.clamp(x, max=0.75),
    lambda x: torch.exp(-x.abs()), lambda x: torch.log1p(x.abs()), lambda x: torch.sqrt(x.abs()),
    lambda x: torch.rsqrt(x * x + 1.0), lambda x: x**3, lambda x: (x * x + 0.5) ** 1.3, lambda x: 2.0 - x,
    lambda x: 1.0 / (x * x + 2.0), lambda x: F.celu(x, 0.7), lambda x: F.softshrink(x, 0.3), lambda x: x * 1.5,
    lambda x: torch.expm1(torch.clamp(x, max=2.0)), lambda x: F.threshold(x, 0.1, -0.2),
    lambda x: torch.nan_to_num(x, 0.5), lambda x: x.masked_fill(x > 0.5, -1.0), lambda x: (x > 0).float(),
]  # fmt: skip
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda a, b: a / (b.abs() + 1.0),
    lambda a, b: torch.where(a > b, a, b * 0.5), lambda a, b: torch.add(a, b, alpha=0.3), lambda a, b: a * b + a,
    lambda a, b: torch.lerp(a, b, 0.25), lambda a, b: torch.where((a > 0) & (b <= 0.5), a, -b),
    lambda a, b: torch.atan2(a, b * b + 0.5), lambda a, b: torch.addcmul(a, a, b, value=0.5),
]  # fmt: skip
REDUCTIONS: list[Callable[[Tensor, Any], Tensor]] = [
    lambda x, d: x.sum(d, keepdim=True), lambda x, d: x.mean(d, keepdim=True), lambda x, d: x.amax(d, keepdim=True),
    lambda x, d: x.amin(d, keepdim=True), lambda x, d: torch.logsumexp(x, d, keepdim=True),
    lambda x, d: torch.softmax(x, -1) if len(d) == 1 else torch.amax(x, d, keepdim=True),
    lambda x, d: x.var(d, keepdim=True), lambda x, d: x.std(d, keepdim=True, correction=0),
    lambda x, d: torch.linalg.vector_norm(x, 2, d, keepdim=True),
    lambda x, d: torch.linalg.vector_norm(x, 1, d, keepdim=True), lambda x, d: F.layer_norm(x, [x.shape[i] for i in d]),
    lambda x, d: F.rms_norm(x, [x.shape[i] for i in d], eps=1e-5),
    lambda x, d: (x - x.mean(d, keepdim=True)) / (x.std(d, keepdim=True) + 0.1),
    lambda x, d: F.log_softmax(x, -1) if len(d) == 1 else x - x.mean(d, keepdim=True),
    lambda x, d: x - x.amax(d, keepdim=True),
]  # fmt: skip
SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 31, 32, 33, 64, 65, 100, 128)


class RandomPointwise(nn.Module):
    """A DAG of point-wise operations over broadcast inputs and parameters, with one to three results."""

    def __init__(self, rng: random.Random, specials: bool = False) -> None:
        super().__init__()
        self.shape = tuple(rng.choice(SIZES) for _ in range(rng.choice((1, 2, 2, 3))))
        self.input_shapes = [self.shape, *(_broadcast(self.shape, rng) for _ in range(rng.randint(0, 2)))]
        for index in range(rng.randint(0, 2)):
            self.register_parameter(f"p{index}", nn.Parameter(torch.randn(_broadcast(self.shape, rng))))
        self.steps = [(rng.random(), rng.random(), rng.random()) for _ in range(rng.randint(1, 7))]
        self.picks = [rng.choice(UNARY) if rng.random() < 0.5 else rng.choice(BINARY) for _ in self.steps]
        self.results = rng.choice((1, 1, 2, 3))
        self.specials = specials
        self.with_scalar = rng.random() < 0.3

    def inputs(self) -> list[Any]:
        values: list[Any] = [_values(shape, self.specials) for shape in self.input_shapes]
        return [*values, 0.75] if self.with_scalar else values

    def forward(self, *given: Any) -> Any:
        pool = [value for value in given if isinstance(value, Tensor)] + list(self.parameters())
        scalars = [value for value in given if isinstance(value, float)]
        if self.with_scalar:
            scalar = scalars[0] if scalars else given[-1]
            pool = [value for value in pool if value is not scalar]
            pool[0] = pool[0] * scalar
        made = [pool[0]]
        for step, operation in zip(self.steps, self.picks, strict=True):
            first = made[int(step[0] * len(made))]
            if operation in UNARY:
                made.append(operation(first))  # type: ignore[call-arg]
            else:
                others = [*made, *pool]
                made.append(operation(first, others[int(step[1] * len(others))]))  # type: ignore[call-arg]
        return _results(made, self.results)


class RandomReduction(nn.Module):
    """A prologue, one or two reductions over the same trailing dimensions, and a tail."""

    def __init__(self, rng: random.Random, specials: bool = False) -> None:
        super().__init__()
        rank = rng.choice((1, 2, 2, 3))
        self.shape = tuple(rng.choice(SIZES) for _ in range(rank))
        width = rng.randint(1, rank)
        if rng.random() < 0.7:
            width = 1
        self.dims = list(range(rank - width, rank))
        self.input_shapes = [self.shape, *(_broadcast(self.shape, rng) for _ in range(rng.randint(0, 1)))]
        if rng.random() < 0.5:
            self.p = nn.Parameter(torch.randn(self.shape[-width:]))
        self.prologue = [rng.choice(UNARY) for _ in range(rng.choice((0, 0, 1)))]
        self.reductions = [rng.choice(REDUCTIONS) for _ in range(rng.choice((1, 1, 2)))]
        self.tail = [rng.choice(UNARY) for _ in range(rng.choice((0, 1, 2)))]
        self.combine = rng.random() < 0.6
        self.drop = rng.random() < 0.3
        self.specials = specials
        self.two = rng.random() < 0.2

    def inputs(self) -> list[Any]:
        return [_values(shape, self.specials) for shape in self.input_shapes]

    def forward(self, *given: Tensor) -> Any:
        x = given[0]
        for operation in self.prologue:
            x = operation(x)
        if len(given) > 1:
            x = x + given[1]
        value = x
        for reduction in self.reductions:
            if value.shape == x.shape:
                value = reduction(value, self.dims)
        if self.combine and value.shape != x.shape:
            value = x - value
        for operation in self.tail:
            value = operation(value)
        if hasattr(self, "p") and value.shape[-1] == x.shape[-1]:
            value = value * self.p
        if self.drop and value.shape != x.shape and all(value.shape[d] == 1 for d in self.dims):
            value = value.squeeze(-1) if len(self.dims) == 1 else value
        return (value, x) if self.two else value


def _broadcast(shape: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    kind = rng.random()
    if kind < 0.35:
        return shape
    if kind < 0.55:
        return shape[-1:]
    if kind < 0.65:
        return ()
    return tuple(1 if rng.random() < 0.5 else size for size in shape)


def _values(shape: tuple[int, ...], specials: bool) -> Tensor:
    values = torch.randn(shape) * 2
    if specials and values.numel():
        flat = values.reshape(-1)
        for number in (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e15, -1e15):
            if torch.rand(()) < 0.6:
                flat[int(torch.randint(len(flat), ()))] = number
    return values


def _results(made: list[Tensor], count: int) -> Any:
    distinct = [
        value
        for index, value in enumerate(made)
        if index and all(value is not other for other in made[:index])
    ]
    chosen = distinct[-count:] if distinct else made[-1:]
    return tuple(chosen) if len(chosen) > 1 else chosen[0]
