"""Expected scores are worked out by hand: count * ln(domains + 2) + maxSkew - 1 per constraint, rounded,
then 100 * (highest + lowest - score) / highest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kuberth.api.apps import ReplicaSet, StatefulSet
from kuberth.api.core import Node, Pod, ReplicationController, Service
from kuberth.api.wire import convert
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "PodTopologySpread"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB: Mapping[str, str] = {"app": "web"}


def soft(key: str = ZONE, *, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(WEB)},
        **more,
    }


def incoming(*constraints: dict[str, Any], **pod: Any) -> Pod:
    return make_pod("in", labels=WEB, topologySpreadConstraints=list(constraints), **pod)


def zoned(**zones: str) -> list[Node]:
    return [make_node(name, labels={} if zone == "-" else {ZONE: zone}) for name, zone in zones.items()]


def web_pods(*nodes: str, **pod: Any) -> list[Pod]:
    return [make_pod(f"run-{number}", node=node, labels=WEB, **pod) for number, node in enumerate(nodes)]


def scores(
    objects: Sequence[Any], pod: Pod, *, args: Mapping[str, Any] | None = None
) -> Mapping[str, int] | None:
    """Per node; None if the plugin skipped."""
    return evaluator(PLUGIN, *objects, args=args).evaluate(pod).scores.get(PLUGIN)


@pytest.mark.parametrize(
    ("nodes", "pods", "constraints", "expected"),
    [
        # 0 and 0: all equal, and zero.
        pytest.param({"a1": "a", "b1": "b"}, [], [soft()], {"a1": 100, "b1": 100}, id="nothing placed"),
        # 2 domains, ln 4 = 1.386: a has 3 -> 4.16 -> 4, b has 1 -> 1.39 -> 1. 100*(4+1-4)/4, 100*(4+1-1)/4
        pytest.param(
            {"a1": "a", "b1": "b"},
            ["a1", "a1", "a1", "b1"],
            [soft()],
            {"a1": 25, "b1": 100},
            id="two zones",
        ),
        # As before with maxSkew 3, which adds 2: 6.16 -> 6 and 3.39 -> 3: 100*3/6 and 100*6/6.
        pytest.param(
            {"a1": "a", "b1": "b"},
            ["a1", "a1", "a1", "b1"],
            [soft(skew=3)],
            {"a1": 50, "b1": 100},
            id="a larger skew waters the difference down",
        ),
        # 3 hosts, ln 5 = 1.609: 2 -> 3.22 -> 3, 1 -> 1.61 -> 2, 0 -> 0. 100*(3+0-s)/3
        pytest.param(
            {"a1": "a", "a2": "a", "b1": "b"},
            ["a1", "a1", "a2"],
            [soft(HOST)],
            {"a1": 0, "a2": 33, "b1": 100},
            id="hosts",
        ),
        # Zones ln 4, hosts ln 5. a1: 3*1.386+2*1.609=7.38 -> 7; a2: 4.159+1.609=5.77 -> 6; b1: 0.
        pytest.param(
            {"a1": "a", "a2": "a", "b1": "b"},
            ["a1", "a1", "a2"],
            [soft(), soft(HOST)],
            {"a1": 0, "a2": 14, "b1": 100},
            id="zones and hosts add up",
        ),
        # x lacks the zone: not scored, its pods not counted. One zone each, ln 4: a 1.39 -> 1, b 0.
        pytest.param(
            {"a1": "a", "b1": "b", "x": "-"},
            ["a1", "x", "x"],
            [soft()],
            {"a1": 0, "b1": 100, "x": 0},
            id="a node without the key",
        ),
        pytest.param({"x": "-", "y": "-"}, ["x"], [soft()], {"x": 0, "y": 0}, id="no node has the key"),
        pytest.param(
            {"a1": "a", "b1": "b"},
            ["a1"],
            [soft(labelSelector={})],
            {"a1": 100, "b1": 100},
            id="empty selector",
        ),
    ],
)
def test_soft_constraints(
    nodes: Mapping[str, str],
    pods: Sequence[str],
    constraints: Sequence[dict[str, Any]],
    expected: Mapping[str, int],
) -> None:
    objects = [*zoned(**nodes), *web_pods(*pods)]
    pod = incoming(*constraints)
    assert scores(objects, pod) == expected
    assert_views_agree(evaluator(PLUGIN, *objects), PLUGIN, pod)


def test_terminating_pods_do_not_count() -> None:
    going = web_pods("a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert scores([*zoned(a1="a", b1="b"), *going], incoming(soft())) == {"a1": 100, "b1": 100}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # a2's pods are seen only if taints are ignored: then a has 3 (4.16 -> 4), else 1 (1.39 -> 1); b 1.
        pytest.param({}, {"a1": 25, "a2": 25, "b1": 100}, id="taints ignored"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {"a1": 100, "a2": 100, "b1": 100}, id="taints honored"),
    ],
)
def test_only_included_nodes_are_counted(policy: dict[str, Any], expected: Mapping[str, int]) -> None:
    tainted = make_node("a2", labels={ZONE: "a"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    objects = [*zoned(a1="a", b1="b"), tainted, *web_pods("a1", "a2", "a2", "b1")]
    assert scores(objects, incoming(soft(**policy))) == expected


def test_hosts_count_whatever_the_policies_say() -> None:
    # ln 4 per pod: 3 -> 4.16 -> 4, 1 -> 1.39 -> 1.
    tainted = make_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    objects = [tainted, make_node("n2"), *web_pods("n1", "n1", "n1", "n2")]
    assert scores(objects, incoming(soft(HOST, nodeTaintsPolicy="Honor"))) == {"n1": 25, "n2": 100}


def test_pre_score_skips_without_soft_constraints() -> None:
    hard = soft(whenUnsatisfiable="DoNotSchedule")
    assert scores(zoned(a1="a"), incoming(hard)) is None
    assert scores(zoned(a1="a"), make_pod("in", labels=WEB)) is None, "nothing selects the pod"


def test_scores_without_pre_filter() -> None:
    judge = evaluator(PLUGIN, *zoned(a1="a", b1="b"), *web_pods("a1"), disabled_at=("preFilter", "filter"))
    assert judge.evaluate(incoming(soft())).scores[PLUGIN] == {"a1": 0, "b1": 100}


# Default constraints: hosts with maxSkew 3, zones with maxSkew 5, for pods that something selects.

SERVICE = convert(
    Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": dict(WEB)}}
)


def owned_by(api_version: str, kind: str, *, controller: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "controller": controller}
    return {"ownerReferences": [owner]}


def owner(kind: Any, selector: Any) -> Any:
    return convert(kind, {"metadata": {"name": "o", "namespace": "default"}, "spec": {"selector": selector}})


CLUSTER = [*zoned(a1="a", a2="a", b1="b"), *web_pods("a1", "a1", "a2")]
# Hosts ln 5, +2; zones ln 4, +4. a1: 3.22+2+4.16+4=13.38 -> 13; a2: 1.61+2+4.16+4=11.77 -> 12; b1: 6.
SPREAD = {"a1": 100 * 6 // 13, "a2": 100 * 7 // 13, "b1": 100}


@pytest.mark.parametrize(
    ("objects", "metadata", "expected"),
    [
        pytest.param([], {}, None, id="no pods"),
        pytest.param([SERVICE], {}, SPREAD, id="a service"),
        pytest.param(
            [convert(Service, {"metadata": {"name": "s", "namespace": "default"}})],
            {},
            None,
            id="a service without selector",
        ),
        pytest.param(
            [
                convert(
                    Service, {"metadata": {"name": "s", "namespace": "x"}, "spec": {"selector": dict(WEB)}}
                )
            ],
            {},
            None,
            id="a service elsewhere",
        ),
        pytest.param(
            [owner(ReplicaSet, {"matchLabels": WEB})],
            owned_by("apps/v1", "ReplicaSet"),
            SPREAD,
            id="replica set",
        ),
        pytest.param(
            [owner(StatefulSet, {"matchLabels": WEB})],
            owned_by("apps/v1", "StatefulSet"),
            SPREAD,
            id="stateful set",
        ),
        pytest.param(
            [owner(ReplicationController, dict(WEB))],
            owned_by("v1", "ReplicationController"),
            SPREAD,
            id="replication controller",
        ),
        pytest.param(
            [owner(ReplicaSet, {"matchLabels": WEB})],
            owned_by("apps/v1", "ReplicaSet", controller=False),
            None,
            id="an owner that is not the controller",
        ),
        pytest.param(
            [owner(ReplicaSet, {"matchLabels": WEB})],
            owned_by("apps/v1beta2", "ReplicaSet"),
            None,
            id="another version of the API",
        ),
        pytest.param([], owned_by("apps/v1", "ReplicaSet"), None, id="a controller that is gone"),
        pytest.param(
            [SERVICE, owner(ReplicaSet, {"matchExpressions": [{"key": "app", "operator": "Like"}]})],
            owned_by("apps/v1", "ReplicaSet"),
            SPREAD,
            id="a controller with a broken selector leaves the service's",
        ),
        pytest.param(
            [SERVICE, owner(ReplicaSet, {"matchLabels": {"x": "1"}})],
            owned_by("apps/v1", "ReplicaSet"),
            {"a1": 100, "a2": 100, "b1": 100},
            id="service and controller both narrow",
        ),
    ],
)
def test_system_defaults(objects: Sequence[Any], metadata: Mapping[str, Any], expected: Any) -> None:
    found = scores([*CLUSTER, *objects], make_pod("in", labels=WEB, metadata=metadata))
    assert found == expected


def test_system_defaults_spread_over_hosts_where_there_are_no_zones() -> None:
    # Hosts ln 4, +2: n1 has 2 -> 4.77 -> 5, n2 has 0 -> 2. No zone, nothing added: 100*(5+2-s)/5.
    objects = [make_node("n1"), make_node("n2"), *web_pods("n1", "n1"), SERVICE]
    pod = make_pod("in", labels=WEB)
    assert scores(objects, pod) == {"n1": 40, "n2": 100}
    assert_views_agree(evaluator(PLUGIN, *objects), PLUGIN, pod)


def test_system_defaults_take_an_empty_zone_and_a_missing_one_for_the_same() -> None:
    # One zone "" in which both pods are; hosts ln 4, zones ln 3. empty: 1.39+2+2*1.10+4=9.58 -> 10;
    # missing: 1.39+2=3.39 -> 3, for it has no zone label to be scored by. 100*(10+3-s)/10
    nodes = [make_node("empty", labels={ZONE: ""}), make_node("missing")]
    objects = [*nodes, *web_pods("empty", "missing"), SERVICE]
    assert scores(objects, make_pod("in", labels=WEB)) == {"empty": 30, "missing": 100}


def test_default_constraints_of_a_list() -> None:
    args = {
        "defaultingType": "List",
        "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}],
    }
    # Zones only, ln 4: a has 3 -> 4, b has 0; x lacks the key and, unlike with system defaults, loses.
    objects = [*CLUSTER, make_node("x"), SERVICE]
    pod = make_pod("in", labels=WEB)
    assert scores(objects, pod, args=args) == {"a1": 0, "a2": 0, "b1": 100, "x": 0}
    # The pod's own constraints replace the defaults: hosts ln 6, 2 -> 3.58 -> 4, 1 -> 1.79 -> 2.
    assert scores(objects, incoming(soft(HOST)), args=args) == {"a1": 0, "a2": 50, "b1": 100, "x": 100}
    assert scores(objects, pod, args={"defaultingType": "List"}) is None


def test_nothing_is_counted_if_no_node_has_all_the_keys() -> None:
    judge = evaluator(PLUGIN, *zoned(a="a", b="b"), *web_pods("a"))
    constraints = [soft(f"key-{number}", skew=number + 1) for number in range(1500)]
    assert judge.evaluate(incoming(soft(), *constraints)).scores.get(PLUGIN) == {"a": 0, "b": 0}
    assert not judge.cluster.terms._counted
