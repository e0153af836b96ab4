"""Deadlines of foreign modules: `load_inline` takes a minute where a plan's kernels take a second."""

from __future__ import annotations

import dataclasses

from gpu_eval.limits import Limits

BUILD_FACTOR = 4  # of the time that a plan's compilation may take


def foreign_limits(limits: Limits) -> Limits:
    """``limits`` with time to build: at the import, in the constructor and in the first call.

    The whole evaluation gets as much more. Raises ValueError when an inner limit reaches its outer one.
    """
    build_s = BUILD_FACTOR * limits.compile_s
    return dataclasses.replace(
        limits, compile_s=build_s, bind_s=build_s, evaluation_s=limits.evaluation_s + build_s
    )
