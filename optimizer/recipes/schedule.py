"""How a covered operator is turned into kernels: every knob that a strategy can move."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

ROW_STRATEGIES = ("thread", "warp", "block", "split")
ROW_STORAGES = ("reload", "registers", "shared")
MOMENTS = ("two_pass", "single_pass", "welford")


@dataclass(frozen=True)
class Schedule:
    """Immutable; a move returns a changed copy. The defaults are the naive schedule.

    The generator accepts every combination: what does not fit an operator, a device or a shape falls back to the
    nearest thing that does (a vector width to the widest one that divides a row, for example).
    """

    fuse_pointwise: bool = False  # chains of point-wise operations share a kernel
    fuse_prologue: bool = False  # point-wise producers move into the reductions that read them
    fuse_epilogue: bool = False  # point-wise consumers move into the kernel that finishes a reduction
    fuse_all: bool = False  # one kernel for everything
    recompute: bool = False  # values with several readers are computed again instead of stored
    vector_width: int = 1  # elements of one load or store
    items_per_thread: int = 1  # vectors of one thread in point-wise kernels
    block_size: int = 256  # threads
    grid_stride: bool = False  # a fixed grid walks over the data
    waves: int = 4  # blocks for each compute unit, where the grid is fixed
    row_strategy: str = "thread"  # who reduces one row
    split_parts: int = 8  # pieces of a row under "split"
    rows_per_block: int = 1
    row_storage: str = "reload"  # where a row lives between passes
    warp_shuffle: bool = False  # threads combine through registers, otherwise through shared memory
    online_softmax: bool = False  # maximum and sum in one pass
    moments: str = "two_pass"  # how mean and variance are found
    accumulators: int = 1  # independent partial results of a thread
    unroll: int = 1
    streaming_loads: bool = False
    streaming_stores: bool = False
    read_only_loads: bool = False
    fast_math: bool = False
    reciprocal_multiply: bool = False
    fma_contract: bool = False
    flush_denormals: bool = False
    exact_tile: bool = False  # no bounds checks where the tiles divide the data
    hoist_broadcast: bool = False  # broadcast operands are read once outside the inner loop
    broadcast_in_shared: bool = False
    index_32bit: bool = False
    precompute_parameters: bool = False
    library: bool = False  # torch's own operations instead of kernels

    def __post_init__(self) -> None:
        _require(self.vector_width in (1, 2, 4, 8, 16), "vector_width is 1, 2, 4, 8 or 16")
        _require(1 <= self.items_per_thread <= 16, "items_per_thread is 1..16")
        _require(32 <= self.block_size <= 1024 and self.block_size % 32 == 0, "block_size is 32..1024, by 32")
        _require(self.row_strategy in ROW_STRATEGIES, f"row_strategy is one of {ROW_STRATEGIES}")
        _require(self.row_storage in ROW_STORAGES, f"row_storage is one of {ROW_STORAGES}")
        _require(self.moments in MOMENTS, f"moments is one of {MOMENTS}")
        _require(1 <= self.rows_per_block <= 32, "rows_per_block is 1..32")
        _require(2 <= self.split_parts <= 1024, "split_parts is 2..1024")
        _require(1 <= self.accumulators <= 8, "accumulators is 1..8")
        _require(1 <= self.unroll <= 16, "unroll is 1..16")
        _require(1 <= self.waves <= 64, "waves is 1..64")

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the naive schedule, so that stored schedules survive new knobs."""
        naive = Schedule()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(naive, field.name)
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schedule:
        """Raises ValueError on an unknown knob or a value out of range."""
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(data) - names)
        if unknown:
            raise ValueError(f"a schedule has no {unknown[0]!r}")
        return cls(**data)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)
