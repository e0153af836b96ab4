"""Preview before saving: which stored choices a change flips, computed from decompositions, and true afterwards."""

from __future__ import annotations

import copy
import json
import random
import time

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from memory.models import GlobalNode, LocalNode
from memory.policy import (
    POOLED,
    START,
    BucketTotals,
    DirectionView,
    EdgeView,
    PolicyConfig,
    StrategyView,
    rank_strategies,
    select_direction,
)
from memory.policy.whatif import Change, Priors, direction_choice, drawn, first_draw, strategy_choice
from memory.preview import StoredDecision, preview, priors_of
from memory.services import ensure_seed_bank
from optimizer.loop import engine
from optimizer.models import Run, Step
from optimizer.services.decisions import stored_decisions
from tests.optimizer.support import FateEvaluator, ScriptedProposer, make_operator, make_run

KEYS = ["access", "fusion", "launch", "reuse"]
utilities = st.floats(-1, 1)
totals = st.lists(utilities, max_size=6).map(
    lambda us: [BucketTotals("cuda:H200", "float32", "pointwise", len(us), sum(us))] if us else []
)


@st.composite
def graphs(draw):
    """Directions and edges with evidence, by key, and a prefix."""
    directions = {key: DirectionView(key, key, draw(utilities), (), draw(totals)) for key in KEYS}
    pairs = draw(st.lists(st.tuples(st.sampled_from([START, *KEYS]), st.sampled_from(KEYS)), unique=True))
    edges = {pair: EdgeView(draw(utilities), draw(totals), number) for number, pair in enumerate(pairs)}
    prefix = [*draw(st.lists(st.sampled_from(KEYS), max_size=4)), START]
    return directions, edges, prefix


def decide(graph, seed, config=None):
    directions, edges, prefix = graph
    rng = random.Random(seed)
    return select_direction(
        list(directions.values()), edges, prefix, {}, POOLED, config or PolicyConfig(), rng
    )


def stored(decision):
    """A decision as a step stores it."""
    return json.loads(json.dumps(decision.to_json()))


@given(graphs(), st.integers())
def test_an_empty_change_is_the_stored_decision(graph, seed):
    """Without a change nothing flips, and no probability moves by a bit."""
    decision = decide(graph, seed)
    again = direction_choice(stored(decision), Change(), Priors())
    assert again.chosen == decision.chosen
    assert again.probabilities == {score.key: score.probability for score in decision.scores}


@given(graphs(), st.integers(), st.sampled_from(KEYS), utilities, st.floats(0.5, 20))
def test_a_changed_direction_is_what_selection_then_decides(graph, seed, key, prior, n0):
    """The preview of a prior and of n0 is what the policy decides with them, from the same random number."""
    directions, edges, prefix = graph
    change = Change(Priors({key: prior}), {"n0": n0})
    ahead = direction_choice(stored(decide(graph, seed)), change, Priors())
    view = directions[key]
    changed = {**directions, key: DirectionView(key, key, prior, (), view.totals)}
    then = decide((changed, edges, prefix), seed, PolicyConfig(n0=n0))
    for score in then.scores:
        assert ahead.probabilities[score.key] == pytest.approx(score.probability, abs=1e-9)
    near = min(abs(then.draw - edge) for edge in cumulated(then)) < 1e-9  # rounding may decide there
    assert near or ahead.chosen == then.chosen


def cumulated(decision):
    reach, edges = 0.0, [0.0]
    for score in sorted(decision.scores, key=lambda score: score.key):
        reach += score.probability
        edges.append(reach)
    return edges


@given(graphs(), st.integers(), st.sampled_from([START, *KEYS]), st.sampled_from(KEYS), utilities)
def test_a_changed_edge_is_what_selection_then_decides(graph, seed, source, target, prior):
    """The same for transitions, those that the bank lacks included."""
    directions, edges, prefix = graph
    ahead = direction_choice(
        stored(decide(graph, seed)), Change(Priors(edges={(source, target): prior})), Priors()
    )
    old = edges.get((source, target), EdgeView())
    changed = {**edges, (source, target): EdgeView(prior, old.totals, old.id)}
    then = decide((directions, changed, prefix), seed)
    for score in then.scores:
        assert ahead.probabilities[score.key] == pytest.approx(score.probability, abs=1e-9)


@given(st.lists(utilities, min_size=1, max_size=6), st.integers(), st.data())
def test_a_changed_strategy_is_what_the_proposer_then_draws(priors, seed, data):
    """The softmax over usable strategies is drawn again with the generator's own number."""
    views = [StrategyView(f"s{index}", "", "d", prior) for index, prior in enumerate(priors)]
    scores = scores_of(views)
    index = data.draw(st.integers(0, len(views) - 1))
    new = data.draw(utilities)
    config = PolicyConfig().to_json()
    today = Priors(strategies={("d", view.key): view.prior for view in views})
    change = Change(Priors(strategies={("d", f"s{index}"): new}))
    draw = first_draw(f"{seed}")
    ahead = strategy_choice("d", scores, config, 0.12, draw, change, today)
    views[index] = StrategyView(f"s{index}", "", "d", new)
    by_key = {row["key"]: row["score"] for row in scores_of(views)}
    keys = [row["key"] for row in scores]
    top = max(by_key.values())
    weights = [pow(2.718281828459045, (by_key[key] - top) / 0.12) for key in keys]
    total = sum(weights)
    assert [ahead.probabilities[key] for key in keys] == pytest.approx([w / total for w in weights])
    chosen = random.Random(f"{seed}").choices(keys, [ahead.probabilities[key] for key in keys])[0]
    assert ahead.chosen == chosen


def scores_of(views):
    ranked = rank_strategies(views, {}, POOLED, PolicyConfig())
    return [{"key": row.key, "score": row.value, "n": row.n, "usable": True} for row in ranked]


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.integers())
def test_drawn_is_what_choices_picks(weights, seed):
    """The same stretch of the same cumulated weights as `random.choices`."""
    keys = [str(index) for index in range(len(weights))]
    assert drawn(keys, weights, first_draw(f"{seed}")) == random.Random(f"{seed}").choices(keys, weights)[0]


def test_flat_decisions_are_counted_apart():
    """Without the hierarchy a direction has no terms; such steps are reported, not guessed."""
    decision = decide(({key: DirectionView(key) for key in KEYS}, {}, [START]), 1)
    flat = {**stored(decision), "mode": "flat"}
    row = StoredDecision(1, 1, 1, "op", flat, "access", "", [], 0.0, 0.12)
    found = preview([row], Change(Priors({"access": 1.0})), Priors())
    assert (found.steps, found.flat, found.direction_flips) == (1, 1, 0)


def test_decisions_from_before_priors_were_stored_use_todays():
    """Older decisions lack the priors; the bank's present ones stand in."""
    graph = (
        {key: DirectionView(key, prior=0.2) for key in KEYS},
        {(START, "access"): EdgeView(0.3, (), 7)},
        [START],
    )
    old = stored(decide(graph, 3))
    bare = copy.deepcopy(old)
    for score in bare["scores"]:
        del score["prior"]
        for term in score["prefix_terms"]:
            del term["prior"]
    today = Priors(dict.fromkeys(KEYS, 0.2), {(START, "access"): 0.3})
    change = Change(Priors({"fusion": -0.5}, {(START, "access"): 0.9}))
    assert direction_choice(bare, change, today) == direction_choice(old, change, Priors())


def test_two_thousand_steps_are_previewed_quickly():
    """Nothing but arithmetic on what was stored: far under a second for each thousand steps of a large bank."""
    keys = [f"direction-{number}" for number in range(60)]
    directions = {key: DirectionView(key, key, 0.1) for key in keys}
    decision = stored(decide((directions, {}, [keys[0], keys[1], START]), 1))
    row = StoredDecision(1, 1, 1, "op", decision, keys[0], "", [], 0.0, 0.12)
    started = time.process_time()
    found = preview((row for _ in range(2000)), Change(Priors({keys[5]: 0.9})), Priors())
    assert found.steps == 2000
    assert time.process_time() - started < 20  # an order of magnitude above what it takes


# On stored runs of the real loop.

pytestmark = pytest.mark.django_db(transaction=True)


def work_off(run: Run) -> Run:
    engine.advance(run.pk, FateEvaluator(), proposer=ScriptedProposer())
    run.refresh_from_db()
    return run


@pytest.fixture
def runs() -> list[Run]:
    """Six finished runs on a frozen seed bank: nothing but the seed tells them apart."""
    operator = make_operator()
    bank = ensure_seed_bank()
    policy = PolicyConfig(frozen=True).to_json()
    made = [make_run(operator, bank, seed=seed, policy=policy, steps_total=1) for seed in range(6)]
    return [work_off(run) for run in made]


def test_a_previewed_flip_happens(runs):
    """What the preview says the same seed would choose is what it chooses once the prior is saved."""
    bank = runs[0].bank
    before = {run.seed: run.steps.get(index=1).direction.key for run in runs}
    change = Change(Priors({"launch-overhead": 1.0, "fusion": -1.0}))
    found = preview(stored_decisions(bank, 100), change, priors_of(bank)).to_json()
    assert found["direction_flips"] > 0
    flips = {row["run"]: row["after"]["key"] for row in found["flips"]}
    GlobalNode.objects.filter(bank=bank, key="launch-overhead").update(prior_utility=1.0)
    GlobalNode.objects.filter(bank=bank, key="fusion").update(prior_utility=-1.0)
    for run in runs:
        again = make_run(run.operator, bank, seed=run.seed, policy=run.policy, steps_total=1)
        chosen = work_off(again).steps.get(index=1).direction.key
        assert chosen == flips.get(run.pk, before[run.seed])


def test_the_endpoint_lists_flips_with_links(runs, client_as):
    """Flips, counts and shifts come with probabilities before and after and an address; nothing is saved."""
    bank = runs[0].bank
    versions = list(GlobalNode.objects.values_list("pk", "version", "prior_utility"))
    changes = [("launch-overhead", 1.0), ("fusion", -1.0)]
    body = {"changes": [{"kind": "direction", "key": key, "prior": prior} for key, prior in changes]}
    answer = client_as("viewer").post(f"/api/banks/{bank.pk}/preview/", body, format="json")
    assert answer.status_code == 200, answer.data
    data = answer.json()
    assert data["steps"] == len(runs)
    assert len(data["flips"]) == data["direction_flips"] > 0
    flip = data["flips"][0]
    assert flip["url"].startswith(reverse("runs:detail", args=[flip["run"]]))
    assert flip["before"]["probability_after"] != flip["before"]["probability_before"]
    shift = data["shifts"][0]
    assert (shift["key"], shift["kind"]) == ("fusion", "direction")
    assert shift["probability_after"] < shift["probability_before"]
    moved = {row["key"]: row["after"] - row["before"] for row in data["expected_choices"]}
    assert moved["fusion"] < 0
    assert sum(moved.values()) == pytest.approx(0.0)
    assert list(GlobalNode.objects.values_list("pk", "version", "prior_utility")) == versions


def test_strategy_flips_follow_the_recipe_proposers_draw(client_as):
    """A strategy's new prior flips the stored draw among a direction's usable strategies, and then does."""
    operator, bank = make_operator(), ensure_seed_bank()
    policy = PolicyConfig(frozen=True).to_json()
    for seed in range(8):
        run = make_run(operator, bank, seed=seed, policy=policy, steps_total=1)
        engine.advance(run.pk, AnyPlan())
        assert run.steps.get().strategy is not None
    step = Step.objects.filter(strategy_choice__scores__1__usable=True).first()
    assert step is not None, "some step chose among several strategies"
    usable = [row["key"] for row in step.strategy_choice["scores"] if row["usable"]]
    other = next(key for key in usable if key != step.strategy.key)
    direction = step.direction.key
    changes = [
        {"kind": "strategy", "direction": direction, "key": step.strategy.key, "prior": -1.0},
        {"kind": "strategy", "direction": direction, "key": other, "prior": 1.0},
    ]
    answer = client_as("viewer").post(f"/api/banks/{bank.pk}/preview/", {"changes": changes}, format="json")
    flips = {row["step"]: row["after"]["key"] for row in answer.json()["flips"]}
    assert answer.json()["strategy_flips"] == len(flips) > 0
    assert flips[step.pk] == other
    LocalNode.objects.filter(pk=step.strategy_id).update(prior_utility=-1.0)
    LocalNode.objects.filter(direction=step.direction, key=other).update(prior_utility=1.0)
    again = make_run(operator, bank, seed=step.run.seed, policy=policy, steps_total=1)
    engine.advance(again.pk, AnyPlan())
    assert again.steps.get().strategy.key == other


class AnyPlan(FateEvaluator):
    """Judges every plan correct at 1.5 times eager: recipes write plans without a fate."""

    def evaluate(self, subject, plan, plan_hash, kind, on_phase):
        return super().evaluate(subject, f"# fate: correct 1.5\n{plan}", plan_hash, kind, on_phase)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "Propose a change"),
        ({"changes": [{"kind": "direction", "key": "nowhere", "prior": 0.1}]}, "no direction 'nowhere'"),
        ({"changes": [{"kind": "direction", "prior": 0.1}]}, "Name the key of this direction."),
        ({"changes": [{"kind": "direction", "key": "fusion", "prior": 2}]}, "less than or equal to 1"),
        (
            {"changes": [{"kind": "strategy", "direction": "fusion", "key": "x", "prior": 0}]},
            "no strategy 'x'",
        ),
        ({"changes": [{"kind": "edge", "source": "START", "target": "x", "prior": 0}]}, "no direction 'x'"),
        ({"settings": {"seed": 3}}, "'seed' cannot be previewed"),
        ({"settings": {"n0": -1}}, "n0 must lie between"),
        ({"settings": {"n0": 8}, "steps": 10**6}, "less than or equal to 20000"),
    ],
)
def test_an_unusable_change_is_refused_in_a_sentence(client_as, body, says):
    """Each wrong field is named."""
    bank = ensure_seed_bank()
    answer = client_as("viewer").post(f"/api/banks/{bank.pk}/preview/", body, format="json")
    assert answer.status_code == 400
    assert says in json.dumps(answer.json())
