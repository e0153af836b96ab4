"""Where the toolkit's headers are, and stand-ins for the host headers that kernels include out of habit."""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import lru_cache
from pathlib import Path

# NVRTC knows no host headers; nvcc includes these by itself. Types and macros read as in the toolkit's own
# cuda/std headers, so that a source may include those too.
PRELUDE = r"""
#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define HUGE_VALF INFINITY
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-016
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_2_SQRTPI 1.12837916709551257390
#define CHAR_BIT 8
#define INT_MIN   (-INT_MAX - 1)
#define INT_MAX   0x7fffffff
#define UINT_MAX  0xffffffff
#define LLONG_MIN  (-LLONG_MAX - 1)
#define LLONG_MAX  0x7fffffffffffffffLL
#define INT32_MIN  INT_MIN
#define INT32_MAX  INT_MAX
#define INT64_MIN  LLONG_MIN
#define INT64_MAX  LLONG_MAX
#define UINT32_MAX UINT_MAX
using int8_t = signed char;
using int16_t = signed short;
using int32_t = signed int;
using int64_t = signed long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using intptr_t = int64_t;
using uintptr_t = uint64_t;
"""
PRELUDE_NAME = "htam_prelude.h"
_HOST_HEADERS = (
    *(
        "math.h",
        "cmath",
        "stdint.h",
        "cstdint",
        "float.h",
        "cfloat",
        "limits.h",
        "climits",
        "stdio.h",
        "cstdio",
    ),
    *(
        "stdlib.h",
        "cstdlib",
        "string.h",
        "cstring",
        "assert.h",
        "cassert",
        "stddef.h",
        "cstddef",
        "algorithm",
    ),
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
)


def stand_in_headers() -> dict[str, str]:
    """Header name to content, for NVRTC's in-memory headers."""
    include = f'#include "{PRELUDE_NAME}"\n'
    return {PRELUDE_NAME: PRELUDE, **dict.fromkeys(_HOST_HEADERS, include)}


@lru_cache(maxsize=1)
def include_folders() -> tuple[str, ...]:
    """Folders that hold the toolkit's headers, best first; empty when there is no toolkit."""
    folders = [root / "include" for root in _roots()]
    found = [folder for folder in folders if (folder / "cuda_fp16.h").exists()]
    if not found:
        return ()
    first = found[0]
    extra = [first / "cccl"] if (first / "cccl").is_dir() else []
    return tuple(str(folder) for folder in (first, *extra))


def find_nvcc() -> str | None:
    """The path of nvcc, from PATH or the usual places."""
    found = shutil.which("nvcc")
    if found:
        return found
    return next((str(root / "bin" / "nvcc") for root in _roots() if (root / "bin" / "nvcc").exists()), None)


def _roots() -> list[Path]:
    named = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"))
    roots = [Path(name) for name in named if name]
    nvcc = shutil.which("nvcc")
    if nvcc:
        roots.append(Path(nvcc).resolve().parent.parent)
    roots.append(Path("/usr/local/cuda"))
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        roots += [Path(place) / name for name in ("cu13", "cu12", "cuda_runtime")]
    return roots
