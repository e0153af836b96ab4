"""Chromium on a real server. The worker is started by the tests that need one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.live_site import PASSWORD, ROOT, LiveSite
from tests.conftest import chromium

Visit = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.process)
            if not chromium():
                item.add_marker(pytest.mark.skip(reason="Chromium is not installed"))
            elif not (ROOT / "node_modules").exists():
                item.add_marker(
                    pytest.mark.skip(reason="the pages' front-end files are not installed; run npm ci")
                )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    live = LiveSite(tmp_path_factory.mktemp("live-site"))
    try:
        live.start()
        yield live
    finally:
        live.stop()


@pytest.fixture
def visit(site: LiveSite, browser: Browser) -> Iterator[Visit]:
    """``visit(path, user="carl")``: a page of a signed-in person. A script error on one fails the test."""
    errors: list[str] = []
    contexts = []

    def open_page(path: str, user: str = "carl", width: int = 1440) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if is_fault(said.type, said.text) else None)
        page.goto(site.address + "/login/")
        page.fill("[name=username]", user)
        page.fill("[name=password]", PASSWORD)
        page.press("[name=password]", "Enter")
        page.wait_for_url(lambda url: "/login/" not in url)
        page.goto(site.address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def wait_until(page: Page, expression: str, seconds: float = 20) -> None:
    """Wait for a JavaScript expression to hold. Playwright evaluates text, which the CSP forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never came true: {expression}"
        page.wait_for_timeout(50)


def is_fault(kind: str, text: str) -> bool:
    """A console line that a page must not cause; a refused request is a test's own business."""
    return kind == "error" and "Failed to load resource" not in text and "WebSocket" not in text
