"""The commands: samples, a run in the foreground, its replay, and what they refuse."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django_q.models import OrmQ

from gpu_eval.results import Evaluation
from memory.services import ensure_seed_bank
from optimizer.choices import RunStatus
from optimizer.loop import engine
from optimizer.models import Operator, Run
from tests.optimizer.support import OPERATOR, FateEvaluator, evaluation, make_run

pytestmark = pytest.mark.django_db(transaction=True)


class HashEvaluator(FateEvaluator):
    """Judges any plan: its speed-up is read off its hash."""

    def evaluate(self, subject: Any, plan: str, plan_hash: str, kind: str, on_phase: Any) -> Evaluation:
        return evaluation("correct", 1.0 + int(plan_hash[:4], 16) / 20000)


def optimize(**options: Any) -> dict[str, Any]:
    out = StringIO()
    call_command("optimize", json=True, stdout=out, **options)
    return dict(json.loads(out.getvalue()))


def test_samples_are_loaded_once() -> None:
    """One task waits whatever the number of samples, so that an upload is not behind all of them; a second
    call adds nothing and queues nothing."""
    call_command("load_samples", stdout=StringIO())
    count, queued = Operator.objects.count(), OrmQ.objects.count()
    assert queued == 1
    assert count >= 10
    assert all(operator.is_sample and operator.description for operator in Operator.objects.all())
    call_command("load_samples", stdout=StringIO())
    assert (Operator.objects.count(), OrmQ.objects.count()) == (count, queued)


def test_a_changed_sample_is_renewed_unless_it_has_runs() -> None:
    """A newer release brings newer samples; results keep theirs."""
    call_command("load_samples", stdout=StringIO())
    used, unused = Operator.objects.order_by("name")[:2]
    Operator.objects.filter(pk__in=[used.pk, unused.pk]).update(source="# older\n")
    make_run(used)
    call_command("load_samples", stdout=StringIO())
    used.refresh_from_db()
    unused.refresh_from_db()
    assert used.source == "# older\n"
    assert unused.source != "# older\n"


def test_a_replay_of_a_recipe_run_prints_the_same_decisions() -> None:
    """The recipe proposer, replayed by the command, repeats every choice and plan."""
    run = make_run(steps_total=6, seed=11)
    engine.advance(run.pk, HashEvaluator())
    run.refresh_from_db()
    assert run.status == RunStatus.FINISHED, run.error
    again = optimize(replay=run.pk)
    assert again["run"]["status"] == RunStatus.FINISHED, again["run"]["error"]
    assert again["run"]["id"] != run.pk
    told = [
        (step.direction.key, step.strategy.key, step.outcome, step.utility)
        for step in run.steps.select_related("direction", "strategy").order_by("index")
    ]
    names = ("outcome", "utility")
    assert told == [
        (step["direction"]["key"], step["strategy"]["key"], *(step[name] for name in names))
        for step in again["steps"]
    ]
    assert again["best_plan"] == (run.best_candidate.plan if run.best_candidate else None)


@pytest.mark.process
@pytest.mark.timeout(600)
def test_a_file_is_optimised_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path is enough: uploaded, inspected, optimised on PoCL; progress goes to standard error only."""
    ensure_seed_bank()
    path = tmp_path / "relu_bias.py"
    path.write_text(OPERATOR)
    result = optimize(operator=str(path), steps=1, device="opencl", seed=1)
    assert result["run"]["operator"]["name"] == "relu_bias"
    assert result["run"]["status"] == RunStatus.FINISHED, result["run"]["error"]
    assert [step["index"] for step in result["steps"]] == [1]
    assert result["steps"][0]["outcome"] in {"faster", "correct", "slower"}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "step 1:" in captured.err


@pytest.mark.parametrize(
    ("text", "words"),
    [("def broken(:\n", "line 1"), ("x = 1\n", "no class Model")],
)
def test_an_unusable_file_is_status_two(tmp_path: Path, text: str, words: str) -> None:
    """One sentence, status 2, nothing saved."""
    ensure_seed_bank()
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(CommandError, match=words) as caught:
        optimize(operator=str(path))
    assert caught.value.returncode == 2
    assert not Operator.objects.exists()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"operator": "nobody"},
        {"operator": "twice", "bank": "nowhere"},
        {"operator": "twice", "policy": "{"},
    ],
)
def test_what_is_not_there_is_status_two(options: dict[str, Any], operator: Operator) -> None:
    """An unknown operator, bank or policy is said in a sentence."""
    ensure_seed_bank()
    with pytest.raises(CommandError, match=r"\.$") as caught:
        optimize(**options)
    assert caught.value.returncode == 2
    assert not Run.objects.exists()


def test_the_same_file_is_one_operator(tmp_path: Path) -> None:
    """A file that is known already is not uploaded again; another of the same name gets a number."""
    from optimizer.services.foreground import find_operator

    first, second = tmp_path / "relu.py", tmp_path / "sub" / "relu.py"
    second.parent.mkdir()
    first.write_text(OPERATOR)
    second.write_text(OPERATOR + "\nmore = 1\n")
    assert find_operator(str(first)) == find_operator(str(first))
    assert find_operator(str(second)).name == "relu (2)"
    assert find_operator(str(find_operator(str(first)).pk)).name == "relu"
