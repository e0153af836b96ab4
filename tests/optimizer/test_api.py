"""REST routes of operators and runs: shapes, refusals, roles, paging and query counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ
from rest_framework.test import APIClient

from memory.models import MemoryBank
from optimizer.choices import OperatorStatus, RunStatus
from optimizer.loop import engine, events
from optimizer.models import Candidate, Operator, Run
from tests.optimizer.support import OPERATOR, FateEvaluator, ScriptedProposer, make_operator, make_run, person

committed = pytest.mark.django_db(transaction=True)  # the queue is filled after the commit


@pytest.fixture
def api() -> APIClient:
    """An operator's client."""
    client = APIClient()
    client.force_authenticate(person("operator"))
    return client


@pytest.fixture
def finished() -> Run:
    run = make_run()
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    run.refresh_from_db()
    return run


def queries(client: APIClient, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


@committed
class TestOperators:
    def test_an_upload_is_saved_and_its_inspection_queued(self, api: APIClient) -> None:
        """A good file answers 201 with its detail; a worker has something to do."""
        answer = api.post("/api/operators/", {"name": "relu bias", "source": OPERATOR}, format="json")
        assert answer.status_code == 201, answer.data
        assert answer.data["status"] == OperatorStatus.PENDING
        assert answer.data["description"] == "Twice x plus a bias, never negative."
        assert answer.data["owner"] == "a-operator"
        assert [task.func() for task in OrmQ.objects.all()] == ["optimizer.tasks.background"]

    def test_a_file_upload_is_the_same(self, api: APIClient) -> None:
        """A multipart form with a file does what JSON does."""
        upload = SimpleUploadedFile("relu.py", OPERATOR.encode())
        answer = api.post("/api/operators/", {"name": "relu", "file": upload}, format="multipart")
        assert answer.status_code == 201, answer.data
        assert answer.data["source"] == OPERATOR

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("def broken(:", "line 1"),
            ("x = 1\n", "no class Model"),
            ("class Model: pass\n", "get_inputs"),
            ("", "no class Model"),
        ],
    )
    def test_an_unusable_source_saves_nothing(self, api: APIClient, source: str, words: str) -> None:
        """One sentence, and no row."""
        answer = api.post("/api/operators/", {"name": "bad", "source": source}, format="json")
        assert answer.status_code == 400
        assert words in str(answer.data["detail"])
        assert not Operator.objects.exists()
        assert not OrmQ.objects.exists()

    @pytest.mark.parametrize(
        ("content", "words"),
        [(b"\xff\xfe\x00class", "UTF-8"), (b"#" * 2_000_000, "MB"), (b"x = '\x00'", "NUL")],
    )
    def test_an_unusable_file_saves_nothing(self, api: APIClient, content: bytes, words: str) -> None:
        """Wrong encoding, size and content are each said."""
        upload = SimpleUploadedFile("bad.py", content)
        answer = api.post("/api/operators/", {"name": "bad", "file": upload}, format="multipart")
        assert answer.status_code == 400
        assert words in str(answer.data["detail"])
        assert not Operator.objects.exists()

    @pytest.mark.parametrize("name", ["../etc/passwd", "a/b", "a\\b", ".hidden", "a\x00b", "x..y"])
    def test_a_name_that_is_a_path_is_refused(self, api: APIClient, name: str) -> None:
        """Names end up in file names."""
        answer = api.post("/api/operators/", {"name": name, "source": OPERATOR}, format="json")
        assert answer.status_code == 400
        assert not Operator.objects.exists()

    def test_a_name_is_taken_once(self, api: APIClient) -> None:
        """The second upload of a name is refused with a sentence."""
        make_operator("relu")
        answer = api.post("/api/operators/", {"name": "relu", "source": OPERATOR}, format="json")
        assert answer.status_code == 400
        assert "already" in str(answer.data["detail"])

    def test_check_says_where(self, api: APIClient) -> None:
        """Parsing names line and column and saves nothing."""
        good = api.post("/api/operators/check/", {"source": OPERATOR}, format="json")
        assert good.data == {"ok": True, "line": None, "column": None, "message": ""}
        bad = api.post("/api/operators/check/", {"source": "x = 1\ny = (\n"}, format="json")
        assert (bad.data["ok"], bad.data["line"]) == (False, 2)
        assert bad.data["column"] is not None
        assert not Operator.objects.exists()

    def test_an_override_is_recorded_and_lets_runs_start(self, api: APIClient, bank: MemoryBank) -> None:
        """A blocked operator runs only after somebody gave a reason, which the run then carries."""
        operator = make_operator(status=OperatorStatus.BLOCKED, status_reason="Zeros pass.")
        launch = {"operator": operator.pk, "bank": bank.pk, "device": "opencl"}
        assert "Zeros pass." in str(api.post("/api/runs/", launch, format="json").data["detail"])
        path = f"/api/operators/{operator.pk}/override/"
        assert api.post(path, {"reason": " "}, format="json").status_code in {400, 409}
        answer = api.post(path, {"reason": "A sparse mask."}, format="json")
        assert (answer.data["override_reason"], answer.data["override_by"]) == (
            "A sparse mask.",
            "a-operator",
        )
        run = api.post("/api/runs/", launch, format="json")
        assert run.status_code == 201, run.data
        assert run.data["override_note"] == "A sparse mask."

    def test_an_override_needs_a_failed_gate(self, api: APIClient, operator: Operator) -> None:
        """There is nothing to override on a healthy operator."""
        answer = api.post(f"/api/operators/{operator.pk}/override/", {"reason": "Just so."}, format="json")
        assert answer.status_code == 409

    def test_a_source_under_runs_cannot_change(self, api: APIClient) -> None:
        """Results keep the source that they rest on."""
        run = make_run()
        path = f"/api/operators/{run.operator_id}/"
        answer = api.patch(path, {"source": OPERATOR + "\nmore = 1\n"}, format="json")
        assert answer.status_code == 400
        assert api.patch(path, {"description": "New words."}, format="json").status_code == 200
        assert api.delete(path).status_code == 409

    def test_a_changed_policy_drops_the_inspection(self, api: APIClient, operator: Operator) -> None:
        """An inspection at another precision says nothing about this one."""
        answer = api.patch(f"/api/operators/{operator.pk}/", {"precision": "fp16"}, format="json")
        assert (answer.data["status"], answer.data["health_reports"]) == ("pending", [])
        assert OrmQ.objects.count() == 1

    def test_the_list_takes_the_same_queries_however_long(self, api: APIClient) -> None:
        """No query a row."""
        make_operator("one")
        few = queries(api, "/api/operators/")
        for number in range(12):
            make_run(make_operator(f"more {number}"))
        assert queries(api, "/api/operators/") == few

    def test_an_estimate_names_its_basis(self, api: APIClient, operator: Operator) -> None:
        """Minutes with where they come from."""
        answer = api.get(f"/api/operators/{operator.pk}/estimate/?steps=6")
        assert answer.data["minutes"] > 0
        assert answer.data["basis"].startswith("A guess")
        assert api.get(f"/api/operators/{operator.pk}/estimate/?steps=x").status_code == 400


@committed
class TestRuns:
    def launch(self, api: APIClient, operator: Operator, bank: MemoryBank, /, **fields: Any) -> Any:
        data = {"operator": operator.pk, "bank": bank.pk, "device": "opencl"}
        return api.post("/api/runs/", {**data, **fields}, format="json")

    def test_a_launch_is_queued(self, api: APIClient, operator: Operator, bank: MemoryBank) -> None:
        """201 with the run, its policy filled in, and one task."""
        answer = self.launch(api, operator, bank, seed=3)
        assert answer.status_code == 201, answer.data
        assert answer.data["status"] == RunStatus.QUEUED
        assert answer.data["policy"]["prefix_length"] == 3
        assert answer.data["created_by"] == "a-operator"
        assert [task.name() for task in OrmQ.objects.all()] == [f"run-{answer.data['id']}"]

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"method": "magic"}, "method"),
            ({"proposer": "oracle"}, "proposer"),
            ({"policy": {"tau": -1}}, "tau"),
            ({"policy": {"nonsense": 1}}, "nonsense"),
            ({"operator": 99999}, "no operator"),
            ({"bank": 99999}, "no memory bank"),
            ({"steps_total": 0}, ""),
            ({"device": "abacus"}, ""),
        ],
    )
    def test_a_launch_with_a_bad_setting_saves_nothing(
        self, api: APIClient, operator: Operator, bank: MemoryBank, fields: dict[str, Any], words: str
    ) -> None:
        """Each names what is wrong."""
        answer = self.launch(api, operator, bank, **fields)
        assert answer.status_code == 400
        assert words in str(answer.data)
        assert not Run.objects.exists()

    @pytest.mark.parametrize("status", [OperatorStatus.PENDING, OperatorStatus.INVALID])
    def test_only_a_ready_operator_runs(self, api: APIClient, bank: MemoryBank, status: str) -> None:
        """One that waits or cannot run is refused with a sentence."""
        operator = make_operator(status=status, status_reason="It raised.")
        answer = self.launch(api, operator, bank)
        assert answer.status_code == 400
        assert str(answer.data["detail"]).endswith(".")

    def test_an_operator_that_no_recipe_covers_is_refused_by_name(
        self, api: APIClient, bank: MemoryBank
    ) -> None:
        """The sentence names the operation."""
        operator = make_operator()
        report = operator.health_reports.get()
        report.graph["nodes"][0]["op"] = "aten.convolution.default"
        report.save()
        answer = self.launch(api, operator, bank)
        assert answer.status_code == 400
        assert "convolution" in str(answer.data["detail"])

    def test_rows_of_steps_carry_their_figures(self, api: APIClient, finished: Run) -> None:
        """A row has the verdict, the time and the interval of the evaluation that decided it."""
        rows = api.get(f"/api/runs/{finished.pk}/steps/").data["results"]
        assert [row["outcome"] for row in rows] == ["faster", "faster", "wrong", "faster"]
        assert rows[1]["attempts"] == 2
        assert rows[1]["is_best"]
        assert rows[1]["speedup_low"] < rows[1]["speedup"] < rows[1]["speedup_high"]
        assert rows[2]["speedup"] is None

    def test_a_step_has_everything_behind_it(self, api: APIClient, finished: Run) -> None:
        """State, decomposition, choice, candidates with their evaluations, and what the memory learnt."""
        step = finished.steps.get(index=2)
        data = api.get(f"/api/steps/{step.pk}/").data
        assert data["decision"]["scores"]
        assert data["state"]["facts"]["step_index"] == 2
        assert data["strategy_choice"]["reason"] == "By the script."
        assert [candidate["attempt"] for candidate in data["candidates"]] == [0, 1]
        assert [item["kind"] for item in data["candidates"][1]["evaluations"]] == ["first", "confirm"]
        assert data["memory_change"]["direction"]["after"]["n"] >= 1
        evaluation = data["candidates"][1]["evaluations"][0]["id"]
        assert api.get(f"/api/evaluations/{evaluation}/").data["result"]["checks"]

    @pytest.mark.parametrize("against", ["parent", "best", "start", "pytorch"])
    def test_a_plan_is_shown_beside_others(self, api: APIClient, finished: Run, against: str) -> None:
        """Each comparison has both texts, labels and a unified diff."""
        candidate = Candidate.objects.get(step__run=finished, step__index=4)
        data = api.get(f"/api/candidates/{candidate.pk}/diff/?against={against}").data
        assert data["after"] == candidate.plan
        assert data["before"] != data["after"]
        assert data["unified"].startswith(f"--- {data['before_label']}")

    def test_a_comparison_with_nothing_is_refused(self, api: APIClient, finished: Run) -> None:
        """An unknown comparison is said, not guessed."""
        candidate = Candidate.objects.filter(step__run=finished).first()
        assert candidate is not None
        assert api.get(f"/api/candidates/{candidate.pk}/diff/?against=moon").status_code == 400

    def test_events_come_by_cursor(self, api: APIClient, finished: Run) -> None:
        """The same rows as the socket sends, a page at a time."""
        first = api.get(f"/api/runs/{finished.pk}/events/?limit=3").data
        assert [event["seq"] for event in first["events"]] == [1, 2, 3]
        rest = api.get(f"/api/runs/{finished.pk}/events/?after={first['last']}").data
        assert rest["events"][0]["seq"] == 4
        assert rest["last"] == finished.event_seq
        assert api.get(f"/api/runs/{finished.pk}/events/?after=-1").status_code == 400
        assert api.get("/api/runs/99999/events/").status_code == 404

    def test_steering_answers_with_the_run(self, api: APIClient) -> None:
        """Pause, resume, stop and cancel work by POST; what has ended answers 409 with a sentence."""
        run = make_run()
        base = f"/api/runs/{run.pk}"
        assert api.post(f"{base}/pause/").data["status"] == "paused"
        assert api.post(f"{base}/resume/").data["status"] == "queued"
        assert api.post(f"{base}/cancel/").data["status"] == "cancelled"
        answer = api.post(f"{base}/stop/")
        assert answer.status_code == 409
        assert answer.data["detail"] == "This run is cancelled and cannot be stopped."

    def test_the_lists_take_the_same_queries_however_long(self, api: APIClient, finished: Run) -> None:
        """Runs, steps and events: no query a row."""
        paths = ["/api/runs/", f"/api/runs/{finished.pk}/steps/", f"/api/runs/{finished.pk}/events/"]
        few = [queries(api, path) for path in paths]
        for _ in range(5):
            make_run(finished.operator, finished.bank)
        Run.objects.filter(pk=finished.pk).update(steps_total=8, status=RunStatus.QUEUED)
        script = {index: ["correct 4.0"] for index in range(5, 9)}
        engine.advance(finished.pk, FateEvaluator(), proposer=ScriptedProposer(script))
        events.append(finished.pk, [("log", {"text": "more"})] * 50)
        assert [queries(api, path) for path in paths] == few

    def test_lists_are_paged_and_filtered(self, api: APIClient, finished: Run) -> None:
        """count, next, previous, results; filters by status, operator and text."""
        make_run(finished.operator, finished.bank)
        page = api.get("/api/runs/?limit=1").data
        assert (page["count"], len(page["results"])) == (2, 1)
        assert page["next"]
        assert api.get("/api/runs/?status=finished").data["count"] == 1
        assert api.get(f"/api/runs/?operator={finished.operator_id}").data["count"] == 2
        assert api.get("/api/runs/?search=nothing").data["count"] == 0
        assert api.get("/api/runs/?operator=x").status_code == 400


READS = [
    "/api/operators/",
    "/api/operators/1/",
    "/api/runs/",
    "/api/runs/1/",
    "/api/runs/1/steps/",
    "/api/runs/1/events/",
    "/api/runs/1/export/",
    "/api/steps/1/",
    "/api/candidates/1/",
    "/api/candidates/1/diff/",
    "/api/evaluations/1/",
    "/api/workers/",
    "/api/devices/",
]
WRITES = [
    "/api/operators/",
    "/api/operators/check/",
    "/api/operators/1/override/",
    "/api/operators/1/inspect/",
    "/api/runs/",
    "/api/runs/1/pause/",
    "/api/runs/1/resume/",
    "/api/runs/1/stop/",
    "/api/runs/1/cancel/",
]


@pytest.mark.django_db
@pytest.mark.parametrize("path", READS)
def test_reading_needs_a_role(path: str) -> None:
    """Anonymous and role-less are refused; a viewer is let in (or finds nothing there)."""
    client = APIClient()
    assert client.get(path).status_code == 401
    client.force_authenticate(person(""))
    assert client.get(path).status_code == 403
    client.force_authenticate(person("viewer"))
    assert client.get(path).status_code in {200, 404}


@pytest.mark.django_db
@pytest.mark.parametrize("path", WRITES)
def test_writing_needs_the_operator_role(path: str) -> None:
    """Viewers and curators do not launch or upload."""
    client = APIClient()
    assert client.post(path, {}, format="json").status_code == 401
    for role in ("viewer", "curator"):
        client.force_authenticate(person(role))
        assert client.post(path, {}, format="json").status_code == 403
    client.force_authenticate(person("operator"))
    assert client.post(path, {}, format="json").status_code in {400, 404}


@pytest.mark.django_db
def test_oversized_numbers_and_nesting_are_bad_requests(api: APIClient) -> None:
    """What overflows a column, a float or the parser's stack is the sender's mistake, not a fault of ours."""
    assert api.get("/api/runs/?bank=" + "9" * 22).status_code == 400
    nested = api.post("/api/operators/", data="[" * 100_000, content_type="application/json")
    assert nested.status_code == 400
    operator = make_operator()
    for name in ("decay", "prefix_length"):
        body = json.dumps({"operator": operator.pk, "policy": {name: 10**400}})
        answer = api.post("/api/runs/", data=body, content_type="application/json")
        assert answer.status_code == 400, answer.content
