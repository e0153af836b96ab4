"""Operators: upload, change, inspection's result, and the override of a failed gate."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from gpu_eval.errors import UnusableInput
from gpu_eval.limits import MAX_OPERATOR_BYTES
from gpu_eval.operators.source import OperatorSource, decode_operator, parse_operator
from gpu_eval.results import EvaluationPolicy, LibraryPolicy, Precision
from optimizer.choices import OperatorStatus
from optimizer.loop.evaluation import Subject
from optimizer.models import HealthReport, Operator
from optimizer.services.queue import enqueue_background

READ_AT_MOST = MAX_OPERATOR_BYTES + 1  # one byte more tells a file that is too large
VISIBLE = "LNPS"  # letters, numbers, punctuation, symbols: the rest of Unicode shows nothing by itself
BLANK = dict.fromkeys(
    (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800)
)  # Hangul fillers are letters, braille blank a sign
_LINE = re.compile(r"\bline (\d+)")
_NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,120}")


class Refused(ValueError):
    """What was asked cannot be done; the message is one sentence for the person who asked."""


def decode_source(data: bytes, filename: str) -> str:
    """The text of an uploaded file. Raises UnusableInput on a file too large, not UTF-8, or with NUL."""
    return decode_operator(data, PurePath(filename.replace("\\", "/")).name or "operator.py")


def parse(source: str, name: str) -> OperatorSource:
    """Parse without running anything. Raises UnusableInput naming the line."""
    return parse_operator(source, f"{name}.py")


def position_of(error: UnusableInput) -> dict[str, int | None]:
    """Line and column, from 1, that a parse error names; null where it names none."""
    cause = error.__cause__
    if isinstance(cause, SyntaxError):
        return {"line": cause.lineno, "column": cause.offset}
    found = _LINE.search(str(error))
    return {"line": int(found[1]) if found else None, "column": None}


def checked_name(name: str) -> str:
    """A name that is safe in a path and on a page. Raises Refused."""
    name = name.strip()
    if name and not any(unicodedata.category(letter)[0] in VISIBLE for letter in name.translate(BLANK)):
        raise Refused("That name has nothing to see in it: give it a letter, a digit or a sign.")
    if not _NAME.fullmatch(name) or ".." in name or name.startswith("."):
        raise Refused(
            f"The name {name[:60]!r} is not usable: 1 to 120 characters, without slashes, control "
            "characters, '..' or a leading dot."
        )
    return name


def create_operator(
    *,
    name: str,
    source: str,
    owner: Any = None,
    description: str = "",
    precision: str = "fp32",
    library_policy: str = "allow",
    is_sample: bool = False,
) -> Operator:
    """Parse, save and queue the inspection. Nothing is saved when the file is unusable.

    Samples ask for no inspection of their own: they come last of the background work.

    Raises UnusableInput (the source) or Refused (the name), each with one sentence.
    """
    name = checked_name(name)
    parsed = parse(source, name)
    try:
        with transaction.atomic():
            operator = Operator.objects.create(
                name=name,
                source=source,
                content_hash=parsed.content_hash,
                owner=owner,
                description=description or first_line(parsed.docstring),
                precision=precision,
                library_policy=library_policy,
                is_sample=is_sample,
            )
            if not is_sample:
                ask_inspection(operator)
    except IntegrityError:
        raise Refused(f"There is an operator called {name!r} already.") from None
    return operator


def update_operator(operator: Operator, **changes: Any) -> Operator:
    """Change fields; a changed source, precision or policy drops the inspection and queues another.

    Raises UnusableInput or Refused as `create_operator` does; Refused too where runs rest on the present
    source.
    """
    if "name" in changes:
        changes["name"] = checked_name(changes["name"])
    if changes.get("source", operator.source) != operator.source:
        if operator.runs.exists():
            raise Refused(
                "This operator has runs, which rest on its source; upload the new source as a new operator."
            )
        changes["content_hash"] = parse(changes["source"], operator.name).content_hash
    for field, value in changes.items():
        setattr(operator, field, value)
    stale = {"content_hash", "precision", "library_policy"} & set(changes)
    try:
        with transaction.atomic():
            if stale:
                forget_inspection(operator)
            operator.save()
    except IntegrityError:
        raise Refused(f"There is an operator called {changes['name']!r} already.") from None
    return operator


def forget_inspection(operator: Operator, device: str = "auto") -> None:
    """Set an operator back to waiting and queue its inspection; an override of old results ends with them."""
    operator.health_reports.all().delete()
    operator.status, operator.status_reason = OperatorStatus.PENDING, ""
    operator.override_reason, operator.override_by, operator.override_at = "", None, None
    operator.save()
    ask_inspection(operator, device)


def inspect_again(operator: Operator, device: str = "auto") -> None:
    """Queue an inspection. What is known stays until the new report replaces it."""
    if operator.status in {OperatorStatus.INVALID, OperatorStatus.PENDING}:
        operator.status, operator.status_reason = OperatorStatus.PENDING, ""
        operator.save(update_fields=["status", "status_reason"])
    ask_inspection(operator, device)


def ask_inspection(operator: Operator, device: str = "auto") -> None:
    """Note that an inspection is wanted, and wake the background work."""
    operator.inspect_on, operator.inspect_asked_at = device, timezone.now()
    operator.save(update_fields=["inspect_on", "inspect_asked_at"])
    enqueue_background()


def delete_operator(operator: Operator) -> None:
    """Raises Refused while runs rest on it."""
    if operator.runs.exists():
        raise Refused("This operator has runs; delete those first.")
    operator.delete()


def apply_inspection(operator: Operator, report: Any) -> HealthReport:
    """Store what inspection saw (a gpu_eval OperatorReport) and set the operator's family and status from
    it."""
    from optimizer.recipes import coverage

    health = report.health
    device = health["device"]
    covered = coverage(report.graph, report.graph_reason)
    with transaction.atomic():
        stored, _ = HealthReport.objects.update_or_create(
            operator=operator,
            device_kind=device["kind"],
            defaults={
                "device_key": f"{device['kind']}:{device['name']}",
                "report": health,
                "graph": report.graph,
                "graph_reason": report.graph_reason,
            },
        )
        blocked = bool(health["blocked"])
        Operator.objects.filter(pk=operator.pk).update(
            family=covered.family,
            status=OperatorStatus.BLOCKED if blocked else OperatorStatus.READY,
            status_reason=health["sentence"] if blocked else "",
        )
    operator.refresh_from_db()
    return stored


def mark_invalid(operator: Operator, sentence: str) -> None:
    Operator.objects.filter(pk=operator.pk).update(status=OperatorStatus.INVALID, status_reason=sentence)


def mark_not_inspected(operator: Operator, sentence: str) -> None:
    """Inspection could not be made: an operator without a report waits, and says why."""
    Operator.objects.filter(pk=operator.pk, health_reports__isnull=True).update(
        status=OperatorStatus.PENDING, status_reason=sentence
    )


def may_override(operator: Operator, user: Any) -> bool:
    """A failed gate is for the owner or an administrator to override; for anybody where nobody owns it."""
    return user.is_superuser or operator.owner_id in {None, user.pk}


def override_gate(operator: Operator, user: Any, reason: str) -> Operator:
    """Let runs start despite a failed gate.

    Raises Refused unless a gate blocks, a reason is given, and the operator is ``user``'s to decide on.
    """
    if not may_override(operator, user):
        raise Refused("Only the operator's owner or an administrator overrides a failed gate.")
    if not reason.strip():
        raise Refused("An override needs a reason; it is shown beside every result.")
    changed = Operator.objects.filter(pk=operator.pk, status=OperatorStatus.BLOCKED).update(
        override_reason=reason.strip(), override_by=user, override_at=timezone.now()
    )
    if not changed:
        raise Refused("No gate blocks this operator, so there is nothing to override.")
    operator.refresh_from_db()
    return operator


def subject_of(operator: Operator, device: str) -> Subject:
    """What the evaluator needs of an operator. ``device`` is a kind, or "auto"."""
    policy = EvaluationPolicy(
        precision=Precision(operator.precision), library=LibraryPolicy(operator.library_policy)
    )
    return Subject(operator.name, operator.source, device, policy)


def first_line(docstring: str | None) -> str:
    lines = (docstring or "").strip().splitlines()
    return lines[0].strip() if lines else ""
