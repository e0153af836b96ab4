"""Bank files: exact round trips, refusals with the JSON path, nothing half-saved."""

from __future__ import annotations

import copy
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from rest_framework.test import APIClient

from memory.bankfile import BankError, parse_bank, schema
from memory.exchange import bank_text
from memory.exporting import dump_bank, export_bank
from memory.history import Refused, changing
from memory.importing import import_bank
from memory.limits import MAX_BANK_BYTES
from memory.markdown import write_markdown
from memory.models import Change, Evidence, GlobalNode, LocalNode, MemoryBank, TransitionEdge
from memory.partial import apply_import, plan_import
from memory.policy import FACTS, OPERATORS
from tests.memory.conftest import bank_data, direction_data, edge_data, strategy_data

pytestmark = pytest.mark.django_db


def parts() -> tuple[int, ...]:
    return tuple(
        model.objects.count() for model in (MemoryBank, GlobalNode, LocalNode, TransitionEdge, Evidence)
    )


def evidence_data(**changes):
    return {
        "direction": "fusion", "strategy": "fusion-one", "source": "START", "verdict": "correct",
        "compiled": True, "correct": True, "improved": True, "utility": 0.1, "speedup": 1.07,
        "device": "cuda:H200", "dtype": "float32", "family": "pointwise", "proposer": "recipes", "model": "",
        "human_touched": False, "note": "", "excluded": False, "excluded_reason": "",
        "at": "2026-01-02T03:04:05.678901+00:00", **changes,
    }  # fmt: skip


def test_round_trip_is_byte_stable(bank, teach):
    """Export, import, export: the same bytes, evidence and exclusions included."""
    for number in range(4):
        teach(place=number % 3, strategy=LocalNode.objects.get(key="fusion-two"), utility=0.1 * number)
    Evidence.objects.filter(utility=0.2).update(excluded=True, excluded_reason="noisy clock")
    GlobalNode.objects.filter(key="reuse").update(x=12.5, y=-3.0, retired=True)
    text = dump_bank(export_bank(bank))
    MemoryBank.objects.all().delete()
    assert dump_bank(export_bank(import_bank(parse_bank(text)))) == text


def test_order_of_keys_is_canonical(db):
    """Conditions and recipes are exported in one order, whatever order they or the database had."""
    condition = {"required": True, "value": [1, 2.5], "op": "in", "fact": "rows"}
    strategy = strategy_data("s", conditions=[condition], recipe={"width": 4, "move": "vector_width", "a": 1})
    data = bank_data(directions=[direction_data("fusion", strategies=[strategy])], edges=[])
    out = export_bank(import_bank(data))["directions"][0]["strategies"][0]
    assert list(out["conditions"][0].items()) == [
        ("fact", "rows"), ("op", "in"), ("value", [1, 2.5]), ("required", True)
    ]  # fmt: skip
    assert list(out["recipe"]) == ["move", "a", "width"]


def test_import_sums_its_evidence(bank, teach):
    """An imported bank has the statistics of the one it came from."""
    teach(utility=0.3)
    teach(utility=0.9, place=1)
    twin = import_bank(export_bank(bank), "Twin")
    sums = [
        sorted(item.totals.values_list("device", "tries", "utility_units", "edge__target__key"), key=str)
        for item in (bank, twin)
    ]
    assert sums[0] == sums[1]
    assert sums[0] != []


def test_awkward_text_survives(db):
    """Markup, emoji and line breaks are text: stored and exported as they came."""
    title = '<script>alert("x")</script> \u00e9 \u4e16 \U0001f680\n\t\\'
    data = bank_data(directions=[direction_data("fusion", title=title)], edges=[edge_data("START", "fusion")])
    assert export_bank(import_bank(data))["directions"][0]["title"] == title


def change(path: list, value):
    """bank_data with the value at ``path`` replaced."""
    data = bank_data(evidence=[evidence_data()])
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


def without(name: str) -> dict:
    data = bank_data()
    del data[name]
    return data


BAD = [
    (change(["schema_version"], 2), "$.schema_version: this file has version 2; this release reads 1."),
    (change(["schema_version"], True), "$.schema_version"),
    (change(["schema"], "other"), "$.schema: this is no memory bank"),
    (without("edges"), "'edges' is a required property"),
    (change(["name"], ""), "$.name"),
    (change(["surprise"], 1), "surprise"),
    (change(["directions", 1, "prior"], 1.5), "$.directions[1].prior: 1.5 is greater than the maximum of 1"),
    (change(["directions", 1, "prior"], "0.5"), "$.directions[1].prior"),
    (change(["directions", 1, "key"], "Not A Key"), "$.directions[1].key"),
    (change(["directions", 1, "key"], "fusion\n"), "$.directions[1].key"),
    (change(["directions", 1, "key"], "fusi\u043en"), "$.directions[1].key"),  # a Cyrillic o
    (change(["edges", 0, "source"], "\uff33TART"), "$.edges[0].source"),  # a full-width S
    (
        change(["directions", 0, "strategies", 0, "conditions"], [{"fact": "r\u043ews", "op": "true"}]),
        "conditions[0]",
    ),
    (change(["name"], "A\u200bB"), "$.name: a bank's name has 1 to 80 printable characters."),
    (change(["evidence", 0, "utility"], True), "$.evidence[0].utility"),
    (change(["evidence", 0, "compiled"], 1), "$.evidence[0].compiled"),
    (change(["directions"], {}), "$.directions"),
    (change(["directions", 0], None), "$.directions[0]"),
    (
        change(["directions", 2, "key"], "fusion"),
        "$.directions[2].key: the direction 'fusion' appears twice.",
    ),
    (change(["directions", 0, "strategies", 1, "key"], "access-one"), "$.directions[0].strategies[1].key"),
    (
        change(["directions", 0, "strategies", 1, "edit_pattern"], None),
        "$.directions[0].strategies[1].edit_pattern",
    ),
    (
        change(["directions", 0, "triggers"], [{"fact": "moon", "op": "true"}]),
        "$.directions[0].triggers[0].fact",
    ),
    (change(["directions", 0, "triggers"], [{"fact": "rows", "op": "ge"}]), "$.directions[0].triggers[0]"),
    (
        change(["directions", 0, "strategies", 0, "recipe"], {"width": 4}),
        "$.directions[0].strategies[0].recipe",
    ),
    (change(["edges", 0, "target"], "nowhere"), "$.edges[0].target: there is no direction 'nowhere'."),
    (
        change(["edges", 1], edge_data("START", "access")),
        "$.edges[1]: the edge START -> access appears twice.",
    ),
    (change(["evidence", 0, "strategy"], "reuse-one"), "$.evidence[0].strategy"),
    (change(["evidence", 0, "source"], "reuse"), "$.evidence[0].source: there is no edge reuse -> fusion."),
    (change(["evidence", 0, "at"], "yesterday"), "$.evidence[0].at"),
    (change(["evidence", 0, "at"], "2026-01-02T03:04:05"), "$.evidence[0].at"),
    (change(["evidence", 0, "utility"], -1.01), "$.evidence[0].utility"),
    (change(["description"], "a\x00b"), "$.description: text must not contain NUL"),
    ([], "$.schema"),
]


@pytest.mark.parametrize(("data", "says"), BAD, ids=[says[:50] for _, says in BAD])
def test_wrong_field_is_refused_with_its_path(db, data, says):
    """One sentence names the place; nothing is saved."""
    with pytest.raises(BankError) as error:
        import_bank(copy.deepcopy(data))
    assert says in str(error.value)
    assert parts() == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (dump_bank(bank_data()).replace('"prior": 0.1', '"prior": NaN', 1), "NaN is not a JSON number"),
        (dump_bank(bank_data()).replace('"prior": 0.1', '"prior": 1e999', 1), "the number is too large"),
        (dump_bank(bank_data()).replace('"prior": 0.1', f'"prior": {"9" * 5000}', 1), "not JSON"),
        (
            dump_bank(bank_data()).replace('"prior": 0.1', '"prior": 0.1, "prior": 0.9', 1),
            "'prior' appears twice",
        ),
        (dump_bank(bank_data()).replace("About fusion.", "\\ud800", 1), "surrogate"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper"),
        ("[" * 500 + "]" * 500, "nested deeper"),
        ('{"schema": ' + '{"a": ' * 30 + "1" + "}" * 31, "nested deeper"),
    ],
)
def test_hostile_text_is_refused(text, says):
    """Deep, doubled, endless or undecodable text ends in a sentence, not in a crash."""
    with pytest.raises(BankError, match=says):
        parse_bank(text)


def test_repeated_key_is_named_with_its_path():
    """The path says which object repeats it."""
    text = dump_bank(bank_data()).replace('"prior": 0.1', '"prior": 0.1, "prior": 0.9', 1)
    with pytest.raises(BankError, match=r"\$\.directions\[0\]"):
        parse_bank(text)


def test_huge_file_is_refused_unread():
    """Size is checked before anything is parsed."""
    with pytest.raises(BankError, match="larger than 64 MiB"):
        parse_bank(b" " * (MAX_BANK_BYTES + 1))


def test_schema_knows_the_same_facts_and_operators():
    """The schema file and the policy agree on what a condition may say."""
    definitions = schema()["$defs"]
    assert set(definitions["fact"]["enum"]) == set(FACTS)
    assert definitions["condition"]["properties"]["op"]["enum"] == list(OPERATORS)


def test_taken_name_is_refused(bank):
    """An import never writes into a bank that is there."""
    before = parts()
    with pytest.raises(BankError, match="there is a bank 'Small' already"):
        import_bank(bank_data())
    assert parts() == before


def test_fields_that_may_be_left_out(db):
    """Retired, position and evidence are optional."""
    data = json.loads(json.dumps(bank_data()))
    del data["evidence"]
    for direction in data["directions"]:
        del direction["retired"], direction["position"]
    assert import_bank(data).directions.filter(retired=False).count() == 3


def test_commands_round_trip(bank, tmp_path, capsys):
    """memory_export writes what memory_import reads."""
    file = tmp_path / "bank.json"
    call_command("memory_export", "Small", "--out", str(file))
    call_command("memory_import", str(file), "--name", "Copy")
    assert "Imported 'Copy': 3 directions, 4 edges" in capsys.readouterr().out
    call_command("memory_export", "Copy")
    assert capsys.readouterr().out == file.read_text().replace('"name": "Small"', '"name": "Copy"')


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["memory_export", "Nobody"], "There is no memory bank 'Nobody'; there are: Small."),
        (
            ["memory_import", "/nowhere/bank.json"],
            "Cannot read /nowhere/bank.json: No such file or directory.",
        ),
        (["memory_import", "FILE"], "$.schema_version: this file has version 2"),
    ],
)
def test_unusable_input_exits_2_with_one_line(bank, tmp_path, capsys, arguments, says):
    """Commands refuse in one line on standard error and leave standard output alone."""
    file = tmp_path / "bank.json"
    file.write_text(dump_bank(bank_data(schema_version=2, name="New")))
    before = parts()
    with pytest.raises(SystemExit) as stop:
        call_command(*[str(file) if argument == "FILE" else argument for argument in arguments])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert parts() == before


def test_strategy_of_another_direction_is_no_reference(db):
    """Strategy keys are unique within a direction only; two directions may use the same one."""
    directions = [
        direction_data("access", strategies=[strategy_data("same")]),
        direction_data("fusion", strategies=[strategy_data("same")]),
    ]
    bank = import_bank(bank_data(directions=directions, edges=[]))
    assert LocalNode.objects.filter(direction__bank=bank, key="same").count() == 2


def large_document(name="Large"):
    """60 directions, 1,500 strategies, 3,600 edges."""
    keys = [f"direction-{number:02}" for number in range(60)]
    text = "A sentence of the length that people write here, with a figure or two in it."

    def strategy(number):
        return strategy_data(
            f"strategy-{number:02}", edit_pattern=text, applies_when=text, checks=[text], risks=[text],
            conditions=[{"fact": "rows", "op": "ge", "value": number}], recipe={"move": "unroll", "factor": number},
            prior=number / 100,
        )  # fmt: skip

    strategies = [strategy(number) for number in range(25)]
    return bank_data(
        name=name,
        directions=[
            direction_data(key, intent=text, goals=[text], risks=[text], strategies=strategies)
            for key in keys
        ],
        edges=[
            edge_data(source, target, applies_when=text, rationale=text, prior=index / 7200)
            for index, (source, target) in enumerate((a, b) for a in keys for b in keys)
        ],
        evidence=[
            evidence_data(
                direction=keys[number % 60],
                strategy="strategy-01",
                source=keys[number % 7],
                utility=number / 2000,
            )
            for number in range(1000)
        ],
    )


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_a_bank_of_full_size_round_trips_to_the_byte(db, form):
    """60 directions, 1,500 strategies, 3,600 edges and their evidence: the same bytes in both forms."""
    bank = import_bank(large_document())
    before = export_bank(bank)
    text = bank_text(bank, form)
    assert len(text.encode()) < MAX_BANK_BYTES / 4
    MemoryBank.objects.all().delete()
    again = import_bank(parse_bank(text.encode()))
    assert bank_text(again, form) == text
    assert export_bank(again) == before


def test_the_web_takes_what_the_command_line_takes(db, client_as, settings):
    """One limit for both: a full-size bank goes through, and so would a file of the largest size."""
    assert settings.MAX_IMPORT_BYTES >= MAX_BANK_BYTES
    text = dump_bank(large_document())
    made = client_as("curator").post("/api/banks/import/", text, content_type="application/json")
    assert made.status_code == 201, made.data
    assert made.data["edges_count"] == 3600
    padded = text.replace('"Large"', '"Padded"') + " " * 6_000_000  # more than any other route takes
    assert len(padded) > settings.MAX_REQUEST_BYTES
    api = APIClient()
    api.force_authenticate(User.objects.get(username="a-curator"))
    assert api.post("/api/banks/import/", padded, content_type="application/json").status_code == 201
    assert api.post("/api/banks/", padded, content_type="application/json").status_code == 413


def test_an_export_that_no_import_would_take_is_refused(bank, teach, monkeypatch, capsys):
    """A bank with too long a log says so instead of writing a file that cannot be read again."""
    teach()
    monkeypatch.setattr("memory.exchange.MAX_BANK_BYTES", 1000)
    with pytest.raises(BankError, match="with its 1 evidence rows does not fit"):
        bank_text(bank)
    with pytest.raises(SystemExit):
        call_command("memory_export", "Small")
    assert "export it without evidence" in capsys.readouterr().err


# Partial import.


def changed_document():
    """`bank_data` with one prior changed, one strategy and one direction with a strategy and an edge added."""
    data = json.loads(dump_bank(bank_data(evidence=[evidence_data()])))
    data["directions"][1]["prior"] = 0.9
    data["directions"][1]["strategies"].append(strategy_data("fusion-three"))
    data["directions"].append(direction_data("tiling"))
    data["edges"].append(edge_data("fusion", "tiling", prior=0.4))
    del data["directions"][0]["strategies"][1]
    return data


def test_a_plan_tells_new_changed_and_same(bank):
    """Every part of the file is one of the three; what only the bank has is counted and stays."""
    plan = plan_import(bank, changed_document()).to_json()
    assert [part["id"] for part in plan["new"]] == [
        "strategy:fusion/fusion-three", "direction:tiling", "strategy:tiling/tiling-one",
        "strategy:tiling/tiling-two", "edge:fusion->tiling",
    ]  # fmt: skip
    (changed,) = plan["changed"]
    assert (changed["id"], changed["fields"]) == (
        "direction:fusion", {"prior_utility": {"here": 0.1, "file": 0.9}}
    )  # fmt: skip
    assert plan["new"][-1]["needs"] == ("direction:fusion", "direction:tiling")
    assert (plan["same"], plan["only_here"], plan["evidence_left_out"]) == (11, 1, 1)


def test_chosen_parts_are_imported_and_no_others(bank):
    """The rest of the bank is as it was."""
    before = export_bank(bank)
    result = apply_import(bank, changed_document(), ["strategy:fusion/fusion-three", "direction:fusion"])
    assert (result.created, result.changed) == (1, 1)
    after = export_bank(bank)
    assert after["directions"][1]["prior"] == 0.9
    assert after["directions"][1]["strategies"][1]["key"] == "fusion-three"
    after["directions"][1]["prior"] = 0.1
    del after["directions"][1]["strategies"][1]
    assert after == before


def test_all_of_a_file_makes_its_parts_the_banks(bank):
    """After taking everything the same file has nothing more to say; the history holds one change."""
    result = apply_import(bank, changed_document(), "all", reason="from the other team")
    assert (result.created, result.changed) == (5, 1)
    plan = plan_import(bank, changed_document())
    assert (plan.new, plan.changed) == ([], [])
    change = Change.objects.get(pk=result.change)
    assert (change.kind, change.reason, change.items.count()) == ("partly_imported", "from the other team", 6)
    assert apply_import(bank, changed_document(), "all").change is None


@pytest.mark.parametrize(
    ("take", "says"),
    [
        (
            ["strategy:tiling/tiling-one"],
            "needs 'direction:tiling', which is not in the bank; take it along.",
        ),
        (["edge:fusion->tiling"], "needs 'direction:tiling'"),
        (["direction:access"], "the file has nothing new to say of 'direction:access'"),
        (["direction:nowhere"], "nothing new to say"),
    ],
)
def test_a_choice_that_does_not_hold_together_is_refused(bank, take, says):
    """One sentence, nothing saved."""
    before = parts()
    with pytest.raises(BankError, match=says):
        apply_import(bank, changed_document(), take)
    assert parts() == before


def test_a_part_that_changed_after_the_preview_is_refused(bank):
    """All or nothing: the new parts of the same request are not saved either."""
    plan = plan_import(bank, changed_document()).to_json()
    versions = {part["id"]: part["version"] for part in plan["changed"]}
    with changing(bank, "edited") as recorder:
        recorder.edit(GlobalNode.objects.get(key="fusion"), {"prior_utility": 0.2})
    before = parts()
    with pytest.raises(Refused, match="Somebody changed 'direction:fusion' after the preview"):
        apply_import(bank, changed_document(), "all", versions)
    assert parts() == before


def test_partial_import_over_rest(bank, client_as):
    """Preview a file, choose, apply; a frozen bank and a stale preview answer 409."""
    api = client_as("curator")
    text = dump_bank(changed_document())
    plan = api.post(f"/api/banks/{bank.pk}/import/preview/", text, content_type="application/json")
    assert plan.status_code == 200, plan.data
    body = {"text": text, "take": "new", "versions": {"direction:fusion": plan.data["changed"][0]["version"]}}
    done = api.post(f"/api/banks/{bank.pk}/import/", body, format="json")
    assert done.data["created"] == 5
    markdown = api.post(f"/api/banks/{bank.pk}/import/preview/", write_markdown(changed_document()),
                        content_type="text/markdown")  # fmt: skip
    assert (markdown.data["new"], len(markdown.data["changed"])) == ([], 1)
    wrong = api.post(f"/api/banks/{bank.pk}/import/", {"text": text, "take": "some"}, format="json")
    assert wrong.status_code == 400
    MemoryBank.objects.update(frozen=True)
    frozen = api.post(f"/api/banks/{bank.pk}/import/", {**body, "take": "all"}, format="json")
    assert (frozen.status_code, "is frozen" in frozen.data["detail"]) == (409, True)
