"""The state s_t of a step: flat facts that the memory's conditions read, and what a person or a model needs
to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.policy import START
from optimizer import facts as facts_of
from optimizer import reading
from optimizer.choices import EvaluationKind, Provenance
from optimizer.models import Candidate, CandidateEvaluation, HealthReport, Run, Step
from optimizer.recipes import Schedule, naive_schedule, schedule_facts
from optimizer.serializers import deciding_evaluation


def summarise(
    run: Run, step: Step, report: HealthReport, earlier: Sequence[Step], parent: Candidate | None
) -> dict[str, Any]:
    """Everything that this step's decisions read, as JSON. ``earlier`` are the run's finished steps, in
    order."""
    evaluation = deciding_evaluation(parent)
    return {
        "facts": facts(run, step, report, earlier, parent),
        "operator": operator_facts(run, report),
        "best": best_facts(parent, evaluation),
        "last": last_verdict(earlier),
        "recent": [row(previous) for previous in earlier],
        "prefix": prefix(earlier),
    }


def facts(
    run: Run, step: Step, report: HealthReport, earlier: Sequence[Step], parent: Candidate | None
) -> dict[str, Any]:
    """The flat facts. A fact that is not known is left out: the memory then assumes nothing."""
    known: dict[str, Any] = {
        "family": run.operator.family,
        "dtype": dtype_of(report),
        "device_kind": report.device_kind,
        "has_plan": parent is not None,
        "bottleneck": "unknown",
        "step_index": step.index,
        "steps_left": run.steps_total - step.index + 1,
        "failures_in_a_row": failures_in_a_row(earlier),
        "small": is_small(report),
    }
    if earlier:
        known["last_verdict"] = earlier[-1].outcome
        if earlier[-1].direction:
            known["last_direction"] = earlier[-1].direction.key
    if report.graph is not None:
        known.update(schedule_facts(report.graph, schedule_of(run, report, parent)))
    known.update(measured_facts(parent))
    return {name: value for name, value in known.items() if value is not None}


def schedule_of(run: Run, report: HealthReport, parent: Candidate | None) -> Schedule | None:
    """The schedule of a plan that recipes made; None for any other plan. PyTorch itself runs a kernel for
    each operation, as the naive schedule does."""
    if parent is None:
        return naive_schedule(report.device_kind)
    if parent.provenance == Provenance.HUMAN or not (parent.schedule or run.proposer == "recipes"):
        return None
    return Schedule.from_json(parent.schedule)


def measured_facts(parent: Candidate | None) -> dict[str, Any]:
    """What the evaluation of the current best plan showed of the device's use."""
    evaluation = deciding_evaluation(parent)
    return facts_of.measured_facts(evaluation.result) if evaluation else {}


def is_small(report: HealthReport) -> bool | None:
    """Whether the operator takes little longer than launching nothing; None where that was not measured."""
    distance = report.report.get("launch_distance")
    return None if distance is None else distance < facts_of.SMALL_LAUNCH_DISTANCE


def dtype_of(report: HealthReport) -> str:
    """The dtype of the first floating-point input; of the first input where none is."""
    dtypes = [item["dtype"] for item in report.report.get("inputs", []) if item.get("dtype")]
    floating = [dtype for dtype in dtypes if "float" in dtype]
    return (floating or dtypes or ["float32"])[0]


def failures_in_a_row(earlier: Sequence[Step]) -> int:
    count = 0
    for step in reversed(earlier):
        if step.outcome in {"faster", "correct", "slower"}:
            break
        count += 1
    return count


def prefix(earlier: Sequence[Step]) -> list[str]:
    """Keys of the directions taken so far, newest first, with the virtual START last."""
    return [*(step.direction.key for step in reversed(earlier) if step.direction), START]


def operator_facts(run: Run, report: HealthReport) -> dict[str, Any]:
    health = report.report
    names = (
        "inputs",
        "outputs",
        "params_count",
        "flops",
        "bytes",
        "floor_us",
        "eager_us",
        "compile_us",
        "preset",
    )
    return {
        "name": run.operator.name,
        "precision": run.operator.precision,
        "library_policy": run.operator.library_policy,
        "device_key": report.device_key,
        **{name: health.get(name) for name in names},
    }


def best_facts(parent: Candidate | None, evaluation: CandidateEvaluation | None) -> dict[str, Any]:
    """The plan that this step edits; PyTorch itself while there is none."""
    if parent is None or evaluation is None:
        return {"candidate": None, "speedup": 1.0, "source": "PyTorch eager"}
    floor = reading.floor(evaluation.result)
    return {
        "candidate": parent.pk,
        "step": parent.step.index,
        "speedup": evaluation.speedup,
        "time_us": evaluation.time_us,
        "source": parent.note,
        "bottleneck": reading.bottleneck_sentence(evaluation.result),
        "floor": floor["sentence"] if floor else "",
        "peaks": reading.peaks(evaluation.result),
        "kernels": [reading.kernel_sentence(kernel) for kernel in evaluation.result.get("kernels") or []],
    }


def last_verdict(earlier: Sequence[Step]) -> dict[str, Any] | None:
    """How the step before ended, with the check that its plan failed; None before the second step."""
    if not earlier:
        return None
    step = earlier[-1]
    judged = CandidateEvaluation.objects.filter(candidate=step.result_id).exclude(
        kind=EvaluationKind.REVERIFY
    )
    checks = judged.order_by("-pk").values_list("result__checks", flat=True).first()
    failing = reading.failing_check({"checks": checks}) if step.result_id else None
    return {"step": step.index, "outcome": step.outcome, "message": step.message, "check": failing}


def row(step: Step) -> dict[str, Any]:
    return {
        "index": step.index,
        "direction": step.direction.key if step.direction else None,
        "strategy": step.strategy.key if step.strategy else None,
        "outcome": step.outcome,
        "message": step.message,
        "speedup": step.speedup,
        "utility": step.utility,
        "improved": step.improved,
    }
