"""Operators that cannot be used: each is refused with one sentence, and no process is left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpu_eval.errors import UnusableInput
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.limits import MAX_OPERATOR_BYTES, Limits
from gpu_eval.operators.source import check_filename, content_hash, decode_operator, parse_operator
from tests.gpu_eval.candidates import OPERATOR

IMPATIENT = Limits(operator_stage_s=5.0)
ENDLESS = ("minute", "spins", "for ever")
FRAME = """
import os, time, torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        {forward}

def get_inputs():
    {inputs}
"""


def operator(inputs: str = "return [torch.rand(8)]", forward: str = "return x * 2") -> str:
    """An operator with its two bodies filled in."""
    return FRAME.format(inputs=inputs, forward=forward)


UNPARSABLE = {
    "not Python": ("def f(:\n", "line 1: this is not Python"),
    "no Model": ("def get_inputs():\n    return []\n", "defines no class Model"),
    "no get_inputs": ("class Model:\n    def forward(self): pass\n", "defines no function get_inputs"),
    "NUL": ("x = 1\0\n", "not Python"),
    "deep nesting": ("x = " + "(" * 5000 + ")" * 5000, "not Python"),
    "deep operators": ("x = " + "-" * 50000 + "1\n", "not Python"),
    "preset of an unknown name": (OPERATOR.replace('"cols": 256', '"columns": 256'), "never defines"),
    "computed presets": (OPERATOR.replace("PRESETS = {", "PRESETS = dict() or {"), "literal dict"),
}


@pytest.mark.parametrize("name", UNPARSABLE)
def test_parse_refuses(name: str) -> None:
    """Protects the web process: the file is refused by reading it, with a line where there is one."""
    text, words = UNPARSABLE[name]
    with pytest.raises(UnusableInput, match=words) as caught:
        parse_operator(text, "mine.py")
    assert str(caught.value).startswith("mine.py")
    assert "\n" not in str(caught.value)


def test_bytes_are_checked_before_they_are_read() -> None:
    """Protects against uploads that are no text of a sensible size."""
    with pytest.raises(UnusableInput, match=r"20\.0 MB"):
        decode_operator(b"#" * 20_000_000, "big.py")
    with pytest.raises(UnusableInput, match="line 2: the file is not valid UTF-8"):
        decode_operator(b"x = 1\n\xff\xfe", "bytes.py")
    with pytest.raises(UnusableInput, match="NUL"):
        decode_operator(b"x = 1\0", "nul.py")
    assert decode_operator(b"\xef\xbb\xbfx = '\xc3\xa9'", "bom.py") == "x = 'é'"
    assert len(decode_operator(b"#" * MAX_OPERATOR_BYTES, "edge.py")) == MAX_OPERATOR_BYTES


@pytest.mark.parametrize(
    "name", ["../evil.py", "a/b.py", "..", "", ".hidden", "a\nb.py", "x" * 300, "c:\\x.py"]
)
def test_file_names_are_plain(name: str) -> None:
    """Protects the file system from names that are paths."""
    with pytest.raises(UnusableInput):
        check_filename(name)


def test_hash_ignores_docstrings_comments_and_white_space() -> None:
    """Protects identity: a reformatted copy is the same operator, a changed number another."""
    same = OPERATOR.replace("return torch.relu(x + self.bias) * 2", "return   torch.relu(x+self.bias)*2  # y")
    same = same.replace("Adds a bias, clamps at zero and doubles.", "Another text.")
    assert content_hash(same) == content_hash(OPERATOR)
    assert content_hash(OPERATOR.replace("* 2", "* 3")) != content_hash(OPERATOR)


def test_parse_tells_what_the_file_defines() -> None:
    """Protects the pages and the judge, which read names and presets off the parsed source."""
    source = parse_operator(OPERATOR, "mine.py")
    assert source.presets == {"cpu": {"rows": 64, "cols": 256}}
    assert source.input_names == ("x",)
    assert source.docstring == "Adds a bias, clamps at zero and doubles."


UNUSABLE = {
    "get_inputs raises": (
        operator(inputs="raise ValueError('no data')"),
        r"line \d+: get_inputs\(\) raised Val",
    ),
    "get_inputs takes a minute": (operator(inputs="time.sleep(60)"), "did not finish within 5 seconds"),
    "get_inputs spins": (operator(inputs="while True: pass"), "did not finish within 5 seconds"),
    "get_inputs allocates 100 GB": (operator(inputs="return [torch.ones(25_000_000_000)]"), "memory"),
    "get_inputs returns a string": (operator(inputs="return 'x'"), "must return a list"),
    "get_inputs returns objects": (operator(inputs="return [object()]"), "is a object"),
    "get_inputs exits": (operator(inputs="os._exit(0)"), "took its process down"),
    "get_inputs forks for ever": (
        operator(inputs="while True:\n        os.fork()\n        time.sleep(0.05)"),
        "more than 512 processes|did not finish|took its process down|raised",
    ),
    "forward returns nothing": (operator(forward="return None"), r"returned nothing \(None\)"),
    "forward returns a number": (operator(forward="return 3.0"), "returned a float"),
    "forward returns an empty tuple": (operator(forward="return ()"), "returned nothing"),
    "forward raises": (
        operator(forward="raise RuntimeError('broken')"),
        r"Model.forward\(\) raised Run.*broken",
    ),
    "sys.exit": (operator(forward="raise SystemExit(0)"), "raised SystemExit"),
    "import fails": ("import nothing_like_it\n" + operator(), "line 1: the file raised ModuleNotFoundError"),
    "no module": (operator().replace("(nn.Module)", ""), "not a torch.nn.Module"),
    "shape changes": (
        operator(inputs="return [torch.rand(int(torch.randint(4, 4000, ()).item()))]"),
        "other shapes from call to call",
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("name", UNUSABLE)
def test_operator_is_refused(name: str) -> None:
    """Protects the worker from operators that fail, hang or devour: a sentence, and no process left."""
    text, words = UNUSABLE[name]
    limits = IMPATIENT if name.endswith(ENDLESS) else Limits()
    with pytest.raises(UnusableInput, match=words) as caught:  # noqa: SIM117
        with EvaluationSession(text, device="opencl", operator_name="mine", limits=limits) as session:
            session.inspect()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("mine.py")
    assert_nothing_left()


def test_operator_that_floods_its_output() -> None:
    """Protects the pipes: what an operator prints is dropped beyond a bound and never blocks it."""
    text = operator(forward="print('x' * 5_000_000); return x * 2")
    with EvaluationSession(text, device="opencl") as session:
        assert not session.inspect().health["blocked"]


def test_tuple_of_tensors_is_supported() -> None:
    """Protects operators with several outputs."""
    text = operator(forward="return x * 2, x.sum()")
    with EvaluationSession(text, device="opencl") as session:
        shapes = [output["shape"] for output in session.inspect().health["outputs"]]
    assert shapes == [[8], []]


def assert_nothing_left() -> None:
    """No judge or runner of this process is alive any more."""
    deadline = time.monotonic() + 5
    while (left := children_named("gpu_eval.")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def children_named(word: str) -> list[str]:
    """Command lines below this process that contain ``word``."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            parents = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if word in command and int(parents[1]) == os.getpid():
            found.append(command)
    return found
