"""Scores of NodeResourcesFit's strategies and of NodeResourcesBalancedAllocation, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.config import load
from kuberth.config.plugin_args import ScoringStrategy
from kuberth.errors import ConfigError
from kuberth.evaluation import Evaluator
from kuberth.plugins.node_resources_fit.strategies import strategy_of
from kuberth.testing import make_node, make_pod
from tests.unit.plugins.device_objects import make_class, make_slice
from tests.unit.plugins.harness import assert_views_agree, evaluator

FIT = "NodeResourcesFit"
BALANCED = "NodeResourcesBalancedAllocation"
GPU = "nvidia.com/gpu"
CPU_AND_MEMORY = ({"name": "cpu"}, {"name": "memory"})


def scoring_alone(plugin: str, args: dict[str, Any], *objects: Node | Pod) -> Evaluator:
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name} for name in ("PrioritySort", "DefaultBinder")],
            },
            "preScore": {"enabled": [{"name": plugin}]},
            "score": {"enabled": [{"name": plugin}]},
        },
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return Evaluator(objects, config=load(document))


def score_on(
    plugin: str,
    args: dict[str, Any],
    *,
    node: dict[str, Any],
    placed: Sequence[dict[str, Any]],
    pod: dict[str, Any],
) -> int | None:
    """The score of the one node; None if the plugin skipped."""
    objects = [make_pod(f"placed-{index}", node="n1", **kwargs) for index, kwargs in enumerate(placed)]
    judge = scoring_alone(plugin, args, make_node("n1", **node), *objects)
    scores = judge.evaluate(make_pod("pending", **pod)).scores
    return scores[plugin]["n1"] if plugin in scores else None


def strategy(
    name: str, *resources: dict[str, Any], shape: Sequence[tuple[int, int]] | None = None
) -> dict[str, Any]:
    settings: dict[str, Any] = {"type": name, "resources": list(resources or CPU_AND_MEMORY)}
    if shape is not None:
        points = [{"utilization": utilization, "score": score} for utilization, score in shape]
        settings["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": settings}


def least(*resources: dict[str, Any]) -> dict[str, Any]:
    return strategy("LeastAllocated", *resources)


def most(*resources: dict[str, Any]) -> dict[str, Any]:
    return strategy("MostAllocated", *resources)


def ratio(*shape: tuple[int, int]) -> dict[str, Any]:
    return strategy("RequestedToCapacityRatio", shape=shape)


# The node has 4 CPUs and 8Gi unless a case says otherwise.
@pytest.mark.parametrize(
    "args, node, placed, pod, expected",
    (
        pytest.param({}, {}, (), {"cpu": "1", "memory": "2Gi"}, 75, id="three quarters are left"),
        # 3900*100/4000 = 97.5 and (8192-200)*100/8192 = 97.56, both truncated.
        pytest.param({}, {}, (), {}, 97, id="a pod without requests counts 100m and 200Mi"),
        pytest.param({}, {}, (), {"cpu": "0", "memory": "0"}, 100, id="a request of zero is a request"),
        pytest.param({}, {}, ({},), {"cpu": "1", "memory": "2Gi"}, 72, id="so do placed pods"),
        # cpu (4000-2000)*100/4000 = 50, memory 97: 147/2.
        pytest.param({}, {}, (), {"cpu": "2"}, 73, id="each resource by itself"),
        pytest.param({}, {}, (), {"cpu": "9", "memory": "8Gi"}, 0, id="more than there is"),
        pytest.param(
            {}, {"cpu": "0"}, (), {"cpu": "1", "memory": "2Gi"}, 75, id="what a node lacks is left out"
        ),
        pytest.param({}, {"cpu": "0", "memory": "0"}, (), {"cpu": "1"}, 0, id="a node that has nothing"),
        pytest.param(
            {},
            {},
            (),
            {"resources": {"requests": {"cpu": "3", "memory": "2Gi"}}},
            97,
            id="the request at pod level does not count for the pod itself",
        ),
        pytest.param(
            {},
            {},
            ({"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}},),
            {"cpu": "1", "memory": "2Gi"},
            25,
            id="but counts for placed pods",
        ),
        pytest.param(
            {},
            {},
            (),
            {
                "cpu": "1",
                "memory": "2Gi",
                "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}],
                "overhead": {"cpu": "1", "memory": "2Gi"},
            },
            25,
            id="init container and overhead",
        ),
        pytest.param(
            least({"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}),
            {},
            (),
            {"cpu": "2", "memory": "2Gi"},
            56,
            id="weights: (3*50 + 75)/4",
        ),
        pytest.param(
            least({"name": "cpu"}, {"name": GPU, "weight": 3}),
            {"allocatable": {GPU: "4"}},
            (),
            {"cpu": "1"},
            75,
            id="an extended resource the pod does not ask for",
        ),
        pytest.param(
            least({"name": "cpu"}, {"name": GPU, "weight": 3}),
            {"allocatable": {GPU: "4"}},
            (),
            {"cpu": "1", "requests": {GPU: "2"}},
            56,
            id="one it asks for: (75 + 3*50)/4",
        ),
        pytest.param(
            least({"name": "ephemeral-storage"}),
            {"allocatable": {"ephemeral-storage": "10Gi"}},
            ({"requests": {"ephemeral-storage": "2Gi"}},),
            {},
            80,
            id="storage has no default",
        ),
        pytest.param(
            least({"name": "pods"}, {"name": "cpu"}),
            {},
            (),
            {"cpu": "1"},
            75,
            id="pods are not a resource here",
        ),
        pytest.param(most(), {}, (), {"cpu": "1", "memory": "4Gi"}, 37, id="most: (25 + 50)/2"),
        pytest.param(most(), {}, (), {"cpu": "9", "memory": "4Gi"}, 75, id="most: at most what there is"),
        pytest.param(
            most({"name": "cpu", "weight": 3}, {"name": "memory"}),
            {},
            (),
            {"cpu": "1", "memory": "4Gi"},
            31,
            id="most: (3*25 + 50)/4",
        ),
        pytest.param(ratio((0, 0), (100, 10)), {}, (), {"cpu": "1", "memory": "4Gi"}, 38, id="ratio: 37.5"),
        pytest.param(
            ratio((0, 0), (50, 0), (100, 10)),
            {},
            (),
            {"cpu": "1", "memory": "6Gi"},
            50,
            id="ratio: a resource that scores zero is left out",
        ),
        # 100 + (90-100)*25/30 = 100 - 8.33, toward zero.
        pytest.param(
            ratio((0, 10), (30, 9)), {}, (), {"cpu": "1", "memory": "2Gi"}, 92, id="ratio: falling line"
        ),
        pytest.param(
            ratio((30, 2), (60, 8)), {}, (), {"cpu": "1", "memory": "8Gi"}, 50, id="ratio: beyond both ends"
        ),
        pytest.param(
            ratio((0, 0), (100, 10)), {}, (), {"cpu": "9", "memory": "8Gi"}, 100, id="ratio: overdrawn"
        ),
        pytest.param(ratio((0, 0), (100, 0)), {}, (), {"cpu": "1"}, 0, id="ratio: nothing scores"),
        # 2Ei*100 wraps around to the smallest int64, and that by 3Ei is -2 toward zero; with 93: 91/2.
        pytest.param({}, {"memory": "3Ei"}, (), {"cpu": "250m", "memory": "1Ei"}, 45, id="wraps around"),
        # 3Ei*100 wraps around to -4Ei, and that by 3Ei is -1; with 25: 24/2.
        pytest.param(
            most(), {"memory": "3Ei"}, (), {"cpu": "1", "memory": "3Ei"}, 12, id="most wraps around"
        ),
        # 5Ei+4Ei are more than int64 holds: nothing is left, 0; with 98: 98/2. Upstream wraps around.
        pytest.param(
            {},
            {"memory": "7Ei"},
            ({"cpu": "0", "memory": "5Ei"},),
            {"cpu": "80m", "memory": "4Ei"},
            49,
            id="a sum beyond int64",
        ),
    ),
)
def test_fit(
    args: dict[str, Any],
    node: dict[str, Any],
    placed: Sequence[dict[str, Any]],
    pod: dict[str, Any],
    expected: int,
) -> None:
    assert score_on(FIT, args, node=node, placed=placed, pod=pod) == expected


def balance(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name, "weight": 1} for name in names]}


THREE = balance("cpu", "memory", GPU)
WITH_GPU = {"allocatable": {GPU: "4"}}


@pytest.mark.parametrize(
    "args, node, placed, pod, expected",
    (
        pytest.param({}, {}, (), {"cpu": "1", "memory": "2Gi"}, 75, id="as even as before"),
        # 1/2 and 0: a deviation of 1/4, so 75 instead of 100: 50 + (50 - 25)/2.
        pytest.param({}, {}, (), {"cpu": "2"}, 62, id="less even; no default for what is not asked for"),
        pytest.param({}, {}, ({"cpu": "2"},), {"memory": "4Gi"}, 87, id="more even"),
        pytest.param({}, {}, (), {"cpu": "4"}, 50, id="as uneven as can be"),
        pytest.param({}, {}, ({"cpu": "4"},), {"memory": "8Gi"}, 100, id="made perfectly even"),
        pytest.param({}, {}, (), {"cpu": "9", "memory": "8Gi"}, 75, id="never more than all of it"),
        pytest.param({}, {}, (), {}, None, id="a pod without requests"),
        pytest.param({}, {}, (), {"cpu": "0"}, None, id="a pod that asks for zero"),
        pytest.param({}, {}, (), {"requests": {GPU: "1"}}, None, id="a pod that asks for something else"),
        pytest.param({}, {"memory": "0"}, (), {"cpu": "2"}, 75, id="one resource is always even"),
        pytest.param({}, {"cpu": "0", "memory": "0"}, (), {"cpu": "2"}, 75, id="so is none"),
        # 1/2, 0 and 1: a deviation of sqrt(1/6), 0.408: 59 instead of 100: 50 + (50 - 41)/2.
        pytest.param(THREE, WITH_GPU, (), {"cpu": "2", "requests": {GPU: "4"}}, 54, id="three resources"),
        pytest.param(THREE, WITH_GPU, (), {"cpu": "2"}, 62, id="only two of three are asked for"),
        pytest.param(THREE, {}, (), {"cpu": "2", "requests": {GPU: "4"}}, 62, id="the node has two of three"),
        pytest.param(
            THREE, {**WITH_GPU, "memory": "0"}, (), {"cpu": "2", "requests": {GPU: "4"}}, 62, id="two"
        ),
        pytest.param(balance("foo"), {}, (), {"requests": {"foo": "1"}}, 75, id="not counted on any node"),
        pytest.param({}, {}, (), {"resources": {"requests": {"cpu": "2"}}}, 62, id="pod level counts"),
    ),
)
def test_balanced_allocation(
    args: dict[str, Any],
    node: dict[str, Any],
    placed: Sequence[dict[str, Any]],
    pod: dict[str, Any],
    expected: int | None,
) -> None:
    assert score_on(BALANCED, args, node=node, placed=placed, pod=pod) == expected


@pytest.mark.parametrize("plugin", (FIT, BALANCED))
def test_unreadable_request_is_not_scored(plugin: str) -> None:
    """NodeResourcesFit rejects such a pod, but a profile may have its Filter switched off."""
    assert score_on(plugin, {}, node={}, placed=(), pod={"cpu": "four"}) is None


LARGE = st.integers(2**52, 2**54) | st.integers(2**55, 2**62 - 1)
AMOUNTS = st.just(0) | st.integers(1, 9) | st.integers(1, 2**40) | LARGE
CAPACITIES = AMOUNTS | st.integers(2**62, 2**63 - 1)
LINE = ((9, 2), (70, 9))
FOUR = ("cpu", "memory", "ephemeral-storage", GPU)


def quantities(amounts: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def of_some(amounts: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(FOUR), amounts).map(quantities)


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes that offer some of the resources, a pod on each, and devices where a class stands behind one."""
    objects: list[Any] = [make_class("gpu", extendedResourceName=GPU)] if draw(st.booleans()) else []
    for name in "abcdef"[: draw(st.integers(1, 6))]:
        offered = {"cpu": "0", "memory": "0", **draw(of_some(CAPACITIES))}
        objects.append(make_node(name, pods=str(draw(st.integers(1, 2))), allocatable=offered))
        objects.append(make_pod(f"on-{name}", node=name, requests=draw(of_some(AMOUNTS))))
        if devices := draw(st.integers(0, 2)):
            objects.append(make_slice(name, devices))
    return objects


@pytest.mark.parametrize(
    "plugin, args",
    (
        pytest.param(FIT, {}, id="least"),
        pytest.param(FIT, least(*({"name": name, "weight": 3} for name in FOUR)), id="least of four"),
        pytest.param(FIT, least({"name": GPU}), id="least of one"),
        pytest.param(FIT, least({"name": "pods"}), id="least of none"),
        pytest.param(FIT, most({"name": "cpu"}, {"name": GPU, "weight": 2}), id="most"),
        pytest.param(FIT, most(*({"name": name, "weight": 100} for name in FOUR)), id="most of four"),
        pytest.param(FIT, ratio((0, 10), (60, 4), (100, 0)), id="ratio"),
        pytest.param(
            FIT,
            strategy("RequestedToCapacityRatio", *CPU_AND_MEMORY, {"name": GPU, "weight": 7}, shape=LINE),
            id="ratio of three",
        ),
        pytest.param(BALANCED, balance("memory"), id="balanced over one"),
        pytest.param(BALANCED, {}, id="balanced"),
        pytest.param(BALANCED, THREE, id="balanced over three"),
        pytest.param(BALANCED, balance(*FOUR), id="balanced over four"),
    ),
)
@settings(max_examples=60, deadline=None)
@given(objects=clusters(), requests=of_some(AMOUNTS))
def test_all_rows_and_single_rows_agree(
    plugin: str, args: dict[str, Any], objects: list[Any], requests: dict[str, str]
) -> None:
    assert_views_agree(evaluator(plugin, *objects, args=args), plugin, make_pod("pending", requests=requests))


def test_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"'Random'.*LeastAllocated, MostAllocated, RequestedToCapacityRatio"
    ):
        strategy_of(ScoringStrategy(type="Random"))
