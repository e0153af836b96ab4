"""The live run page on stored runs: reload, selection, sockets, steering, hostile text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Visit, wait_until
from tests.browser.live_site import LiveSite

LIVE = "body[data-ws-state=open]"
CARD = ".step-card"


def cards(page: Page) -> list[str]:
    return page.locator(CARD).all_inner_texts()


def test_events_arrive_without_reload(site: LiveSite, visit: Visit) -> None:
    """Protects the live view: a step that a worker writes appears on an open page."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    page.evaluate("window.neverReloaded = true")
    expect(page.locator(CARD)).to_have_count(1)
    step = site.rows("step", run=run["id"])
    expect(page.locator(CARD)).to_have_count(2)
    expect(page.locator(f"{CARD}[data-step='2'][data-stage=done]")).to_contain_text(step["direction"])
    assert page.evaluate("window.neverReloaded") is True


def test_reload_shows_the_same_state(site: LiveSite, visit: Visit) -> None:
    """Protects: what a page learned by socket equals what a fresh page is given, in mid-step too."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    site.rows("step", run=run["id"])
    site.rows("step", run=run["id"], finish=False)
    expect(page.locator(f"{CARD}.working .step-strategy")).not_to_be_empty()
    page.wait_for_timeout(400)
    before = what_is_shown(page)
    page.reload()
    page.wait_for_selector(LIVE)
    page.wait_for_selector(".why-row[data-chosen=true]")
    assert what_is_shown(page) == before


def what_is_shown(page: Page) -> list[object]:
    facts = page.locator(".run-fact:not(:has(time))").all_inner_texts()  # without "12 s ago"
    return [cards(page), live_phase(page), facts, page.locator(".why-row[data-chosen=true]").inner_text()]


def live_phase(page: Page) -> str | None:
    return page.locator(".phase-live").first.get_attribute("data-phase")


def test_dropped_socket_resumes_from_its_cursor(site: LiveSite, visit: Visit) -> None:
    """Protects: a socket that breaks loses no event and repeats none."""
    run = site.rows("run", finished=1)
    page = visit("/runs/")
    sockets: list[WebSocketRoute] = []
    addresses: list[str] = []

    def through(route: WebSocketRoute) -> None:
        addresses.append(route.url)
        sockets.append(route)
        route.connect_to_server()

    page.route_web_socket(re.compile(r"/ws/runs/"), through)
    page.goto(f"{site.address}/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    first = cursor(addresses[0])
    site.rows("step", run=run["id"])
    expect(page.locator(f"{CARD}[data-stage=done]")).to_have_count(2)
    sockets[-1].close(code=1011, reason="dropped by the test")
    page.wait_for_selector("body:not([data-ws-state=open])")
    site.rows("step", run=run["id"])
    expect(page.locator(f"{CARD}[data-stage=done]")).to_have_count(3)
    page.wait_for_selector(LIVE)
    assert len(addresses) >= 2
    assert cursor(addresses[-1]) > first
    page.click("#tab-log")
    page.wait_for_selector(".log-line[data-kind='step.finished']")
    seqs = [
        int(seq)
        for seq in page.locator(".log-line").evaluate_all("rows => rows.map((row) => row.dataset.seq)")
    ]
    assert seqs == list(range(1, seqs[-1] + 1))


def cursor(address: str) -> int:
    return int(address.rpartition("after=")[2])


def test_without_a_socket_the_page_polls(site: LiveSite, visit: Visit) -> None:
    """Protects: where websockets are blocked, REST by the same cursor keeps the page current."""
    run = site.rows("run", finished=0)
    page = visit("/runs/")
    page.route_web_socket(re.compile(r"/ws/runs/"), lambda route: route.close(code=1011))
    page.goto(f"{site.address}/runs/{run['id']}/")
    site.rows("step", run=run["id"])
    expect(page.locator(f"{CARD}[data-stage=done]")).to_have_count(1, timeout=15_000)
    assert page.locator("body").get_attribute("data-ws-state") != "open"


def test_refused_socket_says_why(site: LiveSite, visit: Visit) -> None:
    """Protects: a session that ended shows its reason on the page instead of silence."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/", user="vera")
    page.wait_for_selector(LIVE)
    page.context.clear_cookies()
    site.rows("sign_out", name="vera")
    page.wait_for_selector("body[data-ws-state=refused]", timeout=40_000)
    assert "sign in again" in (page.locator("#live-state").get_attribute("title") or "")


def test_selection_is_one_and_stands_in_the_url(site: LiveSite, visit: Visit) -> None:
    """Protects: choosing a step anywhere moves every pane, and the address reproduces it."""
    run = site.rows("run", finished=3, status="finished")
    page = visit(f"/runs/{run['id']}/?step=2")
    expect(page.locator(f"{CARD}.is-current")).to_have_attribute("data-step", "2")
    expect(page.locator(".diff-side.after")).to_have_text("step 2")
    page.locator(f"{CARD}[data-step='1']").click()
    expect(page).to_have_url(re.compile(r"\?step=1$"))
    expect(page.locator(".diff-side.after")).to_have_text("step 1")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"\?step=2$"))
    lit = page.evaluate("htamGraph.nodes('.lit').map((node) => node.id())")
    chosen = page.locator(".why-row[data-chosen=true]").get_attribute("data-direction")
    assert lit == [chosen]


def test_page_does_not_jump_from_an_inspected_step(site: LiveSite, visit: Visit) -> None:
    """Protects: while an older step is inspected new ones only raise a pill, which leads to the newest."""
    run = site.rows("run", finished=2)
    page = visit(f"/runs/{run['id']}/?step=1")
    page.wait_for_selector(LIVE)
    page.wait_for_selector(".diff-side.after")
    site.rows("step", run=run["id"])
    site.rows("step", run=run["id"])
    expect(page.locator("#new-steps")).to_have_text("2 new steps")
    expect(page.locator(f"{CARD}.is-current")).to_have_attribute("data-step", "1")
    expect(page.locator(".diff-side.after")).to_have_text("step 1")
    page.locator("#new-steps button").click()
    expect(page.locator(f"{CARD}.is-current")).to_have_attribute("data-step", "4")
    expect(page).to_have_url(re.compile(r"/runs/\d+/$"))


def test_graph_keeps_zoom_and_learns_in_place(site: LiveSite, visit: Visit) -> None:
    """Protects: new evidence changes the numbers of the drawn graph; zoom and positions stay."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    wait_until(page, "window.htamGraph && htamGraph.edges('.path').length === 1")
    view = page.evaluate(
        "htamGraph.zoom(1.7) && htamGraph.pan({x: -40, y: 12}) && [htamGraph.zoom(), htamGraph.pan().x]"
    )
    before = graph_numbers(page)
    site.rows("step", run=run["id"])
    wait_until(page, "htamGraph.edges('.path').length === 2")
    page.wait_for_timeout(300)
    after = graph_numbers(page)
    assert after["view"] == view
    assert after["positions"] == before["positions"]
    assert after["edges"] != before["edges"]


def graph_numbers(page: Page) -> dict[str, Any]:
    return page.evaluate(
        """() => ({
          view: [htamGraph.zoom(), htamGraph.pan().x],
          positions: Object.fromEntries(htamGraph.nodes().map((node) => [node.id(), node.position()])),
          edges: Object.fromEntries(
            htamGraph.edges().map((edge) => [edge.id(), [edge.data('utility'), edge.data('n')]])
          ),
        })"""
    )


def test_why_panel_adds_up(site: LiveSite, visit: Visit) -> None:
    """Protects: the terms under a direction's score sum to it, and link to the evidence behind them."""
    run = site.rows("run", finished=2, status="finished")
    page = visit(f"/runs/{run['id']}/?step=2")
    chosen = page.locator(".why-row[data-chosen=true]")
    chosen.locator("summary").click()
    terms = [number(text) for text in chosen.locator(".why-table tr td:last-child").all_inner_texts()]
    score = number(chosen.locator(".why-score").inner_text())
    assert len(terms) >= 3
    assert sum(terms) == pytest.approx(score, abs=0.005 * (len(terms) + 1) + 1e-9)
    chosen.locator("a.evidence-link").last.click()
    expect(page.locator("#drawer .drawer-title")).not_to_be_empty()
    expect(page.locator("#drawer .evidence-list a").first).to_have_attribute(
        "href", re.compile(r"/runs/\d+/\?step_id=\d+")
    )


def number(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-").replace("+", ""))


@pytest.mark.parametrize("tab", ["diff", "kernel", "evaluation", "log"])
def test_foreign_text_is_shown_and_never_run(site: LiveSite, visit: Visit, tab: str) -> None:
    """Protects: operator names, plans, notes, messages and compiler logs are text, whatever they hold."""
    run = site.rows("run", finished=2, status="finished", hostile=True)
    page = visit(f"/runs/{run['id']}/?step=2")
    page.click(f"#tab-{tab}")
    expect(page.locator(f"#pane-{tab}")).to_contain_text("onerror")
    assert page.locator("main img").count() == 0
    assert page.evaluate("window.injected") is None


def test_evaluation_shows_failure_and_figures(site: LiveSite, visit: Visit) -> None:
    """Protects: a wrong step shows the failed check and no speed-up, a faster one interval and samples."""
    run = site.rows("run", finished=2, status="finished")
    page = visit(f"/runs/{run['id']}/?step=2")
    page.click("#tab-evaluation")
    pane = page.locator("#pane-evaluation")
    expect(pane.locator(".check-fail")).to_have_count(1)
    expect(pane.locator(".speedup")).to_have_count(0)
    page.locator(f"{CARD}[data-step='1']").click()
    expect(pane.locator(".verdict-line .speedup")).to_have_text(re.compile(r"2\.00x\s+\[1\.94, 2\.06\]"))
    expect(pane.locator(".samples-canvas canvas")).to_be_visible()
    expect(pane.locator(".time-bar-row")).to_have_count(3)


def test_steering_says_what_happens_and_asks_before_a_kill(site: LiveSite, visit: Visit) -> None:
    """Protects: pause names the step it waits for and can be taken back; cancel is confirmed first."""
    run = site.rows("run", finished=1)
    site.rows("step", run=run["id"], finish=False)
    page = visit(f"/runs/{run['id']}/", user="olga")
    pause = page.locator("[data-request=pause]")
    expect(pause).to_contain_text("Finishes step 2, then holds")
    pause.click()
    expect(page.locator(".run-note")).to_contain_text("step 2 is finished first")
    page.locator("[data-request=resume]").click()
    expect(pause).to_be_visible()
    page.locator("[data-request=cancel]").click()
    page.get_by_role("button", name="Keep it running").click()
    expect(page.locator("[data-run-status]")).to_have_attribute("data-run-status", "running")
    page.locator("[data-request=cancel]").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("[data-run-status]")).to_have_attribute("data-run-status", "cancelled")
    expect(page.locator("#run-actions button")).to_have_count(0)


def test_viewer_sees_everything_and_steers_nothing(site: LiveSite, visit: Visit) -> None:
    """Protects: the page offers a viewer no action that would be refused."""
    run = site.rows("run", finished=1)
    page = visit(f"/runs/{run['id']}/", user="vera")
    page.wait_for_selector(LIVE)
    expect(page.locator(CARD)).to_have_count(1)
    expect(page.locator("#run-actions button")).to_have_count(0)


def test_log_stays_where_a_reader_scrolled(site: LiveSite, visit: Visit) -> None:
    """Protects: new events do not pull the log away from somebody who reads older lines."""
    run = site.rows("run", finished=6, total=20)
    page = visit(f"/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    page.click("#tab-log")
    log = page.locator(".log-list")
    wait_until(page, "document.querySelector('.log-list').scrollTop > 50")
    log.evaluate("list => { list.scrollTop = 30; }")
    page.wait_for_selector(".log-to-end:not([hidden])")
    count = page.locator(".log-line").count()
    site.rows("step", run=run["id"])
    wait_until(page, f"document.querySelectorAll('.log-line').length > {count}")
    assert log.evaluate("list => list.scrollTop") == 30
    page.locator(".log-to-end").click()
    assert log.evaluate("list => list.scrollHeight - list.clientHeight - list.scrollTop") < 24


@pytest.mark.parametrize("width", [1440, 900])
def test_nothing_overflows_sideways(site: LiveSite, visit: Visit, width: int) -> None:
    """Protects the layout: the page never scrolls sideways at the two widths it is made for."""
    run = site.rows("run", finished=3, status="finished")
    page = visit(f"/runs/{run['id']}/", width=width)
    page.wait_for_selector(".d2h-diff-table")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_plot_and_graph_have_tables(site: LiveSite, visit: Visit) -> None:
    """Protects: what canvases show can be read without seeing them."""
    run = site.rows("run", finished=3, status="finished")
    page = visit(f"/runs/{run['id']}/")
    page.get_by_text("Plot as a table").click()
    expect(page.locator("#plot tbody tr")).to_have_count(3)
    expect(page.locator("#plot tbody tr").nth(1)).to_contain_text("Wrong")
    page.get_by_text("Graph as a table").click()
    expect(page.locator("#graph table").first.locator("tbody tr").first).to_be_visible()


def test_long_run_is_drawn_whole(site: LiveSite, visit: Visit) -> None:
    """Protects: a page that opens on a run of many steps draws all and answers to a selection."""
    run = site.rows("run", finished=20, total=20, status="finished")
    page = visit(f"/runs/{run['id']}/")
    page.wait_for_selector(LIVE)
    expect(page.locator(CARD)).to_have_count(20)
    page.locator(f"{CARD}[data-step='3']").click()
    expect(page.locator(".diff-side.after")).to_have_text("step 3")
