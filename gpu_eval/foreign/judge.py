"""What the judge does for foreign modules beside what it does for plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpu_eval.foreign.values import encode, random_state
from gpu_eval.judge.stages import operator_stage
from gpu_eval.operators.loading import seeded

if TYPE_CHECKING:
    from gpu_eval.judge.judge import Judge


def init_inputs(judge: Judge, seed: int) -> dict[str, Any]:
    """The constructor's arguments under ``seed``, as at `build`, and torch's random state right after: with both a
    module draws the weights that the operator drew, and no seed leaves this process."""
    device = judge.device.name
    with operator_stage("get_init_inputs()", judge.source.filename), seeded(seed, device):
        with torch.device(device):
            give = getattr(judge.reference.module, "get_init_inputs", None)
            given = give() if give is not None else []
        return {"given": encode(given), "random": random_state()}


def evict(judge: Judge) -> None:
    """Leave nothing of the last call in the device's cache, as `baseline` does for PyTorch: a foreign process
    cannot be asked to do it for itself."""
    if judge.device.kind == "cuda":
        judge.device.wall_clock(lambda: None)
