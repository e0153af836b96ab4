"""Reads a cubin (an ELF file).

Its kernels, their parameters, registers and frames, and writable device globals.
"""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass

_FUNCTION_ENTRY = 0x10  # STO_CUDA_ENTRY: a __global__ function
_KPARAM_INFO, _REGCOUNT, _FRAME_SIZE = 0x17, 0x2F, 0x11
_LOCAL = re.compile(r"_ZZ.*E(\d+)([A-Za-z_]\w*?)(?:_\d*_?)?$")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class CubinKernel:
    """One ``__global__`` function. ``symbol`` is its name as linked, mangled or not."""

    symbol: str
    parameter_bytes: tuple[int, ...]
    registers: int | None
    frame_bytes: int | None


@dataclass(frozen=True)
class Cubin:
    """What a cubin holds. ``device_globals`` are the symbols in writable device memory."""

    kernels: tuple[CubinKernel, ...]
    device_globals: tuple[str, ...]


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    link: int
    body: bytes


def read_cubin(data: bytes) -> Cubin:
    """Raises ValueError on anything but a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a cubin")
    try:
        sections = _sections(data)
        symbols = _symbols(sections)
        registers, frames = (
            _per_symbol(sections, symbols, _REGCOUNT),
            _per_symbol(sections, symbols, _FRAME_SIZE),
        )
        parameters = {
            section.name.removeprefix(".nv.info."): _parameters(section.body)
            for section in sections
            if section.name.startswith(".nv.info.")
        }
    except (struct.error, IndexError, OverflowError, ValueError):
        raise ValueError("a damaged cubin") from None
    kernels = []
    global_names = []
    for name, info, other, index in symbols:
        if info & 0xF == 2 and other & _FUNCTION_ENTRY and index:
            kernels.append(CubinKernel(name, parameters.get(name, ()), registers.get(name), frames.get(name)))
        elif info & 0xF == 1 and index < len(sections) and sections[index].name.startswith(".nv.global"):
            global_names.append(name)
    if not global_names and any(section.name.startswith(".nv.global") for section in sections):
        global_names.append("(unnamed)")  # memory that outlives a launch, whatever became of its symbol
    return Cubin(tuple(kernels), tuple(global_names))


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    rows = [_SECTION.unpack_from(data, table + index * size) for index in range(count)]
    names = data[rows[names_index][4] : rows[names_index][4] + rows[names_index][5]]
    sections = []
    for name, kind, _flags, _address, offset, length, link, _info, _align, _entry in rows:
        body = b"" if kind == 8 else data[offset : offset + length]  # NOBITS sections have no content
        sections.append(_Section(_text(names, name), kind, link, body))
    return sections


def _symbols(sections: list[_Section]) -> list[tuple[str, int, int, int]]:
    """(name, info, other, section index) of every symbol, in table order."""
    for section in sections:
        if section.kind == 2:
            strings = sections[section.link].body
            rows = _SYMBOL.iter_unpack(section.body)
            return [(_text(strings, name), info, other, index) for name, info, other, index, _, _ in rows]
    return []


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode("utf-8", "replace")


def _records(body: bytes) -> list[tuple[int, bytes]]:
    """(attribute, payload) of the records of an ``.nv.info`` section that carry one."""
    records, position = [], 0
    while position + 4 <= len(body):
        form, attribute, size = struct.unpack_from("<BBH", body, position)
        position += 4
        if form == 4:
            records.append((attribute, body[position : position + size]))
            position += size
    return records


def _parameters(body: bytes) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    for attribute, payload in _records(body):
        if attribute == _KPARAM_INFO and len(payload) == 12:
            _, ordinal, _, flags = struct.unpack("<IHHI", payload)
            sizes[ordinal] = flags >> 18
    return tuple(sizes[ordinal] for ordinal in sorted(sizes))


def _per_symbol(
    sections: list[_Section], symbols: list[tuple[str, int, int, int]], wanted: int
) -> dict[str, int]:
    values: dict[str, int] = {}
    for section in sections:
        if section.name == ".nv.info":
            for attribute, payload in _records(section.body):
                if attribute == wanted and len(payload) == 8:
                    index, value = struct.unpack("<II", payload)
                    values[symbols[index][0]] = value
    return values


def plain_symbol(symbol: str) -> str:
    """``k`` of ``_Z1kPf``, ``_Z1kILi4EEvPf``, ``_ZN5tools1kEPf`` and of the ``static`` in a function
    ``_ZZ1fvE1k``; a name that is not mangled stays."""
    if not symbol.startswith("_Z"):
        return symbol
    local = _LOCAL.match(symbol)
    if local and len(local[2]) == int(local[1]):
        return local[2]
    rest = symbol[2:].lstrip("NKVL")
    name = ""
    while True:
        digits = re.match(r"L?(\d+)", rest)
        if not digits:
            return name or symbol
        size = int(digits.group(1))
        name, rest = rest[digits.end() : digits.end() + size], rest[digits.end() + size :]
        if not symbol.startswith("_ZN") or rest[:1] in ("E", "I"):
            return name


def demangled(symbol: str) -> str | None:
    """The C++ declaration behind a symbol, where the system's C++ library is there to ask."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    demangle = library.__cxa_demangle
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    status = ctypes.c_int()
    pointer = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value or not pointer:
        return None
    text = ctypes.string_at(pointer).decode("utf-8", "replace")
    free = library.free
    free.argtypes = [ctypes.c_void_p]
    free(pointer)
    return text
