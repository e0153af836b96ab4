"""One candidate's plan beside another text."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from optimizer.models import Candidate
from optimizer.services.operators import Refused

AGAINST = ("parent", "best", "start", "pytorch")


@dataclass(frozen=True)
class Diff:
    before: str
    after: str
    before_label: str
    after_label: str
    unified: str


def diff(candidate: Candidate, against: str) -> Diff:
    """The candidate's plan after ``against``. Raises Refused where there is nothing of that kind."""
    before, before_label = other_text(candidate, against)
    after_label = label(candidate)
    lines = difflib.unified_diff(
        before.splitlines(), candidate.plan.splitlines(), before_label, after_label, lineterm="", n=4
    )
    unified = "\n".join(lines)
    return Diff(before, candidate.plan, before_label, after_label, unified + "\n" if unified else "")


def other_text(candidate: Candidate, against: str) -> tuple[str, str]:
    run = candidate.step.run
    if against == "pytorch":
        return run.operator.source, f"{run.operator.name} (PyTorch)"
    if against == "parent":
        # The first plan of a run edits PyTorch itself.
        if candidate.parent is None:
            return run.operator.source, f"{run.operator.name} (PyTorch)"
        return candidate.parent.plan, label(candidate.parent)
    if against == "best":
        if run.best_candidate is None:
            raise Refused("This run has no verified best kernel yet.")
        return run.best_candidate.plan, f"{label(run.best_candidate)} (best)"
    if against == "start":
        first = (
            Candidate.objects.filter(step__run=run)
            .select_related("step")
            .order_by("step__index", "attempt")
            .first()
        )
        assert first is not None  # the candidate itself is one
        return first.plan, label(first)
    raise Refused(f"A plan is shown against one of {', '.join(AGAINST)}, not {against!r}.")


def label(candidate: Candidate) -> str:
    repair = f", repair {candidate.attempt}" if candidate.attempt else ""
    return f"step {candidate.step.index}{repair}"
