"""The judge's part of `inspect`: eager and compiled time, the captured graph; gates are in `gates`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from gpu_eval.child import ExpectedFailure
from gpu_eval.judge.gates import all_gates
from gpu_eval.judge.stages import describe, operator_stage

if TYPE_CHECKING:
    from gpu_eval.judge.judge import Judge

BUDGET_S = 2.0
MIN_CALLS, MAX_CALLS = 10, 100
WARM_UPS = 3


def health(judge: Judge, seed: int) -> dict[str, Any]:
    """Eager times, memory and gates. The parent adds what only it knows: device, floor, launch time."""
    with operator_stage("Model.forward()", judge.source.filename):
        gates = all_gates(judge, seed)
        samples = time_calls(judge, judge.reference.model, seed)
    weights = judge.reference.weights()
    parameters = list(judge.reference.model.parameters())
    return {
        "inputs": describe_inputs(judge),
        "outputs": [describe_tensor(output) for output in judge.verifier.lanes[0].outputs],
        "params_count": sum(value.numel() for value in parameters),
        "params_bytes": sum(value.numel() * value.element_size() for value in weights.values()),
        "samples_us": samples,
        "memory_bytes": judge.device.peak_memory_bytes() or judge.arena.nbytes,
        "gates": gates,
    }


def describe_inputs(judge: Judge) -> list[dict[str, Any]]:
    """Name, shape, dtype and kind of each input."""
    described = []
    for name, value in zip(judge.input_names(), judge.inputs, strict=True):
        if isinstance(value, torch.Tensor):
            described.append({"name": name, **describe_tensor(value), "kind": "tensor"})
        else:
            described.append({"name": name, "shape": [], "dtype": type(value).__name__, "kind": "scalar"})
    return described


def describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and torch's dtype name."""
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def time_calls(judge: Judge, call: Callable[..., Any], seed: int) -> list[float]:
    """Times of ``call`` on fresh inputs, in microseconds: 10 to 100 of them within a budget."""
    samples: list[float] = []
    end = time.monotonic() + BUDGET_S
    for index in range(WARM_UPS + MAX_CALLS):
        inputs = judge.fresh_inputs("own", seed + index)
        once = partial(judge.reference.timed_callable, call, inputs, seed, judge.device.clock)
        timed, _ = judge.device.fastest(once)
        if index >= WARM_UPS:
            samples.append(timed.us)
        if len(samples) >= MIN_CALLS and time.monotonic() > end:
            break
    return samples


def compile_baseline(judge: Judge, seed: int) -> dict[str, Any]:
    """Times of the model under torch.compile. Raises ExpectedFailure ("uncompilable") with the reason."""
    try:
        with torch.no_grad():
            compiled = torch.compile(judge.reference.model)
            samples = time_calls(judge, compiled, seed)
    except ExpectedFailure:
        raise
    except Exception as error:
        raise ExpectedFailure("uncompilable", f"torch.compile failed: {describe(error)}.") from error
    return {"samples_us": samples}


def capture_graph(judge: Judge) -> dict[str, Any]:
    """The ATen graph that recipes read, or the reason why there is none."""
    try:
        from gpu_eval.capture import capture
    except ImportError as error:
        return {"graph": None, "reason": f"No graph capture is installed ({error})."}
    try:
        captured = capture(judge.reference.model, judge.snapshot_inputs())
    except Exception as error:
        return {"graph": None, "reason": f"The graph could not be captured: {describe(error)}."}
    if isinstance(captured, dict):
        return {"graph": captured, "reason": ""}
    return {"graph": None, "reason": str(captured)}
