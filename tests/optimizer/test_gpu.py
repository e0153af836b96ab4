"""The loop on a real GPU: a run, its export, and the exported module on torch and PyCUDA alone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from memory.services import ensure_seed_bank
from optimizer.choices import RunStatus
from optimizer.exports.bundle import export_run
from optimizer.loop.evaluation import LiveEvaluator
from optimizer.services import foreground, operators
from tests.optimizer.support import OPERATOR

pytestmark = [pytest.mark.gpu, pytest.mark.django_db(transaction=True)]

STREAMS = """
import torch
from model_new import Model, ModelNew, get_init_inputs, get_inputs
model, new = Model(*get_init_inputs()).cuda(), ModelNew(*get_init_inputs()).cuda()
new.load_state_dict(model.state_dict())
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    x, = [value.cuda() for value in get_inputs()]
    out = new(x)
stream.synchronize()
assert torch.allclose(out, model(x), atol=1e-4)
"""


def test_a_run_on_cuda_and_its_bundle(tmp_path: Path) -> None:
    """A verified CUDA kernel leaves as files that need nothing of ours, on torch's own stream too."""
    ensure_seed_bank()
    operator = operators.create_operator(name="twice", source=OPERATOR)
    with LiveEvaluator() as evaluator:
        foreground.ensure_inspected(operator, "cuda", evaluator)
        run = foreground.optimize(operator, evaluator, print, device="cuda", steps_total=2, seed=1)
    assert run.status == RunStatus.FINISHED, run.error
    assert run.device_key.startswith("cuda:")
    with zipfile.ZipFile(io.BytesIO(export_run(run))) as archive:
        archive.extractall(tmp_path)
    (bundle,) = tmp_path.iterdir()
    assert (bundle / "kernels.cu").exists()
    for script in (["verify.py"], ["-c", STREAMS]):
        environment = {**os.environ, "HOME": str(bundle)}
        result = subprocess.run(
            [sys.executable, *script],
            cwd=bundle,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stdout + result.stderr
