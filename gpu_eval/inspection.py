"""The parent's part of `inspect`: the judge's findings next to what only the parent knows, as one report."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from gpu_eval import timing
from gpu_eval.baselines import CompiledBaselines
from gpu_eval.device_slot import device_slot
from gpu_eval.errors import UnusableInput
from gpu_eval.operators.health import Gate, Health, OperatorReport, gate_sentences
from gpu_eval.process import ChildFailure
from gpu_eval.results import Timing
from gpu_eval.roofline import Work, floor_us

if TYPE_CHECKING:
    from gpu_eval.evaluator import EvaluationSession


def inspect_operator(session: EvaluationSession, compile_baseline: bool) -> OperatorReport:
    """Ask the judge for gates, times and the graph; the warm runner for the cost of a launch."""
    launch_us = session.measure_launch()
    session.runners.settle()  # a runner warming up would disturb the times
    with device_slot(session.device.kind):
        judge, limit = session.ready_judge(), session.limits.inspect_s
        found = judge.ask("health", "the operator", limit, seed=secrets.randbits(32))
    graph = capture_graph(session)
    compiled, note = (None, "not measured")
    if compile_baseline:
        compiled, note = measure_compiled(session)
        session.compiled = compiled
        if compiled is not None:
            CompiledBaselines().put(session.baseline_key(), compiled)
    health = build_health(session, found, launch_us, compiled, note)
    return OperatorReport(health=health.to_json(), graph=graph["graph"], graph_reason=graph["reason"])


def capture_graph(session: EvaluationSession) -> dict[str, Any]:
    """``graph`` and ``reason``: an operator that cannot be captured is still an operator."""
    try:
        return session.ready_judge().ask("capture", "Capturing the graph", session.limits.inspect_s)
    except UnusableInput as error:
        return {"graph": None, "reason": str(error)}


def measure_compiled(session: EvaluationSession) -> tuple[Timing | None, str]:
    """torch.compile's times, or None with the reason why there are none."""
    judge = session.ready_judge()
    try:
        answer = judge.ask(
            "compile_baseline",
            "torch.compile",
            session.limits.compile_baseline_s,
            seed=secrets.randbits(32),
        )
    except ChildFailure as error:
        return None, error.message
    except UnusableInput as error:
        return None, str(error)
    return timing.summarise(answer["samples_us"]), ""


def build_health(
    session: EvaluationSession,
    found: dict[str, Any],
    launch_us: float,
    compiled: Timing | None,
    note: str,
) -> Health:
    """The report as one value."""
    work = Work(**session.layout["work"])
    eager_us = timing.median(found["samples_us"])
    gates = [Gate(**gate) for gate in found["gates"]]
    failed = [gate for gate in gates if gate.blocks and not gate.passed]
    return Health(
        inputs=found["inputs"],
        outputs=found["outputs"],
        params_count=found["params_count"],
        params_bytes=found["params_bytes"],
        flops=work.flops,
        bytes=work.bytes,
        floor_us=floor_us(work, session.device),
        eager_us=eager_us,
        compile_us=compiled.median_us if compiled else None,
        compile_note=note,
        launch_distance=eager_us / launch_us,
        memory_bytes=found["memory_bytes"],
        device=session.device,
        preset=session.preset or "",
        precision=session.policy.precision,
        gates=gates,
        blocked=bool(failed),
        sentence=gate_sentences(failed),
    )
