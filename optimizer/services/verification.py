"""Judging stored results again with the present checker, and what follows where it disagrees.

The old verdict stays as it was. A candidate that is no longer correct carries the checker's version as a mark, the
loop builds on it no more, and the memory leaves its evidence out; a later checker that finds it correct again takes
all of that back.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.results import CHECKER_VERSION, EvaluationPolicy, LibraryPolicy, Precision, Protocol
from memory.models import Evidence
from memory.services import set_excluded
from optimizer.choices import EvaluationKind, ReverificationStatus
from optimizer.loop import events, processes
from optimizer.loop.evaluation import Evaluator, NoDevice, OnPhase, Subject
from optimizer.models import Candidate, CandidateEvaluation, Reverification, Run
from optimizer.models.reverifications import OPEN
from optimizer.serializers import deciding_evaluation
from optimizer.services.evaluations import store
from optimizer.services.findings import compare
from optimizer.services.operators import Refused, first_line, subject_of
from optimizer.services.queue import enqueue_background

log = logging.getLogger(__name__)
MARK = "Not confirmed by checker"  # opens the reason of an exclusion that is ours to take back
LOST_AFTER = timedelta(hours=1)  # a re-verification on another host that did not end


# Asking.


def ask(evaluation: CandidateEvaluation, user: Any = None, queue: bool = True) -> Reverification:
    """Ask for a second verdict; one that is waiting or under way already is returned as it is."""
    with transaction.atomic():
        row = Reverification.objects.filter(evaluation=evaluation, status__in=OPEN).first()
        if row is None:
            try:
                with transaction.atomic():
                    row = Reverification.objects.create(evaluation=evaluation, requested_by=user)
            except IntegrityError:  # somebody asked at the same moment
                row = Reverification.objects.get(evaluation=evaluation, status__in=OPEN)
        if queue:
            enqueue_background()
    return row


def ask_run(run: Run, user: Any = None, queue: bool = True) -> list[Reverification]:
    """Ask for every correct result of a run. Raises Refused where it has none."""
    candidates = Candidate.objects.filter(step__run=run, evaluations__verdict="correct").distinct()
    decided = [deciding_evaluation(candidate) for candidate in candidates.order_by("step__index", "attempt")]
    correct = [evaluation for evaluation in decided if evaluation and evaluation.verdict == "correct"]
    if not correct:
        raise Refused(f"Run {run.pk} has no correct result that could be judged again.")
    return [ask(evaluation, user, queue) for evaluation in correct]


def ask_winners(user: Any = None, queue: bool = True) -> list[Reverification]:
    """Ask for the best result of every run that an older checker judged last."""
    runs = outdated_runs().select_related("best_candidate")
    decided = [deciding_evaluation(run.best_candidate) for run in runs]
    return [ask(evaluation, user, queue) for evaluation in decided if evaluation is not None]


def outdated_runs() -> QuerySet[Run]:
    """Runs with a best result that no evaluation by the present checker stands behind, newest first."""
    judged = Run.objects.filter(best_candidate__isnull=False).annotate(
        judged_by=Max("best_candidate__evaluations__checker")
    )
    return judged.filter(judged_by__lt=CHECKER_VERSION).order_by("-id")


def withdraw(reverification: Reverification) -> None:
    """Take back a request that nobody works on yet. Raises Refused."""
    waiting = Reverification.objects.filter(pk=reverification.pk, status=ReverificationStatus.WAITING)
    if not waiting.delete()[0]:
        raise Refused("Only a re-verification that waits can be withdrawn.")


def withdraw_waiting() -> int:
    """Take back every request that nobody works on yet, and count them."""
    return Reverification.objects.filter(status=ReverificationStatus.WAITING).delete()[0]


# Judging.


def judge_next(evaluator: Evaluator, on_phase: Callable[[Reverification, str], None]) -> bool:
    """Judge the one that waits longest. False where none waits."""
    row = claim_next()
    if row is None:
        return False
    judge(row, evaluator, lambda phase: on_phase(row, phase))
    return True


def claim_next() -> Reverification | None:
    """Take one for this process, after freeing those whose process is gone."""
    free_lost()
    for pk in (
        Reverification.objects.filter(status=ReverificationStatus.WAITING).order_by("pk").values_list("pk")
    ):
        if row := claim(pk[0]):
            return row
    return None


def claim(pk: int) -> Reverification | None:
    """Compare-and-set to this process; None where another was quicker."""
    taken = Reverification.objects.filter(pk=pk, status=ReverificationStatus.WAITING).update(
        status=ReverificationStatus.RUNNING, owner=processes.this_process(), started_at=timezone.now()
    )
    if not taken:
        return None
    related = "evaluation__candidate__step__run__operator"
    return Reverification.objects.select_related(related).get(pk=pk)


def free_lost() -> None:
    """Set those back to waiting whose process ended before they did."""
    running = Reverification.objects.filter(status=ReverificationStatus.RUNNING)
    old = set(running.filter(started_at__lt=timezone.now() - LOST_AFTER).values_list("pk", flat=True))
    for pk, owner in running.values_list("pk", "owner"):
        if processes.is_dead(owner) or pk in old:
            running.filter(pk=pk, owner=owner).update(status=ReverificationStatus.WAITING, owner="")


def judge(row: Reverification, evaluator: Evaluator, on_phase: OnPhase) -> None:
    """Evaluate a claimed one and store what came of it; whatever prevents a verdict becomes its error."""
    candidate = row.evaluation.candidate
    kind = EvaluationKind.REVERIFY.value
    try:
        result = evaluator.evaluate(
            subject_of_evaluation(row.evaluation), candidate.plan, candidate.plan_hash, kind, on_phase
        )
    except (UnusableInput, NoDevice, Refused) as error:
        close_without_verdict(row, str(error))
    except EvaluatorFault as error:
        log.exception("The evaluator failed in re-verification %s", row.pk)
        close_without_verdict(row, f"The evaluator failed: {first_line(str(error))}")
    except Exception:
        error_id = uuid.uuid4().hex[:12]
        log.exception("Re-verification %s broke, error %s", row.pk, error_id)
        close_without_verdict(row, f"Something broke on our side; the log has it as {error_id}.")
    else:
        with transaction.atomic():
            after = store(candidate, EvaluationKind.REVERIFY, result, row.evaluation.device_key)
            close(row, status=ReverificationStatus.DONE, result=after)
            settle(candidate, row.evaluation, after)


def close_without_verdict(row: Reverification, sentence: str) -> None:
    close(row, status=ReverificationStatus.FAILED, error=sentence)


def close(row: Reverification, **fields: Any) -> None:
    for name, value in {**fields, "owner": "", "finished_at": timezone.now()}.items():
        setattr(row, name, value)
    row.save()


def subject_of_evaluation(evaluation: CandidateEvaluation) -> Subject:
    """The operator under the policy that the first verdict was reached under, on the same kind of device."""
    operator = evaluation.candidate.step.run.operator
    subject = subject_of(operator, evaluation.device_key.partition(":")[0] or "auto")
    return dataclasses.replace(subject, policy=policy_of(evaluation, subject.policy))


def policy_of(evaluation: CandidateEvaluation, default: EvaluationPolicy) -> EvaluationPolicy:
    """The stored policy; ``default`` where an old result has none, or none that this version knows."""
    stored = evaluation.result.get("policy") or {}
    kinds = {"precision": Precision, "library": LibraryPolicy, "protocol": Protocol}
    try:
        known: dict[str, Any] = {
            name: kinds[name](value) if name in kinds else value for name, value in stored.items()
        }
        return dataclasses.replace(default, **known)
    except (TypeError, ValueError):
        return default


# What follows.


def settle(candidate: Candidate, before: CandidateEvaluation, after: CandidateEvaluation) -> None:
    """Mark or clear the candidate, its evidence and the run's live view. Call inside a transaction."""
    decided = deciding_evaluation(candidate)
    counted = decided is not None and decided.verdict == "correct"
    refuted_by = after.checker if counted and after.verdict != "correct" else None
    Candidate.objects.filter(pk=candidate.pk).update(refuted_by=refuted_by)
    exclude_evidence(candidate, refuted_by, after.message)
    found = compare(before, after)
    payload = {
        "step": candidate.step_id,
        "candidate": candidate.pk,
        "evaluation": after.pk,
        "verdict": after.verdict,
        "checker": after.checker,
        "refuted_by": refuted_by,
        "finding": found.key,
        "sentence": found.sentence,
    }
    events.append(candidate.step.run_id, [("candidate.reverified", payload)])


def exclude_evidence(candidate: Candidate, refuted_by: int | None, message: str) -> None:
    """Leave out of every statistic what a refuted candidate taught, or take it back in where we left it out."""
    if candidate.step.result_id != candidate.pk:
        return  # another attempt of the step taught
    for evidence in Evidence.objects.filter(step_id=candidate.step_id):
        if refuted_by is not None and not evidence.excluded:
            set_excluded(evidence, True, f"{MARK} {refuted_by}: {message}")
        elif refuted_by is None and evidence.excluded and evidence.excluded_reason.startswith(MARK):
            set_excluded(evidence, False)


def summary() -> dict[str, int]:
    """What the verification page counts."""
    counts = {status.value: 0 for status in ReverificationStatus}
    for status in Reverification.objects.filter(status__in=OPEN).values_list("status", flat=True):
        counts[status] += 1
    return {
        "checker": CHECKER_VERSION,
        "outdated": outdated_runs().count(),
        "waiting": counts[ReverificationStatus.WAITING],
        "running": counts[ReverificationStatus.RUNNING],
        "refuted": Run.objects.filter(best_candidate__refuted_by__isnull=False).count(),
    }
