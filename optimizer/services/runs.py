"""Runs: launch with its checks, an estimate of its length, and what a person may ask of a live one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from htam_site.roles import Role, roles_of
from memory.models import MemoryBank
from memory.policy import PolicyConfig
from optimizer.choices import AutoAccept, OperatorStatus, RunRequest, RunStatus
from optimizer.loop import transitions
from optimizer.loop.methods import METHODS
from optimizer.models import CandidateEvaluation, HealthReport, Operator, Run
from optimizer.proposers import available_proposers, get_proposer
from optimizer.services.operators import Refused
from optimizer.services.queue import enqueue_step

DEVICES = ("auto", "cuda", "opencl")
GUESS_SECONDS = 25.0  # compile, check and time one small kernel twice on a CPU


@dataclass(frozen=True)
class Estimate:
    minutes: float
    basis: str  # where the figure comes from, in a sentence


def launch(
    operator: Operator,
    *,
    user: Any = None,
    bank: MemoryBank | None = None,
    method: str = "htam",
    proposer: str = "recipes",
    device: str = "auto",
    steps_total: int = 6,
    repair_tries: int = 2,
    seed: int = 0,
    policy: dict[str, Any] | None = None,
    auto_accept: str = AutoAccept.OFF,
    auto_accept_evidence: int = 3,
    budget_dollars: Any = None,
    enqueue: bool = True,
) -> Run:
    """Check, save and queue a run. Raises Refused with one sentence; then nothing is saved."""
    check_operator(operator)
    check_choices(method, proposer, device, steps_total, repair_tries, seed)
    check_coverage(operator, proposer, device)
    config = checked_policy(policy or {})
    check_auto_accept(auto_accept, auto_accept_evidence, user)
    with transaction.atomic():
        run = Run.objects.create(
            operator=operator,
            bank=bank or default_bank(),
            method=method,
            proposer=proposer,
            device=device,
            steps_total=steps_total,
            repair_tries=repair_tries,
            seed=seed,
            policy=config,
            auto_accept=auto_accept,
            auto_accept_evidence=auto_accept_evidence,
            budget_dollars=budget_dollars,
            override_note=operator.override_reason if operator.status == OperatorStatus.BLOCKED else "",
            created_by=user,
        )
        transitions.announce(run.pk)
        if enqueue:
            enqueue_step(run.pk)
    run.refresh_from_db()
    return run


def check_operator(operator: Operator) -> None:
    if operator.status == OperatorStatus.READY:
        return
    if operator.status == OperatorStatus.BLOCKED:
        if operator.override_reason:
            return
        raise Refused(
            f"A gate blocks this operator: {operator.status_reason} Its owner can override the gate."
        )
    if operator.status == OperatorStatus.INVALID:
        raise Refused(f"This operator cannot run: {operator.status_reason}")
    raise Refused("This operator waits for its inspection; launch the run when that is done.")


def check_choices(method: str, proposer: str, device: str, steps: int, repairs: int, seed: int) -> None:
    for value, allowed, what in (
        (method, list(METHODS), "method"),
        (proposer, [name for name, _ in available_proposers()], "proposer"),
        (device, list(DEVICES), "device"),
    ):
        if value not in allowed:
            raise Refused(f"There is no {what} {value!r}; choose one of {', '.join(allowed)}.")
    if not 1 <= steps <= 100:
        raise Refused(f"A run takes 1 to 100 steps, not {steps}.")
    if not 0 <= repairs <= 10:
        raise Refused(f"A step takes 0 to 10 repair tries, not {repairs}.")
    if not -(2**63) <= seed < 2**63:
        raise Refused("The seed must fit into 64 bits.")


def check_auto_accept(mode: str, evidence: int, user: Any) -> None:
    """Letting a run change texts of the memory is a curator's decision, as changing them is. ``user`` None is
    the command line."""
    if mode not in AutoAccept.values:
        raise Refused(f"There is no auto-accept {mode!r}; choose one of {', '.join(AutoAccept.values)}.")
    if not 1 <= evidence <= 1000:
        raise Refused(f"Auto-accept takes 1 to 1000 confirmed steps, not {evidence}.")
    if mode != AutoAccept.OFF and user is not None and Role.CURATOR not in roles_of(user):
        raise Refused("Only curators can let a run accept its own proposals to the memory.")


def check_coverage(operator: Operator, proposer: str, device: str) -> None:
    """Raises Refused, naming the operation, where the proposer cannot work on this operator."""
    report = report_for(operator, device)
    if report is None:
        return  # the worker inspects on that device first and checks again
    reason = get_proposer(proposer).refuses(report.graph, report.graph_reason)
    if reason:
        raise Refused(reason)


def checked_policy(policy: dict[str, Any]) -> dict[str, Any]:
    """The policy with every default filled in. Raises Refused on an unknown or unusable setting."""
    try:
        return PolicyConfig.from_json({**PolicyConfig().to_json(), **policy}).to_json()
    except (TypeError, ValueError, KeyError) as error:
        raise Refused(f"The selection policy is not usable: {str(error).rstrip('.')}.") from None


def default_bank() -> MemoryBank:
    bank = MemoryBank.objects.order_by("pk").first()
    if bank is None:
        raise Refused("There is no memory bank yet; load the seed bank first.")
    return bank


def report_for(operator: Operator, device: str) -> HealthReport | None:
    """The inspection on a device kind; for "auto" the newest of any."""
    reports = operator.health_reports.all()
    if device != "auto":
        reports = reports.filter(device_kind=device)
    return reports.first()


def estimate(operator: Operator, steps: int, device: str = "auto") -> Estimate:
    """How long a run may take, from what evaluations took before."""
    own = _seconds_per_step(CandidateEvaluation.objects.filter(candidate__step__run__operator=operator))
    if own is not None:
        return Estimate(_minutes(own * steps), "From this operator's earlier evaluations.")
    others = _seconds_per_step(CandidateEvaluation.objects.all())
    if others is not None:
        return Estimate(_minutes(others * steps), "From earlier evaluations of other operators.")
    return Estimate(_minutes(GUESS_SECONDS * steps), "A guess: nothing was evaluated here yet.")


def _seconds_per_step(evaluations: Any) -> float | None:
    """Median seconds of an evaluation, twice: a new best is measured again."""
    totals = [
        sum(seconds.values())
        for seconds in evaluations.order_by("-pk").values_list("result__phase_seconds", flat=True)[:40]
        if seconds
    ]
    return 2 * statistics.median(totals) if totals else None


def _minutes(seconds: float) -> float:
    return round(max(seconds / 60, 0.1), 1)


def pause(run: Run) -> None:
    """Finish the step in hand, then hold; a run that has not begun is held at once. Raises Refused."""
    if transitions.move_run(run.pk, [RunStatus.QUEUED], RunStatus.PAUSED, request=RunRequest.NONE):
        return
    if not transitions.ask(run.pk, RunRequest.PAUSE, [RunStatus.RUNNING]):
        _refuse(run, RunRequest.PAUSE, "paused")


def resume(run: Run) -> None:
    """Go on after a pause, or take back the request for one. Raises Refused."""
    with transaction.atomic():
        if transitions.move_run(run.pk, [RunStatus.PAUSED], RunStatus.QUEUED, request=RunRequest.NONE):
            enqueue_step(run.pk)
            return
    run.refresh_from_db()
    if run.request == RunRequest.PAUSE and transitions.ask(run.pk, RunRequest.NONE, [RunStatus.RUNNING]):
        return
    raise Refused(f"Only a paused run can resume; this one is {run.get_status_display().lower()}.")


def stop(run: Run) -> None:
    """Finish the step in hand, then close. Raises Refused."""
    waiting = [RunStatus.QUEUED, RunStatus.PAUSED]
    if transitions.move_run(run.pk, waiting, RunStatus.STOPPED, request=RunRequest.STOP):
        return
    if not transitions.ask(run.pk, RunRequest.STOP, [RunStatus.RUNNING]):
        _refuse(run, RunRequest.STOP, "stopped")


def cancel(run: Run) -> None:
    """Close now. The worker that holds the run sees it within a second and kills what it runs. Raises
    Refused."""
    alive = [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED]
    if not transitions.move_run(run.pk, alive, RunStatus.CANCELLED, request=RunRequest.CANCEL):
        _refuse(run, RunRequest.CANCEL, "cancelled")


def _refuse(run: Run, request: RunRequest, done: str) -> None:
    """Raise Refused, unless the same was asked before and is on its way."""
    run.refresh_from_db()
    if not run.is_terminal and run.request == request:
        return
    raise Refused(f"This run is {run.get_status_display().lower()} and cannot be {done}.")
