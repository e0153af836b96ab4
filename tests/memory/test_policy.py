"""The selection policy: its formulas, its properties under any evidence, and its ablation switches."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.policy import (
    POOLED,
    START,
    BucketTotals,
    DirectionView,
    EdgeView,
    EvidenceContext,
    NoDirection,
    PolicyConfig,
    PolicyError,
    StrategyView,
    position_weights,
    posterior,
    rank_strategies,
    select_direction,
    utility,
)

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")

utilities = st.floats(-1, 1)
PLACES = [
    ("cuda:H200", "float32", "pointwise"),
    ("cuda:A100", "float16", "pointwise"),
    ("opencl:PoCL", "float32", "other"),
]
places = st.sampled_from(PLACES)
contexts = st.sampled_from([POOLED, EvidenceContext("cuda:H200", "float32", "pointwise")])
evidence = st.lists(st.tuples(places, utilities), max_size=12)


def totals(rows: list[tuple[tuple[str, str, str], float]]) -> list[BucketTotals]:
    """Rows of evidence summed per bucket."""
    sums: dict[tuple[str, str, str], list[float]] = {}
    for place, value in rows:
        sums.setdefault(place, []).append(value)
    return [BucketTotals(*place, len(us), sum(us), sum(u * u for u in us)) for place, us in sums.items()]


KEYS = ["access", "fusion", "launch", "reuse"]
FACTS = {"bottleneck": "memory", "rows": 512, "fused": False}
TRIGGERS = [
    {"fact": "bottleneck", "op": "in", "value": ["memory"]},
    {"fact": "rows", "op": "ge", "value": 1000},
]


@st.composite
def graphs(draw):
    """Directions with evidence and triggers, some of the edges between them, and a prefix."""
    directions = [
        DirectionView(key, key, draw(utilities), TRIGGERS[: draw(st.integers(0, 2))], totals(draw(evidence)))
        for key in KEYS
    ]
    pairs = draw(st.lists(st.tuples(st.sampled_from([START, *KEYS]), st.sampled_from(KEYS)), unique=True))
    edges = {
        pair: EdgeView(draw(utilities), totals(draw(evidence)), number) for number, pair in enumerate(pairs)
    }
    prefix = [*draw(st.lists(st.sampled_from(KEYS), max_size=5)), START]
    return directions, edges, prefix


@given(graphs(), contexts, st.integers())
def test_probabilities_sum_to_one(graph, context, seed):
    """pi is a distribution over all directions, and the choice is one of them."""
    decision = select_direction(*graph, FACTS, context, PolicyConfig(), random.Random(seed))
    assert math.isclose(sum(score.probability for score in decision.scores), 1.0, abs_tol=1e-9)
    assert decision.chosen in KEYS
    assert decision.probability > 0


@given(graphs(), contexts)
def test_score_is_the_sum_of_its_terms(graph, context):
    """The stored decomposition explains the score without remainder, and the softmax follows from it."""
    config = PolicyConfig()
    decision = select_direction(*graph, FACTS, context, config, random.Random(0))
    raised = {score.key: math.exp(score.score / config.tau) for score in decision.scores}
    for score in decision.scores:
        terms = sum(term.weight * term.utility for term in score.prefix_terms)
        assert score.score == pytest.approx(terms + config.beta * score.value + config.gamma * score.match)
        assert score.probability == pytest.approx(raised[score.key] / sum(raised.values()))


@given(st.floats(-1, 1), evidence, places, contexts)
def test_more_positive_evidence_never_lowers_a_posterior(prior, rows, place, context):
    """A further step at the top of the range never lowers a posterior, one at the bottom never raises it."""
    before = posterior(prior, totals(rows), context).mean
    assert posterior(prior, totals([*rows, (place, 1.0)]), context).mean >= before - 1e-12
    assert posterior(prior, totals([*rows, (place, -1.0)]), context).mean <= before + 1e-12


@given(st.floats(-1, 1), evidence, st.data())
def test_better_evidence_never_lowers_a_posterior(prior, rows, data):
    """Raising any one utility moves the posterior up or not at all."""
    if not rows:
        return
    index = data.draw(st.integers(0, len(rows) - 1))
    place, value = rows[index]
    better = [*rows[:index], (place, data.draw(st.floats(value, 1.0))), *rows[index + 1 :]]
    assert posterior(prior, totals(better)).mean >= posterior(prior, totals(rows)).mean - 1e-12


@given(st.floats(-1, 1), contexts)
def test_without_evidence_the_prior_rules(prior, context):
    """No evidence: the posterior is the prior."""
    assert posterior(prior, [], context).mean == pytest.approx(prior)


@given(st.floats(-1, 1), utilities)
def test_with_much_evidence_the_prior_fades(prior, value):
    """After ten thousand equal steps the prior moves the posterior by less than a thousandth."""
    rows = [BucketTotals("cuda:H200", "float32", "pointwise", 10_000, 10_000 * value, 10_000 * value**2)]
    assert posterior(prior, rows).mean == pytest.approx(value, abs=1e-3)


@given(graphs(), contexts, st.randoms(use_true_random=False))
def test_order_changes_nothing(graph, context, shuffler):
    """Neither the order of directions nor that of evidence reaches the decision."""
    directions, edges, prefix = graph
    mixed = [dataclasses.replace(view, totals=shuffled(view.totals, shuffler)) for view in directions]
    shuffler.shuffle(mixed)
    config = PolicyConfig()
    first = select_direction(directions, edges, prefix, FACTS, context, config, random.Random(7))
    second = select_direction(mixed, edges, prefix, FACTS, context, config, random.Random(7))
    assert first.chosen == second.chosen
    for score in first.scores:
        assert score.probability == pytest.approx(second.score_of(score.key).probability)


def shuffled(rows, shuffler):
    rows = list(rows)
    shuffler.shuffle(rows)
    return rows


@given(graphs(), st.integers())
def test_same_seed_same_decision(graph, seed):
    """A replayed run decides as it did, from one draw of its generator."""
    one, two = random.Random(seed), random.Random(seed)
    first = select_direction(*graph, FACTS, POOLED, PolicyConfig(), one)
    second = select_direction(*graph, FACTS, POOLED, PolicyConfig(), two)
    assert first.to_json() == second.to_json()
    check = random.Random(seed)
    assert first.draw == check.random()
    assert one.random() == check.random()


@given(graphs(), st.sampled_from(KEYS), places, contexts)
def test_more_positive_evidence_never_lowers_a_probability(graph, key, place, context):
    """A further step at the top of the range makes its direction no less probable; so does one on its edge."""
    directions, edges, prefix = graph
    config, rng = PolicyConfig(), random.Random

    def probability(directions, edges):
        return (
            select_direction(directions, edges, prefix, FACTS, context, config, rng(0))
            .score_of(key)
            .probability
        )

    before = probability(directions, edges)
    better = [
        dataclasses.replace(view, totals=[*view.totals, BucketTotals(*place, 1, 1.0)])
        if view.key == key
        else view
        for view in directions
    ]
    assert probability(better, edges) >= before - 1e-12
    pair = (prefix[0], key)
    if pair in edges:
        walked = dataclasses.replace(edges[pair], totals=[*edges[pair].totals, BucketTotals(*place, 1, 1.0)])
        assert probability(directions, {**edges, pair: walked}) >= before - 1e-12


@given(graphs(), contexts)
def test_evidence_rules_the_choice_once_there_is_much(graph, context):
    """Without evidence V and U are the priors; with ten thousand steps of one value priors no longer matter."""
    directions, edges, prefix = graph
    bare = [dataclasses.replace(view, totals=()) for view in directions]
    unwalked = {pair: dataclasses.replace(edge, totals=()) for pair, edge in edges.items()}
    decision = select_direction(bare, unwalked, prefix, FACTS, context, PolicyConfig(), random.Random(0))
    for view in bare:
        score = decision.score_of(view.key)
        assert score.value == pytest.approx(view.prior)
        for term in score.prefix_terms:
            edge = unwalked.get((term.source, view.key))
            assert term.utility == pytest.approx(edge.prior if edge else 0.0)
    much = [BucketTotals("cuda:H200", "float32", "pointwise", 10_000, 2500.0)]
    known = [dataclasses.replace(view, totals=much) for view in directions]
    decision = select_direction(known, {}, prefix, FACTS, context, PolicyConfig(), random.Random(0))
    assert all(score.value == pytest.approx(0.25, abs=1e-3) for score in decision.scores)


@given(graphs(), contexts, st.integers())
def test_frozen_removes_exactly_the_learning(graph, context, seed):
    """Ablation: a frozen run decides as any other from the same bank; only what it teaches is dropped."""
    full = select_direction(*graph, FACTS, context, PolicyConfig(), random.Random(seed))
    frozen = select_direction(*graph, FACTS, context, PolicyConfig(frozen=True), random.Random(seed))
    assert (frozen.chosen, frozen.scores) == (full.chosen, full.scores)


@given(graphs(), contexts, st.integers())
def test_no_local_memory_leaves_directions_alone(graph, context, seed):
    """Ablation: directions and transitions are scored as before; strategies lose value and conditions only."""
    full = select_direction(*graph, FACTS, context, PolicyConfig(), random.Random(seed), STRATEGIES)
    config = PolicyConfig(use_local_memory=False)
    ablated = select_direction(*graph, FACTS, context, config, random.Random(seed), STRATEGIES)
    assert (ablated.chosen, ablated.scores) == (full.chosen, full.scores)
    ranked = rank_strategies(STRATEGIES, FACTS, context, config)
    share = 1 / len(STRATEGIES)
    assert [item.probability for item in ranked] == pytest.approx([share] * len(STRATEGIES))


@given(graphs())
def test_no_prefix_removes_exactly_the_transition_term(graph):
    """Ablation: scores drop by the prefix term and by nothing else."""
    full = select_direction(*graph, FACTS, POOLED, PolicyConfig(), random.Random(0))
    ablated = select_direction(*graph, FACTS, POOLED, PolicyConfig(use_prefix=False), random.Random(0))
    for score in full.scores:
        other = ablated.score_of(score.key)
        assert other.prefix_terms == []
        assert other.score == pytest.approx(score.score - score.prefix_term)
        assert (other.value, other.match) == (score.value, score.match)


STRATEGIES = [
    StrategyView("wide", "Wide", "access", 0.4, [], totals([(("cuda:H200", "float32", "pointwise"), 1.0)])),
    StrategyView("narrow", "Narrow", "access", 0.1),
    StrategyView("chain", "Chain", "fusion", 0.3, [{"fact": "fused", "op": "false"}]),
    StrategyView("rows", "Rows", "fusion", 0.9, [{"fact": "rows", "op": "ge", "value": 1000}]),
]


@given(graphs())
def test_no_hierarchy_retrieves_strategies_flat(graph):
    """Ablation: a direction is as probable as its applicable strategies together; its own terms are gone."""
    config = PolicyConfig(use_hierarchy=False)
    decision = select_direction(*graph, FACTS, POOLED, config, random.Random(0), STRATEGIES)
    ranked = rank_strategies(STRATEGIES, FACTS, POOLED, config)
    assert decision.mode == "flat"
    for score in decision.scores:
        own = sum(item.probability for item in ranked if item.direction == score.key)
        assert score.probability == pytest.approx(own)
        assert (score.prefix_terms, score.value_term, score.match_term) == ([], 0.0, 0.0)


def test_no_local_memory_removes_value_and_conditions():
    """Ablation: nothing that the bank knows about strategies is used."""
    ranked = rank_strategies(STRATEGIES, FACTS, POOLED, PolicyConfig(use_local_memory=False))
    assert {(item.value, item.applicable, item.score) for item in ranked} == {
        (0.0, True, PolicyConfig().gamma)
    }


def test_strategies_rank_by_posterior_behind_applicability():
    """An inapplicable strategy stands last whatever its prior, and says what is missing."""
    ranked = rank_strategies(STRATEGIES, FACTS, POOLED, PolicyConfig())
    assert [item.key for item in ranked] == ["wide", "chain", "narrow", "rows"]
    assert ranked[-1].reason == "Needs: rows is at least 1000 (it is 512)."
    assert ranked[-1].probability == 0.0
    assert sum(item.probability for item in ranked) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("context", "weight"),
    [
        (EvidenceContext("cuda:H200", "float32", "pointwise"), 1.0),
        (EvidenceContext("cuda:A100", "float32", "pointwise"), 0.6),
        (EvidenceContext("opencl:PoCL", "float32", "pointwise"), 0.25),
        (EvidenceContext("cuda:H200", "float16", "pointwise"), 0.7),
        (EvidenceContext("cuda:H200", "float32", "other"), 0.4),
        (EvidenceContext("opencl:PoCL", "float16", "other"), 0.25 * 0.7 * 0.4),
        (POOLED, 1.0),
    ],
)
def test_evidence_weighs_less_with_distance(context, weight):
    """w_j is a product of device, dtype and family factors."""
    row = totals([(("cuda:H200", "float32", "pointwise"), 1.0)])
    assert posterior(0.0, row, context).n == pytest.approx(weight)


@given(st.integers(1, 12), st.floats(0.01, 1.0))
def test_position_weights_decay_and_sum_to_one(length, decay):
    """a_i: normalised, never growing with distance."""
    weights = position_weights(length, decay)
    assert sum(weights) == pytest.approx(1.0)
    assert weights == sorted(weights, reverse=True)


def test_required_trigger_outweighs_the_others():
    """A direction whose required trigger fails matches -1, however many others hold."""
    triggers = [{"fact": "fused", "op": "true", "required": True}, TRIGGERS[0]]
    views = [DirectionView("a", triggers=triggers), DirectionView("b", triggers=TRIGGERS)]
    decision = select_direction(views, {}, [START], FACTS, POOLED, PolicyConfig(), random.Random(0))
    assert (decision.score_of("a").match, decision.score_of("b").match) == (-1.0, 0.5)
    assert decision.score_of("b").matched_triggers == [TRIGGERS[0]]
    assert decision.score_of("b").unmatched_triggers == [TRIGGERS[1]]


@given(st.integers())
def test_unavailable_direction_is_never_chosen(seed):
    """It is scored and shown with its reason; when nothing is available, everything is."""
    views = [DirectionView("a", prior=1.0, available=False, unavailable_reason="banned"), DirectionView("b")]
    decision = select_direction(views, {}, [START], {}, POOLED, PolicyConfig(), random.Random(seed))
    assert decision.chosen == "b"
    assert decision.score_of("a").probability == 0.0
    assert decision.score_of("a").unavailable_reason == "banned"
    alone = select_direction(views[:1], {}, [START], {}, POOLED, PolicyConfig(), random.Random(seed))
    assert alone.chosen == "a"


def test_prefix_is_cut_to_its_length():
    """K bounds how far back the transition term looks."""
    views = [DirectionView("a"), DirectionView("b")]
    edges = {("a", "b"): EdgeView(0.5, (), 3)}
    config = PolicyConfig(prefix_length=2)
    decision = select_direction(views, edges, ["a", "b", "a", START], {}, POOLED, config, random.Random(0))
    terms = decision.score_of("b").prefix_terms
    assert [(term.source, term.edge_id) for term in terms] == [("a", 3), ("b", None)]
    assert terms[0].contribution == pytest.approx(0.5 * 2 / 3)


def test_no_direction_is_an_error():
    """An empty bank has its own sentence."""
    with pytest.raises(NoDirection, match="no direction"):
        select_direction([], {}, [START], {}, POOLED, PolicyConfig(), random.Random(0))


@given(graphs(), contexts)
def test_decision_is_json(graph, context):
    """What a step stores is strict JSON with the documented keys."""
    data = select_direction(*graph, FACTS, context, PolicyConfig(), random.Random(0)).to_json()
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again == data
    assert {"chosen", "tau", "config", "prefix", "scores", "draw"} <= set(data)
    wanted = {"source", "weight", "utility", "contribution", "n", "edge_id"}
    assert all(wanted <= set(term) for score in data["scores"] for term in score["prefix_terms"])
    assert len(data["scores"][0]["prefix_terms"]) == min(3, len(graph[2]))


@pytest.mark.parametrize(
    ("before", "after", "correct", "expected"),
    [(2.0, 1.0, True, 1.0), (8.0, 1.0, True, 1.0), (1.0, 1.0, True, 0.0), (1.0, math.sqrt(2), True, -0.5),
     (1.0, None, False, -0.5)],
)  # fmt: skip
def test_utility(before, after, correct, expected):
    """u = clip(log2(t_before / t_after), -1, 1); a failed step costs the fixed penalty."""
    assert utility(before, after, correct) == pytest.approx(expected)


def test_utility_of_a_correct_step_needs_times():
    """A correct step without a time is a fault of the caller, not a number."""
    with pytest.raises(ValueError, match="positive times"):
        utility(1.0, None, True)


def test_config_round_trip():
    """A run's stored settings restore the same policy."""
    config = PolicyConfig(tau=0.3, use_prefix=False)
    assert PolicyConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"tau": 0}, "tau must lie between 0.001 and 10"),
        ({"tau": float("nan")}, "tau must be a number"),
        ({"beta": "1"}, "beta must be a number"),
        ({"prefix_length": 2.5}, "prefix_length must be a whole number"),
        ({"use_prefix": 1}, "use_prefix must be true or false"),
        ({"temperature": 1}, "'temperature' is no policy setting"),
        ([], "must be a JSON object"),
    ],
)
def test_bad_config_is_refused_by_name(data, says):
    """The message names the field and its range."""
    with pytest.raises(PolicyError, match=says):
        PolicyConfig.from_json(data)
