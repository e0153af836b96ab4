"""Occupancy by the CUDA calculator's rules, on an H100 and H200 multiprocessor."""

from __future__ import annotations

import pytest

from gpu_eval.devices.occupancy import Multiprocessor, fp32_cores, occupancy

HOPPER = Multiprocessor((9, 0), 32, 2048, 32, 65536, 233472)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 32, 0, 1.0),  # 8 blocks of 8 warps
        (256, 33, 0, 0.75),  # 40 registers a thread after rounding: 51 warps fit, 48 by four schedulers
        (1024, 64, 0, 0.5),
        (1024, 65, 0, 0.0),  # cannot be launched at all
        (32, 16, 0, 0.5),  # 32 blocks is the most
        (256, 32, 48 * 1024, 0.5),  # 49 KiB a block with the reserved one: 4 blocks
        (256, 32, 227 * 1024, 0.125),
        (96, 255, 0, 0.09375),
    ],
)
def test_known_cases(threads: int, registers: int, shared: int, expected: float) -> None:
    """Values of NVIDIA's occupancy calculator."""
    assert occupancy(HOPPER, threads, registers, shared) == expected


def test_fp32_cores() -> None:
    """The table of compute capabilities."""
    assert (fp32_cores((7, 5)), fp32_cores((8, 0)), fp32_cores((8, 6)), fp32_cores((9, 0))) == (
        64,
        64,
        128,
        128,
    )
