"""The frame and the operator pages in real Chromium against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import chromium
from tests.site.conftest import SOURCE
from tests.site.serving import Served, manage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.skipif(not chromium(), reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Web without a worker, so that the banner shows and operators stay as uploaded."""
    folder = tmp_path_factory.mktemp("browser")
    manage(folder, 0, "migrate", "-v0")
    made = Served(folder, "--no-worker")
    yield made
    made.end()


@pytest.fixture(scope="module")
def session(served: Served, browser: Browser) -> Iterator[Page]:
    """Signed in by the printed link; console errors fail the test that caused them."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(served.link())
    yield page
    page.close()


@pytest.fixture
def page(session: Page) -> Iterator[Page]:
    problems: list[str] = []
    session.on("pageerror", lambda error: problems.append(str(error)))
    session.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield session
    assert problems == []


@pytest.fixture
def here(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


def test_parse_errors_show_at_their_line_before_saving(page: Page, here: str) -> None:
    """A broken file is marked in the editor, and mending it clears the mark."""
    page.goto(f"{here}/operators/new/")
    editor = page.locator("#editor")
    editor.click()
    page.keyboard.insert_text("import torch\n\nclass Model(:\n    pass\n")
    state = page.locator("#parse-state[data-kind=bad]")
    expect(state).to_contain_text("3")
    expect(page.locator(".ace_gutter-cell.ace_error")).to_have_count(1)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(SOURCE)
    expect(page.locator("#parse-state[data-kind=good]")).to_be_visible()
    expect(page.locator(".ace_gutter-cell.ace_error")).to_have_count(0)


def test_a_chosen_file_fills_the_editor_and_saves(page: Page, here: str, tmp_path: Path) -> None:
    """Choosing a file reads it, names the operator and saves in one click."""
    file = tmp_path / "double_it.py"
    file.write_text(SOURCE)
    page.goto(f"{here}/operators/new/")
    page.set_input_files("#file", file)
    expect(page.locator("#name")).to_have_value("double_it")
    expect(page.locator("#parse-state[data-kind=good]")).to_be_visible()
    page.click("#save")
    expect(page.locator("h1")).to_have_text("double_it")
    expect(page.locator("#operator-source")).to_contain_text("return x * 2")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"\xff\xfe\x00", "not UTF-8"), (b"#" * 20_000_000, "at most")],
    ids=["bytes", "20 MB"],
)
def test_unreadable_files_are_refused_in_the_browser(
    content: bytes, sentence: str, page: Page, here: str, tmp_path: Path
) -> None:
    """They do not even travel."""
    file = tmp_path / "bad.py"
    file.write_bytes(content)
    page.goto(f"{here}/operators/new/")
    page.set_input_files("#file", file)
    expect(page.locator("#parse-state[data-kind=bad]")).to_contain_text(sentence)
    expect(page.locator("#name")).to_have_value("")


def test_keyboard_moves_between_sections_and_rows(page: Page, here: str) -> None:
    """Hands stay on the keyboard: sections, rows, search and help."""
    page.goto(f"{here}/devices/")
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url(f"{here}/operators/")
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help-dialog")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("tr.is-current")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{here}/operators/*/")


def test_the_list_filters_while_typing(page: Page, here: str) -> None:
    """Rows change without a reload, and the address can be shared."""
    page.goto(f"{here}/operators/")
    expect(page.locator("#operators tbody tr")).to_have_count(1)
    page.fill("#filter-q", "nothing like it")
    expect(page.locator("#operators")).to_contain_text("No operator matches")
    page.wait_for_url("**q=nothing**")
    page.fill("#filter-q", "double")
    expect(page.locator("#operators tbody tr")).to_have_count(1)


def test_the_theme_stays(page: Page, here: str) -> None:
    """The choice of dark survives a reload, set before the first paint."""
    page.goto(f"{here}/operators/")
    before = page.locator("html").get_attribute("data-bs-theme")
    page.click("#theme-switch")
    after = page.locator("html").get_attribute("data-bs-theme")
    assert {before, after} == {"light", "dark"}
    page.reload(wait_until="domcontentloaded")
    assert page.locator("html").get_attribute("data-bs-theme") == after


def test_a_missing_worker_is_announced_with_the_command(page: Page, here: str) -> None:
    """Nobody waits for a run that nothing will work off."""
    page.goto(f"{here}/runs/")
    banner = page.locator("#worker-banner")
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("python manage.py worker")


@pytest.mark.parametrize("width", [1440, 900])
@pytest.mark.parametrize(
    "where",
    ["/operators/", "/operators/new/", "/operators/1/", "/runs/new/", "/devices/", "/settings/users/"],
)
def test_pages_do_not_scroll_sideways(where: str, width: int, page: Page, here: str) -> None:
    """A page fits its window at a desk and at half a screen."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{here}{where}")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert overflow <= 0


def test_api_reference_runs_under_our_policy(page: Page, here: str) -> None:
    """Swagger draws its list of routes without inline script."""
    page.goto(f"{here}/api/docs/")
    expect(page.locator(".opblock").first).to_be_visible(timeout=30_000)
