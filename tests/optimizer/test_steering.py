"""Steering a live run: wishes take effect at the next step, survive a kill, and are refused in sentences."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from memory.models import Evidence, GlobalNode, LocalNode
from memory.services import ensure_seed_bank
from optimizer.choices import TERMINAL_RUN_STATUSES, RunStatus, Stage
from optimizer.loop import engine, reaper
from optimizer.models import Run, Steer, Step
from optimizer.proposers import SearchState
from optimizer.services.operators import Refused
from optimizer.services.steering import steer, withdraw
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_run, person, plan

pytestmark = pytest.mark.django_db(transaction=True)

FASTER = {index: [f"correct {1 + index / 10}"] for index in range(1, 7)}


class Asking(FateEvaluator):
    """Asks something of the run while its first plan is evaluated, as a person would."""

    def __init__(self, run: Run, ask: Callable[[Run], Any]) -> None:
        super().__init__()
        self.run, self.ask, self.asked = run, ask, False

    def evaluate(self, *args: Any) -> Any:
        if not self.asked:
            self.asked = True
            self.ask(self.run)
        return super().evaluate(*args)


class Listening(ScriptedProposer):
    """Notes the hints that it is given, by step."""

    def __init__(self, script: dict[int, list[str]]) -> None:
        super().__init__(script)
        self.hints: dict[int, list[str]] = {}

    def write(self, state: SearchState, *args: Any) -> Any:
        self.hints[state.step_index] = list(state.hints)
        return super().write(state, *args)


def advance(run: Run, ask: Callable[[Run], Any] = lambda run: None, script: Any = None) -> list[Step]:
    engine.advance(run.pk, Asking(run, ask), proposer=ScriptedProposer(script or FASTER))
    run.refresh_from_db()
    assert run.status == RunStatus.FINISHED, run.error
    return list(run.steps.select_related("direction", "strategy", "result").order_by("index"))


def keys_of(steps: list[Step]) -> list[str | None]:
    return [step.direction.key if step.direction else None for step in steps]


def kinds(run: Run) -> list[str]:
    return [kind for kind in run.events.values_list("kind", flat=True) if kind.startswith("steer.")]


def other_direction(run: Run) -> str:
    """A direction that an undisturbed twin of the run did not take in its second step, and could have."""
    step = run.steps.get(index=2)
    return next(row["key"] for row in reversed(step.decision["scores"]) if row["available"])


@pytest.fixture
def twin() -> Run:
    """A run left in peace."""
    run = make_run()
    advance(run)
    return run


def fresh(twin: Run) -> Run:
    """The same run again on the same memory: the twin's evidence is taken back."""
    Evidence.objects.all().delete()
    from memory.services import recompute_totals

    recompute_totals(twin.bank)
    return make_run(twin.operator, twin.bank)


def test_a_pinned_direction_is_taken_once(twin: Run) -> None:
    """The next step takes it whatever the draw says; the scores stay the policy's, and the step after is free."""
    key = other_direction(twin)
    run = fresh(twin)
    user = person("operator")
    steps = advance(run, lambda run: steer(run, "pin_direction", direction=key, user=user))
    assert keys_of(steps)[1] == key
    assert keys_of(steps)[0] == keys_of(list(twin.steps.order_by("index")))[0]
    decision = steps[1].decision
    assert decision["chosen"] == key
    assert decision["pinned"]["drawn"] == twin.steps.get(index=2).decision["chosen"]
    assert sum(row["probability"] for row in decision["scores"]) == pytest.approx(1.0)
    assert "pinned" not in steps[2].decision
    wish = run.steers.get()
    assert (wish.status, wish.used_by_id) == ("used", steps[1].pk)
    assert kinds(run) == ["steer.added", "steer.applied"]


def test_a_steered_run_and_its_evidence_say_so(twin: Run) -> None:
    """The run is marked for good; of the evidence only that of steered steps is a person's."""
    key = other_direction(twin)
    run = fresh(twin)
    assert not run.human_touched
    advance(run, lambda run: steer(run, "pin_direction", direction=key))
    assert run.human_touched
    marked = dict(Evidence.objects.filter(run_id=run.pk).values_list("step_id", "human_touched"))
    assert [marked[step.pk] for step in run.steps.order_by("index")] == [False, True, False, False]


def test_a_pin_for_the_run_holds_until_it_is_withdrawn(twin: Run) -> None:
    """Every step from the next one on; a withdrawal ends it with the step in hand."""
    key = other_direction(twin)
    run = fresh(twin)
    run.steps_total = 5
    run.save(update_fields=["steps_total"])
    pinned: list[Steer] = []

    class Withdrawing(Asking):
        def evaluate(self, *args: Any) -> Any:
            if self.run.steps.count() == 3 and pinned[0].status != "withdrawn":
                pinned[0] = withdraw(pinned[0])
            return super().evaluate(*args)

    asking = Withdrawing(
        run, lambda run: pinned.append(steer(run, "pin_direction", scope="run", direction=key))
    )
    engine.advance(run.pk, asking, proposer=ScriptedProposer(FASTER))
    steered = ["pinned" in (step.decision or {}) for step in run.steps.order_by("index")]
    assert steered[:4] == [False, True, True, False]
    assert kinds(run) == ["steer.added", "steer.applied", "steer.applied", "steer.withdrawn"]


def test_banned_parts_are_not_taken(twin: Run) -> None:
    """A banned direction gets no probability and says why; a banned strategy is no option."""
    first = twin.steps.get(index=2)
    run = fresh(twin)

    def ban(run: Run) -> None:
        steer(run, "ban_direction", scope="run", direction=first.direction.key)
        left = LocalNode.objects.exclude(direction=first.direction).filter(direction__bank=run.bank)
        for node in left.filter(direction__key="memory-access"):
            steer(run, "ban_strategy", scope="run", direction="memory-access", strategy=node.key)

    steps = advance(run, ban)
    assert first.direction.key not in keys_of(steps)[1:]
    assert "memory-access" not in keys_of(steps)[1:]
    row = next(row for row in steps[1].decision["scores"] if row["key"] == first.direction.key)
    assert (row["available"], row["probability"]) == (False, 0.0)
    assert "person banned" in row["unavailable_reason"]


def test_a_pinned_strategy_brings_its_direction() -> None:
    """The strategy's direction is taken, and within it the strategy, with the reason."""
    run = make_run()
    steer(run, "pin_strategy", direction="fusion", strategy="pointwise-chain")
    first = advance(run)[0]
    assert (first.direction.key, first.strategy.key) == ("fusion", "pointwise-chain")
    assert first.strategy_choice["reason"].startswith("A person pinned it.")


def test_a_pin_that_cannot_be_followed_gives_way(twin: Run) -> None:
    """A direction without a usable strategy is no dead end: the policy decides, and the wish says why."""
    LocalNode.objects.filter(direction__bank=twin.bank, direction__key="tensor-cores").update(retired=True)
    run = fresh(twin)
    steps = advance(run, lambda run: steer(run, "pin_direction", direction="tensor-cores"))
    assert keys_of(steps)[1] not in {None, "tensor-cores"}
    assert steps[1].decision["pin_unmet"]["direction"] == "tensor-cores"
    assert "None of its strategies applies" in run.steers.get().note
    assert "steer.unmet" in kinds(run)


def test_a_hint_reaches_the_proposer_of_the_next_step_only() -> None:
    """The words are part of what the proposer sees, once."""
    run = make_run()
    proposer = Listening(FASTER)
    asking = Asking(run, lambda run: steer(run, "hint", text="  Try <b>wider</b> loads.  "))
    engine.advance(run.pk, asking, proposer=proposer)
    assert proposer.hints == {1: [], 2: ["Try <b>wider</b> loads."], 3: [], 4: []}
    applied = run.events.get(kind="steer.applied").payload
    assert applied["text"] == "Try <b>wider</b> loads."


def test_a_persons_plan_is_judged_like_any_other(twin: Run) -> None:
    """The next step evaluates it instead of asking the proposer; it can win, and says who wrote it."""
    run = fresh(twin)
    user = person("operator")
    text = plan("correct 5.0", block=128)
    steps = advance(
        run, lambda run: steer(run, "plan", text=text, direction="fusion", strategy="whole-graph", user=user)
    )
    candidate = steps[1].result
    assert candidate.plan == text
    assert (candidate.provenance, candidate.note) == ("human", "Written by a-operator")
    assert candidate.evaluations.filter(kind="confirm").exists()
    assert run.best_candidate == candidate
    assert run.best_speedup == pytest.approx(5.0)
    evidence = Evidence.objects.get(step_id=steps[1].pk)
    assert (evidence.proposer, evidence.human_touched) == ("human", True)
    assert evidence.direction.key == "fusion"
    assert steps[2].parent == candidate


def test_a_plan_without_a_direction_teaches_nothing(twin: Run) -> None:
    """It belongs to no part of the memory; the next transition starts where the last direction was."""
    run = fresh(twin)
    steps = advance(run, lambda run: steer(run, "plan", text=plan("correct 1.2")))
    assert steps[1].direction is None
    assert not Evidence.objects.filter(step_id=steps[1].pk).exists()
    third = Evidence.objects.get(step_id=steps[2].pk)
    assert third.edge.source.key == steps[0].direction.key


def test_a_persons_plan_that_fails_is_not_repaired(twin: Run) -> None:
    """Nobody rewrites what a person wrote: the step fails with the verdict."""
    run = fresh(twin)
    steps = advance(run, lambda run: steer(run, "plan", text=plan("wrong"), direction="fusion"))
    assert steps[1].outcome == "wrong"
    assert steps[1].candidates.count() == 1


def test_plans_wait_in_line(twin: Run) -> None:
    """Two plans take two steps, in the order they were given."""
    run = fresh(twin)

    def both(run: Run) -> None:
        for fate in ("correct 1.3", "correct 1.4"):
            steer(run, "plan", text=plan(fate))

    steps = advance(run, both)
    assert [step.result.provenance for step in steps] == ["", "human", "human", ""]
    assert "1.3" in steps[1].result.plan


def test_a_withdrawn_wish_leaves_no_trace(twin: Run) -> None:
    """Taken back before its step: the run goes as if nobody had asked."""
    key = other_direction(twin)
    run = fresh(twin)
    steps = advance(run, lambda run: withdraw(steer(run, "pin_direction", direction=key)))
    assert keys_of(steps) == keys_of(list(twin.steps.order_by("index")))
    assert not run.human_touched
    assert kinds(run) == ["steer.added", "steer.withdrawn"]


def test_a_queued_run_is_steered_in_its_first_step() -> None:
    """No worker is needed to ask."""
    run = make_run()
    steer(run, "pin_direction", direction="fusion")
    assert keys_of(advance(run))[0] == "fusion"


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "inside", "after"])
@pytest.mark.parametrize("stage", [Stage.SUMMARISE, Stage.DIRECTION, Stage.WRITE])
def test_wishes_survive_a_kill(stage: str, when: str, child_environment: dict[str, str]) -> None:
    """kill -9 around the step that takes wishes up: they are used by that step, once."""
    run = make_run()
    steer(run, "ban_direction", scope="run", direction="fusion")
    command = [sys.executable, "-m", "tests.optimizer.kill_at", str(run.pk), "1", stage, when]
    killed = subprocess.run(command, env=child_environment, timeout=120, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert reaper.reap() == [run.pk]
    steps = advance(run)
    assert "fusion" not in keys_of(steps)
    wish = run.steers.get()
    assert (wish.status, wish.used_by_id) == ("active", steps[0].pk)
    applied = [event.payload["index"] for event in run.events.filter(kind="steer.applied")]
    assert applied == [1, 2, 3, 4]


# Refusals.


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"kind": "pin_direction"}, "Name the direction by its key."),
        ({"kind": "pin_direction", "direction": "nowhere"}, "'nowhere' does not exist"),
        ({"kind": "pin_strategy", "direction": "fusion"}, "Name the strategy by its key."),
        ({"kind": "ban_strategy", "direction": "fusion", "strategy": "x"}, "'x' does not exist"),
        (
            {"kind": "ban_direction", "direction": "fusion", "strategy": "whole-graph"},
            "pin or ban the strategy",
        ),
        ({"kind": "hint", "text": "  "}, "A hint has 1 to 2000 characters."),
        ({"kind": "hint", "text": "a" * 2001}, "A hint has 1 to 2000 characters."),
        ({"kind": "hint", "text": "a\x00b"}, "NUL"),
        ({"kind": "hint", "text": "a", "direction": "fusion"}, "names no direction"),
        (
            {"kind": "pin_direction", "direction": "fusion", "text": "a"},
            "Only a hint or a plan carries a text.",
        ),
        ({"kind": "plan", "text": "import os"}, "The plan cannot be used"),
        ({"kind": "plan", "text": "x" * 2_000_000}, "larger than"),
        ({"kind": "plan", "text": plan("correct 2"), "scope": "run"}, "A plan is for one step"),
        ({"kind": "plan", "text": plan("correct 2").replace("opencl", "cuda")}, "The plan"),
        ({"kind": "shout"}, "can be steered by"),
    ],
)
def test_an_unusable_wish_is_refused_in_a_sentence(wish: dict[str, str], says: str) -> None:
    """Nothing is stored and no event tells of it."""
    run = make_run()
    with pytest.raises(Refused, match=says):
        steer(run, **wish)
    assert not run.steers.exists()
    assert kinds(run) == []


def test_a_retired_direction_cannot_be_pinned() -> None:
    """It is never chosen again, by nobody."""
    run = make_run()
    GlobalNode.objects.filter(bank=run.bank, key="fusion").update(retired=True)
    with pytest.raises(Refused, match="is retired"):
        steer(run, "pin_direction", direction="fusion")


def test_everything_cannot_be_banned() -> None:
    """The last direction with a strategy stays."""
    run = make_run()
    keys = list(GlobalNode.objects.filter(bank=run.bank).values_list("key", flat=True))
    for key in keys[:-1]:
        steer(run, "ban_direction", scope="run", direction=key)
    with pytest.raises(Refused, match="would ban everything"):
        steer(run, "ban_direction", scope="run", direction=keys[-1])


def test_wishes_do_not_contradict_each_other() -> None:
    """A second pin, a pin of what is banned, a ban of what is pinned."""
    run = make_run()
    first = steer(run, "pin_direction", direction="fusion")
    with pytest.raises(Refused, match=r"'fusion' .* is pinned already"):
        steer(run, "pin_direction", direction="memory-access")
    with pytest.raises(Refused, match=r"'fusion' .* is pinned; withdraw the pin first"):
        steer(run, "ban_direction", direction="fusion")
    withdraw(first)
    steer(run, "ban_direction", direction="fusion")
    with pytest.raises(Refused, match="is banned; withdraw the ban first"):
        steer(run, "pin_strategy", direction="fusion", strategy="whole-graph")


@pytest.mark.parametrize("status", sorted(TERMINAL_RUN_STATUSES))
def test_a_run_that_has_ended_cannot_be_steered(status: str) -> None:
    """With its state in the sentence."""
    run = make_run(status=status)
    with pytest.raises(Refused, match="cannot be steered any more"):
        steer(run, "hint", text="Too late.")


def test_the_last_step_cannot_be_steered_once_it_has_begun() -> None:
    """A wish that no step would take up is refused."""
    run = make_run(steps_total=1)
    refused: list[str] = []

    def late(run: Run) -> None:
        try:
            steer(run, "hint", text="Late.")
        except Refused as error:
            refused.append(str(error))

    advance(run, late)
    assert refused == ["The last step of this run has begun; no step is left to steer."]


def test_a_used_wish_cannot_be_withdrawn() -> None:
    """It says which step took it up."""
    run = make_run()
    wish = steer(run, "hint", text="Early.")
    advance(run)
    Run.objects.update(status=RunStatus.RUNNING)
    with pytest.raises(Refused, match="used by step 1 already"):
        withdraw(wish)


# REST.


def client(role: str) -> APIClient:
    made = APIClient()
    made.force_authenticate(person(role))
    return made


def test_steering_over_rest() -> None:
    """Ask, list, withdraw; a refusal is 409 with its sentence, and the event stream tells of everything."""
    run = make_run()
    api = client("operator")
    address = f"/api/runs/{run.pk}/steering/"
    answer = api.post(address, {"kind": "pin_direction", "direction": "fusion"}, format="json")
    assert answer.status_code == 201, answer.data
    assert (answer.data["status"], answer.data["created_by"]) == ("waiting", "a-operator")
    clash = api.post(address, {"kind": "pin_direction", "direction": "data-reuse"}, format="json")
    assert clash.status_code == 409
    assert "pinned already" in clash.data["detail"]
    gone = api.delete(f"{address}{answer.data['id']}/")
    assert (gone.status_code, gone.data["status"]) == (200, "withdrawn")
    assert api.delete(f"{address}{answer.data['id']}/").status_code == 409
    assert [row["status"] for row in api.get(address).data["results"]] == ["withdrawn"]
    told = api.get(f"/api/runs/{run.pk}/events/").data["events"]
    assert [event["kind"] for event in told if event["kind"].startswith("steer.")] == [
        "steer.added", "steer.withdrawn"
    ]  # fmt: skip


def test_a_wish_of_another_run_is_not_found() -> None:
    """Addresses name the run."""
    run = make_run()
    other = make_run(run.operator, ensure_seed_bank())
    wish = steer(run, "hint", text="Mine.")
    assert client("operator").delete(f"/api/runs/{other.pk}/steering/{wish.pk}/").status_code == 404


def test_viewers_read_and_do_not_steer() -> None:
    """Asking takes the role operator."""
    run = make_run()
    api = client("viewer")
    address = f"/api/runs/{run.pk}/steering/"
    assert api.get(address).status_code == 200
    assert api.post(address, {"kind": "hint", "text": "No."}, format="json").status_code == 403
