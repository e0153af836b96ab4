"""What every test shares: tests that need a GPU say so by a marker and skip, with the reason, without one."""

from __future__ import annotations

import glob

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if glob.glob("/dev/nvidia[0-9]*"):
        return
    without_gpu = pytest.mark.skip(reason="needs an NVIDIA GPU, and this machine has none")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(without_gpu)
