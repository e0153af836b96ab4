"""The simulator: tables that are checked, episodes that play by the loop's rules, replays that can be repeated."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from django.core.management import call_command

from memory.bankfile import parse_bank
from memory.policy import START, PolicyConfig
from memory.seeding import SEED_FILE
from memory.simulation.curves import ratio, summarise
from memory.simulation.episode import Episode
from memory.simulation.memory import SimulatedBank
from memory.simulation.policies import POLICIES, STRATEGY_TAU, MemoryPolicy
from memory.simulation.reading import load_tables, parse_tables
from memory.simulation.replay import Setup, play, replay_all, run
from memory.simulation.tables import (
    ROOT,
    OperatorTable,
    Outcome,
    State,
    Tables,
    TablesError,
    operator_json,
    save_tables,
)
from tests.memory.conftest import bank_data, direction_data, edge_data, strategy_data

OUTCOMES = sorted((Path(__file__).parent / "outcomes").glob("*.json"))
OPERATORS = Path(__file__).parent / "outcome_operators"


def state(plan: str, **facts) -> State:
    return State({}, plan, facts)


def faster(speedup: float) -> Outcome:
    return Outcome("correct", speedup, speedup * 0.98, speedup * 1.02, 10.0, {"bottleneck": "memory"})


def table(name: str = "op", good: float = 2.0) -> OperatorTable:
    """From the root, good/one leads to a fast plan and bad/one to a slow one; good/two goes on, bad/two fails."""
    return OperatorTable(
        name, "pointwise", "float32", {"device_kind": "cuda"}, "hash", 100.0,
        states={ROOT: state("", fused=False), "a": state("pa", fused=True), "b": state("pb"), "c": state("pc"),
                "d": state("pd")},
        plans={"pa": faster(good), "pb": faster(0.8), "pc": faster(good * 1.5), "pd": Outcome("wrong")},
        moves={
            ROOT: {"good/one": "a", "bad/one": "b"},
            "a": {"good/two": "c", "bad/two": "d", "bad/one": "b"},
            "c": {"bad/two": "d"},
        },
    )  # fmt: skip


def bank(good: float = 0.0, bad: float = 0.0):
    """A bank of the two directions, with equal priors unless told otherwise."""

    def direction(key, prior):
        strategies = [strategy_data(name, prior=prior, recipe={"move": "unroll"}) for name in ("one", "two")]
        return direction_data(key, prior=prior, strategies=strategies)

    return bank_data(
        directions=[direction("bad", bad), direction("good", good)], edges=[edge_data("START", "good")]
    )


def setup_of(count: int = 4, **fields) -> Setup:
    tables = Tables({"name": "Test"}, "b", {}, {}, {f"op{n}": table(f"op{n}", 2.0 + n) for n in range(count)})
    return Setup(**{"tables": tables, "document": bank(), "steps": 3, "seed": 0, **fields})


# Episodes.


def test_an_episode_edits_the_last_confirmed_improvement():
    """Faster plans become the parent, slower ones and failures leave it; utilities compare with the parent."""
    episode = Episode(table(), 6)
    first = episode.take("good/one", "a")
    assert (first.improved, first.utility, episode.parent, episode.best) == (True, 1.0, "a", 2.0)
    second = episode.take("bad/one", "b")
    assert (second.improved, second.utility, episode.parent) == (False, -1.0, "a")
    third = episode.take("bad/two", "d")
    assert (third.utility, episode.parent, episode.failures_in_a_row) == (-0.5, "a", 1)
    fourth = episode.take("good/two", "c")
    assert fourth.utility == pytest.approx(0.585, abs=1e-3)
    assert (episode.parent, episode.best, episode.failures_in_a_row) == ("c", 3.0, 0)
    assert episode.prefix == ["good", "bad", "bad", "good", START]


def test_before_an_improvement_the_fastest_correct_plan_is_edited():
    """A plan slower than PyTorch is edited all the same, and has not beaten it."""
    episode = Episode(table(), 6)
    episode.take("bad/one", "b")
    assert (episode.parent, episode.best, episode.speedup_before()) == ("b", 1.0, 0.8)
    assert episode.facts()["last_verdict"] == "slower"


def test_a_schedule_is_tried_once():
    """What a run tried is no option any more."""
    episode = Episode(table(), 6)
    episode.take("good/one", "a")
    episode.take("bad/two", "d")
    assert episode.options() == {"good/two": "c", "bad/one": "b"}


def test_facts_are_those_of_the_loop():
    """The state knows what the loop would report: operator, plan, measurement, run."""
    episode = Episode(table(), 6)
    assert episode.facts() == {
        "family": "pointwise", "dtype": "float32", "device_kind": "cuda", "bottleneck": "unknown", "fused": False,
        "has_plan": False, "step_index": 1, "steps_left": 6, "failures_in_a_row": 0,
    }  # fmt: skip
    episode.take("good/one", "a")
    known = episode.facts()
    assert (known["has_plan"], known["bottleneck"], known["fused"]) == (True, "memory", True)
    assert (known["last_direction"], known["last_verdict"], known["steps_left"]) == ("good", "faster", 5)


# Learning.


def test_a_replay_learns_from_the_operators_before():
    """With equal priors the memory finds out which direction pays, and later operators profit; frozen does not."""
    setup = setup_of(12)
    results = replay_all(setup, ["full", "frozen"], 60)
    summary = summarise(setup.tables, results)["policies"]
    assert summary["full"]["late"][0] > 1.1 * summary["full"]["early"][0]
    assert summary["full"]["late"][0] > 1.1 * summary["frozen"]["late"][0]


def test_an_operator_never_learns_from_an_earlier_run_of_its_own():
    """Alone, an operator begins every replay with the priors: no replay knows more than another."""
    setup = setup_of(1, steps=1)
    curves = [play(setup, POLICIES["full"][1], number, "full")[0] for number in range(200)]
    found = np.array([curve[0][0][0] for curve in curves])
    assert abs((found > 1).mean() - 0.5) < 0.15  # equal priors: every other first step is the good one
    assert abs((found[:100] > 1).mean() - (found[100:] > 1).mean()) < 0.25


def test_a_frozen_policy_teaches_nothing():
    """Its bank holds no evidence after a run; the full policy's holds every step."""
    for frozen in (True, False):
        known = SimulatedBank(bank())
        run(table(), 3, MemoryPolicy(PolicyConfig(frozen=frozen)), known, random.Random(1))
        tries = sum(row.tries for view in known.directions.values() for row in view.totals)
        assert (tries == 0) == frozen


def test_evidence_counts_in_direction_strategy_and_transition():
    """As in the product: three totals, and a transition that the bank lacked begins with prior 0."""
    known = SimulatedBank(bank())
    known.teach("good/one", "bad", ("d", "float32", "pointwise"), 0.5, True, True)
    assert known.directions["good"].totals[0].utility_sum == 0.5
    assert known.strategies["good/one"].totals[0].tries == 1
    assert (known.edges["bad", "good"].prior, known.edges["bad", "good"].totals[0].improved) == (0.0, 1)
    assert known.directions["bad"].totals == []


def test_priors_steer_a_frozen_policy():
    """A bank that expects the good direction to pay finds the best plan sooner."""
    wise, wrong = setup_of(document=bank(0.6, -0.6)), setup_of(document=bank(-0.6, 0.6))
    final = [
        summarise(setup.tables, replay_all(setup, ["frozen"], 40))["policies"]["frozen"]["curve"][1][
            "speedup"
        ]
        for setup in (wise, wrong)
    ]
    assert final[0] > 1.5 * final[1]


def test_the_strategy_softmax_is_the_recipe_proposers():
    """Policies draw strategies as the product's proposer does."""
    from optimizer.proposers.recipes import TEMPERATURE

    assert STRATEGY_TAU == TEMPERATURE


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_keeps_the_contract(name):
    """One of the options or None; equal random numbers give equal choices; never worse than PyTorch is a best."""
    setup = setup_of()
    first, second = play(setup, POLICIES[name][1], 3, name), play(setup, POLICIES[name][1], 3, name)
    assert first == second
    for curve in first[0]:
        best = [value for value, _ in curve]
        assert best == sorted(best)
        assert best[0] >= 1.0


def test_conditions_are_kept_unless_local_memory_is_off():
    """An inapplicable strategy is not taken; without local memory nothing stands in its way."""
    document = bank(0.9, -0.9)
    for strategy in document["directions"][1]["strategies"]:
        strategy["conditions"] = [{"fact": "has_reduction", "op": "true"}]
    known = SimulatedBank(document)
    episode = Episode(table(), 3)
    rng = random.Random(0)
    taken = {MemoryPolicy(PolicyConfig()).choose(episode, known, rng)[0] for _ in range(50)}
    assert taken == {"bad/one"}
    free = MemoryPolicy(PolicyConfig(use_local_memory=False))
    assert "good/one" in {free.choose(episode, known, rng)[0] for _ in range(50)}


def test_steps_that_the_tables_cannot_follow_are_counted():
    """A state without a recorded option loses the step; missing strategies are a share."""
    setup = setup_of(1, steps=4)
    only = setup.tables.operators["op0"]
    only.moves = {ROOT: {"good/one": "a"}}
    only.states[ROOT].missing = 1
    curves, _ = play(setup, POLICIES["random"][1], 0, "random")
    assert [unseen for _, unseen in curves[0]] == [0.5, 1.0, 1.0, 1.0]
    assert summarise(setup.tables, replay_all(setup, ["random"], 3))["policies"]["random"]["lost"] == 0.75


# Summing up.


def test_the_number_of_processes_changes_nothing():
    """Two processes give what one gives."""
    setup = setup_of()
    one, two = (
        replay_all(setup, ["random"], 9, jobs=1)["random"],
        replay_all(setup, ["random"], 9, jobs=2)["random"],
    )
    assert np.array_equal(one.best, two.best)
    assert np.array_equal(one.position, two.position)


def test_intervals_hold_the_mean_and_shrink_with_replays():
    """Over replays: a hundred times as many give about a tenth of the width."""
    setup = setup_of()
    widths = []
    for count in (20, 2000):
        final = summarise(setup.tables, replay_all(setup, ["random"], count))["policies"]["random"]["final"]
        assert final["low"] <= final["speedup"] <= final["high"]
        widths.append(final["high"] - final["low"])
    assert widths[1] < widths[0] / 4


def test_a_policy_beside_itself_is_a_ratio_of_one():
    """Paired by operator: no difference, no interval."""
    assert ratio(np.zeros(5)) == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    found = ratio(np.array([-1.0, -0.5, -0.2]))
    assert found["low"] < found["ratio"] < found["high"] < 1.0


# Files.


def test_tables_round_trip(tmp_path):
    """Saved and loaded: the same tables, without moves to plans that were not evaluated."""
    setup = setup_of()
    file = tmp_path / "tables.json"
    save_tables(setup.tables, file)
    again = load_tables(file)
    assert again.to_json() == setup.tables.to_json()
    assert not file.with_name("tables.json.part").exists()


def test_unevaluated_plans_are_counted_and_left_out():
    """A move to a plan without an outcome is missing, not a dead end."""
    known = table()
    known.states["e"] = state("pe")
    known.moves[ROOT]["good/two"] = "e"
    data = operator_json(known)
    assert "e" not in data["states"]
    assert data["states"][ROOT]["missing"] == 1
    assert set(data["moves"][ROOT]) == {"good/one", "bad/one"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"schema_version":1', '"schema_version":2', "$.schema_version: 1 was expected"),
        ('"low":1.96', '"low":-1', "$.operators[0].plans.pa.low"),
        ('"speedup":0.8', '"speedup":null', "the correct plan pb has no speed-up"),
        ('"plan":"pb"', '"plan":"px"', "the state b has a plan without an outcome"),
        ('"good/one":"a"', '"good/one":"z"', "the move good/one out of root leads nowhere"),
        ('"good/one":"a"', '"<script>":"a"', "$.operators[0].moves.root"),
        ('"low":1.96', '"low":NaN', "NaN is not a JSON number"),
        ('"name":"op0"', '"name":"op1"', "an operator appears twice"),
        ('"operators"', '"things"', "$"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(old, new, says):
    """One sentence."""
    text = json.dumps(setup_of(2).tables.to_json(), separators=(",", ":"))
    assert old in text
    with pytest.raises(TablesError) as error:
        parse_tables(text.replace(old, new, 1).encode())
    assert says in str(error.value)


# The command.


@pytest.fixture
def files(tmp_path):
    """Tables and their bank as files."""
    save_tables(setup_of().tables, tmp_path / "tables.json")
    (tmp_path / "bank.json").write_text(json.dumps(bank()))
    return tmp_path


def simulate(files, *arguments: str) -> None:
    call_command(
        "simulate_policy", str(files / "tables.json"), "--bank", str(files / "bank.json"), "--replays", "20",
        "--steps", "3", "--jobs", "1", *arguments,
    )  # fmt: skip


def test_the_command_prints_json_and_draws(files, capsys):
    """One object on standard output; the figure is well-formed and names every policy."""
    simulate(files, "--policies", "all", "--plot", str(files / "figure.svg"), "--json")
    data = json.loads(capsys.readouterr().out)
    assert set(data["policies"]) == set(POLICIES)
    assert len(data["policies"]["full"]["curve"]) == 4
    against = data["policies"]["random"]["against"]
    assert against["policy"] == "full"
    assert against["final"]["low"] <= against["final"]["ratio"] <= against["final"]["high"]
    words = "".join(ElementTree.parse(files / "figure.svg").getroot().itertext())
    assert all(name in words for name in POLICIES)


def test_the_command_prints_a_table(files, capsys):
    """A row a policy, with intervals."""
    simulate(files)
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[2:]] == ["full", "no-hierarchy", "no-prefix", "frozen", "random"]
    assert "4 operators on Test, 20 replays, 3 steps" in rows[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policies", "full,best"], "There is no policy 'best'; there are: full, no-hierarchy"),
        (["--replays", "1"], "Replays are 2 to 100000"),
        (["--bank", "/nowhere.json"], "/nowhere.json cannot be read: No such file"),
    ],
)
def test_unusable_arguments_exit_2(files, capsys, arguments, says):
    """One line on standard error."""
    with pytest.raises(SystemExit) as stop:
        simulate(files, *arguments)
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert says in err


# The recordings that are kept, and the recorder.


@pytest.mark.parametrize("path", OUTCOMES, ids=lambda path: path.stem)
def test_kept_recordings_replay(path):
    """Every recording is valid, and every policy can be replayed on it with the seed bank."""
    tables = load_tables(path)
    setup = Setup(tables, parse_bank(SEED_FILE.read_bytes()), 6, 0)
    summary = summarise(tables, replay_all(setup, list(POLICIES), 2))
    assert summary["best_recorded"] > 1.0
    for policy in summary["policies"].values():
        assert policy["final"]["speedup"] <= summary["best_recorded"] + 1e-9


def test_recorder_loads_neither_django_nor_torch():
    """It runs on a GPU host that has no Django; devices stay in the judge and the runner."""
    code = "import optimizer.recording.__main__, sys; print(*{name.split('.')[0] for name in sys.modules})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"django", "torch", "pyopencl", "pycuda", "jsonschema"} & set(found)


@pytest.mark.parametrize("path", sorted(OPERATORS.glob("*.py")), ids=lambda path: path.stem)
def test_recipes_cover_the_further_operators(path):
    """Each has a graph that recipes cover, and on a GPU and on a CPU several strategies to begin with."""
    from gpu_eval.capture import capture
    from gpu_eval.plans import parse_plan
    from optimizer.facts import dtype_of
    from optimizer.recording.explore import Explorer, strategies_of

    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    namespace.update(namespace["PRESETS"]["cpu"])
    graph = capture(namespace["Model"](*namespace["get_init_inputs"]()), namespace["get_inputs"]())
    assert isinstance(graph, dict), graph
    strategies = strategies_of(json.loads(SEED_FILE.read_text()))
    for kind, units in (("cuda", 132), ("opencl", 2)):
        made = OperatorTable(path.stem, "", dtype_of(graph), {"device_kind": kind, "small": False}, "")
        explorer = Explorer(made, graph, {"kind": kind, "compute_units": units}, strategies)
        _, text = explorer.next_plan()
        assert parse_plan(text).language == kind
        assert made.states[made.moves[ROOT][next(iter(made.moves[ROOT]))]].plan
        assert len(made.moves[ROOT]) >= 3


def test_the_explorer_spends_evaluations_where_searches_go():
    """Every plan that the root leads to, and those behind plans that won; never one twice."""
    from gpu_eval.capture import capture
    from optimizer.recording.explore import RUN_FACTS, Explorer, strategies_of

    namespace = {}
    exec((OPERATORS / "squared_relu_rowscale.py").read_text(), namespace)
    namespace.update(rows=64, cols=256)
    graph = capture(namespace["Model"](256), namespace["get_inputs"]())
    made = OperatorTable("op", "pointwise", "float32", {"device_kind": "cuda", "small": False}, "")
    strategies = strategies_of(json.loads(SEED_FILE.read_text()))
    explorer = Explorer(made, graph, {"kind": "cuda", "compute_units": 132}, strategies)
    seen: list[str] = []
    for number in range(12):
        plan, _ = explorer.next_plan()
        assert plan not in seen
        seen.append(plan)
        explorer.add(plan, faster(1.1 + number / 10))
    later = {item.name for item in strategies if any(c["fact"] in RUN_FACTS for c in item.conditions)}
    first = {made.states[state].plan for name, state in made.moves[ROOT].items() if name not in later}
    assert first < set(seen)
    data = operator_json(made)
    assert len(data["plans"]) == 12
    assert sum(item["missing"] for item in data["states"].values()) > 0


@pytest.mark.process
def test_a_recording_goes_on_where_it_was_cut(tmp_path):
    """Real evaluations on the CPU's device: one plan, then a second run adds to the same file."""
    out = tmp_path / "tables.json"
    command = [
        sys.executable, "-m", "optimizer.recording", str(OPERATORS / "small_softplus_chain.py"), "--device", "opencl",
        "--out", str(out), "--calls", "10", "--budget-s", "120",
    ]  # fmt: skip
    kept: dict[str, Outcome] = {}
    for plans in (1, 2):
        done = subprocess.run([*command, "--plans", str(plans)], capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        (only,) = load_tables(out).operators.values()
        assert len(only.plans) == plans
        assert kept.items() <= only.plans.items()
        kept = only.plans
    assert only.facts["device_kind"] == "opencl"
    refused = subprocess.run([*command[:3], "/nowhere.py", "--out", str(out)], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "there is no operator file" in refused.stderr
