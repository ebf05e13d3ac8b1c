from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import KuberthError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import FilterPlugin, PreFilterPlugin
from kuberth.framework.status import SKIP, Code
from kuberth.testing.factories import make_node
from tests.unit.plugins.harness import assert_views_agree, evaluator
from tests.unit.plugins.volume_objects import (
    DRIVER,
    HOST,
    ZONE,
    allowed,
    ephemeral,
    in_zone,
    make_capacity,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
    pod_with,
)

PLUGIN = "VolumeBinding"
UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SELECTED = "volume.kubernetes.io/selected-node"
LOCAL = make_class("local", provisioner="kubernetes.io/no-provisioner")

A, B = make_node("a", labels={ZONE: "za"}), make_node("b", labels={ZONE: "zb"})


def deleted() -> dict[str, Any]:
    return {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}


# Before the nodes


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="missing"),
        pytest.param(
            [make_claim("c", namespace="elsewhere", volume="v")],
            'persistentvolumeclaim "c" not found',
            id="of another namespace",
        ),
        pytest.param(
            [make_claim("c", volume="v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            [make_claim("c", volume="v", **deleted())],
            'persistentvolumeclaim "c" is being deleted',
            id="deleted",
        ),
        pytest.param(
            [make_claim("c", storage_class="now")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="should be bound by now",
        ),
        pytest.param(
            [make_claim("c", storage_class="gone")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="of an unknown class",
        ),
        pytest.param(
            [make_claim("c", storage_class=None)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="of no class",
        ),
        pytest.param(
            [make_claim("c", volume="v", bound=False)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="names a volume but is not bound to it",
        ),
    ],
)
def test_a_claim_that_is_not_ready(objects: list[Any], reason: str) -> None:
    judge = evaluator(PLUGIN, A, make_class(), make_class("now", mode="Immediate"), *objects)
    status = judge.evaluate(pod_with("c")).pre_filter
    assert status is not None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        pytest.param(make_claim("c", size="lots"), "lots", id="a size that is none"),
        pytest.param(
            make_claim("c", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            "Near",
            id="a selector that is none",
        ),
    ],
)
def test_a_claim_that_cannot_be_read_is_named(claim: PersistentVolumeClaim, problem: str) -> None:
    status = evaluator(PLUGIN, A, make_class(), claim).evaluate(pod_with("c")).pre_filter
    assert status is not None
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert 'persistentvolumeclaim "c"' in status.message
    assert problem in status.message


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(
            None,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"',
            id="not made yet",
        ),
        pytest.param(
            make_claim("p-e", volume="v"),
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
            id="not its own",
        ),
    ],
)
def test_an_ephemeral_volume_without_its_claim(claim: PersistentVolumeClaim | None, reason: str) -> None:
    judge = evaluator(PLUGIN, A, make_volume("v"), *([claim] if claim else []))
    status = judge.evaluate(pod_with(ephemeral("e"))).pre_filter
    assert status is not None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_an_ephemeral_volume_is_judged_by_its_claim() -> None:
    pod = pod_with(ephemeral("e"))
    claim = make_claim("p-e", volume="v", owner=pod)
    judge = evaluator(PLUGIN, A, B, claim, make_volume("v", nodeAffinity=in_zone("zb")))
    assert judge.evaluate(pod).feasible == ("b",)


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    judge = evaluator(PLUGIN, A, make_class(mode=None), make_claim("c"))
    with pytest.raises(KuberthError, match='VolumeBindingMode not set for StorageClass "wait"'):
        judge.evaluate(pod_with("c"))


@pytest.mark.parametrize(
    "volumes", [(), ({"emptyDir": {}},), ({"csi": {"driver": DRIVER}},), ({"cinder": {"volumeID": "x"}},)]
)
def test_a_pod_without_claims_is_skipped(volumes: tuple[Any, ...]) -> None:
    judge = evaluator(PLUGIN, A)
    pod = pod_with(*volumes)
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, PreFilterPlugin)
    assert plugin.pre_filter(CycleState(PodInfo(pod)), pod, judge.cluster.all_nodes()) == SKIP


# Bound claims


def matching(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"required": {"nodeSelectorTerms": [term]}}


@pytest.mark.parametrize(
    ("affinity", "feasible"),
    [
        pytest.param(None, ("a", "b"), id="none"),
        pytest.param({}, ("a", "b"), id="nothing required"),
        pytest.param(in_zone("za"), ("a",), id="a zone"),
        pytest.param(in_zone("za", "zb"), ("a", "b"), id="two zones"),
        pytest.param({"required": {"nodeSelectorTerms": []}}, (), id="no terms"),
        pytest.param(matching(), (), id="an empty term"),
        pytest.param(matching({"key": ZONE, "operator": "NotIn", "values": ["za"]}), ("b",), id="NotIn"),
        pytest.param(matching({"key": "ssd", "operator": "DoesNotExist"}), ("a", "b"), id="DoesNotExist"),
        pytest.param(matching({"key": ZONE, "operator": "Near", "values": ["za"]}), (), id="unreadable"),
        pytest.param(
            matching({"key": ZONE, "operator": "Exists"}, {"key": HOST, "operator": "In", "values": ["b"]}),
            ("b",),
            id="two requirements",
        ),
        pytest.param(
            matching(fields=[{"key": "metadata.name", "operator": "In", "values": ["a"]}]),
            ("a", "b"),
            id="names are not looked at, as upstream",
        ),
    ],
)
def test_a_bound_volume_is_used_where_it_can_be_reached(affinity: Any, feasible: tuple[str, ...]) -> None:
    spec = {} if affinity is None else {"nodeAffinity": affinity}
    judge = evaluator(PLUGIN, A, B, make_claim("c", volume="v"), make_volume("v", **spec))
    answer = judge.evaluate(pod_with("c"))
    assert answer.feasible == feasible
    assert {status.reasons for status in answer.rejections.values()} <= {(UNREACHABLE,)}
    assert {status.code for status in answer.rejections.values()} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_a_claim_bound_to_no_volume() -> None:
    judge = evaluator(
        PLUGIN,
        A,
        B,
        make_claim("c", volume="v"),
        make_claim("d", volume="gone"),
        make_volume("v", nodeAffinity=in_zone("za")),
    )
    answer = judge.evaluate(pod_with("c", "d"))
    assert answer.rejections["a"].reasons == (NOT_THERE,)
    assert answer.rejections["b"].reasons == (UNREACHABLE,), "the first claim that fails decides"


def test_an_in_tree_volume_is_reached_by_its_drivers_topology_where_it_is_migrated() -> None:
    volume = make_volume(
        "v",
        csi=False,
        gcePersistentDisk={"pdName": "d"},
        labels={ZONE: "us-e1-a"},
        nodeAffinity=in_zone("za"),
    )
    gke = "topology.gke.io/zone"
    judge = evaluator(
        PLUGIN,
        make_node("in-tree", labels={ZONE: "za"}),
        make_node("in-tree-elsewhere", labels={ZONE: "zb", gke: "za"}),
        make_node("migrated", labels={gke: "za"}),
        make_node("migrated-elsewhere", labels={ZONE: "za", gke: "zb"}),
        make_csi_node("in-tree", migrated="kubernetes.io/aws-ebs"),
        make_csi_node("migrated", migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
        make_csi_node("migrated-elsewhere", migrated="kubernetes.io/gce-pd"),
        make_claim("c", volume="v"),
        volume,
    )
    assert judge.evaluate(pod_with("c")).feasible == ("in-tree", "migrated")


def test_an_in_tree_volume_that_cannot_be_translated_is_an_error_where_it_is_migrated() -> None:
    volume = make_volume("v", csi=False, awsElasticBlockStore={"volumeID": "aws://z/disk"})
    objects = [A, make_claim("c", volume="v"), volume]
    assert evaluator(PLUGIN, *objects).evaluate(pod_with("c")).feasible == ("a",)
    judge = evaluator(PLUGIN, *objects, make_csi_node("a", migrated="kubernetes.io/aws-ebs"))
    with pytest.raises(KuberthError, match="could not translate pv"):
        judge.evaluate(pod_with("c"))


# Volumes that are there


def prebound(volume: str, /, **reference: str) -> PersistentVolume:
    reference = {"namespace": "default", "name": "c", **reference}
    return make_volume(volume, storage_class="local", claimRef=reference, nodeAffinity=in_zone("za"))


VOLUMES = [
    pytest.param({}, {}, True, id="fits"),
    pytest.param({"size": "5Gi"}, {}, True, id="just large enough"),
    pytest.param({"size": "5368709119"}, {}, False, id="a byte too small"),
    pytest.param({"phase": "Released"}, {}, False, id="not available"),
    pytest.param({"storage_class": "other"}, {}, False, id="of another class"),
    pytest.param({"volumeMode": "Block"}, {}, False, id="a block device"),
    pytest.param({"volumeMode": "Block"}, {"volumeMode": "Block"}, True, id="a block device is wanted"),
    pytest.param({"volumeMode": "Filesystem"}, {}, True, id="a file system is the default"),
    pytest.param({"modes": ["ReadWriteMany"]}, {}, False, id="other access modes"),
    pytest.param({"modes": ["ReadWriteOnce", "ReadOnlyMany"]}, {}, True, id="more access modes"),
    pytest.param({}, {"selector": {"matchLabels": {"tier": "gold"}}}, False, id="not selected"),
    pytest.param(
        {"labels": {"tier": "gold"}}, {"selector": {"matchLabels": {"tier": "gold"}}}, True, id="selected"
    ),
    pytest.param(deleted(), {}, False, id="being deleted"),
    pytest.param({"volumeAttributesClassName": "fast"}, {}, False, id="other attributes"),
    pytest.param(
        {"volumeAttributesClassName": "fast"},
        {"volumeAttributesClassName": "fast"},
        True,
        id="the attributes wanted",
    ),
    pytest.param({"size": "huge"}, {}, False, id="a size that cannot be read"),
    pytest.param(
        {
            "storage_class": "other",
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "local"}},
        },
        {},
        True,
        id="class by the old annotation",
    ),
]


@pytest.mark.parametrize(("volume", "claim", "fits"), VOLUMES)
def test_a_free_volume_for_a_claim(volume: dict[str, Any], claim: dict[str, Any], fits: bool) -> None:
    judge = evaluator(
        PLUGIN,
        A,
        LOCAL,
        make_claim("c", storage_class="local", **claim),
        make_volume("v", **{"storage_class": "local", **volume}),
    )
    answer = judge.evaluate(pod_with("c"))
    assert bool(answer.feasible) is fits
    if not fits:
        assert answer.rejections["a"].reasons == (NO_VOLUME,)


@pytest.mark.parametrize(
    ("volumes", "feasible"),
    [
        pytest.param([prebound("v", uid="claim-c")], ("a",), id="for this claim"),
        pytest.param([prebound("v")], ("a",), id="for this claim, whatever its UID"),
        pytest.param([prebound("v", uid="old")], (), id="for an older claim of that name"),
        pytest.param([prebound("v", name="d")], (), id="for another claim"),
        pytest.param([prebound("v", namespace="elsewhere")], (), id="for a claim of another namespace"),
        pytest.param(
            [prebound("v"), make_volume("w", storage_class="local")],
            ("a",),
            id="it is the only one, even where it cannot be reached",
        ),
        pytest.param(
            [prebound("v", uid="old"), make_volume("w", storage_class="local")],
            ("a", "b"),
            id="others are free",
        ),
    ],
)
def test_a_volume_reserved_by_its_reference(
    volumes: list[PersistentVolume], feasible: tuple[str, ...]
) -> None:
    judge = evaluator(PLUGIN, A, B, LOCAL, make_claim("c", storage_class="local"), *volumes)
    assert judge.evaluate(pod_with("c")).feasible == feasible


def local(name: str, size: str, *hosts: str) -> PersistentVolume:
    affinity: dict[str, Any] = {"nodeAffinity": in_zone(*hosts, key=HOST)} if hosts else {}
    return make_volume(name, storage_class="local", size=size, **affinity)


@pytest.mark.parametrize(
    ("volumes", "sizes", "feasible"),
    [
        pytest.param([local("v", "5Gi", "a")], ["5Gi"], ("a",), id="one claim"),
        pytest.param([local("v", "9Gi")], ["5Gi", "5Gi"], (), id="one volume for two claims"),
        pytest.param(
            [local("v", "9Gi"), local("w", "9Gi", "b")],
            ["5Gi", "5Gi"],
            ("b",),
            id="two where both are reached",
        ),
        pytest.param(
            [local("small", "5Gi"), local("large", "9Gi")],
            ["9Gi", "5Gi"],
            ("a", "b"),
            id="the small claim leaves the large volume",
        ),
        pytest.param(
            [local("v", "5Gi", "a"), local("w", "6Gi", "a", "b"), local("x", "7Gi")],
            ["1Gi", "1Gi", "1Gi"],
            ("a",),
            id="three claims",
        ),
    ],
)
def test_no_volume_is_given_twice(
    volumes: list[PersistentVolume], sizes: list[str], feasible: tuple[str, ...]
) -> None:
    claims = [make_claim(f"c{i}", storage_class="local", size=size) for i, size in enumerate(sizes)]
    judge = evaluator(PLUGIN, A, B, LOCAL, *claims, *volumes)
    pod = pod_with(*(claim.metadata.name for claim in claims))
    assert judge.evaluate(pod).feasible == feasible


# Volumes to be made


@pytest.mark.parametrize(
    ("fields", "feasible"),
    [
        pytest.param({}, ("a", "b"), id="anywhere"),
        pytest.param({"provisioner": ""}, (), id="no provisioner"),
        pytest.param({"provisioner": "kubernetes.io/no-provisioner"}, (), id="no provisioner, by name"),
        pytest.param({"allowedTopologies": allowed({ZONE: ["za"]})}, ("a",), id="one zone"),
        pytest.param(
            {"allowedTopologies": allowed({ZONE: ["za"]}, {HOST: ["b"]})}, ("a", "b"), id="any of two terms"
        ),
        pytest.param(
            {"allowedTopologies": allowed({ZONE: ["za"], HOST: ["b"]})}, (), id="both of two labels"
        ),
        pytest.param({"allowedTopologies": allowed({})}, (), id="an empty term"),
        pytest.param({"allowedTopologies": allowed({ZONE: []}, {HOST: ["b"]})}, ("b",), id="a broken term"),
    ],
)
def test_where_a_volume_can_be_made(fields: dict[str, Any], feasible: tuple[str, ...]) -> None:
    judge = evaluator(PLUGIN, A, B, make_class(**fields), make_claim("c"))
    answer = judge.evaluate(pod_with("c"))
    assert answer.feasible == feasible
    assert {status.reasons for status in answer.rejections.values()} <= {(NO_VOLUME,)}


def of_zone(zone: str) -> dict[str, Any]:
    return {"nodeTopology": {"matchLabels": {ZONE: zone}}}


@pytest.mark.parametrize(
    ("capacities", "feasible"),
    [
        pytest.param([], (), id="none stated"),
        pytest.param([make_capacity(capacity="5Gi", **of_zone("za"))], ("a",), id="enough in one zone"),
        pytest.param([make_capacity(capacity="4Gi", **of_zone("za"))], (), id="too little"),
        pytest.param([make_capacity(capacity="5Gi", nodeTopology={})], ("a", "b"), id="enough for all"),
        pytest.param([make_capacity(capacity="5Gi")], (), id="no topology: nowhere"),
        pytest.param(
            [make_capacity(capacity="9Gi", maximumVolumeSize="4Gi", nodeTopology={})],
            (),
            id="enough in pieces",
        ),
        pytest.param(
            [make_capacity(maximumVolumeSize="5Gi", nodeTopology={})], ("a", "b"), id="only a maximum"
        ),
        pytest.param([make_capacity(nodeTopology={})], (), id="no figure"),
        pytest.param([make_capacity(capacity="lots", nodeTopology={})], (), id="a figure that is none"),
        pytest.param(
            [make_capacity(capacity="9Gi", storage_class="other", nodeTopology={})], (), id="of another class"
        ),
        pytest.param(
            [
                make_capacity("x", capacity="4Gi", **of_zone("za")),
                make_capacity("y", capacity="5Gi", **of_zone("za")),
            ],
            ("a",),
            id="one of two is enough",
        ),
        pytest.param(
            [
                make_capacity(
                    capacity="5Gi",
                    nodeTopology={"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["za"]}]},
                )
            ],
            ("b",),
            id="by an expression",
        ),
        pytest.param(
            [
                make_capacity(
                    capacity="5Gi", nodeTopology={"matchExpressions": [{"key": ZONE, "operator": "Near"}]}
                )
            ],
            (),
            id="by a broken expression",
        ),
    ],
)
def test_storage_capacity(capacities: list[Any], feasible: tuple[str, ...]) -> None:
    judge = evaluator(
        PLUGIN, A, B, make_class(), make_csi_driver(storageCapacity=True), make_claim("c"), *capacities
    )
    answer = judge.evaluate(pod_with("c"))
    assert answer.feasible == feasible
    assert {status.reasons for status in answer.rejections.values()} <= {(NO_ROOM,)}


@pytest.mark.parametrize(
    ("driver", "size"),
    [
        pytest.param(None, "5Gi", id="no such driver"),
        pytest.param(make_csi_driver(), "5Gi", id="the driver does not keep track"),
        pytest.param(make_csi_driver(storageCapacity=False), "5Gi", id="the driver says it does not"),
        pytest.param(make_csi_driver(storageCapacity=True), None, id="the claim asks for no size"),
    ],
)
def test_capacity_is_no_concern(driver: Any, size: str | None) -> None:
    judge = evaluator(PLUGIN, A, make_class(), make_claim("c", size=size), *([driver] if driver else []))
    assert judge.evaluate(pod_with("c")).feasible == ("a",)


def test_reasons_of_bound_and_waiting_claims_add_up() -> None:
    judge = evaluator(
        PLUGIN,
        A,
        B,
        make_class(),
        LOCAL,
        make_csi_driver(storageCapacity=True),
        make_claim("bound", volume="v"),
        make_claim("missing", volume="gone"),
        make_claim("local", storage_class="local"),
        make_claim("made"),
        make_volume("v", nodeAffinity=in_zone("zc")),
    )
    assert judge.evaluate(pod_with("bound", "local")).rejections["a"].reasons == (UNREACHABLE, NO_VOLUME)
    assert judge.evaluate(pod_with("bound", "made")).rejections["a"].reasons == (UNREACHABLE, NO_ROOM)
    assert judge.evaluate(pod_with("missing", "local")).rejections["a"].reasons == (NO_VOLUME, NOT_THERE)
    assert judge.evaluate(pod_with("made", "local")).rejections["a"].reasons == (NO_ROOM,)


@pytest.mark.parametrize(
    ("nodes", "feasible"),
    [
        pytest.param(["a"], ("a",), id="for a"),
        pytest.param(["a", "b"], (), id="for two nodes"),
        pytest.param(["gone"], (), id="for a node that is gone"),
    ],
)
def test_a_volume_is_already_being_made(nodes: list[str], feasible: tuple[str, ...]) -> None:
    claims = [make_claim(f"c{i}", annotations={SELECTED: node}) for i, node in enumerate(nodes)]
    judge = evaluator(PLUGIN, A, B, make_class(), *claims)
    answer = judge.evaluate(pod_with(*(claim.metadata.name for claim in claims)))
    assert answer.feasible == feasible
    assert {status.reasons for status in answer.rejections.values()} <= {(NO_VOLUME,)}


def test_volumes_follow_the_store() -> None:
    judge = evaluator(PLUGIN, A, LOCAL, make_claim("c", storage_class="local"))
    volumes = judge.stores.of(PersistentVolume)

    def fits() -> bool:
        return bool(judge.evaluate(pod_with("c"), score=False).feasible)

    assert not fits()
    volumes.set(local("v", "9Gi"))
    assert fits()
    volumes.set(make_volume("v", storage_class="local", claimRef={"namespace": "x", "name": "y"}))
    assert not fits()
    volumes.set(make_volume("v", storage_class="local", claimRef={"namespace": "default", "name": "c"}))
    assert fits()
    volumes.remove(local("v", "9Gi"))
    assert not fits()


def test_views_agree() -> None:
    judge = evaluator(
        PLUGIN,
        *(make_node(f"n{i}", labels={ZONE: "abc"[i % 3]}) for i in range(7)),
        make_class(allowedTopologies=allowed({ZONE: ["a", "b"]})),
        LOCAL,
        make_csi_driver(storageCapacity=True),
        make_capacity(capacity="9Gi", nodeTopology={"matchLabels": {ZONE: "a"}}),
        make_claim("bound", volume="v"),
        make_claim("one", storage_class="local"),
        make_claim("two", storage_class="local"),
        make_claim("made"),
        make_volume("v", claim=make_claim("bound"), nodeAffinity=in_zone("a", "b")),
        local("w", "9Gi"),
        local("x", "9Gi", "n0", "n1", "n4"),
        local("y", "9Gi", "n3"),
        *(make_csi_node(f"n{i}", {DRIVER: None}) for i in range(7)),
    )
    pod = pod_with("bound", "one", "two", "made")
    assert judge.evaluate(pod).feasible == ("n0", "n3")
    assert_views_agree(judge, PLUGIN, pod)
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, FilterPlugin)
    assert isinstance(plugin, PreFilterPlugin)
    for node in judge.cluster.all_nodes():
        # A fresh cycle, so that no answer about all nodes is there to be reused.
        state = CycleState(PodInfo(pod))
        plugin.pre_filter(state, pod, node.alone)
        verdict = plugin.filter_nodes(state, pod, node.alone)
        assert (verdict is None) == (node.name in ("n0", "n3"))
