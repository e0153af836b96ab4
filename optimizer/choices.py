"""Every status of the product with its label, colour and icon: pages, API and exports read them here.

Colours are CSS classes of our own (`static/css/verdicts.css`); icons are Tabler icon names.
"""

from __future__ import annotations

from django.db import models


class OperatorStatus(models.TextChoices):
    PENDING = "pending", "Waiting for inspection"
    READY = "ready", "Ready"
    BLOCKED = "blocked", "Blocked by a gate"
    INVALID = "invalid", "Cannot run"


class RunStatus(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    FINISHED = "finished", "Finished"
    STOPPED = "stopped", "Stopped"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


TERMINAL_RUN_STATUSES = frozenset(
    {RunStatus.FINISHED, RunStatus.STOPPED, RunStatus.CANCELLED, RunStatus.FAILED}
)


class RunRequest(models.TextChoices):
    """What a person asked of a live run; the loop obeys between or within steps."""

    NONE = "", "Nothing"
    PAUSE = "pause", "Pause after this step"
    STOP = "stop", "Stop after this step"
    CANCEL = "cancel", "Cancel now"


class Stage(models.TextChoices):
    """The durable stages of a step, in order. A step's ``stage`` is the one to do next."""

    SUMMARISE = "summarise", "Summarise"
    DIRECTION = "direction", "Direction"
    STRATEGY = "strategy", "Strategy"
    WRITE = "write", "Write"
    EVALUATE = "evaluate", "Evaluate"
    UPDATE = "update", "Update"
    DONE = "done", "Done"


class EvaluationKind(models.TextChoices):
    FIRST = "first", "First measurement"
    CONFIRM = "confirm", "Confirmation in a fresh runner"
    REVERIFY = "reverify", "Re-verification"


class AutoAccept(models.TextChoices):
    """Which of its own proposals to the memory a run may accept without a curator."""

    OFF = "off", "None: all wait for review"
    EDGES = "edges", "Transitions only"
    ALL = "all", "All of them"


class SteerKind(models.TextChoices):
    """What a person can ask of a live run's next step."""

    PIN_DIRECTION = "pin_direction", "Pin a direction"
    BAN_DIRECTION = "ban_direction", "Ban a direction"
    PIN_STRATEGY = "pin_strategy", "Pin a strategy"
    BAN_STRATEGY = "ban_strategy", "Ban a strategy"
    HINT = "hint", "Hint for the proposer"
    PLAN = "plan", "A plan of one's own"


class SteerScope(models.TextChoices):
    NEXT = "next", "The next step"
    RUN = "run", "The rest of the run"


class SteerStatus(models.TextChoices):
    WAITING = "waiting", "Waits for the next step"
    ACTIVE = "active", "Holds for every step"
    USED = "used", "Used"
    WITHDRAWN = "withdrawn", "Withdrawn"


class Provenance(models.TextChoices):
    """Who wrote a candidate."""

    PROPOSER = "", "The run's proposer"
    HUMAN = "human", "A person"


class ReverificationStatus(models.TextChoices):
    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Being judged"
    DONE = "done", "Judged again"
    FAILED = "failed", "Could not be judged"


# Outcome of a step or candidate as shown: (label, colour class, icon). "faster", "correct" and "slower" all come from
# the verdict "correct"; which one depends on the speed-up's interval.
OUTCOMES: dict[str, tuple[str, str, str]] = {
    "faster": ("Faster", "faster", "rocket"),
    "correct": ("Correct", "correct", "check"),
    "slower": ("Slower", "slower", "arrow-down"),
    "wrong": ("Wrong", "wrong", "x"),
    "nondeterministic": ("Nondeterministic", "wrong", "arrows-shuffle"),
    "compile_error": ("Compile error", "compile-error", "code-off"),
    "launch_error": ("Launch error", "compile-error", "player-eject"),
    "crashed": ("Crashed", "crashed", "bolt"),
    "timeout": ("Timeout", "crashed", "clock-x"),
    "out_of_memory": ("Out of memory", "crashed", "database-x"),
    "rejected": ("Rejected", "rejected", "shield-x"),
    "quarantined": ("Quarantined", "rejected", "shield-lock"),
    "no_proposal": ("No proposal", "slower", "ban"),
}


def outcome_of(verdict: str, speedup_low: float | None, speedup_high: float | None) -> str:
    """The key into `OUTCOMES`. A correct kernel is "faster" or "slower" only when its whole interval says so."""
    if verdict != "correct":
        return verdict
    if speedup_low is not None and speedup_low > 1.0:
        return "faster"
    if speedup_high is not None and speedup_high < 1.0:
        return "slower"
    return "correct"
