"""The search for a better configuration: it finds one where there is one, and says so where there is none."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow
from kuberth.config import load
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import ConfigError
from kuberth.framework import CycleState, ScorePlugin
from kuberth.queue import PriorityQueue
from kuberth.simulation import (
    Arrival,
    Autoscaler,
    Experiment,
    PlannedWorkload,
    Policy,
    SpotInterruptions,
    nodes_of,
)
from kuberth.simulation.tuning import (
    Objective,
    Tuned,
    Tuning,
    TuningProgress,
    checked_configuration,
    plugins_to_weigh,
    split_by_time,
    with_parameters,
)
from kuberth.testing import make_pod
from tests.unit.simulation.harness import pod

WAITS = Objective({"wait-mean": 1.0})
REQUEST_SEEDS = [pytest.param(seed, marks=pytest.mark.scale) for seed in range(2, 21)]


def alike(seed: int) -> PlannedWorkload:
    """Pods of one size: whatever node they get, as many fit."""
    rng = random.Random(seed)
    return PlannedWorkload([pod(rng.uniform(0, 1000), rng.uniform(100, 900), cpu="4") for _ in range(30)])


def mixed(seed: int) -> PlannedWorkload:
    """Small pods, of which four run at any time, and pods that need an empty node."""
    rng = random.Random(seed)
    small = [pod(80 * n + rng.uniform(0, 50), rng.uniform(300, 400)) for n in range(25)]
    return PlannedWorkload([*small, *(pod(300 * n + rng.uniform(0, 50), 100, cpu="8") for n in range(1, 7))])


PLANTED = Experiment(nodes_of(4), mixed)
"""Packing keeps nodes empty for the pods that need one."""
NONE = Experiment(nodes_of(2), alike)


def halves_of_hours(seed: int) -> PlannedWorkload:
    """Pods of one size, more than fit."""
    rng = random.Random(seed)
    return PlannedWorkload([pod(rng.uniform(0, 3000), rng.uniform(200, 1500), cpu="2") for _ in range(60)])


NOISY = Experiment(nodes_of(5), halves_of_hours, interruptions=SpotInterruptions(per_day=40, back_after=300))
"""Which pods an interrupted node takes away depends on the configuration; how many on average does not."""


def searched(experiment: Experiment, seed: int, **more: Any) -> Tuning:
    return Tuning(experiment, WAITS, trials=6, seeds=1, unseen_seeds=2, seed=seed, **more)


@pytest.mark.parametrize("seed", [1, *REQUEST_SEEDS])
def test_a_planted_better_configuration_is_found(seed: int) -> None:
    found = Tuning(PLANTED, WAITS, trials=4, seeds=2, unseen_seeds=6, seed=100 * seed).run()
    assert found.better
    best = found.better[0]
    assert best.low <= best.difference <= best.high < 0
    load(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **best.config}
    )


@pytest.mark.parametrize("seed", [1, *REQUEST_SEEDS])
def test_where_none_is_better_none_is_reported(seed: int) -> None:
    assert searched(NONE, 100 * seed).run().better == []


@pytest.mark.scale
@pytest.mark.parametrize("seed", range(1, 21))
def test_chance_is_not_reported_as_better(seed: int) -> None:
    """Twenty searches among configurations that differ by 30 s in a run, and by nothing on average."""
    found = Tuning(NOISY, WAITS, trials=8, seeds=3, unseen_seeds=10, seed=100 * seed).run()
    assert found.better == []


def noisy(rng: random.Random, shift: float) -> tuple[list[float], list[float]]:
    base = [rng.gauss(100, 20) for _ in range(10)]
    return base, [value + rng.gauss(shift, 10) for value in base]


def test_noise_is_not_better() -> None:
    rng = random.Random(5)
    verdicts = [checked_configuration("c", {}, -1.0, *noisy(rng, 0.0)).is_better for _ in range(200)]
    assert sum(verdicts) <= 4, "a half in a hundred is expected"
    assert all(checked_configuration("c", {}, -1.0, *noisy(rng, -30.0)).is_better for _ in range(20))


def test_a_gain_that_does_not_matter_is_none() -> None:
    base = [100.0, 101.0, 102.0]
    assert not checked_configuration("c", {}, -1.0, base, [value - 0.5 for value in base]).is_better
    assert checked_configuration("c", {}, -1.0, base, [value - 5 for value in base]).is_better


def encoded(found: Tuned) -> bytes:
    return msgspec.json.encode(found)


def test_an_interrupted_search_continues_to_the_same_result(tmp_path: Path) -> None:
    def interrupt(progress: TuningProgress) -> None:
        seen.append(progress.tried)
        raise KeyboardInterrupt

    seen: list[int] = []
    file = tmp_path / "search.jsonl"
    search = searched(PLANTED, 7)
    with pytest.raises(KeyboardInterrupt):
        search.run(file=file, on_progress=interrupt)
    kept = len(file.read_text().splitlines())
    with file.open("a") as stream:
        stream.write('{"parameters": {"No')
    continued = search.run(file=file, on_progress=lambda each: seen.append(each.tried))
    assert seen == [4, 4, 6]
    assert kept == 1 + 1 + 4, "the identity, the base and four configurations"
    assert encoded(continued) == encoded(search.run())
    with pytest.raises(ConfigError, match="another search"):
        searched(PLANTED, 8).run(file=file)


class FirstQueue(PriorityQueue):
    """A custom queue."""


class OtherQueue(PriorityQueue):
    """Another one."""


class NoRule(ScorePlugin):
    name = "NoRule"

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 0


OWN = Policy(plugins={"NoRule": NoRule}, queue=partial(FirstQueue), gates={"GenericWorkload": True})
SEARCH = Tuning(NONE, WAITS, policy=OWN)
OTHERS = {
    "plugins": replace(SEARCH, policy=replace(OWN, plugins={})),
    "queue": replace(SEARCH, policy=replace(OWN, queue=OtherQueue)),
    "gates": replace(SEARCH, policy=replace(OWN, gates={})),
    "nodes": replace(SEARCH, policy=replace(OWN, nodes=Autoscaler())),
    "autoscaler": replace(SEARCH, policy=replace(OWN, nodes=Autoscaler(most=3))),
    "interruptions": replace(SEARCH, experiment=replace(NONE, interruptions=SpotInterruptions())),
    "cluster": replace(SEARCH, experiment=replace(NONE, cluster=nodes_of(3))),
    "objects": replace(
        SEARCH, experiment=replace(NONE, cluster=nodes_of(2)._replace(objects=[make_pod("p")]))
    ),
    "objective": replace(SEARCH, objective=Objective({"waiting": 1})),
    "seeds": replace(SEARCH, seeds=4),
    "arguments": replace(SEARCH, search={"InterPodAffinity.hardPodAffinityWeight": (0, 9)}),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_finished_runs_of_another_search_are_refused(other: Tuning, tmp_path: Path) -> None:
    identities = {search._identity() for search in OTHERS.values()}
    assert len(identities) == len(OTHERS), "they differ from each other, too"
    file = tmp_path / "search.jsonl"
    file.write_text(f"{SEARCH._identity()}\n")
    with pytest.raises(ConfigError, match="another search"):
        other.run(file=file)


def test_the_identity_of_a_search_is_the_same_in_every_process() -> None:
    module = "tests.unit.simulation.test_tuning"
    command = f"from {module} import SEARCH; print(SEARCH._identity())"
    asked = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert asked.stdout.strip() == SEARCH._identity(), asked.stderr


def test_the_shape_of_a_strategy_is_searched() -> None:
    drawn = {"NodeResourcesFit": 1, "strategy": "RequestedToCapacityRatio", "resource cpu": 1}
    made = with_parameters({}, {**drawn, "shape 0": 0, "shape 50": 9, "shape 100": 4})
    config = load({"apiVersion": API_VERSION, "kind": KIND, **made})
    [args] = [each.args for each in config.profiles[0].plugin_config if each.name == "NodeResourcesFit"]
    shape = args.scoring_strategy.requested_to_capacity_ratio.shape
    assert [(each.utilization, each.score) for each in shape] == [(0, 0), (50, 9), (100, 4)]


def test_the_base_keeps_what_is_not_searched() -> None:
    drawn = {"NodeResourcesFit": 3, "NodeResourcesBalancedAllocation": 0, "PodTopologySpread": 1}
    drawn |= {"InterPodAffinity": 1, "NodeAffinity": 1, "TaintToleration": 1, "resource cpu": 2}
    base = {
        "parallelism": 4,
        "profiles": [
            {
                "schedulerName": "own",
                "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 7}]}},
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}},
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
                ],
            }
        ],
    }
    made = with_parameters(base, {**drawn, "strategy": "MostAllocated"})
    (profile,) = made["profiles"]
    assert (made["parallelism"], profile["schedulerName"]) == (4, "own")
    names = [each["name"] for each in profile["plugins"]["score"]["enabled"]]
    assert names[:2] == ["ImageLocality", "NodeResourcesFit"]
    assert "NodeResourcesBalancedAllocation" not in names
    fit = profile["pluginConfig"][-1]["args"]
    assert fit["ignoredResources"] == ["example.com/x"]
    assert fit["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 2}],
    }


ENABLED = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NoRule", "weight": 12}]}}}, {}]}


def test_the_weight_of_an_own_plugin_is_searched_where_it_is_enabled() -> None:
    search = Tuning(NONE, WAITS, policy=OWN, base={"profiles": ENABLED["profiles"][:1]})
    assert search.own_weights() == {"NoRule": 12}
    assert Tuning(NONE, WAITS, policy=OWN).own_weights() == {}
    first, second = with_parameters(ENABLED, {"NoRule": 4, "strategy": "MostAllocated"})["profiles"]
    assert first["plugins"]["score"] == {
        "enabled": [{"name": "NoRule", "weight": 4}],
        "disabled": [{"name": "NoRule"}],
    }
    assert second["plugins"] == {}


def test_arguments_are_drawn_within_their_bounds() -> None:
    search = {"InterPodAffinity.hardPodAffinityWeight": (3, 5), "NoRule.share": (0.25, 0.5)}
    base = {"profiles": ENABLED["profiles"][:1]}
    found = Tuning(
        PLANTED,
        WAITS,
        base=base,
        policy=replace(OWN, gates={}),
        trials=4,
        seeds=1,
        unseen_seeds=2,
        search=search,
    ).run()
    assert found.candidates
    for each in found.candidates:
        (profile,) = each.config["profiles"]
        args = {entry["name"]: entry["args"] for entry in profile["pluginConfig"]}
        assert args["InterPodAffinity"]["hardPodAffinityWeight"] in (3, 4, 5)
        assert 0.25 <= args["NoRule"]["share"] <= 0.5


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"InterPodAffinity": (0, 1)}, "expected PLUGIN.argument"),
        ({"InterPodAffinity.hardPodAffinityWeight": (9, 1)}, "9 is not below 1"),
        ({"InterPodAffinity.hardPodAffinityWeight": (0, 101)}, "101 is invalid: .*hardPodAffinityWeight"),
        ({"InterPodAffinity.softWeight": (0, 1)}, "0 is invalid: .*softWeight"),
        ({"NoRule.share": (0, 1)}, "the configuration enables no plugin NoRule"),
    ],
)
def test_arguments_that_cannot_be_searched(search: dict[str, tuple[float, float]], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Tuning(NONE, WAITS, policy=OWN, search=search).run()


def test_an_objective_of_a_priority_that_no_pod_has_is_refused(tmp_path: Path) -> None:
    both = Experiment(nodes_of(1), lambda _seed: PlannedWorkload([pod(0, 10), pod(0, 10, priority=5)]))
    search = Tuning(both, Objective.parse(["wait-p99@77777"]))
    with pytest.raises(ConfigError, match="no pod has priority 77777; there are 0, 5"):
        search.run(file=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    late = replace(both, workload=lambda _seed: PlannedWorkload([pod(0, 10)]))
    with pytest.raises(ConfigError, match="no pod has priority 5; there are 0"):
        Tuning(both, Objective.parse(["wait-p99@5"]), unseen=late).run()


@pytest.mark.parametrize(
    ("texts", "value", "expected"),
    [
        (["wait-p99"], 2317.25, "+38m 37s"),
        (["wait-mean@5"], -90.0, "-1m 30s"),
        (["wait-mean=2"], 90.0, "+90"),
        (["wait-mean", "nodes"], 90.5, "+90.5"),
        (["fragmentation"], 0.25, "+0.25"),
    ],
)
def test_values_are_shown_in_their_unit(texts: list[str], value: float, expected: str) -> None:
    assert Objective.parse(texts).shown(value, signed=True) == expected
    assert Objective.parse(texts).shown(value) == expected.removeprefix("+")


SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
TAINTED = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
ALWAYS = {"NodeResourcesFit", "NodeResourcesBalancedAllocation"}


@pytest.mark.parametrize(
    ("arrival", "shape", "more"),
    [
        pytest.param(pod(0), {}, set(), id="nothing"),
        pytest.param(pod(0, spread=SPREAD), {}, {"PodTopologySpread"}, id="spread"),
        pytest.param(pod(0, affinity={"podAffinity": {}}), {}, {"InterPodAffinity"}, id="pods"),
        pytest.param(pod(0, spec={"affinity": {"nodeAffinity": {}}}), {}, {"NodeAffinity"}, id="nodes"),
        pytest.param(pod(0), TAINTED, {"TaintToleration"}, id="taints"),
    ],
)
def test_only_plugins_that_have_something_to_score_are_searched(
    arrival: Arrival, shape: dict[str, Any], more: set[str]
) -> None:
    assert set(plugins_to_weigh(nodes_of(1, shape), PlannedWorkload([arrival]))) == ALWAYS | more


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["wait-p75"], "there is no objective 'wait-p75'"),
        (["wait-p99@high"], "there is no objective"),
        (["nodes-used=none"], "'none' is not a number"),
        (["nodes-used=0"], "positive"),
        ([], "at least one"),
    ],
)
def test_objectives_that_cannot_be(texts: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Objective.parse(texts)


def test_an_objective_is_a_weighted_sum() -> None:
    crowded = Experiment(
        nodes_of(1), lambda _seed: PlannedWorkload([pod(0, 10, cpu="8"), pod(0, 10, cpu="8", priority=5)])
    )
    outcome = crowded.run()
    both = Objective.parse(["wait-longest=2", "nodes-used=3"])
    assert both.value(outcome) == pytest.approx(2 * 10 + 3 * 1)
    assert Objective.parse(["wait-longest@5"]).value(outcome) == 0
    assert str(both) == "2 × wait-longest + 3 × nodes-used"


def test_a_trace_is_halved_by_time_and_gangs_stay_whole() -> None:
    arrivals = [Arrival(0), Arrival(4, gang="g"), Arrival(6, gang="g"), Arrival(8), Arrival(10)]
    found = split_by_time(PlannedWorkload(arrivals))
    assert found is not None
    assert [each.arrival for each in found[0].arrivals] == [0, 4, 6]
    assert [each.arrival for each in found[1].arrivals] == [0, 2]
    assert split_by_time(PlannedWorkload([Arrival(3)])) is None


def test_optuna_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"kuberth\[tune\]"):
        searched(NONE, 1).run()
