"""How a step takes up what people asked (`optimizer.services.steering`), and what it changes in each stage.

The step's first stage takes every open wish up and writes it into the step's state, in one transaction. Later stages
read the state only: a worker that is killed goes on under the same wishes, and a wish is used up once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpu_eval.plans import parse_plan
from memory.models import GlobalNode, LocalNode
from memory.policy import Decision
from memory.services import StrategyOption
from optimizer.choices import Stage, SteerKind, SteerScope, SteerStatus
from optimizer.loop.context import Saving, StepContext
from optimizer.models import Run, Steer
from optimizer.proposers import Proposal, StrategyChoice
from optimizer.services.steering import OPEN, steer_payload

BANNED = "A person banned it for this run."


def take_up(ctx: StepContext, save: Saving) -> None:
    """Write the open wishes into the step's state. Call while the summary is saved, after the run is locked.

    Of plans the oldest is taken, and the others wait for the steps after.
    """
    wishes = list(ctx.run.steers.filter(status__in=OPEN).select_related("created_by").order_by("pk"))
    plans = [wish for wish in wishes if wish.kind == SteerKind.PLAN]
    taken = [wish for wish in wishes if wish.kind != SteerKind.PLAN] + plans[:1]
    if not taken:
        return
    save.fields["state"] = {**save.fields["state"], "steering": summary_of(taken)}
    for wish in taken:
        first = wish.status == SteerStatus.WAITING
        wish.status = SteerStatus.USED if wish.scope == SteerScope.NEXT else SteerStatus.ACTIVE
        if first:
            wish.used_by = ctx.step
            wish.save(update_fields=["status", "used_by"])
        save.event("steer.applied", step=ctx.step.pk, index=ctx.step.index, **steer_payload(wish))
    Run.objects.filter(pk=ctx.run.pk).update(human_touched=True)
    ctx.run.human_touched = True
    if plans:
        go_to_plan(ctx, save, plans[0])


def summary_of(wishes: Sequence[Steer]) -> dict[str, Any]:
    """The wishes as the step's state holds them. A pin for this step goes before one for the run."""
    pins = [wish for wish in wishes if wish.kind in (SteerKind.PIN_DIRECTION, SteerKind.PIN_STRATEGY)]
    pins.sort(key=lambda wish: wish.scope != SteerScope.NEXT)
    plan = next((wish for wish in wishes if wish.kind == SteerKind.PLAN), None)
    by = sorted({wish.created_by.username for wish in wishes if wish.created_by})
    return {
        "steers": [wish.pk for wish in wishes],
        "by": by,
        "pin": {"steer": pins[0].pk, "direction": pins[0].direction, "strategy": pins[0].strategy}
        if pins
        else None,
        "banned_directions": [w.direction for w in wishes if w.kind == SteerKind.BAN_DIRECTION],
        "banned_strategies": [[w.direction, w.strategy] for w in wishes if w.kind == SteerKind.BAN_STRATEGY],
        "hints": [wish.text for wish in wishes if wish.kind == SteerKind.HINT],
        "plan": plan.pk if plan else None,
    }


def go_to_plan(ctx: StepContext, save: Saving, wish: Steer) -> None:
    """A person's plan needs no choice: straight to writing, under the direction that the person named, if any."""
    save.to = Stage.WRITE
    if wish.direction:
        direction = GlobalNode.objects.filter(bank=ctx.run.bank, key=wish.direction).first()
        strategy = LocalNode.objects.filter(direction=direction, key=wish.strategy).first()
        save.fields |= {"direction": direction, "strategy": strategy}


def of(ctx: StepContext) -> dict[str, Any]:
    """The wishes that this step took up; {} for none."""
    return ctx.step.state.get("steering") or {}


def banned_directions(ctx: StepContext) -> dict[str, str]:
    return dict.fromkeys(of(ctx).get("banned_directions", []), BANNED)


def banned_strategy_ids(ctx: StepContext) -> frozenset[int]:
    """Rows of strategies that this step must not use."""
    pairs = {tuple(pair) for pair in of(ctx).get("banned_strategies", [])}
    if not pairs:
        return frozenset()
    rows = LocalNode.objects.filter(direction__bank=ctx.run.bank, key__in={pair[1] for pair in pairs})
    found = rows.values_list("pk", "direction__key", "key")
    return frozenset(pk for pk, direction, key in found if (direction, key) in pairs)


def pinned(ctx: StepContext, decision: Decision) -> tuple[Decision, dict[str, Any]]:
    """The decision with a pinned direction in place of the drawn one, and what to store beside it.

    The scores stay the policy's own. A pin that cannot be followed gives way to the policy's choice.
    """
    pin = of(ctx).get("pin")
    if not pin:
        return decision, {}
    score = next((row for row in decision.scores if row.key == pin["direction"]), None)
    if score is None or not score.available:
        reason = score.unavailable_reason if score else "It is no longer in the bank."
        return decision, {"pin_unmet": {**pin, "reason": reason}}
    return dataclasses.replace(decision, chosen=pin["direction"]), {
        "pinned": {**pin, "drawn": decision.chosen}
    }


def allowed(ctx: StepContext) -> list[StrategyOption]:
    """The step's options without banned ones."""
    banned = banned_strategy_ids(ctx)
    return [option for option in ctx.options() if option.id not in banned]


def chosen_strategy(ctx: StepContext) -> tuple[StrategyChoice, str]:
    """The proposer's choice under this step's wishes, and why a pinned strategy could not be followed, if so."""
    state, options = ctx.search_state(), allowed(ctx)
    pin = of(ctx).get("pin") or {}
    wanted = (pin.get("direction"), pin.get("strategy"))
    only = [option for option in options if (option.direction, option.key) == wanted]
    if not only:
        return ctx.proposer.choose_strategy(state, options, ctx.rng("strategy")), ""
    choice = ctx.proposer.choose_strategy(state, only, ctx.rng("strategy"))
    if choice.option is not None:
        return dataclasses.replace(choice, reason=f"A person pinned it. {choice.reason}"), ""
    return ctx.proposer.choose_strategy(state, options, ctx.rng("strategy")), choice.reason


def own_plan(ctx: StepContext) -> Proposal | None:
    """The plan that a person put in place of this step's proposal."""
    wish = Steer.objects.select_related("created_by").filter(pk=of(ctx).get("plan") or 0).first()
    if wish is None:
        return None
    by = wish.created_by.username if wish.created_by else "a person"
    return Proposal(wish.text, parse_plan(wish.text).language, {}, f"Written by {by}")


def note_unmet(save: Saving, ctx: StepContext, steer: int, reason: str) -> None:
    """Say on the wish and in the log why it could not be followed."""
    Steer.objects.filter(pk=steer).update(note=reason)
    save.event("steer.unmet", step=ctx.step.pk, steer=steer, reason=reason)
