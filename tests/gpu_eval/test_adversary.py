"""The corpus of tricks and honest neighbours before the real judge; what needs a GPU runs where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_eval import adversary
from gpu_eval.errors import UnusableInput


@pytest.mark.timeout(900)
def test_every_trick_is_caught_and_no_honest_file_refused(device: str) -> None:
    """The judge's reason to exist: all of tests/adversary gets the verdict that each file names."""
    report = adversary.run(adversary.CORPUS, device)
    failures = [
        f"{outcome.entry.name}: {outcome.verdict}, {outcome.message}"
        for outcome in report.outcomes
        if not outcome.good
    ]
    assert failures == []
    assert len(report.tricks) >= 60
    assert len(report.honest) >= 40
    assert report.passed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("language = 1\n", "trick"),
        ("# trick: T.\n# operator: softmax_rows\n# expect: nonsense\n# threat: t\n", "nonsense"),
    ],
)
def test_a_file_that_says_too_little_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    """A corpus file whose header is unusable would otherwise be left out without anybody noticing."""
    (tmp_path / "odd.py").write_text(text)
    with pytest.raises(UnusableInput, match=says) as caught:
        adversary.read_corpus(tmp_path)
    assert "odd.py" in str(caught.value)


def test_an_unmatched_pattern_is_refused() -> None:
    """Nothing evaluated must not look like everything caught."""
    with pytest.raises(UnusableInput, match="No file"):
        adversary.run(adversary.CORPUS, "opencl", only="no-such-file")
