"""NodeResourcesFit: which nodes lack what, in which words, and what no eviction can mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import load
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import Code, Status
from kuberth.plugins.node_resources_fit.plugin import NodeResourcesFit
from kuberth.testing import make_node, make_pod

FITS = None
NOW = Code.UNSCHEDULABLE
EVER = Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def fit_alone(*objects: Node | Pod, **args: Any) -> Evaluator:
    """A profile in which nothing but this plugin filters and scores."""
    profile: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")],
            }
        },
        "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return Evaluator(objects, config=load(document))


def asking(**requests: str) -> dict[str, Any]:
    """A container's resources; `_` in a name stands for `-`."""
    return {"requests": {name.replace("_", "-"): amount for name, amount in requests.items()}}


def outcome(rejection: Status | None) -> tuple[Code, tuple[str, ...]] | None:
    return None if rejection is None else (rejection.code, rejection.reasons)


@pytest.mark.parametrize(
    "node, placed, pod, expected",
    (
        pytest.param({}, (), {}, FITS, id="asks for nothing"),
        pytest.param({}, (), {"cpu": "4", "memory": "8Gi"}, FITS, id="takes all there is"),
        pytest.param({}, ({"cpu": "3"},), {"cpu": "1"}, FITS, id="takes all that is left"),
        pytest.param({}, ({"cpu": "3"},), {"cpu": "1001m"}, (NOW, ("Insufficient cpu",)), id="cpu taken"),
        pytest.param(
            {}, (), {"cpu": "4001m"}, (EVER, ("Insufficient cpu",)), id="more cpu than the node has"
        ),
        pytest.param({}, ({"memory": "8Gi"},), {"memory": "1"}, (NOW, ("Insufficient memory",)), id="memory"),
        pytest.param(
            {"pods": "1"},
            ({"cpu": "4", "memory": "8Gi"},),
            {"cpu": "1", "memory": "1Gi"},
            (NOW, ("Too many pods", "Insufficient cpu", "Insufficient memory")),
            id="every reason is reported",
        ),
        pytest.param(
            {},
            ({"cpu": "4"},),
            {"cpu": "1", "memory": "9Gi"},
            (EVER, ("Insufficient cpu", "Insufficient memory")),
            id="one hopeless reason is enough",
        ),
        pytest.param({"pods": "1"}, ({},), {}, (NOW, ("Too many pods",)), id="no place for another pod"),
        pytest.param(
            {"pods": "0"}, (), {}, (NOW, ("Too many pods",)), id="takes no pods, still not hopeless"
        ),
        pytest.param(
            {},
            (),
            {"requests": {"ephemeral-storage": "1Gi"}},
            (EVER, ("Insufficient ephemeral-storage",)),
            id="storage the node does not have",
        ),
        pytest.param(
            {},
            (),
            {"requests": {"nvidia.com/gpu": "1"}},
            (EVER, ("Insufficient nvidia.com/gpu",)),
            id="a resource no node has",
        ),
        pytest.param(
            {}, (), {"requests": {"nvidia.com/gpu": "0"}}, FITS, id="none of a resource no node has"
        ),
        pytest.param(
            {"allocatable": {"nvidia.com/gpu": "2"}},
            ({"requests": {"nvidia.com/gpu": "2"}},),
            {"requests": {"nvidia.com/gpu": "1"}},
            (NOW, ("Insufficient nvidia.com/gpu",)),
            id="extended resource taken",
        ),
        pytest.param(
            {"allocatable": {"hugepages-2Mi": "64Mi"}},
            (),
            {"requests": {"hugepages-2Mi": "66Mi"}},
            (EVER, ("Insufficient hugepages-2Mi",)),
            id="huge pages",
        ),
        pytest.param({}, (), {"requests": {"foo": "3"}}, FITS, id="a name that is no counted resource"),
        pytest.param(
            {}, (), {"cpu": "3", "overhead": {"cpu": "2"}}, (EVER, ("Insufficient cpu",)), id="overhead adds"
        ),
        pytest.param(
            {},
            (),
            {"cpu": "1", "initContainers": [{"name": "i", "resources": asking(cpu="4")}]},
            FITS,
            id="init containers run before the others",
        ),
        pytest.param(
            {},
            (),
            {
                "cpu": "1",
                "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": asking(cpu="4")}],
            },
            (EVER, ("Insufficient cpu",)),
            id="sidecars run beside the others",
        ),
        pytest.param(
            {},
            (),
            {"cpu": "1", "resources": asking(cpu="5")},
            (EVER, ("Insufficient cpu",)),
            id="the request at pod level counts",
        ),
        pytest.param(
            {},
            ({"resources": asking(cpu="3500m")},),
            {"cpu": "1"},
            (NOW, ("Insufficient cpu",)),
            id="the request at pod level counts for placed pods",
        ),
        pytest.param(
            {},
            (),
            {
                "cpu": "1",
                "status": {
                    "containerStatuses": [
                        {
                            "name": "main",
                            "resources": asking(cpu="5"),
                            "allocatedResources": {"cpu": "5"},
                        }
                    ]
                },
            },
            FITS,
            id="status of a pod without a node does not count",
        ),
    ),
)
def test_filter(
    node: dict[str, Any],
    placed: Sequence[dict[str, Any]],
    pod: dict[str, Any],
    expected: tuple[Code, tuple[str, ...]] | None,
) -> None:
    objects = [make_pod(f"placed-{index}", node="n1", **kwargs) for index, kwargs in enumerate(placed)]
    evaluator = fit_alone(make_node("n1", **node), *objects)
    answer = evaluator.evaluate(make_pod("pending", **pod), score=False)
    assert outcome(answer.rejections.get("n1")) == expected
    assert answer.feasible == (() if expected else ("n1",))


@pytest.mark.parametrize(
    "args, resource, passes",
    (
        pytest.param({"ignoredResources": ["a.example/x"]}, "a.example/x", True, id="by name"),
        pytest.param({"ignoredResources": ["a.example/x"]}, "a.example/y", False, id="another name"),
        pytest.param({"ignoredResourceGroups": ["a.example"]}, "a.example/y", True, id="by group"),
        pytest.param({"ignoredResourceGroups": ["a.example"]}, "b.example/y", False, id="another group"),
        pytest.param({"ignoredResources": ["hugepages-2Mi"]}, "hugepages-2Mi", False, id="not extended"),
    ),
)
def test_ignored_resources(args: dict[str, Any], resource: str, passes: bool) -> None:
    evaluator = fit_alone(make_node("n1"), **args)
    answer = evaluator.evaluate(make_pod("pending", requests={resource: "2"}), score=False)
    assert bool(answer.feasible) == passes


def test_more_reasons_than_bits() -> None:
    names = [f"example.com/r{number:02d}" for number in range(70)]
    some = dict.fromkeys(names[:35], "1")
    evaluator = fit_alone(
        make_node("none"),
        make_node("some", allocatable=some),
        make_node("all", allocatable=dict.fromkeys(names, "1")),
    )
    answer = evaluator.evaluate(make_pod("greedy", requests=dict.fromkeys(names, "1")))
    assert answer.feasible == ("all",)
    assert outcome(answer.rejections["none"]) == (EVER, tuple(f"Insufficient {name}" for name in names))
    assert outcome(answer.rejections["some"]) == (EVER, tuple(f"Insufficient {name}" for name in names[35:]))


def test_unreadable_request_rejects_the_pod_and_names_it() -> None:
    answer = fit_alone(make_node("n1")).evaluate(make_pod("bad", cpu="four"))
    assert answer.pre_filter is not None
    assert answer.pre_filter.code == EVER
    assert answer.pre_filter.plugin == "NodeResourcesFit"
    assert "four" in answer.pre_filter.message


def test_unreadable_affinity_is_not_this_plugins_business() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = make_pod("odd", cpu="5", affinity=affinity)
    assert PodInfo(pod).problems
    answer = fit_alone(make_node("n1")).evaluate(pod)
    assert outcome(answer.rejections["n1"]) == (EVER, ("Insufficient cpu",))


def test_what_if_is_seen_by_filter() -> None:
    """PreFilter ran before; Filter looks at the table as it stands."""
    victim = PodInfo(make_pod("victim", node="n1", cpu="4"))
    evaluator = fit_alone(make_node("n1"), victim.pod)
    pod = make_pod("pending", cpu="2")
    state = CycleState(PodInfo(pod))
    node = evaluator.cluster.node_named("n1")
    assert node is not None
    evaluator.runner.pre_filtering.run(state, pod, evaluator.cluster.all_nodes())
    assert not evaluator.runner.filtering.status(state, pod, node).is_success
    with evaluator.cluster.what_if() as what_if:
        what_if.remove_pod(victim, node.row)
        assert evaluator.runner.filtering.status(state, pod, node).is_success
    assert not evaluator.runner.filtering.status(state, pod, node).is_success


def test_all_rows_and_single_rows_agree() -> None:
    nodes = [
        make_node(
            f"n{number}",
            cpu=str(number % 4),
            memory=f"{number % 3}Gi",
            pods=str(number % 5),
            allocatable={"nvidia.com/gpu": str(number % 2)},
        )
        for number in range(60)
    ]
    placed = [make_pod(f"p{number}", node=f"n{number}", cpu="1500m") for number in range(0, 60, 2)]
    evaluator = fit_alone(*nodes, *placed)
    evaluator.cluster.remove_node("n7")
    pod = make_pod("pending", cpu="1", memory="1Gi", requests={"nvidia.com/gpu": "1"})
    state = CycleState(PodInfo(pod))
    everything = evaluator.cluster.all_nodes()
    plugin = next(p for p in evaluator.runner.profile.filter if isinstance(p, NodeResourcesFit))
    assert plugin.pre_filter(state, pod, everything) is None
    verdict = plugin.filter_nodes(state, pod, everything)
    assert verdict is not None
    hints = set()
    for position, code in enumerate(verdict.codes.tolist()):
        alone = plugin.filter_nodes(state, pod, everything.node(position).alone)
        single = 0 if alone is None else int(alone.codes[0])
        assert bool(single) == bool(code)
        if alone is not None and single:
            assert alone.status(single) == verdict.status(code)
            hints.add(verdict.status(code))
    assert len(hints) > 5
