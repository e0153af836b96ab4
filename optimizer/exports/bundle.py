"""A run as one zip: its best verified kernel with everything needed to use it, check it and trace it."""

from __future__ import annotations

import io
import re
import zipfile

from gpu_eval.plans import Plan, parse_plan
from optimizer.exports import records, sources
from optimizer.loop.stages import best_correct
from optimizer.models import Candidate, CandidateEvaluation, Run
from optimizer.serializers import deciding_evaluation
from optimizer.services.operators import Refused

EPOCH = (1980, 1, 1, 0, 0, 0)  # equal runs give equal bytes
DEFAULT_ALLOWED = 1e-4


def bundle_name(run: Run) -> str:
    """The zip's file name: letters, digits and dashes, whatever the operator is called."""
    return f"{folder_name(run)}.zip"


def folder_name(run: Run) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", run.operator.name.lower()).strip("-")[:60]
    return f"{slug or 'operator'}-run-{run.pk}"


def export_run(run: Run) -> bytes:
    """The bundle. Raises Refused with a sentence when the run has no verified kernel."""
    candidate = exported_candidate(run)
    evaluation = deciding_evaluation(candidate)
    assert evaluation is not None  # only evaluated candidates are exported
    files = bundle_files(run, candidate, evaluation)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            info = zipfile.ZipInfo(f"{folder_name(run)}/{name}", EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, text)
    return data.getvalue()


def exported_candidate(run: Run) -> Candidate:
    """The run's best kernel; where none beat PyTorch or a newer checker refuted it, the fastest correct one."""
    best = run.best_candidate
    refuted_by = best.refuted_by if best else None
    candidate = best_correct(run.pk) if best is None or refuted_by else best
    if candidate is not None:
        return candidate
    if refuted_by:
        raise Refused(
            f"Checker {refuted_by} no longer finds this run's best kernel correct; it has no other."
        )
    if run.is_terminal:
        raise Refused("No kernel of this run was verified as correct, so there is nothing to export.")
    raise Refused("This run has no verified kernel yet; export it once a step has reached one.")


def bundle_files(run: Run, candidate: Candidate, evaluation: CandidateEvaluation) -> dict[str, str]:
    """File names to texts."""
    plan = parse_plan(candidate.plan)
    reference = sources.with_preset(run.operator.source, preset_of(run, plan))
    return {
        "kernel.plan.py": candidate.plan,
        sources.source_file(plan.language): plan.kernels.strip("\n") + "\n",
        "model_new.py": sources.model_new(reference, plan),
        "reference.py": reference,
        "verify.py": verify(run, plan, evaluation),
        "verdicts.json": records.verdicts_json(run),
        "verdicts.csv": records.verdicts_csv(run),
        "timings.csv": records.timings_csv(candidate),
        "decisions.json": records.decisions_json(run),
        "versions.json": records.versions_json(run, candidate, evaluation),
        "README.txt": readme(run, plan, candidate, evaluation),
    }


def preset_of(run: Run, plan: Plan) -> str:
    """The preset that was in force where the kernel was evaluated; "" for the file as it stands."""
    report = run.operator.health_reports.filter(device_kind=plan.language).first()
    return (report.report.get("preset") or "") if report else ""


def verify(run: Run, plan: Plan, evaluation: CandidateEvaluation) -> str:
    numbers = [
        check.get("numbers", {}).get("largest_allowed") for check in evaluation.result.get("checks", [])
    ]
    return sources.filled(
        "verify.py.txt",
        {
            "DEVICE": torch_device(plan),
            "PRECISION": run.operator.precision,
            "ALLOWED": max((number for number in numbers if number is not None), default=DEFAULT_ALLOWED),
            "RUNTIME": sources.RUNTIMES[plan.language],
        },
    )


def readme(run: Run, plan: Plan, candidate: Candidate, evaluation: CandidateEvaluation) -> str:
    title = f"{run.operator.name}: run {run.pk}, step {candidate.step.index}"
    preset = preset_of(run, plan)
    device = evaluation.result.get("device") or {}
    return sources.filled(
        "README.txt",
        {
            "TITLE": title,
            "UNDERLINE": "=" * len(title),
            "RESULT": result_sentence(evaluation),
            "DEVICE_NAME": device.get("name", "an unknown device"),
            "PRECISION": run.operator.precision,
            "LIBRARY": "allowed" if run.operator.library_policy == "allow" else "forbidden",
            "PRESET_NOTE": f", with the constants of its preset {preset!r}" if preset else "",
            "PRESET": f", at the sizes of the preset {preset!r}" if preset else "",
            "OVERRIDE": f"A failed gate of the operator was overridden: {run.override_note}\n"
            if run.override_note
            else "",
            "SOURCE_FILE": sources.source_file(plan.language),
            "RUNTIME": sources.RUNTIMES[plan.language],
            "PACKAGES": sources.PACKAGES[plan.language],
            "TO_DEVICE": '.to("cuda")' if plan.language == "cuda" else "",
        },
    )


def result_sentence(evaluation: CandidateEvaluation) -> str:
    if evaluation.speedup is None or evaluation.speedup_low is None or evaluation.speedup_high is None:
        return "Correct; no times were taken."
    interval = f"(95 % interval {evaluation.speedup_low:.2f} to {evaluation.speedup_high:.2f})"
    beaten = "" if evaluation.outcome == "faster" else " It is not faster than PyTorch."
    times = f"{evaluation.speedup:.2f} times as fast as PyTorch eager {interval}"
    return f"{times}, every timed call verified.{beaten}"


def torch_device(plan: Plan) -> str:
    return "cuda" if plan.language == "cuda" else "cpu"
