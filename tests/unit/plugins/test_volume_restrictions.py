from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import SKIP, Code
from kuberth.plugins.volume_restrictions.plugin import VolumeRestrictions
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint
from tests.unit.plugins.volume_objects import claim_volume, make_claim, pod_with

PLUGIN = "VolumeRestrictions"
RWOP = ("ReadWriteOncePod",)
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)


def gce(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, *, read_only: bool = False, lun: int = 0) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "lun": lun, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", pool: str = "rbd", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


DISKS = [
    pytest.param(gce("a"), gce("a"), True, id="gce: same disk"),
    pytest.param(gce("a"), gce("b"), False, id="gce: other disk"),
    pytest.param(gce("a", read_only=True), gce("a", read_only=True), False, id="gce: two readers"),
    pytest.param(gce("a", read_only=True), gce("a"), True, id="gce: a reader and a writer"),
    pytest.param(gce("a"), gce("a", read_only=True), True, id="gce: a writer and a reader"),
    pytest.param(gce("a"), aws("a"), False, id="same name, other kind"),
    pytest.param(aws("a"), aws("a"), True, id="aws: same disk"),
    pytest.param(aws("a", read_only=True), aws("a", read_only=True), True, id="aws: not even two readers"),
    pytest.param(iscsi("q"), iscsi("q", lun=3), True, id="iscsi: same iqn, other lun"),
    pytest.param(iscsi("q", read_only=True), iscsi("q", read_only=True), False, id="iscsi: two readers"),
    pytest.param(rbd("m1", "m2"), rbd("m2", "m3"), True, id="rbd: one common monitor"),
    pytest.param(rbd("m1"), rbd("m2"), False, id="rbd: no common monitor"),
    pytest.param(rbd(), rbd(), False, id="rbd: no monitors at all"),
    pytest.param(rbd("m1"), rbd("m1", pool="other"), False, id="rbd: other pool"),
    pytest.param(rbd("m1"), rbd("m1", image="other"), False, id="rbd: other image"),
    pytest.param(rbd("m1", read_only=True), rbd("m1", read_only=True), False, id="rbd: two readers"),
    pytest.param(rbd("m1", read_only=True), rbd("m1"), True, id="rbd: a reader and a writer"),
]


@pytest.mark.parametrize(("wanted", "taken", "conflict"), DISKS)
def test_a_disk_in_use_rules_the_node_out(
    wanted: dict[str, Any], taken: dict[str, Any], conflict: bool
) -> None:
    other = pod_with(taken, name="other", node="used", namespace="elsewhere")
    judge = evaluator(PLUGIN, make_node("free"), make_node("used"), other)
    answer = judge.evaluate(pod_with(wanted))
    assert answer.feasible == (("free",) if conflict else ("free", "used"))
    if conflict:
        status = answer.rejections["used"]
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, ("node(s) had no available disk",))


@pytest.mark.parametrize(("wanted", "taken", "conflict"), DISKS)
def test_a_deleted_user_of_the_disk_helps(
    wanted: dict[str, Any], taken: dict[str, Any], conflict: bool
) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    pod, deleted = pod_with(wanted), pod_with(taken, name="other", node="n")
    expected = Hint.QUEUE if conflict else Hint.SKIP
    assert hint(judge, pod, ("Pod", Action.DELETE), deleted, None) is expected
    elsewhere = pod_with(taken, name="other", node="n", namespace="elsewhere")
    assert hint(judge, pod, ("Pod", Action.DELETE), elsewhere, None) is Hint.SKIP


@pytest.mark.parametrize(
    ("namespace", "modes", "feasible"),
    [
        pytest.param("default", RWOP, (), id="in use"),
        pytest.param("default", ("ReadWriteOnce",), ("a", "b"), id="may be shared"),
        pytest.param("elsewhere", RWOP, ("a", "b"), id="a claim of another namespace"),
    ],
)
def test_a_claim_for_one_pod_is_in_use_on_every_node(
    namespace: str, modes: tuple[str, ...], feasible: tuple[str, ...]
) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("a"),
        make_node("b"),
        make_claim("c", modes=modes),
        pod_with("c", name="user", node="a", namespace=namespace),
    )
    answer = judge.evaluate(pod_with("c"))
    assert answer.feasible == feasible
    if not feasible:
        assert {status.reasons for status in answer.rejections.values()} == {(IN_USE,)}
        assert {status.code for status in answer.rejections.values()} == {Code.UNSCHEDULABLE}


def test_a_missing_claim_cannot_be_resolved_by_preemption() -> None:
    answer = evaluator(PLUGIN, make_node("n")).evaluate(pod_with("gone"))
    assert answer.pre_filter is not None
    assert answer.pre_filter.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.pre_filter.reasons == ('persistentvolumeclaim "gone" not found',)


@pytest.mark.parametrize(
    ("volumes", "skipped"),
    [
        pytest.param((), True, id="no volumes"),
        pytest.param(({"emptyDir": {}},), True, id="nothing restricted"),
        pytest.param(("free",), True, id="a claim for one pod that no pod uses"),
        pytest.param(("used",), False, id="a claim for one pod that is in use"),
        pytest.param((gce("a"),), False, id="a disk"),
        pytest.param((rbd(),), False, id="a disk without an identity"),
    ],
)
def test_skip(volumes: tuple[Any, ...], skipped: bool) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("n"),
        make_claim("free", modes=RWOP),
        make_claim("used", modes=RWOP),
        pod_with("used", name="user", node="n"),
    )
    pod = pod_with(*volumes)
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, VolumeRestrictions)
    status = plugin.pre_filter(CycleState(PodInfo(pod)), pod, judge.cluster.all_nodes())
    assert (status == SKIP) is skipped


def test_taking_the_user_away_frees_the_claim_and_putting_it_back_takes_it() -> None:
    user = pod_with("c", name="user", node="n")
    judge = evaluator(PLUGIN, make_node("n"), make_claim("c", modes=RWOP), user)
    pod = pod_with("c")
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    node = judge.cluster.node_named("n")
    assert node is not None
    trial = state.clone()
    with judge.cluster.what_if() as what_if:
        what_if.remove_pod(PodInfo(user), node.row)
        judge.runner.filtering.run_remove_pod(trial, pod, PodInfo(user), node)
        assert judge.runner.filtering.status(trial, pod, node).is_success
        what_if.add_pod(PodInfo(user), node.row)
        judge.runner.filtering.run_add_pod(trial, pod, PodInfo(user), node)
        assert not judge.runner.filtering.status(trial, pod, node).is_success
    assert not judge.runner.filtering.status(state, pod, node).is_success


def test_disks_are_read_as_they_stand_in_a_what_if() -> None:
    user = pod_with(gce("a"), name="user", node="n")
    judge = evaluator(PLUGIN, make_node("n"), user)
    pod = pod_with(gce("a"))
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    node = judge.cluster.node_named("n")
    assert node is not None
    with judge.cluster.what_if() as what_if:
        what_if.remove_pod(PodInfo(user), node.row)
        assert judge.runner.filtering.status(state, pod, node).is_success
    assert not judge.runner.filtering.status(state, pod, node).is_success


@pytest.mark.parametrize(
    ("volume", "claim", "expected"),
    [
        pytest.param(claim_volume("c"), make_claim("c"), Hint.QUEUE, id="its claim"),
        pytest.param(claim_volume("c"), make_claim("d"), Hint.SKIP, id="another claim"),
        pytest.param(
            claim_volume("c"), make_claim("c", namespace="elsewhere"), Hint.SKIP, id="another namespace"
        ),
        pytest.param(
            {"name": "v", "ephemeral": {}}, make_claim("p-v"), Hint.SKIP, id="of an ephemeral volume"
        ),
    ],
)
def test_hint_after_a_claim_was_added(volume: dict[str, Any], claim: Any, expected: Hint) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    event = ("PersistentVolumeClaim", Action.ADD)
    assert hint(judge, make_pod("p", volumes=[volume]), event, None, claim) is expected


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(pod_with("c", name="user", node="n"), Hint.QUEUE, id="used the claim"),
        pytest.param(pod_with("d", name="user", node="n"), Hint.SKIP, id="used another claim"),
        pytest.param(
            pod_with("c", name="user", node="n", namespace="elsewhere"), Hint.SKIP, id="other namespace"
        ),
    ],
)
def test_hint_after_a_pod_with_a_claim_was_deleted(deleted: Any, expected: Hint) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    assert hint(judge, pod_with("c"), ("Pod", Action.DELETE), deleted, None) is expected


@pytest.mark.parametrize(
    ("hints", "action", "registered"),
    [
        pytest.param(True, Action.ADD, True, id="a new node"),
        pytest.param(True, Action.UPDATE_NODE_LABEL, False, id="labels"),
        pytest.param(False, Action.UPDATE_NODE_LABEL, True, id="labels, without hints"),
    ],
)
def test_node_events(hints: bool, action: Action, registered: bool) -> None:
    judge = evaluator(PLUGIN, make_node("n"), gates={"SchedulerQueueingHints": hints})
    answer = hint(judge, pod_with("c"), ("Node", action), None, make_node("n"))
    assert answer is (Hint.QUEUE if registered else None)


def test_a_hint_about_nonsense_queues() -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    assert hint(judge, pod_with("c"), ("PersistentVolumeClaim", Action.ADD), None, None) is Hint.QUEUE


def test_views_agree() -> None:
    judge = evaluator(
        PLUGIN,
        *(make_node(name) for name in "abcd"),
        make_claim("c", modes=RWOP),
        pod_with(gce("x"), name="one", node="b"),
        pod_with("c", gce("x"), name="two", node="d"),
    )
    assert_views_agree(judge, PLUGIN, pod_with("c", gce("x")))
    assert_views_agree(judge, PLUGIN, pod_with(gce("x")))
