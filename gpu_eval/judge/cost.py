"""How much work an operator does: FLOPs, bytes and the longest sum, counted while it runs once.

Matrix products and convolutions are counted by torch's own formulas (`torch.utils.flop_counter`). For the
rest this is an estimate meant as a lower bound, since a roofline floor must not be too high: one operation
an element for point-wise work and reductions, the few more that softmax and normalisations cannot avoid,
none for views and copies.
"""

from __future__ import annotations

from dataclasses import dataclass
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
PRODUCTS = {
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "mv",
    "dot",
    "convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
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


GATHERS = {"embedding", "index", "index_select", "gather", "take", "_embedding_bag", "embedding_bag"}
UNIT_INTERVAL = {"binary_cross_entropy", "bernoulli", "multinomial"}  # assert it, on CUDA fatally
SCAFFOLD = {"empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "arange", "detach"}


@dataclass
class Operation:
    """One operation that ran: its work, what it read, and which earlier operations it used."""

    name: str
    flops: int
    depth: int
    needs: set[int]
    reads: dict[int, int]  # bytes by storage


class CostCounter(TorchDispatchMode):
    """Counts while active; `finish` sums up what the outputs depend on.

    ``flops``, ``depth`` (terms of the longest sum, 1 when there is none), ``products`` (whether matrices are
    multiplied or convolved) and ``read_bytes`` (by storage, at most its size) are of live operations;
    ``dead`` names the others. ``unit_interval``: whether some operation insists on values in [0, 1].
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.written_by: dict[int, int] = {}  # storage -> the operation that wrote it last
        self.flops, self.depth, self.products = 0, 1, False
        self.read_bytes: dict[int, int] = {}
        self.dead: list[str] = []

    @property
    def unit_interval(self) -> bool:
        return any(operation.name in UNIT_INTERVAL for operation in self.operations)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tensors_in((args, list((kwargs or {}).values())))
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.note(func, args, kwargs or {}, given, result)
        return result

    def note(
        self, func: Any, args: Any, kwargs: dict[str, Any], given: list[torch.Tensor], result: Any
    ) -> None:
        """Record one operation, and that it wrote its results and what it changes in place."""
        name = func._overloadpacket.__name__
        made = tensors_in(result)
        flops, depth = self.work_of(func, args, kwargs, result)
        needs = {self.written_by[key] for key in map(storage_of, given) if key in self.written_by}
        gathered = sum(map(nbytes, made)) if name in GATHERS else None
        reads: dict[int, int] = {}
        for position, tensor in enumerate(given):
            amount = nbytes(tensor) if gathered is None or position else min(gathered, nbytes(tensor))
            reads[storage_of(tensor)] = max(reads.get(storage_of(tensor), 0), amount)
        self.operations.append(Operation(name, flops, depth, needs, reads))
        for tensor in (*made, *changed_in_place(func, args, kwargs)):
            self.written_by[storage_of(tensor)] = len(self.operations) - 1

    def work_of(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> tuple[int, int]:
        """FLOPs and the length of the sums of one operation."""
        name = func._overloadpacket.__name__
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            flops = int(formula(*args, **kwargs, out_val=result))
            outputs = sum(tensor.numel() for tensor in tensors_in(result))
            return flops, flops // max(2 * outputs, 1)
        if name in FREE:
            return 0, 1
        sizes = [tensor.numel() for tensor in tensors_in((args, result))]
        length = reduction_length(args, result) if name in SUMS else 1
        return WEIGHTS.get(name, 1) * max(sizes, default=0), length

    def finish(self, outputs: list[torch.Tensor]) -> None:
        """Follow the operations back from ``outputs``."""
        waiting = [self.written_by[key] for key in map(storage_of, outputs) if key in self.written_by]
        live: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index not in live:
                live.add(index)
                waiting.extend(self.operations[index].needs)
        for index, operation in enumerate(self.operations):
            if index in live:
                self.count(operation)
            elif operation.flops and operation.name not in SCAFFOLD:
                self.dead.append(operation.name)

    def count(self, operation: Operation) -> None:
        """Add one live operation."""
        self.flops += operation.flops
        self.depth = max(self.depth, operation.depth)
        self.products |= operation.name in PRODUCTS
        for key, amount in operation.reads.items():
            self.read_bytes[key] = max(self.read_bytes.get(key, 0), amount)

    def bytes_read(self, tensors: list[torch.Tensor]) -> int:
        """Bytes of ``tensors`` that the outputs depend on: none of an unused one, of a table only the rows
        that are looked up."""
        return sum(min(self.read_bytes.get(storage_of(tensor), 0), nbytes(tensor)) for tensor in tensors)


def changed_in_place(func: Any, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Arguments that the operation's schema says it writes to."""
    changed = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            changed += tensors_in(value)
    return changed


def storage_of(tensor: torch.Tensor) -> int:
    """A number for the memory that a tensor shares with its views, good while it lives."""
    return tensor.untyped_storage()._cdata


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements, each once."""
    return tensor.numel() * tensor.element_size()


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
    """Bytes of every tensor, each once."""
    return sum(nbytes(tensor) for group in groups for tensor in group)
