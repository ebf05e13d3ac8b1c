"""The evaluator asks the scheduling cycle's own steps: what it says is what the cycle would do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Pod
from kuberth.config import load
from kuberth.errors import ConfigError, KuberthError
from kuberth.evaluation import Answer, Evaluator, Preemption
from kuberth.framework import FilterPlugin, Plugin, PreFilterPlugin, PreFilterResult, Status
from kuberth.testing import make_node, make_pod

Preempted = tuple[Answer, Preemption | None]
BUSY = make_pod("busy", node="full", cpu="4")


def nominated(node: str, **more: Any) -> Pod:
    return make_pod("p", cpu="1", status={"nominatedNodeName": node}, **more)


def three_nodes(**options: Any) -> Evaluator:
    nodes = (make_node("full", cpu="4"), make_node("a", cpu="4"), make_node("b", cpu="4"))
    return Evaluator([*nodes, BUSY], **options)


def with_plugin(plugin: type[Plugin], **more: Any) -> Any:
    return load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}, **more}],
        }
    )


def test_every_node_that_passes_is_named_and_scored_whatever_the_percentage() -> None:
    objects = [make_node(f"n{number:03}", cpu="4") for number in range(250)]
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 1,
            "profiles": [{"percentageOfNodesToScore": 1}],
        }
    )
    answer = Evaluator(objects, config=config).evaluate(make_pod("p", cpu="1"))
    assert len(answer.feasible) == len(answer.totals) == 250


def test_a_feasible_nominated_node_is_the_only_answer() -> None:
    answer = three_nodes().evaluate(nominated("b"))
    assert answer.feasible == ("b",)
    assert answer.rejections == {}
    assert set(answer.totals) == {"b"}


@pytest.mark.parametrize("node", ["full", "gone"])
def test_an_infeasible_nominated_node_opens_the_search(node: str) -> None:
    answer = three_nodes().evaluate(nominated(node))
    assert answer.feasible == ("a", "b")
    assert set(answer.rejections) == {"full"}


def test_a_narrowed_search_says_which_nodes_it_looked_at() -> None:
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}]}}}  # fmt: skip
    answer = three_nodes().evaluate(make_pod("p", cpu="1", affinity=wanted))
    assert answer.considered == ("full",)
    assert set(answer.rejections) == {"full"}
    assert answer.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_without_nodes_it_says_what_the_cycle_says() -> None:
    evaluator = Evaluator()
    assert evaluator.evaluate(make_pod("p")).message == "no nodes available to schedule pods"
    assert evaluator.preempt(make_pod("p")) == (evaluator.evaluate(make_pod("p")), None)


def in_a_running_loop(question: Callable[[], Preempted]) -> Preempted:
    async def ask() -> Preempted:
        return question()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda question: question(), id="no loop"),
        pytest.param(in_a_running_loop, id="in a loop"),
    ],
)
def test_preemption_is_reported_and_undone(ask: Callable[[Callable[[], Preempted]], Preempted]) -> None:
    evaluator = Evaluator([make_node("full", cpu="4"), BUSY])
    pod = make_pod("p", cpu="1", priority=10)
    for _again in range(2):
        answer, preemption = ask(lambda: evaluator.preempt(pod))
        assert preemption is not None
        assert (preemption.nominated_node, preemption.victims) == ("full", ("default/busy",))
        assert answer.feasible == ()
    assert evaluator.stores.of(Pod).get("busy", namespace="default") is BUSY
    assert evaluator.stores.of(Pod).get("p", namespace="default") is None


class Floor(msgspec.Struct, rename="camel"):
    min_pods: int = 0


class OnlyBusy(FilterPlugin):
    """Lets a pod only onto nodes with some pods."""

    name = "OnlyBusy"
    args_type = Floor

    def __init__(self, args: Floor, _handle: object) -> None:
        self._floor = args.min_pods

    def filter(self, _state: Any, _pod: Pod, node: Any) -> Status | None:
        return None if node.pod_count >= self._floor else Status.unschedulable("too quiet")


def test_arguments_of_a_plugin_of_ones_own_are_typed() -> None:
    config = with_plugin(OnlyBusy, pluginConfig=[{"name": "OnlyBusy", "args": {"minPods": 1}}])
    evaluator = three_nodes(config=config, plugins={"OnlyBusy": OnlyBusy})
    assert evaluator.evaluate(make_pod("p")).feasible == ("full",)


def test_arguments_left_out_are_the_structs_defaults() -> None:
    evaluator = three_nodes(config=with_plugin(OnlyBusy), plugins={"OnlyBusy": OnlyBusy})
    assert len(evaluator.evaluate(make_pod("p")).feasible) == 3


def test_wrong_arguments_are_all_named() -> None:
    args = {"minPods": "many", "maxPods": 3}
    config = with_plugin(OnlyBusy, pluginConfig=[{"name": "OnlyBusy", "args": args}])
    with pytest.raises(ConfigError, match=r"'OnlyBusy'.*minPods.*an integer|'OnlyBusy'.*maxPods") as caught:
        three_nodes(config=config, plugins={"OnlyBusy": OnlyBusy})
    assert "minPods" in str(caught.value)
    assert "maxPods" in str(caught.value)


class Nowhere(PreFilterPlugin):
    name = "Nowhere"

    def pre_filter(self, *_: Any) -> PreFilterResult:
        raise RuntimeError("lost the map")


def test_a_plugin_that_fails_is_an_error_with_its_name() -> None:
    evaluator = three_nodes(config=with_plugin(Nowhere), plugins={"Nowhere": Nowhere})
    with pytest.raises(KuberthError, match="plugin 'Nowhere' at PreFilter: RuntimeError: lost the map"):
        evaluator.evaluate(make_pod("p"))


def test_extenders_that_are_not_asked_are_named() -> None:
    gpu = {"name": "example.com/gpu", "ignoredByScheduler": True}
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [
                {"urlPrefix": "http://gpu", "filterVerb": "f", "managedResources": [gpu]},
                {"urlPrefix": "http://any", "bindVerb": "b"},
            ],
        }
    )
    evaluator = three_nodes(config=config)
    assert evaluator.evaluate(make_pod("p")).not_asked == ("http://any",)
    # NodeResourcesFit ignores resources that extenders manage, for every caller.
    answer = evaluator.evaluate(make_pod("p", requests={"example.com/gpu": "1"}))
    assert answer.not_asked == ("http://gpu", "http://any")
    assert answer.feasible == ("a", "b", "full")
    assert three_nodes().evaluate(make_pod("p")).not_asked == ()


def test_objections_are_those_of_every_plugin() -> None:
    taint = [{"key": "a", "effect": "NoSchedule"}]
    evaluator = Evaluator(
        [make_node("both", cpu="1", taints=taint), make_node("small", cpu="1"), make_node("ok")]
    )
    pod = make_pod("p", cpu="2")
    found = evaluator.objections(pod)
    assert {name: [status.plugin for status in given] for name, given in found.items()} == {
        "both": ["TaintToleration", "NodeResourcesFit"],
        "small": ["NodeResourcesFit"],
    }
    # The first of them is what a cycle goes by.
    assert {name: given[0] for name, given in found.items()} == evaluator.evaluate(pod).rejections


def test_without_pre_filter_there_are_no_objections() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
    evaluator = three_nodes()
    assert evaluator.evaluate(make_pod("p", volumes=volumes)).rejected_by == ("VolumeRestrictions",)
    assert evaluator.objections(make_pod("p", volumes=volumes)) == {}


def test_what_is_removed_counts_no_longer() -> None:
    evaluator = three_nodes()
    pod = make_pod("p", cpu="1")
    assert sorted(evaluator.feasible(pod)) == ["a", "b"]
    evaluator.remove(BUSY)
    assert sorted(evaluator.feasible(pod)) == ["a", "b", "full"]
    evaluator.remove(make_node("a"), make_node("b"))
    assert evaluator.feasible(pod) == ["full"]
    evaluator.add(BUSY)
    assert evaluator.feasible(pod) == []
    evaluator.remove(make_node("full"))
    assert evaluator.feasible(pod) == []
    assert evaluator.evaluate(pod).message == "no nodes available to schedule pods"
