"""The judge's part of `inspect`: gates, eager and compiled time, the captured graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpu_eval.child import ExpectedFailure
from gpu_eval.judge.stages import describe, operator_stage
from gpu_eval.judge.verdicts import Expected, same_bits

if TYPE_CHECKING:
    from gpu_eval.judge.judge import Judge

BUDGET_S = 2.0
MIN_CALLS, MAX_CALLS = 10, 100
WARM_UPS = 3


def health(judge: Judge, seed: int) -> dict[str, Any]:
    """Eager times, memory and gates. The parent adds what only it knows: device, floor, launch time."""
    with operator_stage("Model.forward()", judge.source.filename):
        judge.begin(seed)
        gates = all_gates(judge)
        samples = time_calls(judge, judge.reference.model, seed)
    weights = judge.reference.weights()
    parameters = list(judge.reference.model.parameters())
    return {
        "inputs": describe_inputs(judge),
        "outputs": [describe_tensor(output) for output in judge.verifier.outputs],
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
        judge.device.flush()
        with judge.device.as_timed():
            elapsed, _ = judge.reference.timed_callable(call, inputs, seed, judge.device.clock)
        if index >= WARM_UPS:
            samples.append(elapsed)
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


# Gates: what would make a verdict about this operator worthless.


def all_gates(judge: Judge) -> list[dict[str, Any]]:
    """Every gate's answer, judged over the operator's own inputs and, where it has them, the variants."""
    rounds = [prepared(judge, index) for index in range(2 + len(judge.usable_variants))]
    return [
        fooled(judge, rounds, "zeros_pass", "An all-zero output", [0.0 for _ in rounds[0].eager]),
        fooled(judge, rounds, "constant_pass", "A constant output", [middle(out) for out in rounds[0].eager]),
        input_gate(judge, rounds),
        depends_gate(rounds),
        deterministic_gate(judge),
        mutation_gate(judge),
    ]


def prepared(judge: Judge, index: int) -> Expected:
    """One check round as a candidate would meet it, with both references computed."""
    judge.prepare(index)
    return judge.current()


def gate(name: str, passed: bool, good: str, bad: str) -> dict[str, Any]:
    return {"name": name, "passed": passed, "sentence": good if passed else bad}


def fooled(judge: Judge, rounds: list[Expected], name: str, what: str, values: list[float]) -> dict[str, Any]:
    """Do outputs filled with fixed ``values`` (an output each) pass every round?"""
    passes = all(
        judge.verifier.compare(
            index, torch.full_like(output, values[index]), expected, judge.own_errors.get(expected.variant)
        ).passed
        for expected in rounds
        for index, output in enumerate(expected.eager)
    )
    return gate(
        name,
        not passes,
        f"{what} is told from the right one.",
        f"{what} passes the tolerance, so a kernel that computes nothing would be called correct.",
    )


def middle(output: torch.Tensor) -> float:
    """The output's mean; its middle element for integers."""
    if output.numel() == 0:
        return 0.0
    if output.is_floating_point():
        return float(output.double().nan_to_num(0.0, 0.0, 0.0).mean())
    return output.reshape(-1)[output.numel() // 2].item()


def input_gate(judge: Judge, rounds: list[Expected]) -> dict[str, Any]:
    """Does some input, handed back, pass every round?"""
    names = [
        name
        for position, name in enumerate(judge.input_names())
        if all(input_passes(judge, expected, position) for expected in rounds)
    ]
    shown = names[0] if names else ""
    return gate(
        "input_passes",
        not names,
        "No input passes as the output.",
        f'The input "{shown}" itself passes as the output, so a kernel that copies it would be correct.',
    )


def input_passes(judge: Judge, expected: Expected, position: int) -> bool:
    """Whether one input equals the only output within the tolerance."""
    value = expected.inputs[position]
    output = expected.eager[0]
    if len(expected.eager) != 1 or not isinstance(value, torch.Tensor):
        return False
    if value.shape != output.shape or value.dtype != output.dtype:
        return False
    return judge.verifier.compare(0, value, expected, judge.own_errors.get(expected.variant)).passed


def depends_gate(rounds: list[Expected]) -> dict[str, Any]:
    """Do different inputs give different outputs?"""
    first = rounds[0]
    varied = any(
        not same_bits(one, other)
        for expected in rounds[1:]
        for one, other in zip(first.eager, expected.eager, strict=True)
    )
    return gate(
        "depends_on_input",
        varied or not rounds[1:],
        "The output depends on the input.",
        "The output is the same whatever the input, so a stored answer would be called correct.",
    )


def deterministic_gate(judge: Judge) -> dict[str, Any]:
    """Does PyTorch give the same answer twice, without being seeded again?"""
    expected = judge.current()
    reference = judge.reference
    one = reference.eager(expected.inputs, expected.seed)
    other = reference.eager(expected.inputs, expected.seed + 1)
    same = all(judge.verifier.repeats(a, b) for a, b in zip(one, other, strict=True))
    return gate(
        "deterministic",
        same,
        "The same input gives the same output.",
        "The same input gives different outputs (forward draws random numbers): no kernel can be compared.",
    )


def mutation_gate(judge: Judge) -> dict[str, Any]:
    """Does forward change its inputs?"""
    expected = judge.current()
    arguments = [value.clone() if isinstance(value, torch.Tensor) else value for value in expected.inputs]
    judge.reference.run_in_place(arguments, expected.seed)
    changed = [
        name
        for name, before, after in zip(judge.input_names(), expected.inputs, arguments, strict=True)
        if isinstance(before, torch.Tensor) and not same_bits(before, after)
    ]
    shown = changed[0] if changed else ""
    return gate(
        "mutates_inputs",
        not changed,
        "Forward leaves its inputs alone.",
        f'Forward changes its input "{shown}" in place, which a plan must not do.',
    )
