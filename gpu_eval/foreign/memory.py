"""The judge's memory as torch tensors in the foreign process. Device libraries load on first use."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any, Protocol

import torch

Entry = Mapping[str, Any]  # a layout's entry: shape, dtype, handle


class Shared(Protocol):
    """Finds a layout's tensors."""

    def tensor(self, entry: Entry) -> torch.Tensor:
        """A fresh contiguous tensor over the entry's memory, not copied."""


class HostShared:
    """A file that both processes map."""

    def __init__(self) -> None:
        self._maps: dict[str, torch.Tensor] = {}

    def tensor(self, entry: Entry) -> torch.Tensor:
        handle = entry["handle"]
        path = str(handle["path"])
        if path not in self._maps:
            with open(path, "r+b") as file:
                self._maps[path] = torch.frombuffer(mmap.mmap(file.fileno(), 0), dtype=torch.uint8)
        return shaped(self._maps[path], entry)


class CudaShared:
    """A device allocation of at least ``nbytes``, opened through its IPC handle; torch's context must be
    current."""

    def __init__(self, nbytes: int) -> None:
        import pycuda.driver as driver

        self.driver = driver
        self.nbytes = nbytes
        self._arenas: dict[str, tuple[Any, torch.Tensor]] = {}

    def tensor(self, entry: Entry) -> torch.Tensor:
        key = str(entry["handle"]["handle"])
        if key not in self._arenas:
            opened = self.driver.IPCMemoryHandle(bytearray.fromhex(key))
            whole = torch.as_tensor(DeviceBytes(int(opened), self.nbytes), device="cuda")
            self._arenas[key] = (opened, whole)
        return shaped(self._arenas[key][1], entry)


class DeviceBytes:
    """Device memory described to torch."""

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def shaped(memory: torch.Tensor, entry: Entry) -> torch.Tensor:
    """An entry's part of ``memory``."""
    offset, nbytes = int(entry["handle"]["offset"]), int(entry["handle"]["nbytes"])
    dtype = getattr(torch, entry["dtype"])
    return memory[offset : offset + nbytes].view(dtype).view(entry["shape"])


def open_shared(kind: str, entries: list[Entry]) -> Shared:
    """The memory that a judge on a device of ``kind`` shares: where all ``entries`` lie."""
    ends = [int(entry["handle"]["offset"]) + int(entry["handle"]["nbytes"]) for entry in entries]
    return CudaShared(max(ends, default=0)) if kind == "cuda" else HostShared()
