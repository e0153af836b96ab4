"""The Markdown form of a bank: exact, readable, and refused line by line where it is not understood."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from memory.bankfile import BankError, check_bank, parse_bank
from memory.exporting import dump_bank, export_bank
from memory.importing import import_bank
from memory.markdown import read_markdown, write_markdown
from memory.markdown.words import cells_of, escape, joined, parted, row_of, unescape
from memory.models import MemoryBank
from memory.seeding import SEED_FILE
from tests.memory.conftest import bank_data, direction_data, edge_data, strategy_data
from tests.memory.test_bankfile import evidence_data

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
awkward = st.text(alphabet="\\|<>br`*_# -\n\r\t\u2028\u00a0\u200b\x85us{}", max_size=25) | texts
words = awkward.filter(bool)
sentences = st.lists(words, max_size=3)
numbers = st.floats(-1, 1)
scalars = words | st.integers(-(10**6), 10**6) | numbers | st.booleans()
conditions = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "fact": st.just("bottleneck"),
                "op": st.just("in"),
                "value": st.lists(scalars, min_size=1, max_size=3),
            },
            optional={"required": st.booleans()},
        ),
        st.fixed_dictionaries({"fact": st.just("rows"), "op": st.just("ge"), "value": numbers}),
        st.fixed_dictionaries(
            {"fact": st.just("fused"), "op": st.just("true")}, optional={"required": st.booleans()}
        ),
        st.fixed_dictionaries({"fact": st.just("dtype"), "op": st.just("eq"), "value": scalars}),
    ),
    max_size=3,
)
recipes = st.none() | st.dictionaries(st.text("abc_", min_size=1, max_size=4), scalars, max_size=3).map(
    lambda extra: {"move": "unroll", **extra}
)


@st.composite
def documents(draw):
    """Bank documents in canonical order with anything that their texts may hold."""

    def strategy(key):
        return strategy_data(
            key, title=draw(words), edit_pattern=draw(words), applies_when=draw(words),
            conditions=draw(conditions), checks=draw(sentences), risks=draw(sentences), recipe=draw(recipes),
            prior=draw(numbers), retired=draw(st.booleans()),
        )  # fmt: skip

    def direction(key):
        position = draw(
            st.none() | st.fixed_dictionaries({"x": st.floats(-1e6, 1e6), "y": st.floats(-1e6, 1e6)})
        )
        return direction_data(
            key, title=draw(words), intent=draw(words), goals=draw(sentences), triggers=draw(conditions),
            risks=draw(sentences), prior=draw(numbers), retired=draw(st.booleans()), position=position,
            strategies=[strategy(name) for name in ("one", "two")[: draw(st.integers(0, 2))]],
        )  # fmt: skip

    pairs = [("START", "a"), ("a", "a"), ("a", "b-2"), ("b-2", "a")]
    edges = [
        edge_data(
            *pair, applies_when=draw(awkward), rationale=draw(awkward), risks=draw(sentences), prior=draw(numbers),
            retired=draw(st.booleans()),
        )
        for pair in pairs
        if draw(st.booleans())
    ]  # fmt: skip
    data = bank_data(
        name=draw(words),
        description=draw(awkward),
        directions=[direction("a"), direction("b-2")],
        edges=edges,
    )
    if draw(st.booleans()):
        del data["evidence"]
    else:
        row = evidence_data(
            direction="a", strategy=None, source=None, note=draw(awkward), excluded_reason=draw(awkward),
            utility=draw(numbers), speedup=draw(st.none() | st.floats(0.01, 100)), model=draw(awkward),
        )  # fmt: skip
        data["evidence"] = [row] * draw(st.integers(0, 2))
    return data


@given(documents())
def test_any_bank_reads_back_as_it_was(document):
    """Write, read: the same document, whatever stands in its texts and numbers."""
    assert read_markdown(write_markdown(document)) == document


@given(documents())
def test_line_ends_of_other_systems_change_nothing(document):
    """A checkout with CR LF line ends, or one that stripped spaces at line ends, reads the same."""
    lines = [line.rstrip() for line in write_markdown(document).split("\n")]
    assert read_markdown("\r\n".join(lines)) == document


@given(awkward)
def test_escapes_are_undone(text):
    """One line in, the same text out; nothing in it is taken for a line end or HTML."""
    line = escape(text)
    assert unescape(line) == text
    assert len(line.splitlines()) <= 1
    assert line.strip() == line
    assert "<" not in line.replace("\\<", "")


@given(st.lists(awkward, min_size=1, max_size=4), st.lists(words, max_size=4))
def test_cells_and_sentences_stay_apart(cells, many):
    """Bars and breaks in texts do not part cells or sentences."""
    assert [unescape(cell) for cell in cells_of(row_of([escape(cell) for cell in cells]))] == cells
    assert parted(joined(many)) == many


def test_the_seed_bank_round_trips():
    """The bank that people review first: JSON to Markdown and back, to the byte."""
    text = dump_bank(parse_bank(SEED_FILE.read_bytes()))
    document = parse_bank(text)
    assert dump_bank(parse_bank(write_markdown(document))) == text


def test_the_form_reads_well():
    """Headings, quotations, lists and tables where a reviewer expects them."""
    strategy = strategy_data(
        "wide", title="Wide loads", conditions=[{"fact": "vector_width", "op": "le", "value": 2}],
        recipe={"move": "vector_width", "width": 4}, risks=["Tails.", "Alignment | of rows."],
    )  # fmt: skip
    direction = direction_data(
        "access", title="Memory access", prior=0.3, intent="Move less.\n\nMove wider.", strategies=[strategy],
        triggers=[{"fact": "bottleneck", "op": "in", "value": ["memory"], "required": True}],
    )  # fmt: skip
    edges = [edge_data("START", "access", rationale="Traffic <first>.", risks=["One.", "Two."], prior=0.5)]
    text = write_markdown(bank_data(name="Demo", directions=[direction], edges=edges))
    for part in (
        "# Demo\n",
        "> For tests.\n",
        "## START\n\n| to | prior | applies when | rationale | risks | retired |\n|---|---|---|---|---|---|\n"
        "| `access` | 0.5 | | Traffic \\<first>. | One.<br>Two. | |\n",
        "## `access` Memory access\n\n- prior: 0.3\n\n**Intent**\n\n> Move less.\n>\n> Move wider.\n",
        '**Triggers**\n\n- `bottleneck` in ["memory"] (required)\n',
        '### `wide` Wide loads\n\n- prior: 0.1\n- recipe: `{"move": "vector_width", "width": 4}`\n',
        "**Conditions**\n\n- `vector_width` le 2\n\n**Risks**\n\n- Tails.\n- Alignment \\| of rows.\n",
    ):
        assert part in text


def test_one_changed_prior_is_one_changed_line():
    """What a code review shows of an edit."""
    before = bank_data()
    after = copy.deepcopy(before)
    after["directions"][1]["strategies"][0]["prior"] = 0.7
    pairs = zip(write_markdown(before).split("\n"), write_markdown(after).split("\n"), strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == [("- prior: 0.1", "- prior: 0.7")]


GOOD = write_markdown(bank_data(evidence=[evidence_data()]))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# Small", "Small", "The bank file is not JSON"),
        ("<!-- htam-memory-bank 1", "<!-- htam-memory-bank 9", "line 3: the third line says"),
        ("- prior: 0.1", "- prior: high", "line {line}: 'high' is no number"),
        ("- prior: 0.1", "- prior: NaN", "line {line}: 'NaN' is no number"),
        ("- prior: 0.1", "- prior: 1.5", "$.directions[0].prior: 1.5 is greater than the maximum of 1"),
        ("- prior: 0.1", "- prior: 0.1\n- prior: 0.9", "line {next}: prior stands here twice"),
        ("- prior: 0.1\n", "", "$.directions[0].prior: None is not of type 'number'"),
        ("- prior: 0.1", "- weight: 0.1", "line {line}: '- weight: 0.1' is not understood here"),
        ("**Intent**", "**Purpose**", "line {line}: '**Purpose**' is no part of what stands here"),
        ("> About access.", "About access.", "line {line}: 'About access.' is not understood here"),
        (
            "> About access.",
            "> About \\q access.",
            "line {line}: the backslash before 'q' stands for nothing",
        ),
        ("> About access.", "> \\u{d800}", "line {line}: \\u{d800} is no character"),
        ("## `access` Access", "## access Access", "line {line}: a heading is ## `key` Title"),
        ("### `access-one`", "### `Access`", "$.directions[0].strategies[0].key"),
        (
            "| `reuse` | 0.0 | | | | |",
            "| `reuse` | 0.0 | | |",
            "this row has 4 cells; the table has 6 columns",
        ),
        ("| `reuse` | 0.0 | | | | |", "| `nowhere` | 0.0 | | | | |", "there is no direction 'nowhere'"),
        ("| to | prior |", "| prior | to |", "line {line}: the columns here are to, prior"),
        ("| 1.07 |", "| fast |", "'fast' is no number"),
        ("| yes | yes | yes |", "| yes | maybe | yes |", "'maybe' is neither yes nor no"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(old, new, says):
    """No line is passed over in silence; what the lines say is checked like JSON."""
    assert old in GOOD
    with pytest.raises(BankError) as error:
        parse_bank(GOOD.replace(old, new, 1))
    line = GOOD[: GOOD.index(old)].count("\n") + 1
    assert says.replace("{line}", str(line)).replace("{next}", str(line + 1)) in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text(max_size=300), st.integers(0, len(GOOD)), st.integers(0, 40))
def test_damaged_files_end_in_a_sentence(noise, place, cut):
    """Anything spliced into a good file is read or refused, never a crash."""
    with contextlib.suppress(BankError):
        check_bank(parse_bank(GOOD[:place] + noise + GOOD[place + cut :]))


@pytest.mark.django_db
def test_commands_round_trip_markdown(bank, teach, tmp_path, capsys):
    """memory_export --format markdown writes what memory_import reads: the same bank, evidence included."""
    teach(utility=0.3)
    before = dump_bank(export_bank(bank))
    file = tmp_path / "bank.md"
    call_command("memory_export", "Small", "--format", "markdown", "--out", str(file))
    MemoryBank.objects.all().delete()
    call_command("memory_import", str(file))
    assert "Imported 'Small': 3 directions" in capsys.readouterr().out
    assert dump_bank(export_bank(MemoryBank.objects.get())) == before


@pytest.mark.django_db
def test_markdown_over_rest(bank, client_as):
    """Exported with form=markdown, imported again as a body of that type."""
    api = client_as("curator")
    answer = api.get(f"/api/banks/{bank.pk}/export/?form=markdown")
    assert answer["Content-Type"].startswith("text/markdown")
    assert answer["Content-Disposition"] == 'attachment; filename="small.md"'
    made = api.post("/api/banks/import/?name=Twin", answer.content.decode(), content_type="text/markdown")
    assert made.status_code == 201, made.data
    twin = MemoryBank.objects.get(name="Twin")
    assert json.loads(dump_bank(export_bank(twin))) | {"name": "Small"} == export_bank(bank)
    assert api.get(f"/api/banks/{bank.pk}/export/?form=html").status_code == 400


@pytest.mark.django_db
def test_a_script_in_a_title_stays_text(db):
    """HTML is escaped for whoever renders the file, and comes back as it was."""
    title = "<script>alert(1)</script>"
    document = bank_data(directions=[direction_data("fusion", title=title)], edges=[])
    text = write_markdown(document)
    assert "<script" not in text.replace("\\<", "")
    assert import_bank(parse_bank(text)).directions.get().title == title
