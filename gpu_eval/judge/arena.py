"""The memory that judge and runner share: one arena, tensors in it apart by guard bytes.

On the CPU it is a memory file that both map; on CUDA a device allocation opened through an
IPC handle. The judge owns it, fills it and checks it. Tensors start at multiples of `ALIGNMENT`.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_eval.limits import ALIGNMENT, GUARD_BYTES

GUARD_VALUE = 0xC3
POISON_BYTE = 0xA5

# Quiet NaNs with a payload of our own: an element that was never written is told from a computed NaN.
POISON_BITS: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float32: (torch.int32, 0x7FC0A5A5),
    torch.float64: (torch.int64, 0x7FF80000A5A5A5A5),
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FE5),
}


@dataclass(frozen=True)
class Region:
    """Where one tensor lies: bytes from the arena's start."""

    offset: int
    nbytes: int


def lay_out(sizes: list[int]) -> tuple[list[Region], int]:
    """Regions for tensors of ``sizes`` bytes with guards around each, and the arena's size."""
    regions: list[Region] = []
    end = align(GUARD_BYTES)
    for size in sizes:
        regions.append(Region(end, size))
        end = align(end + size + GUARD_BYTES)
    return regions, end


def align(offset: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


class Arena(ABC):
    """Shared memory seen as one tensor of bytes, ``memory``."""

    memory: torch.Tensor

    def __init__(self, sizes: list[int]) -> None:
        self.regions, self.nbytes = lay_out(sizes)

    @abstractmethod
    def handle(self, region: Region) -> dict[str, Any]:
        """How the runner finds a region; the form `DeviceBackend.from_exchange` takes."""

    def view(self, region: Region, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A region as a contiguous tensor."""
        return self.memory[region.offset : region.offset + region.nbytes].view(dtype).view(shape)

    def arm_guards(self) -> None:
        """Write the pattern into every byte that no tensor owns."""
        for gap in self.gaps():
            gap.fill_(GUARD_VALUE)

    def broken_guard(self) -> int | None:
        """Index of the first gap that was written to, or None. Gap ``i`` lies before region ``i``."""
        gaps = self.gaps()
        if bool((torch.cat(gaps) == GUARD_VALUE).all()):
            return None
        return next(index for index, gap in enumerate(gaps) if not bool((gap == GUARD_VALUE).all()))

    def gaps(self) -> list[torch.Tensor]:
        """The bytes before each region and after the last."""
        starts = [0, *(region.offset + region.nbytes for region in self.regions)]
        ends = [*(region.offset for region in self.regions), self.nbytes]
        return [self.memory[start:end] for start, end in zip(starts, ends, strict=True)]


class HostArena(Arena):
    """The beginning of a file, mapped: of the memory that the parent made (`gpu_eval.exchange`), or of a plain
    file, which is made long enough."""

    def __init__(self, sizes: list[int], path: Path) -> None:
        super().__init__(sizes)
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size < self.nbytes:
                os.ftruncate(fd, self.nbytes)
            self._map = mmap.mmap(fd, self.nbytes)
        finally:
            os.close(fd)
        self.memory = torch.frombuffer(self._map, dtype=torch.uint8)

    def handle(self, region: Region) -> dict[str, Any]:
        return {"kind": "file", "path": str(self.path), "offset": region.offset, "nbytes": region.nbytes}


class CudaArena(Arena):
    """A device allocation outside torch's pool, so that its IPC handle covers nothing else. The primary context must
    be current (see `TorchDevice.open`)."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(sizes)
        import pycuda.driver as driver

        self._allocation = driver.mem_alloc(self.nbytes)
        self._ipc = bytes(driver.mem_get_ipc_handle(self._allocation)).hex()
        self.memory = torch.as_tensor(CudaBytes(int(self._allocation), self.nbytes), device="cuda")

    def handle(self, region: Region) -> dict[str, Any]:
        return {"kind": "ipc", "handle": self._ipc, "offset": region.offset, "nbytes": region.nbytes}


class CudaBytes:
    """Device memory described to torch."""

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def poison(tensor: torch.Tensor) -> None:
    """Fill with NaN (floats) or 0xA5 bytes, so that an element nobody writes cannot look right."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is not None:
        tensor.view(bits[0]).fill_(bits[1])
    elif tensor.numel():
        raw = tensor.view(-1).view(torch.uint8)
        raw.fill_(POISON_BYTE)


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Mask of elements that still hold the poison."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is not None:
        return tensor.view(bits[0]) == bits[1]
    raw = tensor.contiguous().view(-1).view(torch.uint8).view(*tensor.shape, tensor.element_size())
    return (raw == POISON_BYTE).all(-1)
