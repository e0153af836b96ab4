"""How far honest kernels and cheats are from the tolerance: ``python -m benchmarks.margins``.

Every operator is computed by honest alternatives (another order of additions, fused multiply-adds, another
formula with errors of a few units in the last place) and by cheats (half precision or TF32 inside, sums of a
part, short polynomials, a forgotten epsilon). The score is the largest ratio of an error statistic to what is
allowed, over the distributions that a candidate meets: honest ones must stay below 1 on every one of them,
cheats must exceed it on at least one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from gpu_eval.judge.compare import Rounding, Tolerance, strict_tolerance
from gpu_eval.judge.errors import ErrorProfile, error_profile
from gpu_eval.judge.inputs import Distributions, Flavour
from gpu_eval.judge.structure import Kind, Structure

Tensors = list[torch.Tensor]
Compute = Callable[[Tensors], torch.Tensor]
SIZES = ((64, 256), (32, 4096), (8, 65_536))
FLAVOURS = ("own", "normal", "wide", "negative", "sparse", "large")


@dataclass(frozen=True)
class Study:
    """One operator: PyTorch's own way, its inputs, and others' ways. ``positive``: of its domain."""

    reference: Compute
    inputs: Callable[[int, int], Tensors]
    honest: dict[str, Compute] = field(default_factory=dict)
    cheats: dict[str, Compute] = field(default_factory=dict)
    depth: Callable[[int, int], int] = lambda rows, columns: 1
    positive: bool = False


@dataclass(frozen=True)
class Score:
    """One way of computing one operator at one size."""

    operator: str
    size: tuple[int, int]
    way: str
    honest: bool
    score: float  # above 1: called wrong

    @property
    def as_it_should(self) -> bool:
        return (self.score <= 1) == self.honest


# Building blocks, all in float32 on the CPU.


def in_order(x: torch.Tensor) -> torch.Tensor:
    """The last dimension added up from left to right in one accumulator."""
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        total = total + column
    return total


def blocked(x: torch.Tensor, width: int = 128) -> torch.Tensor:
    """As a block of ``width`` threads adds: each its stride in order, then a tree."""
    pad = -x.shape[-1] % width
    part = in_order(F.pad(x, (0, pad)).unflatten(-1, (-1, width)).transpose(-1, -2))
    while part.shape[-1] > 1:
        half = part.shape[-1] // 2
        part = part[..., :half] + part[..., half:]
    return part[..., 0]


def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A dot product along the last dimension by fused multiply-adds in order."""
    total = torch.zeros(torch.broadcast_shapes(x.shape, y.shape)[:-1])
    for a, b in zip(x.unbind(-1), y.unbind(-1), strict=True):
        total = torch.addcmul(total.double(), a.double(), b.double()).float()
    return total


def part_of(x: torch.Tensor, share: float) -> torch.Tensor:
    """The sum of the first ``share`` of the last dimension, scaled up to stand for all of it."""
    count = min(int(x.shape[-1] * share), x.shape[-1] - 1)
    return x[..., :count].sum(-1) * (x.shape[-1] / count)


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Values with ``bits`` of mantissa: 10 for TF32, 7 for bfloat16."""
    drop = 23 - bits
    return ((x.contiguous().view(torch.int32) + (1 << (drop - 1))) >> drop << drop).view(torch.float32)


def narrow(compute: Compute, bits: int) -> Compute:
    """The same with its inputs rounded."""
    return lambda inputs: compute([rounded(value, bits) for value in inputs])


def half_out(compute: Compute) -> Compute:
    """The same with its result rounded to float16."""
    return lambda inputs: compute(inputs).half().float()


def scaled(compute: Compute, factor: float) -> Compute:
    """The same, off to one side."""
    return lambda inputs: compute(inputs) * factor


def off_by_ulps(x: torch.Tensor, ulps: float) -> torch.Tensor:
    """As a fast intrinsic errs: by up to ``ulps`` units in the last place, either way."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand(x.shape, generator=generator).mul_(2).sub_(1)
    return x * (1 + noise * (ulps * torch.finfo(torch.float32).eps))


def fast_exp(x: torch.Tensor) -> torch.Tensor:
    """As `__expf`: two to the power, the argument rounded on the way; exact at zero."""
    return torch.where(x == 0, 1.0, off_by_ulps(torch.exp2(x * 1.4426950408889634), 2))


def short_exp(x: torch.Tensor, terms: int) -> torch.Tensor:
    """A truncated series after reduction to [-0.35, 0.35]."""
    whole = (x * 1.4426950408889634).round()
    rest = x - whole * 0.6931471805599453
    total, term = torch.ones_like(x), torch.ones_like(x)
    for n in range(1, terms):
        term = term * rest / n
        total = total + term
    return total * torch.exp2(whole)


def online_softmax(x: torch.Tensor, exp: Callable[[torch.Tensor], torch.Tensor] = torch.exp) -> torch.Tensor:
    """Maximum and sum in one pass over chunks, rescaled whenever the maximum grows."""
    top = torch.full(x.shape[:-1], -math.inf)
    total = torch.zeros(x.shape[:-1])
    for chunk in x.split(64, -1):
        new = torch.maximum(top, chunk.amax(-1))
        total = total * exp(top - new) + exp(chunk - new.unsqueeze(-1)).sum(-1)
        top = new
    return exp(x - top.unsqueeze(-1)) / total.unsqueeze(-1)


def softmax_by(exp: Callable[[torch.Tensor], torch.Tensor], share: float = 1.0) -> Compute:
    """Softmax with another exponential, or with the sum of a part."""

    def compute(inputs: Tensors) -> torch.Tensor:
        x = inputs[0]
        e = exp(x - x.amax(-1, keepdim=True))
        total = blocked(e) if share == 1.0 else part_of(e, share)
        return e / total.unsqueeze(-1)

    return compute


def tanh_by_exp(x: torch.Tensor) -> torch.Tensor:
    return 1 - 2 / (1 + fast_exp(2 * x))


def rational_tanh(x: torch.Tensor) -> torch.Tensor:
    """A short continued fraction, clamped: good to about 1e-4."""
    x = x.clamp(-4.97, 4.97)
    s = x * x
    return x * (10395 + s * (1260 + s * 21)) / (10395 + s * (4725 + s * (210 + s)))


def two_pass(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance as a block of threads finds them."""
    n = x.shape[-1]
    mean = (blocked(x) / n).unsqueeze(-1)
    return mean, (blocked((x - mean).square()) / n).unsqueeze(-1)


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance by merging one column at a time."""
    mean, squares = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for count, column in enumerate(x.unbind(-1), 1):
        delta = column - mean
        mean = mean + delta / count
        squares = squares + delta * (column - mean)
    return mean.unsqueeze(-1), (squares / x.shape[-1]).unsqueeze(-1)


def partial_moments(x: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of a part of the row."""
    seen = x[..., : min(int(x.shape[-1] * share), x.shape[-1] - 1)]
    return seen.mean(-1, keepdim=True), seen.var(-1, keepdim=True, unbiased=False)


def layer_norm_by(
    moments: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    rsqrt: Callable[[torch.Tensor], torch.Tensor] = torch.rsqrt,
    epsilon: float = 1e-5,
) -> Compute:
    def compute(inputs: Tensors) -> torch.Tensor:
        mean, variance = moments(inputs[0])
        return (inputs[0] - mean) * rsqrt(variance + epsilon) * inputs[1] + inputs[2]

    return compute


def rms_norm(inputs: Tensors, total: Callable[[torch.Tensor], torch.Tensor], epsilon: float) -> torch.Tensor:
    x = inputs[0]
    scale = off_by_ulps(torch.rsqrt(total(x.square()) / x.shape[-1] + epsilon), 1)
    return x * scale.unsqueeze(-1) * inputs[1]


def matmul_in_order(inputs: Tensors) -> torch.Tensor:
    return fused(inputs[0].unsqueeze(1), inputs[1].t().unsqueeze(0))


def matmul_blocked(inputs: Tensors) -> torch.Tensor:
    """Partial products of 64 terms each, added in order."""
    x, y = inputs
    parts = [a @ b for a, b in zip(x.split(64, 1), y.split(64, 0), strict=True)]
    return in_order(torch.stack(parts, -1))


def matmul_split_tf32(inputs: Tensors) -> torch.Tensor:
    """Each factor as two TF32 terms: three products instead of one."""
    x, y = inputs
    high_x, high_y = rounded(x, 10), rounded(y, 10)
    low_x, low_y = rounded(x - high_x, 10), rounded(y - high_y, 10)
    return high_x @ high_y + (high_x @ low_y + low_x @ high_y)


def rows(count: int, columns: int) -> Tensors:
    return [torch.rand(count, columns)]


def rows_and_affine(count: int, columns: int) -> Tensors:
    return [torch.rand(count, columns), 1 + 0.1 * torch.randn(columns), 0.1 * torch.randn(columns)]


def rows_and_scale(count: int, columns: int) -> Tensors:
    return [torch.rand(count, columns), 1 + 0.1 * torch.randn(columns)]


def matrices(count: int, columns: int) -> Tensors:
    return [torch.rand(count, columns), torch.rand(columns, 48)]


def two(count: int, columns: int) -> Tensors:
    return [torch.rand(count, columns), torch.rand(count, columns)]


def width(count: int, columns: int) -> int:
    return columns


def everything(count: int, columns: int) -> int:
    return count * columns


def gelu_by(cdf: Callable[[torch.Tensor], torch.Tensor]) -> Compute:
    return lambda inputs: inputs[0] * cdf(inputs[0])


def softplus(x: torch.Tensor) -> torch.Tensor:
    return x.clamp_min(0) + torch.log1p(torch.exp(-x.abs()))


def mse(inputs: Tensors) -> torch.Tensor:
    return F.mse_loss(inputs[0], inputs[1])


def squared_difference(inputs: Tensors) -> torch.Tensor:
    return (inputs[0] - inputs[1]).square().flatten()


def study_sum() -> Study:
    plain: Compute = lambda inputs: inputs[0].sum(-1)  # noqa: E731
    return Study(
        plain,
        rows,
        depth=width,
        honest={
            "in order": lambda inputs: in_order(inputs[0]),
            "block of 128": lambda inputs: blocked(inputs[0]),
            "two levels": lambda inputs: in_order(blocked(inputs[0].unflatten(-1, (8, -1)))),
        },
        cheats={
            "90 % rescaled": lambda inputs: part_of(inputs[0], 0.9),
            "99 % rescaled": lambda inputs: part_of(inputs[0], 0.99),
            "99.9 % rescaled": lambda inputs: part_of(inputs[0], 0.999),
            "TF32 terms": narrow(plain, 10),
            "bfloat16 terms": narrow(plain, 7),
            "float16 result": half_out(plain),
            "1e-5 too large": scaled(plain, 1 + 1e-5),
        },
    )


def study_matmul() -> Study:
    plain: Compute = lambda inputs: inputs[0] @ inputs[1]  # noqa: E731
    return Study(
        plain,
        matrices,
        depth=width,
        honest={
            "fused in order": matmul_in_order,
            "tiles of 64": matmul_blocked,
            "three TF32 products": matmul_split_tf32,
        },
        cheats={
            "TF32": narrow(plain, 10),
            "bfloat16": narrow(plain, 7),
            "99 % of the terms": lambda inputs: (
                inputs[0][:, : -(-inputs[0].shape[1] // 100)] @ inputs[1][: -(-inputs[0].shape[1] // 100)]
            ),
            "1e-5 too large": scaled(plain, 1 + 1e-5),
        },
    )


def study_softmax() -> Study:
    plain: Compute = lambda inputs: inputs[0].softmax(-1)  # noqa: E731
    return Study(
        plain,
        rows,
        depth=width,
        honest={
            "three passes": softmax_by(torch.exp),
            "fast exponential": softmax_by(fast_exp),
            "online": lambda inputs: online_softmax(inputs[0]),
            "online, fast exponential": lambda inputs: online_softmax(inputs[0], fast_exp),
        },
        cheats={
            "series of 4": softmax_by(lambda x: short_exp(x, 4)),
            "series of 5": softmax_by(lambda x: short_exp(x, 5)),
            "float16 terms": softmax_by(lambda x: torch.exp(x).half().float()),
            "99 % of the sum": softmax_by(torch.exp, 0.99),
            "99.9 % of the sum": softmax_by(torch.exp, 0.999),
            "1e-5 too small": scaled(plain, 1 - 1e-5),
        },
    )


def study_log_softmax() -> Study:
    def by(exp: Callable[[torch.Tensor], torch.Tensor], share: float = 1.0) -> Compute:
        def compute(inputs: Tensors) -> torch.Tensor:
            shifted = inputs[0] - inputs[0].amax(-1, keepdim=True)
            e = exp(shifted)
            return shifted - (blocked(e) if share == 1.0 else part_of(e, share)).log().unsqueeze(-1)

        return compute

    return Study(
        lambda inputs: inputs[0].log_softmax(-1),
        rows,
        depth=width,
        honest={"three passes": by(torch.exp), "fast exponential": by(fast_exp)},
        cheats={
            "series of 4": by(lambda x: short_exp(x, 4)),
            "99 % of the sum": by(torch.exp, 0.99),
            "float16 result": half_out(lambda inputs: inputs[0].log_softmax(-1)),
        },
    )


def study_logsumexp() -> Study:
    def by(total: Callable[[torch.Tensor], torch.Tensor]) -> Compute:
        def compute(inputs: Tensors) -> torch.Tensor:
            top = inputs[0].amax(-1)
            return top + total(torch.exp(inputs[0] - top.unsqueeze(-1))).log()

        return compute

    return Study(
        lambda inputs: inputs[0].logsumexp(-1),
        rows,
        depth=width,
        honest={"block of 128": by(blocked), "in order": by(in_order)},
        cheats={
            "99 % of the sum": by(lambda e: part_of(e, 0.99)),
            "float16 result": half_out(by(blocked)),
            "maximum only": lambda inputs: inputs[0].amax(-1),
        },
    )


def study_layer_norm() -> Study:
    plain: Compute = lambda inputs: F.layer_norm(  # noqa: E731
        inputs[0], (inputs[0].shape[-1],), inputs[1], inputs[2]
    )
    return Study(
        plain,
        rows_and_affine,
        depth=width,
        honest={
            "two passes": layer_norm_by(two_pass),
            "Welford": layer_norm_by(welford),
            "fast reciprocal root": layer_norm_by(two_pass, lambda x: off_by_ulps(x.rsqrt(), 2)),
        },
        cheats={
            "epsilon forgotten": layer_norm_by(two_pass, epsilon=0.0),
            "epsilon 1e-6": layer_norm_by(two_pass, epsilon=1e-6),
            "epsilon after the root": layer_norm_by(two_pass, lambda v: 1 / ((v - 1e-5).sqrt() + 1e-5)),
            "unbiased variance": layer_norm_by(
                lambda x: (x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=True))
            ),
            "moments of 99 %": layer_norm_by(lambda x: partial_moments(x, 0.99)),
            "moments of 99.9 %": layer_norm_by(lambda x: partial_moments(x, 0.999)),
            "bfloat16 inside": narrow(plain, 7),
            "affine ignored": lambda inputs: F.layer_norm(inputs[0], (inputs[0].shape[-1],)),
        },
    )


def study_rms_norm() -> Study:
    return Study(
        lambda inputs: inputs[0] * torch.rsqrt(inputs[0].square().mean(-1, keepdim=True) + 1e-6) * inputs[1],
        rows_and_scale,
        depth=width,
        honest={
            "block of 128": lambda inputs: rms_norm(inputs, blocked, 1e-6),
            "in order": lambda inputs: rms_norm(inputs, in_order, 1e-6),
        },
        cheats={
            "epsilon 1e-5": lambda inputs: rms_norm(inputs, blocked, 1e-5),
            "mean square of 99.9 %": lambda inputs: rms_norm(inputs, lambda s: part_of(s, 0.999), 1e-6),
            "TF32 inside": narrow(lambda inputs: rms_norm(inputs, blocked, 1e-6), 10),
        },
    )


def study_gelu() -> Study:
    root = math.sqrt(0.5)
    inner = math.sqrt(2 / math.pi)

    def tanh_form(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * (1 + torch.tanh(inner * (x + 0.044715 * x**3)))

    return Study(
        lambda inputs: F.gelu(inputs[0]),
        rows,
        honest={
            "erf": gelu_by(lambda x: 0.5 * (1 + torch.erf(x * root))),
            "erfc": gelu_by(lambda x: 0.5 * torch.erfc(-x * root)),
            "erf, 2 ulp off": gelu_by(lambda x: 0.5 * (1 + off_by_ulps(torch.erf(x * root), 2))),
        },
        cheats={
            "tanh form": gelu_by(tanh_form),
            "sigmoid form": gelu_by(lambda x: torch.sigmoid(1.702 * x)),
            "float16 result": half_out(lambda inputs: F.gelu(inputs[0])),
            "5e-6 too large": scaled(lambda inputs: F.gelu(inputs[0]), 1 + 5e-6),
        },
    )


def study_silu() -> Study:
    return Study(
        lambda inputs: F.silu(inputs[0]),
        rows,
        honest={
            "by exp": lambda inputs: inputs[0] / (1 + torch.exp(-inputs[0])),
            "fast exp and reciprocal": lambda inputs: off_by_ulps(
                inputs[0] * off_by_ulps(1 / (1 + fast_exp(-inputs[0])), 1), 1
            ),
            "by tanh": lambda inputs: inputs[0] * (0.5 + 0.5 * torch.tanh(0.5 * inputs[0])),
        },
        cheats={
            "hard swish": lambda inputs: F.hardswish(inputs[0]),
            "short tanh": lambda inputs: inputs[0] * (0.5 + 0.5 * rational_tanh(0.5 * inputs[0])),
            "series of 5": lambda inputs: inputs[0] / (1 + short_exp(-inputs[0], 5)),
            "TF32 inside": narrow(lambda inputs: F.silu(inputs[0]), 10),
        },
    )


def study_tanh() -> Study:
    return Study(
        lambda inputs: torch.tanh(inputs[0]),
        rows,
        honest={"by fast exp": lambda inputs: tanh_by_exp(inputs[0])},
        cheats={
            "short fraction": lambda inputs: rational_tanh(inputs[0]),
            "clamped line": lambda inputs: inputs[0].clamp(-1, 1),
            "bfloat16 result": lambda inputs: torch.tanh(inputs[0]).bfloat16().float(),
            "hardware approximation": lambda inputs: off_by_ulps(torch.tanh(inputs[0]), 2.0**12),
        },
    )


def study_mish() -> Study:
    def by_fraction(inputs: Tensors) -> torch.Tensor:
        x = inputs[0]
        n = fast_exp(-x.abs())
        positive = (1 + 2 * n) / (1 + 2 * n + 2 * n * n)
        negative = (n * n + 2 * n) / (n * n + 2 * n + 2)
        return x * torch.where(x > 0, positive, negative)

    return Study(
        lambda inputs: F.mish(inputs[0]),
        rows,
        honest={
            "tanh of softplus": lambda inputs: inputs[0] * torch.tanh(softplus(inputs[0])),
            "rational in exp": by_fraction,
        },
        cheats={
            "short tanh": lambda inputs: inputs[0] * rational_tanh(softplus(inputs[0])),
            "float16 result": half_out(lambda inputs: F.mish(inputs[0])),
        },
    )


def study_loss() -> Study:
    return Study(
        mse,
        two,
        depth=everything,
        honest={
            "block of 256": lambda inputs: blocked(squared_difference(inputs), 256) / inputs[0].numel(),
            "block a row": lambda inputs: blocked((inputs[0] - inputs[1]).square()).sum() / inputs[0].numel(),
        },
        cheats={
            "99 % rescaled": lambda inputs: part_of(squared_difference(inputs), 0.99) / inputs[0].numel(),
            "99.9 % rescaled": lambda inputs: part_of(squared_difference(inputs), 0.999) / inputs[0].numel(),
            "bfloat16 inside": narrow(mse, 7),
            "2e-5 too large": scaled(mse, 1 + 2e-5),
        },
    )


def study_variance() -> Study:
    return Study(
        lambda inputs: inputs[0].var(-1),
        rows,
        depth=width,
        honest={
            "two passes": lambda inputs: (
                two_pass(inputs[0])[1][..., 0] * (inputs[0].shape[-1] / (inputs[0].shape[-1] - 1))
            ),
            "Welford": lambda inputs: (
                welford(inputs[0])[1][..., 0] * (inputs[0].shape[-1] / (inputs[0].shape[-1] - 1))
            ),
        },
        cheats={
            "biased": lambda inputs: inputs[0].var(-1, unbiased=False),
            "of 99.9 %": lambda inputs: partial_moments(inputs[0], 0.999)[1][..., 0],
            "TF32 inside": narrow(lambda inputs: inputs[0].var(-1), 10),
        },
    )


def study_log() -> Study:
    return Study(
        lambda inputs: torch.log(inputs[0]),
        rows,
        positive=True,
        honest={"by log2": lambda inputs: off_by_ulps(torch.log2(inputs[0]), 1) * math.log(2)},
        cheats={
            "float16 result": half_out(lambda inputs: torch.log(inputs[0])),
            "good to 1e-5": lambda inputs: torch.log(inputs[0]) + 1e-5,
        },
    )


STUDIES: dict[str, Callable[[], Study]] = {
    "sum of rows": study_sum,
    "matrix product": study_matmul,
    "softmax": study_softmax,
    "log-softmax": study_log_softmax,
    "log-sum-exp": study_logsumexp,
    "layer norm": study_layer_norm,
    "RMS norm": study_rms_norm,
    "GELU": study_gelu,
    "SiLU": study_silu,
    "tanh": study_tanh,
    "Mish": study_mish,
    "squared loss": study_loss,
    "variance": study_variance,
    "log": study_log,
}


def scores(name: str, size: tuple[int, int], seed: int = 0) -> list[Score]:
    """Every way of computing one operator at one size, scored over the distributions."""
    study = STUDIES[name]()
    torch.manual_seed(seed)
    worst: dict[str, float] = {}
    for inputs in distributions(study, size, seed):
        for way, compute in (study.honest | study.cheats).items():
            worst[way] = max(worst.get(way, 0.0), score(study, compute, inputs, size))
    return [Score(name, size, way, way in study.honest, value) for way, value in worst.items()]


def distributions(study: Study, size: tuple[int, int], seed: int) -> Iterator[Tensors]:
    """The operator's inputs as each flavour that PyTorch bears. Only the first is drawn anew."""
    own = study.inputs(*size)
    structures = [Structure(Kind.PLAIN)] + [Structure(Kind.KEPT) for _ in own[1:]]
    if own[-1].shape[-1] != own[0].shape[-1] or own[-1].shape == own[0].shape:
        structures = [Structure(Kind.PLAIN) for _ in own]  # a second operand rather than weights
    maker = Distributions(structures)
    for variant in FLAVOURS:
        if variant == "own":
            yield own
            continue
        scale = 100.0 if variant in ("wide", "large") else 1.0
        made = maker.flavoured(own, Flavour(variant, scale, study.positive), seed)
        if bool(torch.isfinite(study.reference(made)).all()):
            yield made


def score(study: Study, compute: Compute, inputs: Tensors, size: tuple[int, int]) -> float:
    """The largest ratio of an error statistic to what is allowed; infinite for NaN and infinities."""
    exact = study.reference([value.double() for value in inputs])
    own = error_profile(study.reference(inputs), exact)
    made = compute(inputs)
    if not bool(torch.isfinite(made).all()):
        return math.inf
    tolerance = strict_tolerance(torch.float32, Rounding(study.depth(*size)), own, exact.numel())
    return ratio(error_profile(made, exact), tolerance)


def ratio(profile: ErrorProfile, tolerance: Tolerance) -> float:
    """How much of the tolerance is used up."""
    return max(
        profile.largest / tolerance.largest,
        profile.rms / tolerance.rms,
        abs(profile.bias) / tolerance.bias,
        profile.tail / tolerance.tail,
    )


def table(sizes: tuple[tuple[int, int], ...] = SIZES) -> str:
    """All scores as Markdown, a column a size; what is on the wrong side is marked."""
    head = ["operator", "way", "must", *(f"{rows_}x{columns}" for rows_, columns in sizes)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in STUDIES:
        by_size = [scores(name, size) for size in sizes]
        for line in zip(*by_size, strict=True):
            cells = [f"{one.score:.3g}{'' if one.as_it_should else ' **!**'}" for one in line]
            must = "pass" if line[0].honest else "fail"
            lines.append("| " + " | ".join([name, line[0].way, must, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What honest kernels and cheats use of the tolerance.")
    parser.add_argument("--small", action="store_true", help="the smallest size only")
    arguments = parser.parse_args()
    print(table(SIZES[:1] if arguments.small else SIZES))


if __name__ == "__main__":
    main()
