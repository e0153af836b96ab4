"""How much work an operator does: FLOPs, bytes and the longest sum, counted while it runs once.

Matrix products and convolutions are counted by torch's own formulas (`torch.utils.flop_counter`). For the
rest this is an estimate meant as a lower bound, since a roofline floor must not be too high: one operation
an element for point-wise work and reductions, the few more that softmax and normalisations cannot avoid,
none for views and copies.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# FLOPs an element of the largest operand.
WEIGHTS = {
    "_softmax": 4,
    "_log_softmax": 4,
    "native_layer_norm": 6,
    "native_group_norm": 6,
    "native_batch_norm": 6,
    "_native_batch_norm_legit": 6,
    "var": 3,
    "var_mean": 3,
    "std": 3,
    "linalg_vector_norm": 2,
    "logsumexp": 3,
}
FREE = {
    "clone",
    "copy_",
    "_to_copy",
    "empty",
    "empty_like",
    "fill_",
    "zeros_like",
    "ones_like",
    "detach",
    "cat",
    "index",
}
SUMS = {
    "sum",
    "mean",
    "var",
    "var_mean",
    "std",
    "norm",
    "linalg_vector_norm",
    "logsumexp",
    "cumsum",
    "cumprod",
    "prod",
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_fused_rms_norm",
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "nll_loss_forward",
    "mse_loss",
    "smooth_l1_loss",
    "binary_cross_entropy",
    "kl_div",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "mv",
    "dot",
}


class CostCounter(TorchDispatchMode):
    """Counts while active. ``depth`` is the longest sum seen, in terms (1 when there is none)."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.depth = 1
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        self.operations += 1
        formula = flop_registry.get(func._overloadpacket)
        sizes = [tensor.numel() for tensor in tensors_in((args, result))]
        if formula is not None:
            flops = int(formula(*args, **(kwargs or {}), out_val=result))
            self.flops += flops
            outputs = sum(tensor.numel() for tensor in tensors_in(result))
            self.depth = max(self.depth, flops // max(2 * outputs, 1))
        elif name not in FREE and not func.is_view:
            self.flops += WEIGHTS.get(name, 1) * max(sizes, default=0)
            if name in SUMS:
                self.depth = max(self.depth, reduction_length(args, result))
        return result


def reduction_length(args: Any, result: Any) -> int:
    """Terms a sum: elements in over elements out, or the longest dimension where the shape is kept."""
    inputs = tensors_in(args)
    outputs = tensors_in(result)
    if not inputs or not outputs:
        return 1
    source = max(inputs, key=lambda tensor: tensor.numel())
    out_elements = max(outputs[0].numel(), 1)
    if out_elements == source.numel():
        smaller = [tensor.numel() for tensor in outputs[1:] if 0 < tensor.numel() < source.numel()]
        return source.numel() // max(smaller) if smaller else max(source.shape, default=1)
    return max(source.numel() // out_elements, 1)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor inside nested lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def minimal_bytes(*groups: list[torch.Tensor]) -> int:
    """Bytes that must move at least: every input, weight and output once."""
    return sum(tensor.numel() * tensor.element_size() for group in groups for tensor in group)
