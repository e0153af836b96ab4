"""CUDA text compiles for an H100-class GPU, checked with nvcc on machines without one."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from gpu_eval.plans import parse_plan
from optimizer.recipes import Schedule, coverage, generate_plan
from tests.recipes.harness import captured
from tests.recipes.operators import RandomPointwise, RandomReduction
from tests.recipes.samples import SAMPLES, load_sample
from tests.recipes.walks import random_schedule

SCHEDULES = [
    Schedule(),
    Schedule(fuse_all=True, vector_width=4, row_strategy="warp", warp_shuffle=True, row_storage="registers",
             streaming_stores=True, streaming_loads=True, index_32bit=True, online_softmax=True, moments="single_pass"),
    Schedule(fuse_all=True, vector_width=4, row_strategy="block", row_storage="shared", fast_math=True,
             hoist_broadcast=True, rows_per_block=2),
    Schedule(row_strategy="split", vector_width=8, accumulators=2, moments="welford", read_only_loads=True,
             broadcast_in_shared=True, fuse_pointwise=True, grid_stride=True, precompute_parameters=True),
]  # fmt: skip


def kernels_of(graph: dict, schedule: Schedule) -> str:
    return parse_plan(generate_plan(graph, schedule, "cuda", {"compute_units": 132})).kernels


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_plans_compile(tmp_path: Path) -> None:
    """Every sample under schedules that between them use every CUDA form, and random operators under random ones."""
    sources = []
    for path in SAMPLES:
        model, inputs = load_sample(path, rows=64, cols=256, batch=2, channels=8, height=16, width=16)
        graph = captured(model, inputs)
        sources += [kernels_of(graph, schedule) for schedule in SCHEDULES]
    for seed in range(10):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        random_model = rng.choice([RandomPointwise, RandomReduction])(rng)
        graph = captured(random_model, random_model.inputs())
        if coverage(graph).covered:
            sources.append(kernels_of(graph, random_schedule(rng, fast=True)))
    whole = "\n".join(f"namespace plan{number} {{\n{source}\n}}" for number, source in enumerate(sources))
    assert len(re.findall(r"__global__", whole)) > len(sources)
    (tmp_path / "plans.cu").write_text(whole)
    done = subprocess.run(
        ["nvcc", "-arch=sm_90", "-cubin", "-o", str(tmp_path / "plans.cubin"), str(tmp_path / "plans.cu")],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:4000]


def test_only_basic_features_are_used() -> None:
    """No inline PTX and nothing beyond sm_70: plans stay portable across generations."""
    model, inputs = load_sample(SAMPLES[0], rows=64, cols=256)
    graph = captured(model, inputs)
    for schedule in SCHEDULES:
        text = kernels_of(graph, schedule)
        assert "asm" not in text
        assert "wgmma" not in text
