"""Running a stored run again: the same settings, the memory as it was then, its verdicts instead of new
ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memory.models import MemoryBank
from memory.services import export_bank, import_bank
from optimizer.models import Run
from optimizer.proposers import Proposal
from optimizer.proposers.replay import RecordedStep, ReplayProposer


def launch_arguments(run: Run) -> dict[str, Any]:
    """What `services.runs.launch` needs to launch the same run again, on a copy of its bank as it was."""
    return {
        "bank": bank_before(run),
        "method": run.method,
        "proposer": run.proposer,
        "device": run.device_key.partition(":")[0] or run.device,
        "steps_total": run.steps_total,
        "repair_tries": run.repair_tries,
        "seed": run.seed,
        "policy": run.policy,
        "auto_accept": run.auto_accept,
        "auto_accept_evidence": run.auto_accept_evidence,
    }


def bank_before(run: Run) -> MemoryBank:
    """A copy of the run's bank with the evidence from before the run only.

    Priors and texts are today's: the copy decides as the run did unless somebody edited the bank since.
    """
    data = export_bank(run.bank)
    began = run.started_at or run.created_at
    data["evidence"] = [item for item in data["evidence"] if datetime.fromisoformat(item["at"]) < began]
    data["description"] = f"The bank {run.bank.name!r} as run {run.pk} found it."
    name = base = f"Replay of run {run.pk}"
    number = 2
    while MemoryBank.objects.filter(name=name).exists():
        name, number = f"{base} ({number})", number + 1
    return import_bank(data, name)


def proposer_of(run: Run) -> ReplayProposer:
    """A proposer that issues the run's own choices and plans again."""
    steps = run.steps.select_related("strategy").prefetch_related("candidates").order_by("index")
    return ReplayProposer({step.index: recorded(step) for step in steps})


def recorded(step: Any) -> RecordedStep:
    plans = sorted(step.candidates.all(), key=lambda candidate: candidate.attempt)
    return RecordedStep(
        strategy=step.strategy.key if step.strategy else None,
        reason=step.strategy_choice.get("reason", ""),
        scores=step.strategy_choice.get("scores", []),
        proposals=[
            Proposal(plan.plan, plan.language, plan.schedule, plan.note, plan.lesson) for plan in plans
        ],
        ending=step.message,
    )
