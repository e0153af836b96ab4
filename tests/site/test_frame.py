"""The frame of every page: static files, headers, errors, figures."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils.module_loading import import_string

from htam_site import figures
from htam_site.frontend import VENDOR_FILES, missing_vendor_files
from htam_site.urls import handler403, handler404, handler500
from htam_site.urls import urlpatterns as site_urls
from optimizer.choices import OUTCOMES

STATIC = settings.BASE_DIR / "static"
needs_node_modules = pytest.mark.skipif(
    bool(missing_vendor_files(settings.NODE_MODULES)), reason="node_modules is missing; run make test"
)


@needs_node_modules
@pytest.mark.parametrize("name", VENDOR_FILES)
def test_vendor_files_are_served_with_debug_off(name: str) -> None:
    """Pages find their libraries on our own server, without a login and without DEBUG."""
    answer = Client().get(f"/static/{name}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith(("text/javascript", "text/css"))
    assert len(answer.content) > 500


def test_vendor_versions_are_locked_without_a_registry() -> None:
    """The lock file pins every package and names no registry host."""
    lock = json.loads((settings.BASE_DIR / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package["integrity"], name


def test_pages_carry_a_strict_policy(signed_in: dict[str, Client]) -> None:
    """Script of others cannot run in our pages."""
    policy = signed_in["viewer"].get("/operators/").headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_templates_hold_no_inline_script() -> None:
    """What the policy forbids would fail silently in the browser."""
    inline = re.compile(
        r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|\son[a-z]+\s*=\s*[\"']", re.IGNORECASE
    )
    for template in (settings.BASE_DIR / "templates").rglob("*.html"):
        assert not inline.search(template.read_text()), template


def test_templates_name_no_other_host() -> None:
    """The dashboard works without the internet."""
    for file in [
        *(settings.BASE_DIR / "templates").rglob("*.html"),
        *STATIC.rglob("*.js"),
        *STATIC.rglob("*.css"),
    ]:
        foreign = re.findall(r"https?://[\w.-]+", file.read_text())
        assert not [url for url in foreign if "www.w3.org" not in url], file


def break_down(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret detail")


urlpatterns = [path("break/", break_down), path("api/break/", break_down), *site_urls]
__all__ = ["handler403", "handler404", "handler500", "urlpatterns"]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("where", ["/break/", "/api/break/"])
def test_a_broken_page_shows_an_id_and_no_traceback(
    where: str, signed_in: dict[str, Client], caplog: pytest.LogCaptureFixture
) -> None:
    """People see a sentence with an id; the log has the traceback under the same id."""
    client = signed_in["viewer"]
    client.raise_request_exception = False
    answer = client.get(where)
    text = answer.content.decode()
    assert answer.status_code == 500
    assert "secret detail" not in text
    assert "Traceback" not in text
    error_id = re.search(r"\b[0-9a-f]{12}\b", text)
    assert error_id
    assert error_id[0] in caplog.text
    assert "secret detail" in caplog.text


def test_missing_pages_and_routes(signed_in: dict[str, Client]) -> None:
    """404 is a page for people and JSON for scripts."""
    assert b"Nothing here" in signed_in["viewer"].get("/operators/999999/").content
    assert signed_in["viewer"].get("/api/nothing/").json()["detail"]


def test_refused_pages_name_the_role(signed_in: dict[str, Client]) -> None:
    """403 says what is missing."""
    answer = signed_in["viewer"].get("/operators/new/")
    assert answer.status_code == 403
    assert b"operator" in answer.content


@pytest.mark.parametrize("where", ["/operators/new/", "/api/operators/"])
def test_twenty_megabytes_are_refused(where: str, signed_in: dict[str, Client]) -> None:
    """Too much is refused with the figures, before anything parses it."""
    body = b"x" * 20_000_000
    answer = signed_in["operator"].post(where, body, content_type="application/json")
    assert answer.status_code == 413
    assert "20.0 MB" in answer.content.decode()


def test_health_route(client: Client) -> None:
    """A load balancer sees that the web process answers."""
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok")


def test_times_have_three_digits_and_a_unit() -> None:
    """Nobody reads 1234.5678."""
    given = [None, 0.01234, 1.0, 12.345, 999.4, 999.6, 1234.5, 2_500_000.0]
    shown = ["\N{EN DASH}", "0.0123 us", "1.00 us", "12.3 us", "999 us", "1.00 ms", "1.23 ms", "2.50 s"]
    assert [figures.duration_us(value) for value in given] == shown


def test_intervals_that_contain_one_are_noise() -> None:
    """A ratio without an interval, or one that touches 1, claims nothing."""
    assert figures.inside_noise(None, None)
    assert figures.inside_noise(0.98, 1.02)
    assert figures.inside_noise(1.0, 1.2)
    assert not figures.inside_noise(1.01, 1.2)
    assert not figures.inside_noise(0.7, 0.99)


NODE = shutil.which("node")
PARITY = """
import * as format from "./format.js";
const rows = JSON.parse(process.argv[1]);
console.log(JSON.stringify({
  times: rows.map(format.durationUs), ratios: rows.map(format.ratio), sizes: rows.map(format.sizeBytes),
  ages: rows.map((value) => format.ago(value ?? 0)),
  noise: rows.map((value) => format.insideNoise(value, 1.5)), outcomes: format.OUTCOMES,
}));
"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_browser_and_server_write_figures_alike(tmp_path: Path) -> None:
    """A number reads the same before and after a live update."""
    values = [
        None,
        0,
        0.0005,
        0.1,
        1,
        1.005,
        1.84,
        9.99,
        12.3,
        99.99,
        123,
        999.4,
        1536,
        65_432,
        5e6,
        7.3e9,
        2e13,
    ]
    shutil.copy(STATIC / "js" / "format.js", tmp_path / "format.js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "parity.js").write_text(PARITY.replace("argv[1]", "argv[2]"))
    done = subprocess.run(
        [str(NODE), str(tmp_path / "parity.js"), json.dumps(values)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    browser = json.loads(done.stdout)
    assert browser["times"] == [figures.duration_us(value) for value in values]
    assert browser["ratios"] == [figures.ratio(value) for value in values]
    assert browser["sizes"] == [figures.size_bytes(value) for value in values]
    assert browser["ages"] == [figures.ago(value or 0) for value in values]
    assert browser["noise"] == [figures.inside_noise(value, 1.5) for value in values]
    assert browser["outcomes"] == {key: list(row) for key, row in OUTCOMES.items()}


def contrast(first: str, second: str) -> float:
    """WCAG contrast of two ``#rrggbb`` colours."""

    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_verdict_colours_have_contrast() -> None:
    """Every outcome reads on its tint at AA, in both themes, and every colour class has a rule."""
    css = (STATIC / "css" / "verdicts.css").read_text()
    pairs = re.findall(r"--v-([\w-]+): (#[0-9a-f]{6});\s+--v-\1-bg: (#[0-9a-f]{6});", css)
    assert len(pairs) == 16
    for name, ink, ground in pairs:
        assert contrast(ink, ground) >= 4.5, (name, ink, ground)
    assert {css_class for _, css_class, _ in OUTCOMES.values()} <= set(
        re.findall(r"\.outcome-([\w-]+) \{", css)
    )


def logged(error: Exception, status: int) -> str:
    """What the console shows of a request that ended in ``error``."""
    record = logging.LogRecord("django.request", logging.WARNING, __file__, 1, "Refused: %s", ("/x",), None)
    try:
        raise error
    except type(error):
        record.exc_info = sys.exc_info()
    record.status_code = status
    filters = settings.LOGGING["handlers"]["console"]["filters"]
    for name in filters:
        kind = settings.LOGGING["filters"][name]["()"]
        assert import_string(kind)().filter(record)
    return logging.Formatter("{message}", style="{").format(record)


def test_a_refusal_logs_no_traceback() -> None:
    """403 is somebody's missing role: one line of log."""
    assert logged(PermissionDenied("no"), 403) == "Refused: /x"


def test_a_fault_keeps_its_traceback() -> None:
    """Only refusals lose theirs."""
    assert "RuntimeError: why" in logged(RuntimeError("why"), 500)
