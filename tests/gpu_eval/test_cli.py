"""The command line: exit statuses, one line on standard error, and JSON alone on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_eval.results import Evaluation, Verdict
from tests.gpu_eval.candidates import HONEST, OPERATOR, plan

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)]

pytestmark = pytest.mark.process


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """``python -m gpu_eval ARGUMENTS``, ended."""
    return subprocess.run(
        [sys.executable, "-m", "gpu_eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An operator with an honest, a wrong and an unparsable plan for OpenCL."""
    home = tmp_path / "suite" / "bias_relu"
    home.mkdir(parents=True)
    (home / "operator.py").write_text(OPERATOR)
    (home / "good.plan.py").write_text(plan("opencl", HONEST))
    (home / "wrong.plan.py").write_text(plan("opencl", "y[i] = 0.0f;"))
    return home


@pytest.mark.parametrize("device", DEVICES)
def test_evaluate_prints_one_json_object(folder: Path, device: str) -> None:
    """Protects scripts: status 0, and standard output parses as one evaluation."""
    (folder / "one.plan.py").write_text(plan(device, HONEST))
    done = command("evaluate", folder / "operator.py", folder / "one.plan.py", "--json", "--seed", 3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    evaluation = Evaluation.from_json(json.loads(done.stdout))
    assert evaluation.verdict is Verdict.CORRECT
    assert evaluation.device is not None
    assert evaluation.device.kind == device
    assert evaluation.seed == 3


def test_wrong_kernel_is_a_result(folder: Path) -> None:
    """Protects the meaning of status 0: a wrong kernel is a verdict."""
    done = command("evaluate", folder / "operator.py", folder / "wrong.plan.py")
    assert done.returncode == 0
    assert "verdict    wrong" in done.stdout


def test_kernelbench_protocol_is_labelled(folder: Path) -> None:
    """Protects figures: which protocol made one is stored with it."""
    done = command(
        "evaluate", folder / "operator.py", folder / "good.plan.py", "--protocol", "kernelbench", "--json"
    )
    data = json.loads(done.stdout)
    assert data["verdict"] == "correct"
    assert data["policy"]["protocol"] == "kernelbench"


def test_forbidden_construct_is_a_verdict(folder: Path) -> None:
    """Protects the difference between an unusable file and a refused plan."""
    (folder / "bad.plan.py").write_text('language = "opencl"\nkernels = ""\nimport os\n')
    done = command("evaluate", folder / "operator.py", folder / "bad.plan.py", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert data["verdict"] == "rejected"
    assert ":3:" in data["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "missing.py", "missing.plan.py"),
        ("inspect", "missing.py", "--json"),
        ("inspect", "{broken}", "--json"),
        ("inspect", "{folder}/operator.py", "--preset", "unknown"),
        ("batch", "{folder}"),
        ("evaluate", "{folder}/operator.py"),
        ("evaluate", "{folder}/operator.py", "{folder}/good.plan.py", "--device", "abacus"),
        ("frobnicate",),
        (),
    ],
)
def test_unusable_input_is_status_two_with_one_line(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Protects scripts: status 2, nothing on standard output, one line on standard error."""
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    done = command(*(text.format(folder=folder, broken=broken) for text in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_inspect_prints_the_health_report(folder: Path) -> None:
    """Protects the report's keys, which the pages read."""
    done = command("inspect", folder / "operator.py", "--device", "opencl", "--json")
    assert done.returncode == 0, done.stderr
    health = json.loads(done.stdout)
    keys = """
        inputs outputs params_count params_bytes flops bytes floor_us eager_us compile_us compile_note
        launch_distance memory_bytes device preset precision gates blocked sentence graph graph_reason
    """
    assert set(keys.split()) <= set(health)
    assert health["preset"] == "cpu"
    assert health["inputs"] == [{"name": "x", "shape": [64, 256], "dtype": "float32", "kind": "tensor"}]
    assert health["bytes"] == 4 * (2 * 64 * 256 + 256)
    assert [gate["name"] for gate in health["gates"] if gate["blocks"]] == [
        "zeros_pass", "constant_pass", "input_passes", "depends_on_input", "deterministic", "mutates_inputs",
        "well_conditioned",
    ]  # fmt: skip


def test_batch_prints_a_line_a_verdict(folder: Path) -> None:
    """Protects batches: one JSON object a line, unusable operators named and the rest judged all the same."""
    (folder / "unreadable.plan.py").write_bytes(b"\xff\xfe")
    done = command("batch", folder.parent, "--device", "opencl", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    verdicts = {line["plan"]: line.get("verdict") for line in lines}
    assert verdicts == {"good.plan.py": "correct", "wrong.plan.py": "wrong", "unreadable.plan.py": None}
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_devices_lists_what_is_here() -> None:
    """Protects the device list: at least the CPU through OpenCL."""
    done = command("devices", "--json")
    kinds = [device["kind"] for device in json.loads(done.stdout)["devices"]]
    assert "opencl" in kinds or "cuda" in kinds
