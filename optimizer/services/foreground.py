"""A whole run in the foreground: what `manage.py optimize` does, on the same engine as the queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db.models import Q

from gpu_eval.errors import UnusableInput
from memory.models import MemoryBank
from optimizer.choices import OperatorStatus
from optimizer.loop import engine
from optimizer.loop.context import Listener
from optimizer.loop.evaluation import Evaluator
from optimizer.models import Operator, Run
from optimizer.serializers import LIGHT_STEP_PARTS, RunSerializer, StepSerializer
from optimizer.services import operators, runs
from optimizer.services.operators import Refused


def find_operator(named: str) -> Operator:
    """An operator by file path, id or name. A file becomes an operator named after it, once.

    Raises UnusableInput or Refused.
    """
    path = Path(named)
    if path.suffix == ".py" or path.is_file():
        return operator_of_file(path)
    wanted = Q(name=named) | Q(pk=int(named)) if named.isdecimal() and len(named) < 19 else Q(name=named)
    operator = Operator.objects.filter(wanted).order_by("pk").first()
    if operator is None:
        raise Refused(f"There is no operator and no file called {named!r}.")
    return operator


def operator_of_file(path: Path) -> Operator:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from None
    source = operators.decode_source(data, path.name)
    content_hash = operators.parse(source, path.stem).content_hash
    known = Operator.objects.filter(content_hash=content_hash, source=source).order_by("pk").first()
    if known is not None:
        return known
    name = path.stem
    number = 2
    while Operator.objects.filter(name=name).exists():
        name, number = f"{path.stem} ({number})", number + 1
    return operators.create_operator(name=name, source=source)


def find_bank(name: str | None) -> MemoryBank:
    if name is None:
        return runs.default_bank()
    bank = MemoryBank.objects.filter(name=name).first()
    if bank is None:
        names = ", ".join(MemoryBank.objects.values_list("name", flat=True)) or "none yet"
        raise Refused(f"There is no memory bank {name!r}; there are: {names}.")
    return bank


def ensure_inspected(operator: Operator, device: str, evaluator: Evaluator) -> None:
    """Inspect here and now where that was not done on this device kind. Raises UnusableInput."""
    kind = evaluator.default_device() if device == "auto" else device
    done = operator.health_reports.filter(device_kind=kind).exists()
    if done and operator.status != OperatorStatus.PENDING:
        return
    try:
        operators.apply_inspection(operator, evaluator.inspect(operators.subject_of(operator, kind)))
    except UnusableInput as error:
        operators.mark_invalid(operator, str(error))
        raise


def optimize(
    operator: Operator,
    evaluator: Evaluator,
    listener: Listener,
    on_launch: Callable[[Run], None] = lambda run: None,
    **launch: Any,
) -> Run:
    """Launch a run and work it off. Raises Refused; the run's status tells how it ended."""
    run = runs.launch(operator, enqueue=False, **launch)
    on_launch(run)
    engine.advance(run.pk, evaluator, listener)
    run.refresh_from_db()
    return run


def result_of(run: Run) -> dict[str, Any]:
    """The run, its steps and its best plan, as `optimize --json` prints them."""
    steps = (
        run.steps.select_related("run", "direction", "strategy", "result")
        .prefetch_related(*LIGHT_STEP_PARTS)
        .order_by("index")
    )
    return {
        "run": dict(RunSerializer(run).data),
        "steps": [dict(row) for row in StepSerializer(steps, many=True).data],
        "best_plan": run.best_candidate.plan if run.best_candidate else None,
    }
