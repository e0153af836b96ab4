"""Shapes, dtypes and typed scalars: what a plan knows of its values before any memory exists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# Bytes an element, by torch's dtype names.
DTYPE_BYTES: dict[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype (torch's name) of a tensor.

    Raises ValueError on an unknown dtype or a negative size.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"unknown dtype {self.dtype!r}")
        if any(size < 0 for size in self.shape):
            raise ValueError(f"negative size in shape {self.shape}")

    @property
    def numel(self) -> int:
        """Elements; 1 for a 0-d tensor."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def nbytes(self) -> int:
        return self.numel * self.itemsize

    def to_json(self) -> dict[str, object]:
        return {"shape": list(self.shape), "dtype": self.dtype}

    @classmethod
    def from_json(cls, data: dict[str, object]) -> TensorSpec:
        return cls(tuple(data["shape"]), str(data["dtype"]))  # type: ignore[arg-type]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Scalar:
    """A typed kernel argument: ``kind`` is ``int32``, ``int64``, ``float32`` or ``float64``."""

    kind: str
    value: int | float

    PLAN_WORD: ClassVar[str] = "a typed scalar"


SCALAR_STRUCT = {"int32": "i", "int64": "q", "float32": "f", "float64": "d"}  # `struct` codes
