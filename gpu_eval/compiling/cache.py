"""Compiled code by content: the same source for the same architecture and toolkit is compiled once.

What is stored came out of a process that no other source had touched, so an entry can be no worse than the source
in its key.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from gpu_eval.content_cache import ContentCache, cache_folder


def kernel_cache() -> ContentCache:
    """A compiler's answers: code, or a failure."""
    return ContentCache(cache_folder("kernels"))


def cache_key(kernels: str, names: list[str], arch: str, toolkit: str) -> str:
    """SHA-256 over all that decides which code comes out, our own way of compiling included."""
    parts = json.dumps([compile_version(), toolkit, arch, names, kernels])
    return hashlib.sha256(parts.encode()).hexdigest()


@lru_cache(maxsize=1)
def compile_version() -> str:
    """The version of how this package compiles: a digest of the files that do."""
    folder = Path(__file__).resolve().parent.parent / "devices"
    digest = hashlib.sha256()
    for name in ("cuda_compile.py", "cuda_headers.py", "cubin.py", "base.py"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
