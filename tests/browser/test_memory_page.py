"""The memory pages: find, read, edit, and what happens when two people edit the same text."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, wait_until
from tests.browser.live_site import LiveSite


def bank(page: Page) -> int:
    """The id of the bank that runs use by default: the oldest."""
    return min(int(row["id"]) for row in api(page, "GET", "/api/banks/")["results"])


def api(page: Page, method: str, path: str, body: Any = None) -> Any:
    """A REST call with the page's own session."""
    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    answer = page.request.fetch(
        page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path,
        method=method,
        headers={"X-CSRFToken": token, "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body),
    )
    assert answer.ok, f"{method} {path}: {answer.status} {answer.text()[:300]}"
    return answer.json()


def open_bank(site: LiveSite, visit: Visit, query: str = "", user: str = "carl") -> Page:
    page = visit("/memory/", user=user)
    page.goto(f"{site.address}/memory/{bank(page)}/{query}")
    wait_until(page, "window.htamGraph && htamGraph.nodes().length > 5")
    return page


def direction(page: Page, key: str) -> dict[str, Any]:
    rows = api(page, "GET", f"/api/directions/?bank={bank(page)}&limit=100")["results"]
    return next(row for row in rows if row["key"] == key)


def test_bank_list_leads_to_its_graph(site: LiveSite, visit: Visit) -> None:
    """Protects the way in: list, graph, a node's drawer with statistics and texts."""
    page = visit("/memory/")
    page.locator("#banks tbody a").first.click()
    wait_until(page, "window.htamGraph && htamGraph.nodes('[kind=\"direction\"]').length >= 10")
    page.evaluate("htamGraph.getElementById('memory-access').emit('tap')")
    drawer = page.locator("#drawer")
    expect(drawer.locator(".drawer-title")).to_have_text(re.compile("memory", re.IGNORECASE))
    expect(drawer.locator("[data-statistic=utility]")).to_have_text(re.compile(r"\[.+, .+\]"))
    expect(page).to_have_url(re.compile(r"direction=memory-access"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile(r"direction="))


def test_search_finds_and_opens(site: LiveSite, visit: Visit) -> None:
    """Protects: "/" focuses the search, Enter opens what it found, strategies unfold for it."""
    page = open_bank(site, visit)
    page.keyboard.press("/")
    page.keyboard.type("shared memory")
    expect(page.locator("#graph-found li").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#drawer .drawer-kind")).to_contain_text("Strategy of")
    assert page.evaluate("htamGraph.nodes('.strategy:selected').length") == 1


def test_strategies_unfold_without_moving_directions(site: LiveSite, visit: Visit) -> None:
    """Protects: positions are stable; expanding and collapsing only adds and removes strategies."""
    page = open_bank(site, visit)
    before = page.evaluate(
        "htamGraph.nodes('[kind=\"direction\"]').map((node) => [node.id(), node.position()])"
    )
    page.click("#expand-all")
    assert page.evaluate("htamGraph.nodes('.strategy').length") >= 50
    page.click("#expand-all")
    assert page.evaluate("htamGraph.nodes('.strategy').length") == 0
    after = page.evaluate(
        "htamGraph.nodes('[kind=\"direction\"]').map((node) => [node.id(), node.position()])"
    )
    assert after == before


def test_curator_edits_a_prior(site: LiveSite, visit: Visit) -> None:
    """Protects: a saved prior is stored, shown, and moves the drawn utility without a reload."""
    page = open_bank(site, visit, "?direction=data-reuse")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.fill("#field-prior_utility", "-0.75")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#drawer .utility-figure")).to_contain_text("prior \N{MINUS SIGN}0.75")
    assert direction(page, "data-reuse")["prior_utility"] == -0.75
    assert page.evaluate("htamGraph.getElementById('data-reuse').data('utility')") < -0.3


def test_stale_edit_shows_the_newer_text_beside_ones_own(site: LiveSite, visit: Visit) -> None:
    """Protects: nobody overwrites a text unseen, and nobody loses what they wrote."""
    page = open_bank(site, visit, "?direction=launch-overhead")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.fill("#field-intent", "My intent.")
    row = direction(page, "launch-overhead")
    changes = {"version": row["version"], "intent": "Their intent.", "risks": ["Their risk."]}
    api(page, "PATCH", f"/api/directions/{row['id']}/", changes)
    page.get_by_role("button", name="Save").click()
    conflict = page.locator(".conflict-row[data-field=intent]")
    expect(conflict).to_contain_text("Their intent.")
    expect(conflict).to_contain_text("My intent.")
    page.locator(".conflict-row[data-field=risks]").get_by_role("button", name="Take theirs").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#drawer .lead-text").first).to_have_text("My intent.")
    saved = direction(page, "launch-overhead")
    assert (saved["intent"], saved["risks"]) == ("My intent.", ["Their risk."])


def test_new_parts_appear_on_the_graph(site: LiveSite, visit: Visit) -> None:
    """Protects: a curator makes a direction, a strategy with a condition and a recipe, and a transition."""
    page = open_bank(site, visit)
    page.get_by_role("button", name="New direction").click()
    page.fill("#field-key", "made-by-test")
    page.fill("#field-title", "Made by a test")
    page.fill("#field-intent", "To be found again.")
    page.get_by_role("button", name="Make the direction").click()
    expect(page.locator("#drawer .drawer-title")).to_have_text("Made by a test")
    page.get_by_role("button", name="New strategy").click()
    page.fill("#field-key", "wide-loads")
    page.fill("#field-title", "Wide loads")
    page.fill("#field-edit_pattern", "Load four.")
    page.fill("#field-applies_when", "Rows are long.")
    page.fill("#field-recipe", "vector_width width=4")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Fact").select_option("row_length")
    page.get_by_label("Comparison").select_option("ge")
    page.get_by_label("Value").fill("64")
    page.get_by_role("button", name="Make the strategy").click()
    expect(page.locator("#drawer")).to_contain_text("row length is at least 64")
    expect(page.locator("#drawer code")).to_have_text("vector_width width=4")
    page.get_by_role("button", name="New transition", exact=True).click()
    page.select_option("#field-target", label="Made by a test")
    page.get_by_role("button", name="Make the transition").click()
    expect(page.locator("#drawer .drawer-title")).to_have_text("START to Made by a test")
    assert page.evaluate("htamGraph.getElementById('START>made-by-test').length") == 1


def test_refused_input_stays_in_the_form(site: LiveSite, visit: Visit) -> None:
    """Protects: a refused save says why in the form and keeps what was typed."""
    page = open_bank(site, visit)
    page.get_by_role("button", name="New direction").click()
    page.fill("#field-key", "Not A Key")
    page.fill("#field-title", "Kept")
    page.fill("#field-intent", "Kept.")
    page.get_by_role("button", name="Make the direction").click()
    expect(page.locator(".form-error")).to_contain_text("lower-case words joined by hyphens")
    expect(page.locator("#field-title")).to_have_value("Kept")


def test_tables_offer_what_the_graph_does(site: LiveSite, visit: Visit) -> None:
    """Protects: every part is in a table as well, and choosing a row opens the same drawer."""
    page = open_bank(site, visit)
    page.click("#tab-table")
    expect(page.locator("table[data-table=direction] tbody tr").nth(9)).to_be_visible()
    assert page.locator("table[data-table=edge] tbody tr").count() >= 60
    page.locator("table[data-table=edge] tbody tr").first.locator("button").click()
    expect(page.locator("#drawer .drawer-kind")).to_have_text("Transition")
    expect(page).to_have_url(re.compile(r"edge=\d+"))
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_visible()


def test_viewer_reads_and_edits_nothing(site: LiveSite, visit: Visit) -> None:
    """Protects: without the role curator the page offers no edit."""
    page = open_bank(site, visit, "?direction=fusion", user="vera")
    expect(page.locator("#drawer .drawer-title")).not_to_be_empty()
    expect(page.get_by_role("button", name="Edit", exact=True)).to_have_count(0)
    expect(page.get_by_role("button", name="New direction")).to_have_count(0)


def test_empty_bank_says_what_fills_it(site: LiveSite, visit: Visit) -> None:
    """Protects: a new bank shows an empty state, not a blank canvas."""
    page = visit("/memory/")
    page.get_by_role("button", name="New bank").click()
    page.fill("#bank-name", "Empty one")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url(re.compile(r"/memory/\d+/"))
    expect(page.locator(".memory-empty")).to_contain_text("no direction yet")
