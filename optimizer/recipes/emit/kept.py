"""Which values of a row are worth keeping on chip between the passes over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.recipes.emit.rows import RowsEmitter


def shared_between_passes(kernel: RowsEmitter) -> list[int]:
    """The values of each pass that a later one starts from, in program order.

    Softmax keeps the row after the first pass and its exponentials after the second, for example.
    """
    targets = kernel.pass_targets()
    kept: list[int] = []
    for index in range(len(targets) - 1):
        now = set(element_nodes(kernel, targets[index], kept))
        later: list[int] = []
        for other in targets[index + 1 :]:
            later += [n for n in _frontier(kernel, other, now | set(kept)) if n not in later]
        kept += [node_id for node_id in later if node_id not in kept]
    return [node_id for node_id in kernel.program.nodes if node_id in kept]


def element_nodes(kernel: RowsEmitter, targets: Sequence[int], stop: Iterable[int]) -> list[int]:
    """Values along the row that computing ``targets`` goes through."""
    needed = kernel.program.needed_for(targets, stop=[*stop, *kernel.spec.loads])
    return [n for n in needed if kernel.is_element(n)]


def _frontier(kernel: RowsEmitter, targets: Sequence[int], known: set[int]) -> list[int]:
    """Known element values at which a walk back from ``targets`` can stop."""
    found: list[int] = []
    stack = list(targets)
    seen: set[int] = set()
    while stack:
        node_id = stack.pop()
        if node_id in seen or not kernel.is_element(node_id):
            continue
        seen.add(node_id)
        if node_id in known:
            found.append(node_id)
        else:
            stack.extend(kernel.program.nodes[node_id].args)
    return [n for n in found if _worth_keeping(kernel, n)]


def _worth_keeping(kernel: RowsEmitter, node_id: int) -> bool:
    """Operands that are the same for every row stay in the caches anyway."""
    node = kernel.program.nodes[node_id]
    return node.dtype == "float32" and bool(set(node.axes) & set(kernel.row_axes) or not kernel.row_axes)
