"""How many warps of a kernel fit a streaming multiprocessor, by the CUDA occupancy calculator's rules."""

from __future__ import annotations

from dataclasses import dataclass

_REGISTER_UNIT = 256  # registers are given to a warp in units of this
_SHARED_UNIT = 128
_RESERVED_SHARED = 1024  # the runtime's own, a block, from compute capability 8.0
_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}  # fp32 cores a multiprocessor; 128 since 8.6


@dataclass(frozen=True)
class Multiprocessor:
    """What one streaming multiprocessor holds. ``capability`` is (major, minor)."""

    capability: tuple[int, int]
    warp_size: int
    max_threads: int
    max_blocks: int
    registers: int
    shared_bytes: int


def fp32_cores(capability: tuple[int, int]) -> int:
    """fp32 cores of one multiprocessor, by NVIDIA's table of compute capabilities."""
    return _CORES.get(capability, 128)


def occupancy(processor: Multiprocessor, threads: int, registers: int, shared_bytes: int) -> float:
    """Active warps over the maximum, 0..1, for blocks of ``threads`` that use ``shared_bytes`` each."""
    warps = -(-threads // processor.warp_size)
    most_warps = processor.max_threads // processor.warp_size
    blocks = min(processor.max_blocks, most_warps // warps if warps else 0)
    if registers:
        per_warp = -(-registers * processor.warp_size // _REGISTER_UNIT) * _REGISTER_UNIT
        fitting = processor.registers // per_warp
        blocks = min(blocks, (fitting // 4 * 4) // warps)  # four schedulers, each with its own share
    reserved = _RESERVED_SHARED if processor.capability >= (8, 0) else 0
    shared = -(-(shared_bytes + reserved) // _SHARED_UNIT) * _SHARED_UNIT
    if shared:
        blocks = min(blocks, processor.shared_bytes // shared)
    return blocks * warps / most_warps
