"""The bundle of a run: complete, safe, and its kernel verified by its own script."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from gpu_eval.plans import parse_plan
from optimizer.exports import sources
from optimizer.exports.bundle import bundle_name, export_run
from optimizer.loop import engine
from optimizer.models import Run
from optimizer.proposers import NoProposal, Proposal, SearchState, StrategyOption
from optimizer.services.operators import Refused
from tests.optimizer.support import (
    OPERATOR,
    FateEvaluator,
    ScriptedProposer,
    make_operator,
    make_run,
    person,
    plan,
)

pytestmark = pytest.mark.django_db(transaction=True)
FILES = {
    "kernel.plan.py",
    "kernels.cl",
    "model_new.py",
    "reference.py",
    "verify.py",
    "verdicts.json",
    "verdicts.csv",
    "timings.csv",
    "decisions.json",
    "versions.json",
    "README.txt",
}
LIBRARY_PLAN = '''# fate: correct 1.5
language = "opencl"
kernels = r"""
__kernel void add_relu(__global const float* x, __global const float* b, __global float* y, int c) {
    int i = get_global_id(0);
    y[i] = fmax(x[i] + b[i % c], 0.0f);
}
"""


def prepare(params):
    # halved here, doubled by the launch count: what prepare returns is what forward sees
    return {"bias": lib.mul(params["bias"], 1.0), "rows": 256}


def forward(x, params):
    doubled = contiguous(transpose(transpose(lib.mul(x, 2.0), 0, 1), 0, 1))
    y = empty(x.shape, dtype=x.dtype)
    half = params["rows"] // 2
    for part in range(2):
        a = slice(doubled, 0, part * half, (part + 1) * half)
        out = slice(y, 0, part * half, (part + 1) * half)
        launch("add_relu", grid=cdiv(a.numel, 64), block=64, args=[a, params["bias"], out, int32(x.shape[1])])
    return y
'''


class Writes(ScriptedProposer):
    """Writes one given plan."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def write(self, state: SearchState, option: StrategyOption, rng: random.Random) -> Proposal | NoProposal:
        return Proposal(self.text, "opencl", {}, "given")


def finished(text: str | None = None, name: str = "twice") -> Run:
    """A run of one step whose plan really computes the operator."""
    run = make_run(make_operator(name), steps_total=1, repair_tries=0)
    engine.advance(run.pk, FateEvaluator(), proposer=Writes(text or plan("correct 2.0")))
    run.refresh_from_db()
    return run


def unpacked(data: bytes, folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)
    (bundle,) = folder.iterdir()
    return bundle


def check(
    bundle: Path, *arguments: str, script: Sequence[str] = ("verify.py",)
) -> subprocess.CompletedProcess[str]:
    """Run a bundle's script where nothing of ours can be imported."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(bundle), "POCL_CACHE_DIR": str(bundle / "cache")}
    command = [sys.executable, *script, *arguments]
    return subprocess.run(
        command, cwd=bundle, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


def test_the_bundle_is_complete(tmp_path: Path) -> None:
    """Every file is there, under one folder, and says what it should."""
    run = finished()
    bundle = unpacked(export_run(run), tmp_path)
    assert bundle.name == f"twice-run-{run.pk}"
    assert {path.name for path in bundle.iterdir()} == FILES
    assert (bundle / "kernel.plan.py").read_text() == plan("correct 2.0")
    assert (bundle / "kernels.cl").read_text().startswith("__kernel void twice")
    assert "2.00 times as fast as PyTorch eager" in (bundle / "README.txt").read_text()
    assert "@" not in (bundle / "README.txt").read_text()
    decisions = json.loads((bundle / "decisions.json").read_text())
    assert decisions["steps"][0]["decision"]["scores"]
    rows = (bundle / "verdicts.csv").read_text().splitlines()
    assert len(rows) == 3
    assert len((bundle / "timings.csv").read_text().splitlines()) == 21
    assert json.loads((bundle / "versions.json").read_text())["plan_sha256"] == run.best_candidate.plan_hash  # type: ignore[union-attr]


@pytest.mark.process
@pytest.mark.parametrize(
    "text", [plan("correct 2.0"), LIBRARY_PLAN], ids=["launch", "library, views, prepare"]
)
def test_verify_passes_on_a_right_kernel(tmp_path: Path, text: str) -> None:
    """The stand-alone module computes the operator with torch and PyOpenCL alone."""
    result = check(unpacked(export_run(finished(text)), tmp_path), "--seeds", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("passed: largest relative error")


@pytest.mark.process
def test_verify_fails_on_a_wrong_kernel(tmp_path: Path) -> None:
    """The script is a check, not a formality."""
    result = check(
        unpacked(export_run(finished(plan("correct 2.0", factor="2.001f"))), tmp_path), "--seeds", "1"
    )
    assert result.returncode == 1, result.stderr
    assert "FAILED" in result.stdout


@pytest.mark.process
def test_model_new_follows_its_weights(tmp_path: Path) -> None:
    """Weights loaded or changed later count, and the output is a plain tensor."""
    bundle = unpacked(export_run(finished(LIBRARY_PLAN)), tmp_path)
    code = """
import torch
from model_new import Model, ModelNew, get_init_inputs, get_inputs
model, new = Model(*get_init_inputs()), ModelNew(*get_init_inputs())
new.load_state_dict(model.state_dict())
x, = get_inputs()
assert torch.allclose(new(x), model(x), atol=1e-5)
with torch.no_grad():
    model.bias.add_(1.0)
    new.bias.add_(1.0)
assert torch.allclose(new(x), model(x), atol=1e-5)
assert type(new(x)) is torch.Tensor and x.shape == (256, 512)
"""
    result = check(bundle, script=("-c", code))
    assert result.returncode == 0, result.stderr


def test_a_name_never_leaves_its_folder() -> None:
    """Whatever an operator is called, file names are letters, digits and dashes."""
    for name in ("../../etc", "a/b\\c", "..", "Ünïcode ☃", "x" * 200, "con; rm -rf"):
        operator = make_operator(f"safe {name[:100]}")
        operator.name = name
        run = Run(pk=3, operator=operator)
        assert bundle_name(run).replace("-", "").replace(".zip", "").isalnum()
        assert bundle_name(run).isascii()


def test_equal_runs_give_equal_bytes() -> None:
    """Nothing in a bundle depends on when it was made."""
    run = finished()
    assert export_run(run) == export_run(run)


def test_without_a_verified_kernel_there_is_a_sentence() -> None:
    """An export of nothing is refused, by the route and by the command."""
    run = finished(plan("wrong"))
    with pytest.raises(Refused, match="nothing to export"):
        export_run(run)
    client = APIClient()
    client.force_authenticate(person("viewer"))
    assert client.get(f"/api/runs/{run.pk}/export/").status_code == 409
    with pytest.raises(CommandError) as caught:
        call_command("export_run", run.pk, out=Path("never.zip"))
    assert caught.value.returncode == 2


def test_the_route_and_the_command_give_the_same(tmp_path: Path) -> None:
    """One bundle, two ways to get it."""
    run = finished()
    client = APIClient()
    client.force_authenticate(person("viewer"))
    answer = client.get(f"/api/runs/{run.pk}/export/")
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == f'attachment; filename="twice-run-{run.pk}.zip"'
    call_command("export_run", run.pk, out=tmp_path / "run.zip", stdout=StringIO())
    assert (tmp_path / "run.zip").read_bytes() == answer.content


def test_no_secret_and_no_account_is_in_a_bundle(settings: Any) -> None:
    """A bundle is given away."""
    run = finished()
    Run.objects.filter(pk=run.pk).update(created_by=person("operator"))
    run.refresh_from_db()
    with zipfile.ZipFile(io.BytesIO(export_run(run))) as archive:
        everything = "".join(archive.read(name).decode() for name in archive.namelist())
    assert settings.SECRET_KEY not in everything
    assert "a-operator" not in everything


def test_a_preset_is_written_into_the_reference() -> None:
    """Constants are set after each assignment, so that what derives from them follows."""
    source = 'N = 8; M = N * 2\nK = (\n    M\n)\nPRESETS = {"cpu": {"N": 2, "M": 6}}\n'
    scope: dict[str, Any] = {}
    exec(
        sources.with_preset(
            "import torch\nclass Model:\n    def forward(self, x): return x\ndef get_inputs(): return []\n"
            + source,
            "cpu",
        ),
        scope,
    )
    assert (scope["N"], scope["M"], scope["K"]) == (2, 6, 6)
    assert sources.with_preset(OPERATOR, "") == OPERATOR


def test_a_plan_of_either_language_becomes_a_module() -> None:
    """The CUDA module is Python too, and names its kernels."""
    cuda = (
        LIBRARY_PLAN.replace('"opencl"', '"cuda"').replace("__kernel", "__global__").replace("__global ", "")
    )
    text = sources.model_new(OPERATOR, parse_plan(cuda))
    compile(text, "model_new.py", "exec")
    assert "_KERNEL_NAMES = ('add_relu',)" in text
    assert "import pycuda" in text
    assert "optimizer" not in text
    assert "gpu_eval" not in text
