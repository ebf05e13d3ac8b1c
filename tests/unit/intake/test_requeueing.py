"""For every plugin of the tree: a pod it rejected comes back by what helps, and by nothing else.

Through the real intake, queue and hints; the rejection is that of a real cycle where the plugin can be
brought to reject a pending pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Node, Pod
from kuberth.config.in_tree import IN_TREE_PLUGINS
from kuberth.framework.cluster_events import Action, Resource
from kuberth.testing import make_node, make_pod
from tests.unit.intake.harness import IntakeHarness
from tests.unit.plugins import device_objects
from tests.unit.plugins.volume_objects import (
    DRIVER,
    ZONE,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    pod_with,
)
from tests.unit.queue.harness import ungated, with_metadata, with_spec, with_status

Change = Callable[[IntakeHarness], None]


def put(*objects: Any) -> Change:
    return lambda harness: harness.put(*objects)


def remove(*objects: Any) -> Change:
    return lambda harness: harness.remove(*objects)


def next_version(pod: Pod) -> Pod:
    return with_metadata(pod, resource_version="next")


def declaring(node: Node, *features: str) -> Node:
    status = msgspec.structs.replace(node.status, declared_features=features)
    return msgspec.structs.replace(node, status=status)


@dataclass
class Case:
    """`before` is the cluster, `pod` is rejected by `plugin`, `helps` brings it back, the others do not."""

    plugin: str
    before: Sequence[Any]
    pod: Pod
    helps: Change
    does_not: Sequence[Change]
    real: bool = True
    queue: str = "unschedulable"
    also: Sequence[str] = field(default=())
    """Plugins that reject the pod besides."""


N1 = make_node("n1", labels={ZONE: "a"})
N1_OTHER_LABEL = make_node("n1", labels={ZONE: "a", "disk": "ssd"})
CORDONED = make_node("n1", labels={ZONE: "a"}, unschedulable=True)
TAINT = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
OTHER_TAINT = [{"key": "other", "effect": "NoSchedule"}]
P = make_pod("p", uid="p")
GATED = make_pod("p", uid="p", gates=["wait"])
PORT: dict[str, Any] = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
OTHER_PORT: dict[str, Any] = {"containers": [{"name": "c", "ports": [{"hostPort": 81, "containerPort": 81}]}]}
SELECTOR = {"matchLabels": {"app": "a"}}
APP = {"app": "a"}
BIG = make_pod("p", uid="p", cpu="3")
HOLDER = make_pod("holder", cpu="3", node="n1")
CLAIM_POD = pod_with("c", uid="p")
USER = pod_with("c", name="user", node="n1")
OTHER_USER = pod_with("d", name="other", node="n1")
ON_PORT = make_pod("holder", node="n1", **PORT)
ON_OTHER_PORT = make_pod("other", node="n1", **OTHER_PORT)
NEIGHBOUR = make_pod("neighbour", labels=APP, node="n1")
EXCLUSIVE = make_claim("c", volume="c", modes=("ReadWriteOncePod",))
VOLUME = make_volume("c", claim=EXCLUSIVE)


def apart() -> Pod:
    term = {"topologyKey": ZONE, "labelSelector": SELECTOR}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return make_pod("p", uid="p", affinity=rules)


def spread() -> Pod:
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "minDomains": 2,
    }
    return make_pod("p", uid="p", labels=APP, topologySpreadConstraints=[rule])


def with_claim() -> Pod:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    return make_pod("p", uid="p", resourceClaims=claims)


def wanting_zone(zone: str) -> Pod:
    return make_pod("p", uid="p", nodeSelector={ZONE: zone})


UNRELATED = put(make_pod("unrelated", node="n1"))
CASES = [
    Case(
        "SchedulingGates",
        before=[N1, make_pod("q", uid="q", gates=["wait"])],
        pod=GATED,
        queue="gated",
        helps=put(next_version(ungated(GATED))),
        does_not=[
            UNRELATED,
            put(N1_OTHER_LABEL),
            put(next_version(ungated(make_pod("q", uid="q", gates=["wait"])))),
            put(with_metadata(GATED, labels={"a": "b"}, resource_version="labelled")),
        ],
    ),
    Case(
        "NodeUnschedulable",
        before=[CORDONED],
        pod=P,
        helps=put(N1),
        does_not=[
            UNRELATED,
            put(make_node("n1", labels={ZONE: "a", "x": "y"}, unschedulable=True)),
            put(make_node("n2", unschedulable=True)),
        ],
    ),
    Case(
        "NodeName",
        before=[N1],
        pod=P,
        real=False,
        helps=put(make_node("n2")),
        does_not=[UNRELATED, put(N1_OTHER_LABEL)],
    ),
    Case(
        "TaintToleration",
        before=[make_node("n1", taints=TAINT)],
        pod=P,
        helps=put(make_node("n1")),
        does_not=[
            UNRELATED,
            put(make_node("n2", taints=OTHER_TAINT)),
            put(make_node("n1", taints=[*TAINT, *OTHER_TAINT])),
        ],
    ),
    Case(
        "NodeAffinity",
        before=[N1],
        pod=wanting_zone("b"),
        helps=put(make_node("n1", labels={ZONE: "b"})),
        does_not=[UNRELATED, put(N1_OTHER_LABEL), put(make_node("n2", labels={ZONE: "c"}))],
    ),
    Case(
        "NodePorts",
        before=[N1, ON_PORT, ON_OTHER_PORT],
        pod=make_pod("p", uid="p", **PORT),
        helps=remove(ON_PORT),
        does_not=[UNRELATED, remove(ON_OTHER_PORT), put(N1_OTHER_LABEL)],
    ),
    Case(
        "NodeResourcesFit",
        before=[N1, HOLDER],
        pod=BIG,
        helps=put(make_node("n1", labels={ZONE: "a"}, cpu="8")),
        does_not=[UNRELATED, put(N1_OTHER_LABEL), put(make_node("n2", cpu="2"))],
    ),
    Case(
        "VolumeRestrictions",
        before=[N1, EXCLUSIVE, VOLUME, USER, OTHER_USER],
        pod=CLAIM_POD,
        helps=remove(USER),
        does_not=[UNRELATED, remove(OTHER_USER), put(N1_OTHER_LABEL)],
    ),
    Case(
        "NodeVolumeLimits",
        before=[
            N1,
            make_class(),
            make_csi_node("n1", {DRIVER: 0}),
            make_claim("c", volume="c"),
            make_volume("c", claim=make_claim("c")),
            make_attachment("x", node="n1", volume="other"),
        ],
        pod=CLAIM_POD,
        helps=put(make_csi_node("n1", {DRIVER: 1})),
        does_not=[UNRELATED, put(make_csi_node("n1", {DRIVER: 0, "more": 0})), put(N1_OTHER_LABEL)],
    ),
    Case(
        "VolumeBinding",
        before=[N1, make_class("now", mode="Immediate"), make_claim("c", storage_class="now")],
        pod=CLAIM_POD,
        helps=put(make_claim("c", storage_class="now", volume="c")),
        does_not=[
            UNRELATED,
            put(make_claim("other", storage_class="now")),
            put(make_class("now", mode="Immediate", parameters={"a": "b"})),
        ],
    ),
    Case(
        "VolumeZone",
        before=[
            N1,
            make_class(),
            make_claim("c", volume="c"),
            make_volume("c", claim=make_claim("c"), labels={ZONE: "b"}),
        ],
        pod=CLAIM_POD,
        helps=put(make_node("n2", labels={ZONE: "b"})),
        does_not=[
            UNRELATED,
            put(make_volume("c", claim=make_claim("c"), labels={ZONE: "b", "x": "y"})),
            put(make_claim("other", volume="other")),
        ],
    ),
    Case(
        "PodTopologySpread",
        before=[N1, NEIGHBOUR],
        pod=spread(),
        helps=remove(NEIGHBOUR),
        does_not=[UNRELATED, put(N1_OTHER_LABEL), put(make_node("n2"))],
    ),
    Case(
        "InterPodAffinity",
        before=[N1, NEIGHBOUR],
        pod=apart(),
        helps=put(with_metadata(NEIGHBOUR, labels={"app": "b"}, resource_version="next")),
        does_not=[UNRELATED, put(make_pod("twin", labels=APP, node="n1"))],
    ),
    Case(
        "DynamicResources",
        before=[N1, device_objects.make_class(), device_objects.make_claim("gpu", device_objects.exactly())],
        pod=with_claim(),
        helps=put(device_objects.make_slice("n1")),
        does_not=[
            UNRELATED,
            put(with_metadata(with_claim(), labels={"a": "b"}, resource_version="l")),
            put(device_objects.make_claim("another", device_objects.exactly())),
        ],
    ),
    Case(
        "NodeDeclaredFeatures",
        before=[N1],
        pod=P,
        real=False,
        helps=put(declaring(N1, "UserNamespacesHostNetworkSupport")),
        does_not=[UNRELATED, put(N1_OTHER_LABEL)],
    ),
    Case(
        "DefaultPreemption",
        before=[N1, HOLDER, make_pod("other", cpu="1", node="n1")],
        pod=BIG,
        real=False,
        also=["NodeResourcesFit"],
        helps=remove(HOLDER),
        does_not=[UNRELATED, put(N1_OTHER_LABEL)],
    ),
]
IDS = [case.plugin for case in CASES]


def rejected(case: Case, **options: Any) -> IntakeHarness:
    harness = IntakeHarness(*case.before, **options)
    harness.put(case.pod)
    if case.queue == "unschedulable":
        queued = harness.attempt("p") if case.real else harness.reject("p", case.plugin, *case.also)
        assert queued.rejectors == {case.plugin, *case.also}
    assert harness.queues["p"] == case.queue
    return harness


def came_back(harness: IntakeHarness) -> bool:
    return harness.queues["p"] in ("active", "backoff")


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_helps_brings_it_back(case: Case) -> None:
    harness = rejected(case)
    case.helps(harness)
    assert came_back(harness)


@pytest.mark.parametrize(
    ("case", "change"),
    [
        pytest.param(case, change, id=f"{case.plugin}-{number}")
        for case in CASES
        for number, change in enumerate(case.does_not)
    ],
)
def test_what_does_not_help_leaves_it(case: Case, change: Change) -> None:
    harness = rejected(case)
    change(harness)
    assert harness.queues["p"] == case.queue


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_hints_what_helps_brings_it_back_too(case: Case) -> None:
    harness = rejected(case, gates={"SchedulerQueueingHints": False})
    case.helps(harness)
    if case.plugin in ("InterPodAffinity",):
        # Without hints a placed pod brings back only those that want to be near it.
        assert harness.queues["p"] == "unschedulable"
    else:
        assert came_back(harness)


def test_every_plugin_that_registers_events_is_here() -> None:
    runner = IntakeHarness().scheduler.runners["default-scheduler"]
    assert {registered.plugin for registered in runner.profile.hints} == set(IDS)
    assert set(IDS) <= set(IN_TREE_PLUGINS)


NODE_ADD = sorted(
    {
        registered.plugin
        for registered in IntakeHarness().scheduler.runners["default-scheduler"].profile.hints
        if registered.event.resource == Resource.NODE and registered.event.action & Action.ADD
    }
)


@pytest.mark.parametrize("plugin", NODE_ADD)
@pytest.mark.parametrize("how", ["labels", "taints"])
def test_without_hints_a_node_that_comes_to_suit_a_pod_brings_it_back(plugin: str, how: str) -> None:
    """A node that does not admit the pod does not move it; so a change of the node must move it."""
    harness = IntakeHarness(N1, gates={"SchedulerQueueingHints": False})
    harness.put(wanting_zone("b"))
    harness.reject("p", plugin)
    harness.put(make_node("n2", labels={} if how == "labels" else {ZONE: "b"}, taints=TAINT))
    assert harness.queues == {"p": "unschedulable"}, "kept from it by the pre-check"
    if how == "labels":
        harness.put(make_node("n2", taints=TAINT, labels={"x": "y"}))
        assert harness.queues == {"p": "unschedulable"}
        harness = IntakeHarness(N1, gates={"SchedulerQueueingHints": False})
        harness.put(wanting_zone("b"))
        harness.reject("p", plugin)
        harness.put(make_node("n2"))
        assert harness.queues == {"p": "unschedulable"}
    harness.put(make_node("n2", labels={ZONE: "b"}))
    assert harness.queues == {"p": "backoff"}


def test_a_change_of_status_alone_does_not_bring_a_gated_pod_back() -> None:
    harness = IntakeHarness(N1)
    harness.put(GATED)
    harness.put(with_status(with_spec(GATED), nominated_node_name="n1"))
    assert harness.queues == {"p": "gated"}
