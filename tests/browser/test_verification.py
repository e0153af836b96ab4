"""What an evaluation shows, and judging it again: panel, marks, the page of winners."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from gpu_eval.results import CHECKER_VERSION
from tests.browser.conftest import Visit
from tests.browser.live_site import LiveSite

MARK = f"not confirmed by checker {CHECKER_VERSION}"


@pytest.fixture(autouse=True)
def _nothing_left_waiting(site: LiveSite) -> Iterator[None]:
    """Winners of other tests are judged before and after, so that each test counts its own."""
    yield
    site.rows("judge", right=True)


def test_the_panel_says_what_the_numbers_mean(site: LiveSite, visit: Visit) -> None:
    """Protects: verdict, bottleneck, shares of the peaks, compiler report and conditions of one evaluation."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/?step=1")
    page.click("#tab-evaluation")
    pane = page.locator("#pane-evaluation")
    expect(pane).to_contain_text("Memory-bound: 16.2 GB/s, 81 % of the 20.0 GB/s peak.")
    expect(pane.locator(".peak-row").first).to_contain_text("81 %")
    width = pane.locator(".peak-row .time-bar i").first.evaluate("node => node.style.width")
    assert width.startswith("81")
    expect(pane).to_contain_text("times the roofline floor of 40.0 us")
    expect(pane.locator(".kernel-table tbody tr")).to_have_text(
        re.compile(r"double\s*yes.*24.*0 B.*1.00 KiB.*75 %")
    )
    expect(pane.locator(".conditions-table")).to_contain_text("0.12")
    facts = pane.locator(".htam-facts")
    for said in (
        "PoCL 6.0, from the cache",
        "bubblewrap: no network",
        f"version {CHECKER_VERSION - 1}",
        "torch 2.11",
    ):
        expect(facts).to_contain_text(said)
    expect(pane).to_contain_text("The check passed.")


def test_a_result_of_an_older_version_still_shows(site: LiveSite, visit: Visit) -> None:
    """Protects: a result without the newer fields is drawn from what it has, and can be judged again."""
    run = site.rows("run", finished=1)
    site.rows("age", run=run["id"])
    page = visit(f"/runs/{run['id']}/?step=1")
    page.click("#tab-evaluation")
    pane = page.locator("#pane-evaluation")
    expect(pane.locator(".time-bar-row")).to_have_count(2)
    expect(pane.locator(".kernel-table")).to_contain_text("not tried")
    expect(pane).to_contain_text("before versions were kept")
    expect(pane.get_by_role("button", name="Re-verify")).to_be_enabled()


def test_judging_one_result_again(site: LiveSite, visit: Visit) -> None:
    """Protects: the button, the wait, both verdicts in one table, and the mark wherever the result shows."""
    run = site.rows("run", finished=1, total=1, status="finished")
    page = visit(f"/runs/{run['id']}/?step=1")
    page.click("#tab-evaluation")
    pane = page.locator("#pane-evaluation")
    pane.get_by_role("button", name="Re-verify").click()
    expect(pane.locator(".reverify-bar")).to_contain_text("Waits to be judged again")
    site.rows("judge", right=False)
    rows = pane.locator(".compare-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Faster")
    expect(rows.nth(1)).to_contain_text("Wrong")
    expect(rows.nth(1)).to_have_class(re.compile("is-refuted"))
    expect(pane.locator("[data-finding=refuted]")).to_contain_text("No longer correct: Round 3 is 0.4 off.")
    expect(page.locator(".step-card")).to_contain_text(MARK)
    expect(page.locator(".run-facts-bar")).to_contain_text(MARK)
    expect(page.locator(".run-facts-bar")).to_contain_text("2.00x")
    page.goto(f"{site.address}/runs/")
    expect(page.locator(f"tr[data-href='/runs/{run['id']}/']")).to_contain_text(MARK)


def test_all_winners(site: LiveSite, visit: Visit) -> None:
    """Protects: the page lists winners of an older checker, judges all by one click, and follows the progress."""
    runs = [site.rows("run", finished=1, total=1, status="finished") for _ in range(2)]
    page = visit("/runs/")
    page.get_by_role("link", name="Verification").click()
    for run in runs:
        expect(page.locator("#verification .card").first).to_contain_text(run["operator"])
    waiting = int(page.locator("#outdated-count").inner_text())
    assert waiting >= 2
    page.get_by_role("button", name="Re-verify all").click()
    expect(page.locator(".htam-message")).to_contain_text(f"{waiting} results are judged again")
    expect(page.locator("[data-polling]")).to_have_count(1)
    assert site.rows("judge", right=False) == waiting
    expect(page.locator("#outdated-count")).to_have_text("0")
    expect(page.locator("[data-polling]")).to_have_count(0)
    expect(page.locator(".verification-after.is-refuted")).not_to_have_count(0)
    expect(page.locator(".verification-finding.text-refuted").first).to_contain_text("No longer correct")


def test_a_viewer_judges_nothing_again(site: LiveSite, visit: Visit) -> None:
    """Protects: somebody who may only look sees both verdicts, and no button."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/?step=1", user="vera")
    page.click("#tab-evaluation")
    expect(page.locator("#pane-evaluation .htam-facts")).to_be_visible()
    expect(page.get_by_role("button", name="Re-verify")).to_have_count(0)
    page.goto(f"{site.address}/runs/verification/")
    expect(page.locator("#verification")).to_contain_text(run["operator"])
    expect(page.get_by_role("button", name="Re-verify all")).to_have_count(0)
