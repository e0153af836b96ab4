"""Bounds on every quantity a plan can name. Texts are checked before they reach Python's own parser."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT_CHARS = 400_000  # the whole plan
MAX_CODE_CHARS = 60_000  # the plan without its string literals and comments
MAX_BRACKETS = 40  # open at once, outside strings
MAX_DIGITS = 40  # in a row, outside strings
MAX_NODES = 20_000  # of the syntax tree
MAX_DEPTH = 80  # of the syntax tree
MAX_INT = 2**63 - 1  # magnitude of any integer value
MAX_DIMS = 16
MAX_TUPLE = 1024


@dataclass(frozen=True)
class BindLimits:
    """What one device and one evaluation allow. `DeviceBackend.limits` gives a device's own.

    ``max_memory_bytes`` bounds what a plan allocates itself, outputs included.
    """

    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    max_shared_bytes: int = 227 * 1024
    max_memory_bytes: int = 64 * 2**30
    max_steps: int = 4096  # allocations, launches, library calls and copies of one call
    max_work: int = 200_000  # expressions evaluated while binding
    max_loop: int = 65_536  # iterations of one `range`
