"""What every test shares: tests that need a GPU say so by a marker and skip, with the reason, without one."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]


def chromium() -> str:
    """Debian's browser, or "" where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all browser tests: Playwright's loop cannot be started twice in a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield made
        made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if glob.glob("/dev/nvidia[0-9]*"):
        return
    without_gpu = pytest.mark.skip(reason="needs an NVIDIA GPU, and this machine has none")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(without_gpu)
