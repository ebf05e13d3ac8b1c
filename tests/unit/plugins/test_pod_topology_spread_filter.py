from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import Code
from kuberth.plugins.pod_topology_spread import constraints as constraints_module
from kuberth.plugins.pod_topology_spread.plugin import PodTopologySpread
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "PodTopologySpread"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB: Mapping[str, str] = {"app": "web"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SKEWED = (Code.UNSCHEDULABLE, ("node(s) didn't match pod topology spread constraints",))
NO_LABEL = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
)


def spread(key: str = ZONE, *, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(WEB)},
        **more,
    }


def incoming(*constraints: dict[str, Any], labels: Mapping[str, str] = WEB, **spec: Any) -> Pod:
    return make_pod("in", labels=labels, topologySpreadConstraints=list(constraints), **spec)


def zoned(**zones: str) -> list[Node]:
    """Nodes by name with their zones; "-" for a node without one."""
    return [make_node(name, labels={} if zone == "-" else {ZONE: zone}) for name, zone in zones.items()]


def web_pods(*nodes: str, **pod: Any) -> list[Pod]:
    return [make_pod(f"run-{number}", node=node, labels=WEB, **pod) for number, node in enumerate(nodes)]


def verdicts(judge: Evaluator, pod: Pod) -> dict[str, tuple[Code, tuple[str, ...]]]:
    answer = judge.evaluate(pod, score=False)
    assert answer.pre_filter is None
    return {name: (status.code, status.reasons) for name, status in answer.rejections.items()}


THREE = {"a1": "a", "a2": "a", "b1": "b"}


@pytest.mark.parametrize(
    ("nodes", "pods", "constraints", "rejected"),
    [
        pytest.param(THREE, [], [spread()], {}, id="empty zones"),
        pytest.param(THREE, ["a1"], [spread()], {"a1": SKEWED, "a2": SKEWED}, id="one ahead"),
        pytest.param(THREE, ["a1"], [spread(skew=2)], {}, id="skew 2 allows one ahead"),
        pytest.param(THREE, ["a1", "b1"], [spread()], {}, id="even"),
        pytest.param(THREE, ["a1"], [spread(HOST)], {"a1": SKEWED}, id="hosts"),
        pytest.param(
            {**THREE, "x": "-"}, [], [spread()], {"x": NO_LABEL}, id="a node without the key is out for good"
        ),
        pytest.param(
            {**THREE, "x": "-"},
            ["x", "x"],
            [spread()],
            {"x": NO_LABEL},
            id="pods on a node without the key do not count",
        ),
        pytest.param(
            {**THREE, "x": "-"},
            ["a1", "b1"],
            [spread(HOST), spread()],
            {"a1": SKEWED, "b1": SKEWED, "x": NO_LABEL},
            id="a node without one key counts for no constraint: x is not the emptiest host",
        ),
        pytest.param(
            {**THREE, "x": "-"},
            ["x"],
            [spread(HOST), spread()],
            {"x": NO_LABEL},
            id="and its pods are not counted, so only its own missing key speaks",
        ),
        pytest.param(
            THREE,
            [],
            [spread(minDomains=3)],
            {},
            id="too few domains: the minimum is 0, and so are the counts",
        ),
        pytest.param(
            THREE,
            ["a1", "b1"],
            [spread(minDomains=3)],
            {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED},
            id="too few domains: even is not enough",
        ),
        pytest.param(THREE, ["a1", "b1"], [spread(minDomains=2)], {}, id="just enough domains"),
        pytest.param(
            {"a1": "", "b1": "b"}, ["a1"], [spread()], {"a1": SKEWED}, id="an empty value is a domain too"
        ),
        pytest.param(THREE, ["a1"], [spread(labelSelector=None)], {}, id="no selector counts no pod"),
        pytest.param(
            THREE, ["a1"], [spread(labelSelector={})], {}, id="an empty selector counts none either"
        ),
    ],
)
def test_hard_constraints(
    nodes: Mapping[str, str],
    pods: Sequence[str],
    constraints: Sequence[dict[str, Any]],
    rejected: Mapping[str, Any],
) -> None:
    judge = evaluator(PLUGIN, *zoned(**nodes), *web_pods(*pods))
    pod = incoming(*constraints)
    assert verdicts(judge, pod) == rejected
    assert_views_agree(judge, PLUGIN, pod)


def test_a_pod_that_does_not_match_itself_adds_nothing() -> None:
    judge = evaluator(PLUGIN, *zoned(**THREE), *web_pods("a1"))
    assert verdicts(judge, incoming(spread(), labels={"app": "db"})) == {}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(web_pods("a1", metadata=DELETED), id="being deleted"),
        pytest.param(web_pods("a1", namespace="other"), id="in another namespace"),
    ],
)
def test_pods_that_do_not_count(pods: list[Pod]) -> None:
    assert verdicts(evaluator(PLUGIN, *zoned(**THREE), *pods), incoming(spread())) == {}


def test_match_label_keys_narrow_to_pods_of_the_same_value() -> None:
    old = make_pod("old", node="a1", labels={**WEB, "rev": "1"})
    new = make_pod("new", node="b1", labels={**WEB, "rev": "2"})
    judge = evaluator(PLUGIN, *zoned(**THREE), old, new)
    constraint = spread(matchLabelKeys=["rev", "not-on-the-pod"])
    assert verdicts(judge, incoming(constraint, labels={**WEB, "rev": "2"})) == {"b1": SKEWED}
    assert verdicts(judge, incoming(constraint)) == {}, "without the label on the pod nothing is narrowed"
    with_any = spread(matchLabelKeys=["rev"], labelSelector={})
    assert verdicts(judge, incoming(with_any, labels={"rev": "1"})) == {"a1": SKEWED, "a2": SKEWED}
    off = evaluator(PLUGIN, *zoned(**THREE), old, new, gates={"MatchLabelKeysInPodTopologySpread": False})
    assert verdicts(off, incoming(constraint, labels={**WEB, "rev": "2"})) == {}


@pytest.mark.parametrize(
    ("policy", "rejected"),
    [
        # Zone b is out of reach; if it counts as an (empty) domain, zone a is ahead of it.
        pytest.param({}, {}, id="affinity is honored by default"),
        pytest.param({"nodeAffinityPolicy": "Honor"}, {}, id="affinity honored"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"a1": SKEWED, "a2": SKEWED}, id="affinity ignored"),
    ],
)
def test_node_affinity_policy(policy: dict[str, Any], rejected: Mapping[str, Any]) -> None:
    judge = evaluator(PLUGIN, *zoned(**THREE), *web_pods("a1"))
    selected = incoming(spread(**policy), nodeSelector={ZONE: "a"})
    assert verdicts(judge, selected) == rejected
    expression = {"key": ZONE, "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert verdicts(judge, incoming(spread(**policy), affinity=affinity)) == rejected


@pytest.mark.parametrize(
    ("policy", "rejected"),
    [
        pytest.param({}, {"a1": SKEWED, "a2": SKEWED}, id="taints are ignored by default"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, {"a1": SKEWED, "a2": SKEWED}, id="taints ignored"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {}, id="taints honored"),
    ],
)
def test_node_taints_policy(policy: dict[str, Any], rejected: Mapping[str, Any]) -> None:
    tainted = make_node("b1", labels={ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    judge = evaluator(PLUGIN, *zoned(a1="a", a2="a"), tainted, *web_pods("a1"))
    assert verdicts(judge, incoming(spread(**policy))) == rejected
    tolerating = incoming(spread(**policy), tolerations=[{"key": "k", "operator": "Exists"}])
    assert verdicts(judge, tolerating) == {"a1": SKEWED, "a2": SKEWED}


def test_pods_on_nodes_that_do_not_count_are_not_counted() -> None:
    # a2 is tainted, so its three pods are not seen: zone a has one pod, as has zone b.
    tainted = make_node("a2", labels={ZONE: "a"}, taints=[{"key": "k", "effect": "NoExecute"}])
    judge = evaluator(PLUGIN, *zoned(a1="a", b1="b"), tainted, *web_pods("a1", "a2", "a2", "a2", "b1"))
    pod = incoming(spread(nodeTaintsPolicy="Honor"))
    assert verdicts(judge, pod) == {}
    assert_views_agree(judge, PLUGIN, pod)


LIST_OF_ONE = {
    "defaultingType": "List",
    "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
}


@pytest.mark.parametrize(
    ("args", "pod", "skipped"),
    [
        pytest.param(None, make_pod("in", labels=WEB), True, id="system defaults are soft"),
        pytest.param(LIST_OF_ONE, make_pod("in", labels=WEB), True, id="no service selects the pod"),
        pytest.param(
            None, incoming(spread(whenUnsatisfiable="ScheduleAnyway")), True, id="only soft constraints"
        ),
        pytest.param(None, incoming(spread()), False, id="a hard constraint"),
    ],
)
def test_pre_filter_skips_without_hard_constraints(args: Any, pod: Pod, skipped: bool) -> None:
    judge = evaluator(PLUGIN, *zoned(**THREE), args=args)
    state = CycleState(PodInfo(pod))
    assert judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes()).status.is_success
    assert state.skip_filter == (frozenset({PLUGIN}) if skipped else frozenset())


@pytest.mark.parametrize("action", ["DoNotSchedule", "ScheduleAnyway"])
def test_an_unreadable_selector_is_reported(action: str) -> None:
    broken = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}
    pod = incoming(spread(whenUnsatisfiable=action, labelSelector=broken))
    answer = evaluator(PLUGIN, *zoned(**THREE)).evaluate(pod)
    assert answer.pre_filter is not None
    assert answer.pre_filter.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.pre_filter.plugin == PLUGIN
    assert "'Like'" in answer.pre_filter.message


def test_no_nodes_at_all() -> None:
    assert evaluator(PLUGIN).evaluate(incoming(spread())).feasible == ()


# What preemption and nominated pods ask: one row, changed for the question.


def judged_without(
    judge: Evaluator, pod: Pod, node_name: str, *, removed: Sequence[Pod] = (), added: Sequence[Pod] = ()
) -> Code:
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    node = judge.cluster.node_named(node_name)
    assert node is not None
    trial = state.clone()
    with judge.cluster.what_if() as what_if:
        for other in removed:
            info = judge.cluster.placed(other.metadata.uid)
            assert info is not None
            what_if.remove_pod(info, node.row)
            assert judge.runner.filtering.run_remove_pod(trial, pod, info, node).is_success
        for other in added:
            info = PodInfo(other)
            what_if.add_pod(info, node.row)
            assert judge.runner.filtering.run_add_pod(trial, pod, info, node).is_success
        return judge.runner.filtering.status(trial, pod, node, with_nominated=False).code


def test_a_what_if_is_followed() -> None:
    pods = web_pods("a1", "a2", "b1")
    judge = evaluator(PLUGIN, *zoned(**THREE), *pods)
    pod = incoming(spread())
    assert judged_without(judge, pod, "a1") == Code.UNSCHEDULABLE
    assert judged_without(judge, pod, "a1", removed=pods[:1]) == Code.SUCCESS
    assert judged_without(judge, pod, "b1") == Code.SUCCESS
    two = [make_pod("x", labels=WEB), make_pod("y", labels=WEB)]
    assert judged_without(judge, pod, "b1", added=two) == Code.UNSCHEDULABLE
    assert judged_without(judge, pod, "a1") == Code.UNSCHEDULABLE, "the what-if is over"


def test_removing_a_pod_that_is_being_deleted_counts_as_upstream() -> None:
    # kube-scheduler v1.36.4: zone a has one pod and one that is going and not counted. With the second
    # taken away the count is 0, as low as zone b's, although the counted pod is still there.
    going = make_pod("going", node="a1", labels=WEB, metadata=DELETED)
    judge = evaluator(PLUGIN, *zoned(a1="a", b1="b"), *web_pods("a1"), going)
    pod = incoming(spread())
    assert judged_without(judge, pod, "a1") == Code.UNSCHEDULABLE
    assert judged_without(judge, pod, "a1", removed=[going]) == Code.SUCCESS


def test_nominated_pods_count_for_an_empty_selector_as_upstream() -> None:
    judge = evaluator(PLUGIN, *zoned(a1="a", b1="b"), *web_pods("a1"))
    pod = incoming(spread(labelSelector={}))
    assert judged_without(judge, pod, "a1") == Code.SUCCESS
    assert judged_without(judge, pod, "a1", added=[make_pod("x")]) == Code.UNSCHEDULABLE
    elsewhere = make_pod("y", namespace="other")
    assert judged_without(judge, pod, "a1", added=[elsewhere]) == Code.SUCCESS


def test_nothing_is_counted_if_no_node_has_all_the_keys() -> None:
    judge = evaluator(PLUGIN, *zoned(a="a", b="b", c="-"), *web_pods("a"))
    selectors = [{"matchLabels": {"app": f"web-{number}"}} for number in range(1500)]
    constraints = [
        spread(f"key-{number}", labelSelector=selector) for number, selector in enumerate(selectors)
    ]
    assert verdicts(judge, incoming(spread(), *constraints)) == dict.fromkeys("abc", NO_LABEL)
    assert not judge.cluster.terms._counted


def test_keys_of_waiting_pods_are_read_without_compiling_selectors(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = evaluator(PLUGIN, *zoned(a="a"))
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, PodTopologySpread)
    compiled: list[object] = []
    monkeypatch.setattr(constraints_module, "compile_label_selector", compiled.append)
    soft = spread("soft", whenUnsatisfiable="ScheduleAnyway")
    concern = next(each.concern for each in plugin.events_to_register() if each.concern is not None)
    assert set(concern.of_pod(incoming(spread(), spread(HOST), soft))) == {ZONE, HOST}
    assert compiled == []
