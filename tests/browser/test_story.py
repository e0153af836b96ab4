"""The whole story: a file nobody has seen, from upload to a verified kernel on disk."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Visit, wait_until
from tests.browser.live_site import LiveSite
from tests.browser.sources import GATED_RESIDUAL
from tests.browser.test_memory_page import api, bank

INSPECTION_MS = 180_000
STEP_MS = 240_000
DONE = ".step-card[data-stage=done]"


@pytest.mark.timeout(1500)
def test_upload_run_and_take_away(site: LiveSite, visit: Visit, tmp_path: Path) -> None:
    """Protects the promise: upload, launch, watch six steps live, read why, take a kernel that verifies."""
    page = visit("/operators/new/", user="olga")
    cancel_live_runs(page)
    with site.worker():
        upload(page, tmp_path)
        edges_before = transitions(page)
        sockets = launch(page)
        watch(page, sockets)
        run = int(re.search(r"/runs/(\d+)/", page.url)[1])  # type: ignore[index]
        reads_what_happened(page)
        memory_learned(page, site, run, edges_before)
        page.goto(f"{site.address}/runs/{run}/")
        bundle = download(page, tmp_path)
    verify(bundle)


def cancel_live_runs(page: Page) -> None:
    """Runs that other tests left alive would be resumed by the worker and teach the same bank meanwhile."""
    live = api(page, "GET", "/api/runs/?status=queued,running,paused&limit=500")
    for run in live["results"]:
        api(page, "POST", f"/api/runs/{run['id']}/cancel/")


def upload(page: Page, folder: Path) -> None:
    """Save a file that is not among the samples and wait for its inspection."""
    path = folder / "gated_residual.py"
    path.write_text(GATED_RESIDUAL)
    page.set_input_files("#file", path)
    expect(page.locator("#name")).not_to_have_value("")
    page.click("#save")
    page.wait_for_url(re.compile(r"/operators/\d+/"))
    page.wait_for_selector("#operator[data-status=ready]", timeout=INSPECTION_MS)


def launch(page: Page) -> list[WebSocketRoute]:
    """One click from the operator, one on the form: defaults are enough. Returns the sockets as they come."""
    sockets: list[WebSocketRoute] = []

    def through(route: WebSocketRoute) -> None:
        sockets.append(route)
        route.connect_to_server()

    page.route_web_socket(re.compile(r"/ws/runs/"), through)
    page.get_by_role("link", name="Launch a run").first.click()
    page.locator("[type=submit][form=launch]").click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    return sockets


def watch(page: Page, sockets: list[WebSocketRoute]) -> None:
    """Six steps arrive on an open page that loses its socket and is reloaded while the run pauses."""
    page.wait_for_selector("body[data-ws-state=open]")
    page.evaluate("window.neverReloaded = true")
    wait_for_steps(page, 1)
    sockets[-1].close(code=1011, reason="dropped by the test")
    wait_for_steps(page, 2)
    page.locator("[data-request=pause]").click()
    page.wait_for_selector("[data-run-status=paused]", timeout=STEP_MS)
    assert page.evaluate("window.neverReloaded") is True
    assert len(sockets) >= 2
    before = rows(page)
    page.reload()
    page.wait_for_selector("body[data-ws-state=open]")
    assert rows(page) == before
    page.evaluate("window.neverReloaded = true")
    page.locator("[data-request=resume]").click()
    wait_for_steps(page, 6)
    page.wait_for_selector("[data-run-status=finished]")
    assert page.locator(DONE).count() == 6
    assert page.evaluate("window.neverReloaded") is True


def wait_for_steps(page: Page, count: int) -> None:
    page.locator(DONE).nth(count - 1).wait_for(timeout=STEP_MS * count)


def rows(page: Page) -> list[list[str]]:
    """The finished steps as the page shows them, without the mark of the best, which wanders."""
    return page.locator(DONE).evaluate_all(
        """cards => cards.map((card) => [card.dataset.step, card.dataset.outcome,
          ...['.step-direction', '.step-strategy', '.speedup'].map((part) =>
            card.querySelector(part)?.textContent)])"""
    )


def reads_what_happened(page: Page) -> None:
    """A faster, confirmed kernel; its diff against PyTorch; why its direction was chosen; its measurement."""
    best = page.locator(".step-card:has(.step-best)")
    expect(best).to_have_count(1)
    expect(best.locator("[data-outcome=faster], .outcome-faster, .verdict-faster").first).to_be_visible()
    best.click()
    page.locator("[data-against=pytorch]").click()
    expect(page.locator(".diff-rendered .d2h-ins").first).to_be_visible()
    expect(page.locator(".diff-side.before")).to_contain_text("PyTorch")
    why = page.locator(".why-row[data-chosen=true]")
    expect(why.locator(".why-probability")).to_have_text(re.compile(r"\d"))
    why.locator("summary").click()
    expect(why.locator(".why-table tr").nth(2)).to_be_visible()  # filled once the row has opened
    page.click("#tab-evaluation")
    expect(page.locator("#pane-evaluation .check-pass").first).to_be_visible()
    expect(page.locator("#pane-evaluation .check-fail")).to_have_count(0)
    expect(page.locator("#pane-evaluation .samples-canvas canvas")).to_be_visible()


def transitions(page: Page) -> dict[str, list[Any]]:
    """Tries and utility of every edge, by its ends."""
    graph = api(page, "GET", f"/api/banks/{bank(page)}/graph/")
    return {
        f"{edge['source_key']}>{edge['target']}": [edge["tries"], edge["utility"]] for edge in graph["edges"]
    }


def memory_learned(page: Page, site: LiveSite, run: int, before: dict[str, list[Any]]) -> None:
    """The edges that the run travelled have new statistics on the graph, with evidence leading back to it."""
    page.goto(f"{site.address}/memory/{bank(page)}/")
    wait_until(page, "window.htamGraph && htamGraph.edges().length > 50")
    drawn = page.evaluate(
        """Object.fromEntries(
          htamGraph.edges().map((edge) => [edge.id(), [edge.data('row'), edge.data('utility')]])
        )"""
    )
    after = transitions(page)
    travelled = [name for name, (tries, _) in after.items() if tries > before.get(name, [0])[0]]
    assert travelled
    assert sum(after[name][0] - before.get(name, [0])[0] for name in travelled) <= 6
    name = travelled[0]
    assert drawn[name][1] == pytest.approx(after[name][1])
    if name in before:
        assert after[name][1] != before[name][1]
    page.goto(f"{site.address}/memory/{bank(page)}/?edge={drawn[name][0]}")
    link = page.locator(f"#drawer .evidence-list a[href^='/runs/{run}/']").first
    expect(link).to_be_visible()
    link.click()
    page.wait_for_url(re.compile(rf"/runs/{run}/\?step="))
    expect(page.locator(".step-card.is-current")).to_have_count(1)


def download(page: Page, folder: Path) -> Path:
    with page.expect_download() as started:
        page.click("#export")
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    assert zipfile.is_zipfile(path)
    return path


def verify(bundle: Path) -> None:
    """The bundle's own verify.py, in a process that knows nothing of this repository, accepts the kernel."""
    target = bundle.with_suffix("")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(target)
    script = next(target.rglob("verify.py"))
    done = subprocess.run(
        [sys.executable, script.name], cwd=script.parent, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
