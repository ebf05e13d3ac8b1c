from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import PersistentVolumeClaim
from kuberth.api.storage import CSINode, StorageClass, VolumeAttachment
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import KuberthError
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import SKIP, Code
from kuberth.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint
from tests.unit.plugins.volume_objects import (
    DRIVER,
    ephemeral,
    make_attachment,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
    pod_with,
)

PLUGIN = "NodeVolumeLimits"
EBS = "ebs.csi.aws.com"
TOO_MANY = ("node(s) exceed max volume count",)


def aws(volume_id: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


def bound(*names: str) -> list[Any]:
    """Claims, each bound to a volume of the same name."""
    return [obj for name in names for obj in (make_claim(name, volume=name), make_volume(name))]


COUNTS = [
    pytest.param(1, [], ("new",), True, id="one of one"),
    pytest.param(0, [], ("new",), False, id="none allowed"),
    pytest.param(1, ["a"], ("new",), False, id="one more than allowed"),
    pytest.param(None, ["a", "b"], ("new",), True, id="no limit stated"),
    pytest.param(2, ["a"], ("new", "b"), False, id="two new ones, room for one"),
    pytest.param(1, ["new"], ("new",), True, id="a volume counts once on a node"),
    pytest.param(1, [], ("new", "new"), True, id="a volume counts once in a pod"),
    pytest.param(0, ["new"], ("new",), True, id="what is there already is not counted against the limit"),
]


@pytest.mark.parametrize(("limit", "attached", "wanted", "fits"), COUNTS)
def test_limit_of_a_driver(
    limit: int | None, attached: list[str], wanted: tuple[str, ...], fits: bool
) -> None:
    users = [pod_with(name, name=f"user-{name}", node="n") for name in attached]
    judge = evaluator(
        PLUGIN, make_node("n"), make_csi_node("n", {DRIVER: limit}), *bound("new", "a", "b"), *users
    )
    answer = judge.evaluate(pod_with(*wanted))
    assert bool(answer.feasible) is fits
    if not fits:
        status = answer.rejections["n"]
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, TOO_MANY)


@pytest.mark.parametrize(
    ("attachments", "fits"),
    [
        pytest.param([make_attachment("x", node="n", volume="other")], False, id="attached without a pod"),
        pytest.param([make_attachment("x", node="m", volume="other")], True, id="to another node"),
        pytest.param([make_attachment("x", node="n", volume="a")], True, id="the volume of a pod there"),
        pytest.param([make_attachment("x", node="n", volume="new")], False, id="the pod's own counts twice"),
        pytest.param([make_attachment("x", node="n", volume="gone")], True, id="of no volume"),
        pytest.param([make_attachment("x", node="n", volume=None)], True, id="of an inline volume"),
        pytest.param(
            [make_attachment("x", node="n", volume="other", attacher="")], True, id="without an attacher"
        ),
        pytest.param([make_attachment("x", node="n", volume="nfs")], True, id="of a volume that is no CSI's"),
    ],
)
def test_attachments_count(attachments: list[VolumeAttachment], fits: bool) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("n"),
        make_csi_node("n", {DRIVER: 2}),
        *bound("new", "a"),
        make_volume("other"),
        make_volume("nfs", csi=False),
        pod_with("a", name="user", node="n"),
        *attachments,
    )
    assert bool(judge.evaluate(pod_with("new")).feasible) is fits


@pytest.mark.parametrize(
    ("claim", "driver", "counts"),
    [
        pytest.param(make_claim("c"), DRIVER, True, id="a volume to be made counts for its driver"),
        pytest.param(make_claim("c", volume="gone"), DRIVER, True, id="its volume is missing: by its class"),
        pytest.param(make_claim("c", storage_class=None), DRIVER, False, id="no class"),
        pytest.param(make_claim("c", storage_class="gone"), DRIVER, False, id="no such class"),
        pytest.param(make_claim("c", storage_class="in-tree"), EBS, True, id="an in-tree class"),
        pytest.param(make_claim("c", storage_class="file"), "file.csi.azure.com", False, id="not migrated"),
        pytest.param(make_claim("c", volume="ebs"), EBS, True, id="an in-tree volume"),
        pytest.param(make_claim("c", volume="bad-ebs"), EBS, False, id="one that cannot be translated"),
        pytest.param(make_claim("c", volume="local"), DRIVER, False, id="a local volume"),
        pytest.param(make_claim("c", volume="nameless"), DRIVER, False, id="a CSI volume without a handle"),
    ],
)
def test_what_a_claim_counts_as(claim: PersistentVolumeClaim, driver: str, counts: bool) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("n"),
        make_csi_node("n", {driver: 0}),
        make_class(),
        make_class("in-tree", provisioner="kubernetes.io/aws-ebs"),
        make_class("file", provisioner="kubernetes.io/azure-file"),
        make_volume("ebs", csi=False, **aws("aws://zone/vol-1")),
        make_volume("bad-ebs", csi=False, **aws("aws://zone/disk")),
        make_volume("local", csi=False, local={"path": "/x"}),
        make_volume("nameless", handle=""),
        claim,
    )
    assert bool(judge.evaluate(pod_with("c")).feasible) is not counts


@pytest.mark.parametrize(
    ("taken", "fits"),
    [
        pytest.param("aws:///vol-1", True, id="the same volume, spelled otherwise"),
        pytest.param("vol-2", False, id="another volume"),
    ],
)
def test_inline_volumes_count_for_the_driver_that_replaces_their_plugin(taken: str, fits: bool) -> None:
    user = pod_with(aws(taken), name="user", node="n")
    judge = evaluator(PLUGIN, make_node("n"), make_csi_node("n", {EBS: 1}), user)
    assert bool(judge.evaluate(pod_with(aws("vol-1"))).feasible) is fits


def test_without_a_csi_node_there_is_no_limit() -> None:
    judge = evaluator(PLUGIN, make_node("n"), *bound("new"))
    assert judge.evaluate(pod_with("new", aws("aws://zone/disk"))).feasible == ("n",)


def test_a_missing_claim_is_reported_by_name() -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    status = judge.evaluate(pod_with("gone")).rejections["n"]
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)


@pytest.mark.parametrize(
    ("pod", "objects", "problem"),
    [
        pytest.param(pod_with(""), [], "PersistentVolumeClaim had no name", id="no name"),
        pytest.param(
            pod_with(ephemeral("e")),
            [make_claim("p-e")],
            "was not created for pod default/p",
            id="not its own",
        ),
        pytest.param(
            pod_with(aws("aws://zone/disk")), [], "Invalid format for AWS volume", id="no volume id"
        ),
        pytest.param(
            pod_with("new"),
            [
                *bound("new"),
                make_claim("user-e"),
                pod_with(ephemeral("e"), name="user", node="n"),
            ],
            "was not created for pod default/user",
            id="a placed pod's claim is not its own",
        ),
    ],
)
def test_errors(pod: Any, objects: list[Any], problem: str) -> None:
    judge = evaluator(PLUGIN, make_node("n"), make_csi_node("n", {DRIVER: 5}), *objects)
    with pytest.raises(KuberthError, match=problem):
        judge.evaluate(pod)


@pytest.mark.parametrize(
    ("volume", "skipped"),
    [
        pytest.param({"emptyDir": {}}, True, id="nothing to attach"),
        pytest.param({"csi": {"driver": DRIVER}}, True, id="an inline CSI volume"),
        pytest.param({"iscsi": {"iqn": "q"}}, True, id="an in-tree volume without a driver"),
        pytest.param({"vsphereVolume": {"volumePath": "x"}}, False, id="an in-tree volume with a driver"),
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, False, id="a claim"),
        pytest.param({"ephemeral": {}}, False, id="an ephemeral volume"),
    ],
)
def test_skip(volume: dict[str, Any], skipped: bool) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    pod = pod_with(volume)
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, NodeVolumeLimits)
    status = plugin.pre_filter(CycleState(PodInfo(pod)), pod, judge.cluster.all_nodes())
    assert (status == SKIP) is skipped


@pytest.mark.parametrize(
    ("driver", "nodes", "feasible"),
    [
        pytest.param(make_csi_driver(preventPodSchedulingIfMissing=True), ["n"], ("n",), id="asks for it"),
        pytest.param(make_csi_driver(), ["n"], ("bare", "n"), id="does not ask"),
        pytest.param(None, ["n"], ("bare", "n"), id="no such driver"),
    ],
)
def test_a_driver_can_ask_to_be_installed(driver: Any, nodes: list[str], feasible: tuple[str, ...]) -> None:
    objects = [make_node("n"), make_node("bare"), *bound("new")]
    objects += [make_csi_node(name, {DRIVER: None}) for name in nodes]
    judge = evaluator(PLUGIN, *objects, *([driver] if driver else []), gates={"VolumeLimitScaling": True})
    answer = judge.evaluate(pod_with("new"))
    assert answer.feasible == feasible
    if "bare" not in feasible:
        reasons = answer.rejections["bare"].reasons
        assert reasons == (f"{DRIVER} CSI driver is not installed on the node",)


def test_counts_follow_every_object_they_come_from() -> None:
    judge = evaluator(PLUGIN, make_node("n"), make_csi_node("n", {DRIVER: 1}), *bound("new"))

    def fits() -> bool:
        return bool(judge.evaluate(pod_with("new"), score=False).feasible)

    stores, table = judge.stores, judge.cluster
    assert fits()
    user = PodInfo(pod_with("late", name="user", node="n"))
    table.add_pod(user)
    assert fits(), "its claim does not exist yet"
    stores.of(PersistentVolumeClaim).set(make_claim("late"))
    assert fits(), "its storage class does not exist yet"
    stores.of(StorageClass).set(make_class())
    assert not fits()
    stores.of(PersistentVolumeClaim).set(make_claim("late", volume="elsewhere"))
    judge.add(make_volume("elsewhere", csi=False, local={"path": "/x"}))
    assert fits(), "it turned out to be a local volume"
    judge.stores.of(type(make_volume("v"))).set(make_volume("elsewhere"))
    assert not fits()
    stores.of(CSINode).set(make_csi_node("n", {DRIVER: 2}))
    assert fits()
    judge.add(make_volume("third"))
    stores.of(VolumeAttachment).set(make_attachment("x", node="n", volume="third"))
    assert not fits()
    stores.of(VolumeAttachment).remove(make_attachment("x", node="n", volume="third"))
    assert fits()
    stores.of(CSINode).set(make_csi_node("n", {DRIVER: 1}))
    assert not fits()
    node = table.node_named("n")
    assert node is not None
    with table.what_if() as what_if:
        what_if.remove_pod(user, node.row)
        assert fits()
    assert not fits()
    table.remove_pod(user.uid)
    assert fits()
    stores.of(CSINode).set(make_csi_node("n", {DRIVER: 0}))
    assert not fits()
    table.remove_node("n")
    table.set_node(make_node("m"))
    assert fits(), "the row belongs to another node now"


CSI_NODE = ("storage.k8s.io/CSINode", Action.UPDATE)
CLAIM_ADDED = ("PersistentVolumeClaim", Action.ADD)
DETACHED = ("storage.k8s.io/VolumeAttachment", Action.DELETE)
POD_DELETED = ("Pod", Action.DELETE)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        pytest.param(("storage.k8s.io/CSINode", Action.ADD), None, make_csi_node("n"), Hint.QUEUE, id="new"),
        pytest.param(
            CSI_NODE,
            make_csi_node("n", {"d": 1}),
            make_csi_node("n", {"d": 2}),
            Hint.QUEUE,
            id="limit raised",
        ),
        pytest.param(
            CSI_NODE,
            make_csi_node("n", {"d": 2}),
            make_csi_node("n", {"d": 1}),
            Hint.SKIP,
            id="limit lowered",
        ),
        pytest.param(
            CSI_NODE,
            make_csi_node("n", {"d": 2}),
            make_csi_node("n", {"d": None}),
            Hint.SKIP,
            id="limit gone",
        ),
        pytest.param(CSI_NODE, make_csi_node("n"), make_csi_node("n", {"d": 1}), Hint.QUEUE, id="new driver"),
        pytest.param(
            CSI_NODE, make_csi_node("n"), make_csi_node("n", {"d": 0}), Hint.SKIP, id="useless driver"
        ),
        pytest.param(CLAIM_ADDED, None, make_claim("c"), Hint.QUEUE, id="its claim"),
        pytest.param(CLAIM_ADDED, None, make_claim("p-e"), Hint.QUEUE, id="its ephemeral volume's claim"),
        pytest.param(CLAIM_ADDED, None, make_claim("d"), Hint.SKIP, id="another claim"),
        pytest.param(CLAIM_ADDED, None, make_claim("c", namespace="x"), Hint.SKIP, id="another namespace"),
        pytest.param(DETACHED, make_attachment("x", node="n", volume="v"), None, Hint.QUEUE, id="detached"),
        pytest.param(
            POD_DELETED, pod_with("x", name="user", node="n"), None, Hint.QUEUE, id="a pod with a claim"
        ),
        pytest.param(POD_DELETED, pod_with("x", name="user"), None, Hint.SKIP, id="a pod without a node"),
        pytest.param(
            POD_DELETED,
            pod_with("x", name="user", status={"nominatedNodeName": "n"}),
            None,
            Hint.QUEUE,
            id="a pod with a nominated node",
        ),
        pytest.param(POD_DELETED, make_pod("user", node="n"), None, Hint.SKIP, id="a pod without volumes"),
        pytest.param(
            POD_DELETED,
            pod_with({"emptyDir": {}}, name="user", node="n"),
            None,
            Hint.SKIP,
            id="a pod with nothing attached",
        ),
        pytest.param(
            POD_DELETED, pod_with(aws("v"), name="user", node="n"), None, Hint.QUEUE, id="an inline volume"
        ),
        pytest.param(POD_DELETED, None, None, Hint.QUEUE, id="nonsense"),
    ],
)
def test_hints(event: tuple[str, Action], old: Any, new: Any, expected: Hint) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    assert hint(judge, pod_with("c", ephemeral("e")), event, old, new) is expected


@pytest.mark.parametrize(
    ("volume", "attacher", "expected"),
    [
        pytest.param(aws("vol-1"), EBS, Hint.QUEUE, id="its driver"),
        pytest.param(aws("vol-1"), DRIVER, Hint.SKIP, id="another driver"),
        pytest.param(aws("aws://zone/disk"), DRIVER, Hint.QUEUE, id="cannot be translated"),
        pytest.param({"azureFile": {"shareName": "x"}}, "file.csi.azure.com", Hint.QUEUE, id="azure file"),
        pytest.param({"emptyDir": {}}, DRIVER, Hint.SKIP, id="nothing attached"),
        pytest.param({"ephemeral": {}}, DRIVER, Hint.SKIP, id="an ephemeral volume, as upstream"),
    ],
)
def test_hint_after_a_volume_was_detached(volume: dict[str, Any], attacher: str, expected: Hint) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    gone = make_attachment("x", node="n", volume="v", attacher=attacher)
    assert hint(judge, pod_with(volume), DETACHED, gone, None) is expected


def test_views_agree() -> None:
    judge = evaluator(
        PLUGIN,
        *(make_node(f"n{i}") for i in range(6)),
        *(make_csi_node(f"n{i}", {DRIVER: i, EBS: 1}) for i in range(5)),
        *bound("new", "a", "b"),
        pod_with("a", "b", name="one", node="n3"),
        pod_with("new", name="two", node="n1"),
        pod_with(aws("vol-2"), name="three", node="n4"),
    )
    pod = pod_with("new", aws("vol-1"))
    assert_views_agree(judge, PLUGIN, pod)
    # n1 has the volume, n3 would hold three of three; n4 has its EBS volume, n5 no CSINode.
    assert judge.evaluate(pod).feasible == ("n1", "n2", "n3", "n5")
