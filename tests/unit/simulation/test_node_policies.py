"""Nodes that come and go during a run."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import pytest

from kuberth.errors import ConfigError
from kuberth.simulation import (
    AddNode,
    Arrival,
    Autoscaler,
    ClusterNow,
    Experiment,
    FixedWorkload,
    NodePolicy,
    Outcome,
    Policy,
    RemoveNode,
    SpotInterruptions,
    nodes_of,
)
from kuberth.simulation.node_policies import Decide, NodeOrder
from tests.unit.simulation.harness import pod

FOUR = {"capacity": {"cpu": "4", "memory": "8Gi"}}


def experiment(*arrivals: Arrival, nodes: int = 1, interruptions: NodePolicy | None = None) -> Experiment:
    return Experiment(nodes_of(nodes, FOUR), FixedWorkload(arrivals), interruptions=interruptions)


def times(outcome: Outcome) -> list[tuple[str, float, float | None]]:
    return [(row["name"], row["joined"], row["left"]) for row in outcome.nodes_table()]


SCALED = Policy("scaled", nodes=Autoscaler(FOUR, most=3, ready_after=120, idle_seconds=600))


def test_nodes_are_added_for_waiting_pods_and_removed_when_empty() -> None:
    found = experiment(pod(0, 5000), *[pod(5, 300, cpu="3") for _ in range(3)], pod(2000, 10)).run(SCALED)
    joined = [("node-1", 0.0, None), *((f"added-{n}-1", 130.0, 1030.0) for n in (1, 2))]
    assert times(found) == joined
    assert found.pods.waiting == 0
    assert sorted(row["wait"] for row in found.pods_table()) == [0.0, 0.0, 0.0, 125.0, 125.0]
    assert found.nodes_mean == pytest.approx(1 + 2 * 900 / 2000)


@pytest.mark.parametrize(
    ("arrival", "added"),
    [
        pytest.param(pod(1, 10, cpu="5"), 0, id="fits on no such node"),
        pytest.param(pod(1, 10, cpu="4", node_selector={"disk": "ssd"}), 1, id="its constraint forbids it"),
    ],
)
def test_a_pod_that_no_node_helps_neither_adds_for_ever_nor_keeps_the_run_going(
    arrival: Arrival, added: int
) -> None:
    found = experiment(arrival).run(SCALED)
    assert found.pods.waiting == 1
    assert len(found.nodes_table()) == 1 + added


def test_no_more_nodes_than_allowed() -> None:
    found = experiment(*[pod(0, 100, cpu="4") for _ in range(9)]).run(SCALED)
    assert len(found.nodes_table()) == 4
    assert found.pods.finished == 9


SPOT = SpotInterruptions(per_day=48, back_after=300)
LONG = [pod(60.0 * number, 3000, cpu="1") for number in range(15)]


def test_pods_of_interrupted_nodes_are_evicted_and_run_again() -> None:
    found = experiment(*LONG, nodes=4, interruptions=SPOT).run(seed=1)
    states = [row["state"] for row in found.pods_table()]
    assert states.count("evicted") > 1
    assert states.count("finished") == 15, "every pod ends in the end"
    left = [row for row in found.nodes_table() if row["left"] is not None]
    assert left
    assert found.pods.preempted == 0
    for row in found.pods_table():
        node = next(each for each in found.nodes_table() if each["name"] == row["node"])
        assert node["joined"] <= row["bound"]
        assert node["left"] is None or row["ended"] <= node["left"], "no pod outlives its node"


def test_interruptions_are_of_the_seed() -> None:
    tried = experiment(*LONG, nodes=4, interruptions=SPOT)
    first, again, other = tried.run(seed=1), tried.run(seed=1), tried.run(seed=2)
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert times(first) != times(other)


def test_a_cluster_may_lose_all_its_nodes() -> None:
    gone = SpotInterruptions(per_day=1e6, back_after=None)
    found = experiment(pod(0, 1000), nodes=1, interruptions=gone).run()
    assert found.pods.waiting == 1
    assert found.samples[-1].utilisation["cpu"] == 0


def test_a_node_that_comes_back_is_like_the_first() -> None:
    labelled = {**FOUR, "labels": {"spot": "yes"}, "taints": [{"key": "spot", "effect": "NoSchedule"}]}
    tolerates = [{"key": "spot", "operator": "Exists"}]
    wants = Arrival(0, 5000, requests={"cpu": "1"}, node_selector={"spot": "yes"}, tolerations=tolerates)
    stays = {"name": "stays", "count": 1, **FOUR}
    cluster = nodes_of(shapes=[{"name": "spot", "count": 1, **labelled}, stays])
    spot = SpotInterruptions(per_day=40, labels={"spot": "yes"}, back_after=60)
    found = Experiment(cluster, FixedWorkload([wants]), interruptions=spot).run(seed=3)
    assert found.pods.finished == 1
    names = {row["name"] for row in found.nodes_table() if row["left"] is not None}
    assert names
    assert "stays-1" not in names


class Swap(NodePolicy):
    """A custom policy: another node instead of the first, once."""

    interval = 50.0

    def begin(self, rng: random.Random) -> Decide:
        return self._decide

    def _decide(self, now: ClusterNow) -> Iterable[NodeOrder]:
        if now.seconds == 100:
            yield AddNode(FOUR)
            yield RemoveNode("node-1")


def test_a_policy_of_ones_own() -> None:
    found = experiment(pod(0, 500)).run(Policy(nodes=Swap()))
    assert times(found) == [("node-1", 0.0, 100.0), ("added-1-1", 100.0, None)]
    assert [row["state"] for row in found.pods_table()] == ["evicted", "finished"]


def test_controllers_and_changing_nodes_do_not_go_together() -> None:
    tried = Experiment(nodes_of(1), FixedWorkload([pod(0, 1)]), controllers=True, interruptions=SPOT)
    with pytest.raises(ConfigError, match="without controllers"):
        tried.run()


@pytest.mark.parametrize("broken", [{"interval": 0}, {"ready_after": -1}])
def test_an_autoscaler_that_cannot_be(broken: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="positive interval"):
        Autoscaler(**broken)  # type: ignore[arg-type]  # names are parameters
