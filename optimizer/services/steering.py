"""Steering a live run: what a person asks of its next steps, checked, stored and withdrawn.

A wish is a row that waits; the next step to begin takes it up (`optimizer.loop.steering`). Both sides lock the run,
so that a wish is either taken up or withdrawn, never both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from gpu_eval.limits import MAX_PLAN_BYTES
from gpu_eval.plans import PlanError, parse_plan
from gpu_eval.results import LibraryPolicy
from memory.models import GlobalNode, LocalNode
from optimizer.choices import Stage, SteerKind, SteerScope, SteerStatus
from optimizer.loop import events
from optimizer.models import Run, Steer
from optimizer.services.operators import Refused

OPEN = (SteerStatus.WAITING, SteerStatus.ACTIVE)
MAX_OPEN = 50  # wishes of one run that are open at a time
MAX_HINT = 2000  # characters
PINS = (SteerKind.PIN_DIRECTION, SteerKind.PIN_STRATEGY)
BANS = (SteerKind.BAN_DIRECTION, SteerKind.BAN_STRATEGY)
OF_STRATEGY = (SteerKind.PIN_STRATEGY, SteerKind.BAN_STRATEGY)


def steer(
    run: Run,
    kind: str,
    *,
    scope: str = SteerScope.NEXT,
    direction: str = "",
    strategy: str = "",
    text: str = "",
    user: Any = None,
) -> Steer:
    """Ask something of the next step, or of every step from the next one on. Raises Refused."""
    if kind not in SteerKind.values or scope not in SteerScope.values:
        raise Refused(f"A run can be steered by {', '.join(SteerKind.values)}, for `next` or `run`.")
    wish = Steer(run=run, kind=kind, scope=scope, direction=direction, strategy=strategy, text=text)
    wish.created_by = user
    with locked(run) as current:
        check_room(current)
        check_parts(current, wish)
        check_text(current, wish)
        check_against_others(current, wish)
        wish.save()
        events.append(current.pk, [("steer.added", steer_payload(wish))])
    return wish


def withdraw(wish: Steer) -> Steer:
    """Take a wish back: one that waits was never there, one that holds ends with the step in hand. Raises Refused."""
    with locked(wish.run) as run:
        wish.refresh_from_db()
        if wish.status not in OPEN:
            where = f" by step {wish.used_by.index}" if wish.used_by else ""
            raise Refused(f"This wish was {wish.get_status_display().lower()}{where} already.")
        wish.status = SteerStatus.WITHDRAWN
        wish.save(update_fields=["status"])
        events.append(run.pk, [("steer.withdrawn", steer_payload(wish))])
    return wish


@contextmanager
def locked(run: Run) -> Iterator[Run]:
    """The run as it is, held against its worker until the block ends. Raises Refused for one that has ended."""
    with transaction.atomic():
        current = (
            Run.objects.select_for_update(of=("self",)).select_related("operator", "bank").get(pk=run.pk)
        )
        if current.is_terminal:
            raise Refused(
                f"This run is {current.get_status_display().lower()} and cannot be steered any more."
            )
        yield current


def check_room(run: Run) -> None:
    """A step must be left to begin, and wishes are counted."""
    last = run.steps.only("index", "stage").order_by("-index").first()
    begun = last is not None and last.stage != Stage.SUMMARISE
    if last is not None and last.index >= run.steps_total and begun:
        raise Refused("The last step of this run has begun; no step is left to steer.")
    if run.steers.filter(status__in=OPEN).count() >= MAX_OPEN:
        raise Refused(f"{MAX_OPEN} wishes are open for this run; withdraw some first.")


def check_parts(run: Run, wish: Steer) -> None:
    """Directions and strategies must be there and live, where the kind wants them and nowhere else."""
    if wish.kind == SteerKind.HINT:
        if wish.direction or wish.strategy:
            raise Refused("A hint names no direction and no strategy.")
        return
    if not wish.direction:
        if wish.kind == SteerKind.PLAN and not wish.strategy:
            return  # a plan that belongs to no direction teaches the memory nothing
        raise Refused("Name the direction by its key.")
    node = GlobalNode.objects.filter(bank=run.bank, key=wish.direction).first()
    if node is None or node.retired:
        state = "is retired" if node else "does not exist"
        raise Refused(f"The direction {wish.direction!r} {state} in the bank {run.bank.name!r}.")
    if wish.kind in OF_STRATEGY and not wish.strategy:
        raise Refused("Name the strategy by its key.")
    if wish.strategy:
        if wish.kind in (SteerKind.PIN_DIRECTION, SteerKind.BAN_DIRECTION):
            raise Refused("To steer a strategy, pin or ban the strategy itself.")
        part = LocalNode.objects.filter(direction=node, key=wish.strategy).first()
        if part is None or part.retired:
            state = "is retired" if part else "does not exist"
            raise Refused(f"The strategy {wish.strategy!r} {state} in the direction {wish.direction!r}.")


def check_text(run: Run, wish: Steer) -> None:
    """Words for a hint, a plan that parses for a plan, nothing otherwise."""
    if "\x00" in wish.text:
        raise Refused("The text contains a NUL character.")
    if wish.kind == SteerKind.HINT:
        wish.text = wish.text.strip()
        if not 1 <= len(wish.text) <= MAX_HINT:
            raise Refused(f"A hint has 1 to {MAX_HINT} characters.")
    elif wish.kind == SteerKind.PLAN:
        if wish.scope != SteerScope.NEXT:
            raise Refused("A plan is for one step: the next one that is free.")
        check_plan(run, wish.text)
    elif wish.text:
        raise Refused("Only a hint or a plan carries a text.")


def check_plan(run: Run, text: str) -> None:
    """What can be said of a plan before it is judged: it is never executed here."""
    if len(text.encode("utf-8", "replace")) > MAX_PLAN_BYTES:
        raise Refused(f"The plan is larger than {MAX_PLAN_BYTES // 1000} kB.")
    try:
        plan = parse_plan(text, library=LibraryPolicy(run.operator.library_policy))
    except PlanError as error:
        raise Refused(f"The plan cannot be used: {error.describe()}") from None
    kind = run.device_key.partition(":")[0] or (run.device if run.device != "auto" else "")
    if kind and plan.language != kind:
        raise Refused(f"This run is on {kind}, and the plan is written for {plan.language}.")


def check_against_others(run: Run, wish: Steer) -> None:
    """Wishes that are open may not contradict each other, and bans must leave something to choose."""
    others = list(run.steers.filter(status__in=OPEN))
    if wish.kind in PINS:
        clash = next((item for item in others if item.kind in PINS and item.scope == wish.scope), None)
        if clash is not None:
            raise Refused(f"{named(clash)} is pinned already; withdraw that first.")
        ban = next((item for item in others if item.kind in BANS and bans(item, wish)), None)
        if ban is not None:
            raise Refused(f"{named(ban)} is banned; withdraw the ban first.")
    if wish.kind in BANS:
        pin = next((item for item in others if item.kind in PINS and bans(wish, item)), None)
        if pin is not None:
            raise Refused(f"{named(pin)} is pinned; withdraw the pin first.")
        check_something_is_left(run, [*(item for item in others if item.kind in BANS), wish])


def bans(ban: Steer, pin: Steer) -> bool:
    """Whether a ban stands in the way of a pin."""
    if ban.direction != pin.direction:
        return False
    return ban.kind == SteerKind.BAN_DIRECTION or ban.strategy == pin.strategy


def check_something_is_left(run: Run, banned: list[Steer]) -> None:
    directions = {item.direction for item in banned if item.kind == SteerKind.BAN_DIRECTION}
    strategies = {(item.direction, item.strategy) for item in banned if item.strategy}
    live = LocalNode.objects.filter(direction__bank=run.bank, direction__retired=False, retired=False)
    pairs = live.values_list("direction__key", "key")
    if not any(pair[0] not in directions and pair not in strategies for pair in pairs):
        raise Refused("That would ban everything: no strategy would be left to choose.")


def named(wish: Steer) -> str:
    what = wish.strategy or wish.direction
    return f"{what!r} ({wish.get_scope_display().lower()})"


def steer_payload(wish: Steer) -> dict[str, Any]:
    """A wish as events tell of it. A plan's text is fetched on click."""
    return {
        "steer": wish.pk,
        "kind": wish.kind,
        "scope": wish.scope,
        "direction": wish.direction,
        "strategy": wish.strategy,
        "text": "" if wish.kind == SteerKind.PLAN else wish.text,
        "status": wish.status,
        "by": wish.created_by.username if wish.created_by else None,
    }
