"""The list of runs."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.live_site import LiveSite


def test_list_shows_figures_and_filters(site: LiveSite, visit: Visit) -> None:
    """Protects: a run's figures stand in the list, and the filters narrow it."""
    done = site.rows("run", finished=3, total=3, status="finished")
    held = site.rows("run", finished=1, status="paused")
    page = visit("/runs/", user="vera")
    row = page.locator(f"tr[data-href='/runs/{done['id']}/']")
    expect(row).to_contain_text(done["operator"])
    expect(row).to_contain_text("Finished")
    expect(row).to_contain_text("3 of 3")
    expect(row.locator(".speedup")).to_have_text(re.compile(r"4\.00x\s+\[3\.88, 4\.12\]"))
    page.select_option("[name=status]", "live")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(f"tr[data-href='/runs/{held['id']}/']")).to_be_visible()
    expect(row).to_have_count(0)
    page.fill(".list-filter [name=q]", "no operator is called this")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-state=empty]")).to_contain_text("No run matches")
    page.get_by_role("link", name="Show all runs").click()
    expect(row).to_be_visible()
