"""Operators in the browser: list, upload with its refusals, detail, launch form, devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from optimizer.models import HealthReport, Operator, Run, WorkerHeartbeat
from tests.site.conftest import REPORT, SOURCE

FORM = {"name": "twice", "precision": "fp32", "library_policy": "allow"}


def upload(client: Client, content: bytes | None = None, **fields: Any) -> Any:
    data = {**FORM, **fields}
    if content is not None:
        data["file"] = SimpleUploadedFile("twice.py", content)
    return client.post("/operators/new/", data)


def test_upload_by_file(signed_in: dict[str, Client], people: dict[str, User]) -> None:
    """A file becomes an operator of its uploader and waits for inspection."""
    answer = upload(signed_in["operator"], SOURCE.encode())
    operator = Operator.objects.get(name="twice")
    assert answer.headers["Location"] == f"/operators/{operator.pk}/"
    assert (operator.owner, operator.status, operator.source) == (people["operator"], "pending", SOURCE)
    assert operator.description == "Twice the input."


def test_upload_by_paste(signed_in: dict[str, Client]) -> None:
    """Pasted text does the same, with its policies."""
    answer = upload(signed_in["operator"], source=SOURCE, precision="tf32", library_policy="forbid")
    assert answer.status_code == 302
    operator = Operator.objects.get(name="twice")
    assert (operator.precision, operator.library_policy) == ("tf32", "forbid")


BAD_UPLOADS = {
    "not Python": ({"source": "class Model(:\n    pass\n"}, None, "line 1"),
    "no Model": ({"source": "x = 1\n"}, None, "Model"),
    "invalid UTF-8": ({}, b"class Model: pass\n# \xff\xfe\n", "UTF-8"),
    "two megabytes": ({}, b"#" * 2_000_000, "at most"),
    "a path as name": ({"name": "../../etc/passwd", "source": SOURCE}, None, "name"),
    "a slash in the name": ({"name": "a/b", "source": SOURCE}, None, "name"),
    "a name of zero width": ({"name": "\u200b\u200d\ufeff", "source": SOURCE}, None, "nothing to see"),
    "a name of fillers": ({"name": "\u3164\u2800", "source": SOURCE}, None, "nothing to see"),
    "no name": ({"name": "", "source": SOURCE}, None, "Name"),
    "nothing": ({}, None, "Drop a file or paste"),
    "NUL": ({}, b"x = 1\x00", "NUL"),
    "unknown precision": ({"source": SOURCE, "precision": "fp8"}, None, "Precision"),
}


@pytest.mark.parametrize("case", sorted(BAD_UPLOADS))
def test_bad_uploads_say_why_and_save_nothing(case: str, signed_in: dict[str, Client]) -> None:
    """Each unusable upload comes back with one clear sentence; the pasted text stays."""
    fields, content, sentence = BAD_UPLOADS[case]
    answer = upload(signed_in["operator"], content, **fields)
    text = answer.content.decode()
    assert answer.status_code == 400
    assert sentence in text.split('id="form-errors"')[1].split("</div>")[0]
    assert "Nothing was saved." in text
    assert not Operator.objects.exists()


def test_twenty_megabyte_file_is_refused(signed_in: dict[str, Client]) -> None:
    """A file that is far too large meets its own page."""
    answer = upload(signed_in["operator"], b"#" * 20_000_000)
    assert answer.status_code == 413
    assert "MB" in answer.content.decode()
    assert not Operator.objects.exists()


def test_a_taken_name_is_refused(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """Names are how people and exports tell operators apart."""
    answer = upload(signed_in["operator"], source=SOURCE)
    assert answer.status_code == 400
    assert "called" in answer.content.decode()


def test_source_is_escaped(signed_in: dict[str, Client]) -> None:
    """An uploaded file cannot put markup into the page."""
    source = SOURCE.replace("Twice the input.", "<script>alert(1)</script>")
    upload(signed_in["operator"], source=source)
    page = signed_in["viewer"].get(f"/operators/{Operator.objects.get().pk}/").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_detail_shows_health_runs_and_best_kernel(
    signed_in: dict[str, Client], things: SimpleNamespace
) -> None:
    """One page answers what it is, how healthy, and what was won."""
    Run.objects.filter(pk=things.run.pk).update(
        best_candidate=things.candidate, best_speedup=1.84, best_speedup_low=1.79, best_speedup_high=1.9
    )
    page = signed_in["viewer"].get(f"/operators/{things.operator.pk}/").content.decode()
    for part in (
        "12.3 us",
        "1.84x",
        "[1.79, 1.90]",
        "An all-zero output fails",
        "__kernel void twice",
        "Ready",
    ):
        assert part in page
    assert "Launch a run" not in page


def test_viewers_see_no_buttons_that_refuse(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """Pages offer only what the role allows."""
    assert b"Upload an operator" not in signed_in["viewer"].get("/operators/").content
    assert b"Upload an operator" in signed_in["operator"].get("/operators/").content


def block(operator: Operator) -> None:
    Operator.objects.filter(pk=operator.pk).update(
        status="blocked", status_reason="An all-zero output passes."
    )


def test_the_owner_overrides_a_gate(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """The override is recorded with who and why, and shows on the page."""
    block(things.operator)
    path = f"/operators/{things.operator.pk}/"
    assert b"Override the gate" in signed_in["operator"].get(path).content
    signed_in["operator"].post(path + "override/", {"reason": "Zeros are rare in use."})
    things.operator.refresh_from_db()
    assert things.operator.override_by.username == "operator"
    assert b"Zeros are rare in use." in signed_in["viewer"].get(path).content


def test_nobody_else_overrides_a_gate(
    signed_in: dict[str, Client], things: SimpleNamespace, people: dict[str, User]
) -> None:
    """Another operator's account neither sees the form nor gets through it, by page or by REST."""
    block(things.operator)
    Operator.objects.filter(pk=things.operator.pk).update(owner=people["superuser"])
    path = f"/operators/{things.operator.pk}/"
    assert b"Override the gate" not in signed_in["operator"].get(path).content
    signed_in["operator"].post(path + "override/", {"reason": "Because."})
    signed_in["operator"].post(
        f"/api{path}override/", {"reason": "Because."}, content_type="application/json"
    )
    things.operator.refresh_from_db()
    assert things.operator.override_reason == ""


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("q=soft", ["softmax"]),
        ("family=pointwise", ["gelu", "twice"]),
        ("status=pending", ["softmax"]),
        ("order=newest", ["softmax", "gelu", "twice"]),
        ("q=%00", ["gelu", "softmax", "twice"]),
        ("q=nothing-like-it", []),
    ],
)
def test_list_filters(
    query: str, names: list[str], signed_in: dict[str, Client], things: SimpleNamespace
) -> None:
    """Search, filters and order act on the server."""
    Operator.objects.create(name="gelu", source=SOURCE, content_hash="1", family="pointwise", status="ready")
    Operator.objects.create(name="softmax", source=SOURCE, content_hash="2", status="pending")
    page = signed_in["viewer"].get(f"/operators/?{query}")
    assert [operator.name for operator in page.context["page"]] == names


def test_list_pages_on_the_server_with_few_queries(
    signed_in: dict[str, Client], things: SimpleNamespace, django_assert_max_num_queries: Any
) -> None:
    """Ten thousand operators cost as many queries as ten, and a page shows fifty."""
    rows = [
        Operator(name=f"op{n:05}", source="x", content_hash=str(n), status="ready") for n in range(10_000)
    ]
    Operator.objects.bulk_create(rows, batch_size=1000)
    made = Operator.objects.filter(name__lt="op00060").exclude(name="twice")
    HealthReport.objects.bulk_create(
        HealthReport(operator=operator, device_kind="opencl", device_key="opencl:CPU", report=REPORT)
        for operator in made
    )
    signed_in["viewer"].get("/operators/")
    with django_assert_max_num_queries(9):
        page = signed_in["viewer"].get("/operators/?page=2")
    assert len(page.context["page"].object_list) == 50
    assert b"51 to 100 of 10001" in page.content


def test_table_alone_for_live_search(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """Typing in the filter fetches rows, not a whole page inside a page."""
    answer = signed_in["viewer"].get("/operators/?q=twice", headers={"HX-Request": "true"})
    assert b"<table" in answer.content
    assert b"<html" not in answer.content


def launch_fields(things: SimpleNamespace, **changes: Any) -> dict[str, Any]:
    fields = {"operator": things.operator.pk, "bank": things.bank.pk, "method": "htam", "proposer": "recipes"}
    return {**fields, "device": "auto", "steps_total": 6, "repair_tries": 2, "seed": 0, **changes}


def test_launch_form_is_ready_to_send(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """Defaults are such that one click is enough; the panel says what is known of the operator."""
    page = signed_in["operator"].get(f"/runs/new/?operator={things.operator.pk}")
    form = page.context["form"]
    assert str(form["operator"].value()) == str(things.operator.pk)
    assert form["bank"].value() == things.bank.pk
    assert page.context["coverage"].sentence in page.content.decode().replace("&#x27;", "'").replace(
        "&quot;", '"'
    )
    assert "12.3 us" in page.content.decode()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps_total": 0}, "greater than or equal to 1"),
        ({"steps_total": 1000}, "less than or equal to 100"),
        ({"tau": "-1"}, "tau"),
        ({"tau": "hot"}, "number"),
        ({"device": "tpu"}, "tpu"),
        ({"operator": 999999}, "Operator"),
    ],
)
def test_launch_refusals(
    changes: dict[str, Any], sentence: str, signed_in: dict[str, Client], things: SimpleNamespace
) -> None:
    """Nonsense comes back with its sentence, and no run starts."""
    before = Run.objects.count()
    answer = signed_in["operator"].post("/runs/new/", launch_fields(things, **changes))
    assert answer.status_code == 400
    assert sentence in answer.content.decode()
    assert Run.objects.count() == before


def test_blocked_operators_do_not_launch(signed_in: dict[str, Client], things: SimpleNamespace) -> None:
    """A failed gate stops a run with the sentence that says why."""
    block(things.operator)
    answer = signed_in["operator"].post("/runs/new/", launch_fields(things))
    assert answer.status_code == 400
    assert "An all-zero output passes." in answer.content.decode()


def test_devices_page_tells_live_workers_from_gone_ones(signed_in: dict[str, Client]) -> None:
    """Somebody sees at once whether anything would run."""
    assert b"No worker has run here yet" in signed_in["viewer"].get("/devices/").content
    now = timezone.now()
    device = REPORT["device"]
    WorkerHeartbeat.objects.create(name="here:1", queue="htam", device=device, started_at=now, seen_at=now)
    WorkerHeartbeat.objects.create(
        name="gone:2", queue="htam", started_at=now, seen_at=now - timezone.timedelta(hours=1)
    )
    page = signed_in["viewer"].get("/devices/")
    assert [row["alive"] for row in page.context["workers"]] == [True, False]
    assert [card["name"] for card in page.context["devices"]] == ["CPU"]
