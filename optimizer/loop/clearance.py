"""No evaluation before this worker's device has shown that it can be judged on.

A worker evaluates the sentinel plans of `gpu_eval.sentinels` once a device when it starts, and writes what became of
them on its heartbeat row. The queue's processes below it wait for that, and refuse where a sentinel failed: an
evaluator that calls a wrong kernel correct, or a slow one fast, would teach the memory nonsense.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils import timezone

from gpu_eval.errors import EvaluatorFault, UnusableInput
from optimizer.loop.evaluation import NoDevice
from optimizer.models import WorkerHeartbeat
from optimizer.services.workers import NAME_VARIABLE

log = logging.getLogger(__name__)
TRIES = 3  # a machine that is busy at the worker's start may blur one round of timing
PAUSE = 10.0  # seconds between them
AGAIN_EVERY = 300.0  # seconds after which a device that failed may show that it is well again
PATIENCE = 600.0  # seconds that an evaluation waits for the outcome
LOOK_EVERY = 0.5
CHECKING, PASSED, FAILED, SKIPPED = "checking", "passed", "failed", "skipped"

Clearance = dict[str, Any]  # state, sentence, results (name, passed, sentence), checked_at


class DeviceRefused(NoDevice):
    """The device's sentinels did not come out as they must; one sentence."""


def under_way() -> Clearance:
    return {"state": CHECKING, "sentence": "The sentinel plans are being evaluated.", "results": []}


def examine(kind: str) -> Clearance:
    """Evaluate the sentinels on a device, again where one fails, and say what became of them."""
    if not settings.SENTINELS:
        return outcome(SKIPPED, "HTAM_SENTINELS is off: nothing was checked.", [])
    found = examine_once(kind)
    for _ in range(TRIES - 1):
        if found["state"] == PASSED:
            break
        log.warning("Sentinels on %s: %s Trying again.", kind, found["sentence"])
        time.sleep(PAUSE)
        found = examine_once(kind)
    return found


def examine_once(kind: str) -> Clearance:
    from gpu_eval.sentinels import check_device

    try:
        results = [dataclasses.asdict(result) for result in check_device(kind)]
    except (EvaluatorFault, UnusableInput) as error:
        return outcome(FAILED, f"The sentinels could not be evaluated: {str(error).splitlines()[0]}", [])
    except Exception as error:
        log.exception("The sentinels on %s broke", kind)
        return outcome(FAILED, f"The sentinels could not be evaluated ({type(error).__name__}).", [])
    failed = [result["sentence"] for result in results if not result["passed"]]
    if failed:
        return outcome(FAILED, " ".join(failed), results)
    return outcome(PASSED, f"All {len(results)} sentinels came out as they must.", results)


def outcome(state: str, sentence: str, results: list[dict[str, Any]]) -> Clearance:
    return {
        "state": state,
        "sentence": sentence,
        "results": results,
        "checked_at": timezone.now().isoformat(timespec="seconds"),
    }


def await_clearance(kind: str, given_up: Callable[[], bool]) -> None:
    """Return once this worker may judge on devices of ``kind``, or ``given_up`` says to stop waiting.

    Raises DeviceRefused where it may not. A process that belongs to no worker, such as a command in the foreground,
    is not held up: its user looks at what it prints.
    """
    name = os.environ.get(NAME_VARIABLE)
    deadline = time.monotonic() + PATIENCE
    while name and not given_up():
        found = clearance_of(name, kind)
        if found["state"] in (PASSED, SKIPPED):
            return
        if found["state"] == FAILED:
            raise DeviceRefused(
                f"This worker does not judge on its {kind} device: {found['sentence']} It is tried again every "
                f"{AGAIN_EVERY / 60:.0f} minutes; see Devices."
            )
        if time.monotonic() > deadline:
            raise DeviceRefused(f"The sentinels on the {kind} device did not end within {PATIENCE:.0f} s.")
        time.sleep(LOOK_EVERY)


def clearance_of(worker: str, kind: str) -> Clearance:
    """What is known by now."""
    stored = WorkerHeartbeat.objects.filter(name=worker).values_list("sentinels", flat=True).first()
    return (stored or {}).get(kind) or under_way()
