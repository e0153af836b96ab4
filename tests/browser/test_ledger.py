"""Review and history of a bank in the browser: by keyboard, undone, and read-only for those who may not curate."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, wait_until
from tests.browser.live_site import LiveSite
from tests.browser.test_memory_page import api, bank, direction


def opened(site: LiveSite, visit: Visit, part: str, user: str = "carl", width: int = 1440) -> Page:
    page = visit("/memory/", user=user, width=width)
    page.goto(f"{site.address}/memory/{bank(page)}/{part}/")
    return page


def statuses(page: Page, ids: list[int]) -> list[str]:
    return [api(page, "GET", f"/api/proposals/{pk}/")["status"] for pk in ids]


def test_review_by_keyboard_only(site: LiveSite, visit: Visit) -> None:
    """Protects the curator's morning: accept, edit and accept, reject, undo, without a mouse."""
    run = site.rows("run", finished=4)["id"]
    first, second, third = ids = site.rows("proposals", run=run)
    page = opened(site, visit, "review")
    rows = page.locator(".ledger-row")
    expect(rows.first).to_contain_text("When to apply it")
    expect(page.locator("#ledger-detail")).to_contain_text("Steps behind it")
    page.keyboard.press("x")
    expect(page.locator("#toasts")).to_contain_text("Rejected")
    expect(page.locator("#ledger-detail .drawer-title")).to_contain_text("Exchange the two outer loops")
    page.keyboard.press("e")
    expect(page.locator("[data-edit=title], [data-edit=key]").first).to_be_focused()
    page.locator("[data-edit=risks]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("Bank conflicts.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ledger-detail .drawer-title")).to_contain_text("Fold the tail loop")
    page.keyboard.press("a")
    expect(page.locator("#ledger-rows")).to_contain_text("Nothing waits")
    assert statuses(page, ids) == ["accepted", "edited", "rejected"]
    made = api(page, "GET", f"/api/strategies/?bank={bank(page)}&limit=500")["results"]
    kept = {row["key"]: row["risks"] for row in made if row["key"].endswith(f"-{run}")}
    assert kept == {f"fold-tail-{run}": ["Register pressure."], f"swap-order-{run}": ["Bank conflicts."]}
    page.keyboard.press("u")
    expect(page.locator("#ledger-rows")).to_contain_text("Fold the tail loop")
    assert statuses(page, [first, second, third]) == ["pending", "edited", "rejected"]
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#ledger-rows")).to_contain_text("Nothing waits")


def test_a_change_is_undone_from_the_history(site: LiveSite, visit: Visit) -> None:
    """Protects: every edit is found with before and after, and one key takes it back."""
    page = opened(site, visit, "history")
    row = direction(page, "vectorization") if has(page, "vectorization") else direction(page, "fusion")
    change = {"version": row["version"], "intent": "Words to be taken back.", "reason": "a try"}
    api(page, "PATCH", f"/api/directions/{row['id']}/", change)
    page.reload()
    expect(page.locator(".ledger-row").first).to_contain_text("Edited")
    expect(page.locator(".ledger-row").first).to_contain_text("a try")
    expect(page.locator("#ledger-detail .is-new").first).to_contain_text("Words to be taken back.")
    page.keyboard.press("u")
    expect(page.locator(".ledger-row").first).to_contain_text("Undid change")
    expect(page.locator(".ledger-row").nth(1)).to_have_class(re.compile("is-undone"))
    assert direction(page, row["key"])["intent"] == row["intent"]


def test_what_stands_in_the_way_of_an_undo_is_named(site: LiveSite, visit: Visit) -> None:
    """Protects later work: an older change of the same field is not undone beneath it."""
    page = opened(site, visit, "history")
    row = direction(page, "fusion")
    for number in (1, 2):
        row = api(
            page,
            "PATCH",
            f"/api/directions/{row['id']}/",
            {"version": row["version"], "title": f"Fusion {number}"},
        )
    page.reload()
    page.locator(".ledger-row").nth(1).click()
    expect(page.locator("#ledger-detail")).to_contain_text("Later changes build on this one")
    page.get_by_role("button", name="Undo this change").click()
    expect(page.locator("#undo-error")).to_contain_text("Edited")
    for _ in range(2):
        newest = api(page, "GET", f"/api/banks/{bank(page)}/history/?direction={row['id']}")["results"]
        edit = next(change for change in newest if change["kind"] == "edited" and not change["reverted_by"])
        api(page, "POST", f"/api/changes/{edit['id']}/revert/", {})


def test_a_viewer_reads_and_decides_nothing(site: LiveSite, visit: Visit) -> None:
    """Protects the bank: no button, no key."""
    run = site.rows("run", finished=4)["id"]
    ids = site.rows("proposals", run=run)
    page = opened(site, visit, "review", user="vera", width=900)
    expect(page.locator("#ledger-detail .drawer-title")).to_be_visible()
    expect(page.locator("[data-act]")).to_have_count(0)
    page.keyboard.press("a")
    page.keyboard.press("x")
    assert statuses(page, ids) == ["pending"] * len(ids)
    page.goto(page.url.split("/review/")[0] + "/history/")
    expect(page.locator("#ledger-detail .drawer-title")).to_be_visible()
    expect(page.locator("[data-act]")).to_have_count(0)


def has(page: Page, key: str) -> bool:
    rows = api(page, "GET", f"/api/directions/?bank={bank(page)}&limit=100")["results"]
    return any(row["key"] == key for row in rows)


def test_the_time_slider_shows_the_bank_as_it_was(site: LiveSite, visit: Visit) -> None:
    """Protects: the graph of a moment has that moment's numbers, is read-only, and now comes back."""
    page = opened_graph(site, visit)
    row = direction(page, "fusion")
    saved = api(
        page, "PATCH", f"/api/directions/{row['id']}/", {"version": row["version"], "prior_utility": -0.9}
    )
    page.goto(page.url.split("?")[0] + "?direction=fusion")
    wait_until(page, "window.htamGraph && htamGraph.nodes().length > 5")
    expect(page.locator("#drawer .utility-figure")).to_contain_text("prior \N{MINUS SIGN}0.90")
    page.locator("#moment").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#drawer")).to_contain_text("As it was then")
    expect(page.locator("#drawer .utility-figure")).not_to_contain_text("0.90")
    expect(page).to_have_url(re.compile("at="))
    page.keyboard.press("End")
    expect(page.locator("#moment-words")).to_have_text("now")
    expect(page.locator("#drawer .utility-figure")).to_contain_text("prior \N{MINUS SIGN}0.90")
    page.locator("#drawer").click()
    page.keyboard.press("u")
    expect(page.locator("#toasts")).to_contain_text("Undone")
    assert direction(page, "fusion")["prior_utility"] == row["prior_utility"]
    assert direction(page, "fusion")["version"] > saved["version"]


def test_excluded_evidence_leaves_the_numbers_at_once(site: LiveSite, visit: Visit) -> None:
    """Protects: a bad measurement is taken out with a reason, and taken back in, where it is seen."""
    site.rows("run", finished=4)
    page = opened_graph(site, visit, "?direction=fusion")
    tries = page.locator("#drawer [data-statistic=tries]")
    before = int(tries.inner_text().removeprefix("n="))
    item = page.locator(".evidence-list li:not(.excluded)").first
    item.locator("[data-act=exclude]").click()
    page.keyboard.type("throttled card")
    page.keyboard.press("Enter")
    expect(tries).to_have_text(f"n={before - 1}")
    expect(page.locator(".evidence-list .excluded").first).to_contain_text("throttled card")
    page.locator(".evidence-list .excluded [data-act=include]").first.click()
    page.keyboard.press("Enter")
    expect(tries).to_have_text(f"n={before}")


def test_weak_transitions_can_be_hidden(site: LiveSite, visit: Visit) -> None:
    """Protects reading of a dense graph: the slider keeps the strongest share, nothing moves."""
    page = opened_graph(site, visit)
    shown = "htamGraph.edges('[kind=\"edge\"]').filter((edge) => edge.visible()).length"
    everything = page.evaluate(shown)
    page.locator("#edge-share").fill("20")
    wait_until(page, f"{shown} === Math.ceil(0.2 * {everything})")
    page.locator("#edge-share").fill("100")
    wait_until(page, f"{shown} === {everything}")


def opened_graph(site: LiveSite, visit: Visit, query: str = "") -> Page:
    page = visit("/memory/")
    page.goto(f"{site.address}/memory/{bank(page)}/{query}")
    wait_until(page, "window.htamGraph && htamGraph.nodes().length > 5")
    return page
