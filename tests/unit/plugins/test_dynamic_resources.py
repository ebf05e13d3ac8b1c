from __future__ import annotations

import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kuberth.api.core import Pod
from kuberth.api.meta import ObjectMeta
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.status import Code, Status
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.device_objects import exactly, first_of, given, make_claim, make_class, make_slice
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "DynamicResources"
NAMED = {"name": "gpu", "resourceClaimName": "claim"}
TEMPLATE = {"name": "nic", "resourceClaimTemplateName": "template"}


def claiming(*claims: dict[str, str], resolved: dict[str, str | None] | None = None, **spec: Any) -> Pod:
    statuses = [
        {"name": name} | ({"resourceClaimName": claim} if claim else {})
        for name, claim in (resolved or {}).items()
    ]
    return make_pod("p", resourceClaims=list(claims), status={"resourceClaimStatuses": statuses}, **spec)


def test_a_pod_without_claims_passes_and_every_node_scores_zero() -> None:
    answer = evaluator(PLUGIN, make_node("a"), make_node("b")).evaluate(make_pod("p"))
    assert answer.feasible == ("a", "b")
    assert answer.scores == {PLUGIN: {"a": 0, "b": 0}}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(
            claiming(NAMED), 'could not find ResourceClaim "default/claim"', id="a claim that is not there"
        ),
        pytest.param(
            claiming(TEMPLATE),
            'pod "default/p": ResourceClaim not created yet',
            id="a template without its claim yet",
        ),
        pytest.param(
            claiming(TEMPLATE, resolved={"nic": "theirs"}),
            "ResourceClaim default/theirs was not created for Pod default/p (Pod is not owner)",
            id="a claim of another pod",
        ),
        pytest.param(
            claiming({"name": "old", "resourceClaimName": "leaving"}),
            'resourceclaim "leaving" is being deleted',
            id="a claim that is being deleted",
        ),
        pytest.param(
            claiming({"name": "odd"}),
            'pod "default/p", spec.resourceClaim "odd": none of the supported fields are set',
            id="neither name nor template",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(pod: Pod, reason: str) -> None:
    leaving = replace(
        make_claim("leaving"),
        metadata=ObjectMeta(
            name="leaving", namespace="default", deletion_timestamp=datetime.datetime.now(datetime.UTC)
        ),
    )
    judge = evaluator(PLUGIN, make_node("a"), make_claim("theirs"), leaving)
    gated = judge.runner.run_pre_enqueue(pod)
    assert (gated.code, gated.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
    status = judge.evaluate(pod).pre_filter
    assert status is not None
    assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert status.reasons == (reason,)


def test_a_template_that_needs_no_claim_is_no_claim() -> None:
    answer = evaluator(PLUGIN, make_node("a")).evaluate(claiming(TEMPLATE, resolved={"nic": None}))
    assert answer.feasible == ("a",)


def test_with_the_gate_off_claims_are_not_looked_at() -> None:
    gates = {
        "DynamicResourceAllocation": False,
        "DRAAdminAccess": False,
        "DRAPrioritizedList": False,
        "AllBeta": False,
    }
    judge = evaluator(PLUGIN, make_node("a"), gates=gates)
    pod = claiming(NAMED)
    assert judge.evaluate(pod).feasible == ("a",)
    assert hint(judge, pod, ("Node", Action.ADD), None, make_node("n")) is None


@pytest.mark.parametrize("pod", [make_pod("p"), claiming(NAMED)], ids=["no claims", "claims not ready"])
def test_post_filter_has_nothing_to_free(pod: Pod) -> None:
    judge = evaluator(PLUGIN, make_node("a"))
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    result, status = judge.runner.post_filtering.run(state, pod, Diagnosis())
    assert result is None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, ("no new claims to deallocate",))


def test_there_is_nothing_to_reserve_and_nothing_before_the_binding() -> None:
    judge, pod = evaluator(PLUGIN, make_node("a")), make_pod("p")
    state = CycleState(PodInfo(pod))
    assert judge.runner.run_pre_enqueue(pod).is_success
    assert judge.runner.reserving.run_reserve(state, pod, "a").is_success
    assert judge.runner.binding.run_pre_bind_pre_flights(state, pod, "a").is_skip
    assert state.skip_pre_bind == {PLUGIN}


def test_earlier_alternatives_score_more_on_top_of_what_is_allocated() -> None:
    choice = first_of("q", exactly("one", of="gpu"), exactly("two", of="nic"))
    status = given("dev-0", node="elsewhere")
    status["allocation"]["devices"]["results"][0]["request"] = "q/two"
    del status["allocation"]["nodeSelector"]
    judge = evaluator(
        PLUGIN,
        *(make_node(name) for name in "ab"),
        make_class("gpu", selectors=["device.attributes['gpu.example.com'].kind == 'gpu'"]),
        make_class("nic"),
        make_slice("a", [{"name": "g", "attributes": {"kind": {"string": "gpu"}}}]),
        make_slice("b", [{"name": "n", "attributes": {"kind": {"string": "nic"}}}]),
        make_claim("had", choice, status=status),
        make_claim("wanted", choice),
    )
    pod = claiming(*({"name": name, "resourceClaimName": name} for name in ("had", "wanted")))
    # 8 or 7 for what the node gives, and 7 for the second alternative that the other claim has.
    assert judge.evaluate(pod).scores == {PLUGIN: {"a": 100, "b": 14 * 100 // 15}}


def test_resources_that_a_node_offers_itself_are_not_given_as_devices() -> None:
    """The class behind the GPUs selects no device, but one of the nodes has a device plugin for them."""
    allocatable = {"pods": "10", "cpu": "4", "memory": "8Gi", "example.com/gpu": "1"}
    judge = evaluator(
        PLUGIN,
        make_node("a", allocatable=allocatable),
        make_node("b"),
        *(make_slice(name, 1) for name in "ab"),
        make_class("gpu", selectors=["false"], extendedResourceName="example.com/gpu"),
        make_class("nic", extendedResourceName="example.com/nic"),
    )
    requests = {"example.com/gpu": "1", "example.com/nic": "1"}
    pod = make_pod("p", containers=[{"name": "main", "resources": {"requests": requests}}])
    assert judge.evaluate(pod).feasible == ("a",)


def test_devices_of_a_selector_with_several_terms_cannot_be_allocated() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "xy"]
    slice_ = make_slice("p", 1, nodeSelector={"nodeSelectorTerms": terms})
    judge = evaluator(
        PLUGIN, make_node("a", labels={"zone": "x"}), make_class(), slice_, make_claim("claim", exactly())
    )
    state, pod = CycleState(PodInfo(claiming(NAMED))), claiming(NAMED)
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    node = judge.cluster.node_named("a")
    assert node is not None
    status = judge.runner.filtering.status(state, pod, node)
    assert "unsupported ResourceSlice.NodeSelector with 2 terms" in status.message


def test_all_views_say_the_same() -> None:
    assert_views_agree(evaluator(PLUGIN, *map(make_node, "abcd")), PLUGIN, make_pod("p"))


@pytest.mark.parametrize(
    ("resource", "action", "expected"),
    [
        ("Node", Action.ADD, Hint.QUEUE),
        ("Node", Action.UPDATE_NODE_LABEL, Hint.QUEUE),
        ("Node", Action.UPDATE_NODE_ALLOCATABLE, Hint.QUEUE),
        ("Node", Action.UPDATE_NODE_TAINT, None),
        ("Pod", Action.UPDATE_POD_LABEL, None),
        ("Pod", Action.DELETE, None),
        # Without an object there is nothing to judge, and the queue takes that for Queue.
        ("resource.k8s.io/ResourceClaim", Action.ADD, Hint.QUEUE),
        ("resource.k8s.io/ResourceClaim", Action.DELETE, None),
        ("resource.k8s.io/DeviceClass", Action.ADD, Hint.QUEUE),
        ("resource.k8s.io/ResourceSlice", Action.UPDATE, Hint.QUEUE),
    ],
    ids=lambda value: getattr(value, "label", None) or str(value),
)
def test_events(resource: str, action: Action, expected: Hint | None) -> None:
    assert hint(evaluator(PLUGIN), make_pod("p"), (resource, action), None, None) is expected


@pytest.mark.parametrize(
    ("uid", "claim", "expected"),
    [
        pytest.param("me", None, Hint.QUEUE, id="no claim is needed after all"),
        pytest.param("me", "made", Hint.SKIP, id="the claim was made"),
        pytest.param("you", None, Hint.SKIP, id="another pod"),
    ],
)
def test_hint_after_claims_were_generated(uid: str, claim: str | None, expected: Hint) -> None:
    pod, old = claiming(TEMPLATE, uid="me"), claiming(TEMPLATE, uid=uid)
    new = claiming(TEMPLATE, resolved={"nic": claim}, uid=uid)
    event = ("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    assert hint(evaluator(PLUGIN), pod, event, old, new) is expected


def test_cycles_that_overlap_do_not_take_the_same_device() -> None:
    """A cycle may wait for an extender between Filter and Reserve, and others pass it meanwhile."""
    judge = evaluator(
        PLUGIN,
        make_node("a"),
        make_class(),
        make_slice("a", 1),
        make_claim("claim", exactly()),
        make_claim("other", exactly()),
    )
    first, second = claiming(NAMED), claiming({"name": "gpu", "resourceClaimName": "other"})
    states = []
    for pod in (first, second):
        state = CycleState(PodInfo(pod))
        judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
        passing = judge.runner.filtering.run(state, pod, judge.cluster.all_nodes(), Diagnosis())
        assert not isinstance(passing, Status)
        assert passing.tolist() == [True]
        states.append(state)
    judge.cluster.set_node(make_node("late"))
    assert judge.runner.reserving.run_reserve(states[0], first, "a").is_success
    assert (
        "claim allocation not found for node"
        in judge.runner.reserving.run_reserve(states[1], second, "a").message
    )
    again = judge.runner.reserving.run_reserve(states[0], first, "a")
    assert again.reasons == ("resource claim default/claim is in the process of being allocated",)
    judge.runner.reserving.run_unreserve(states[0], first, "a")
    assert judge.runner.reserving.run_reserve(states[1], second, "a").is_success


def test_filter_follows_nodes_that_come_while_the_cycle_waits() -> None:
    judge = evaluator(PLUGIN, make_node("a"), make_class(), make_slice("z"), make_claim("claim", exactly()))
    pod = claiming(NAMED)
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    for number in range(200):
        judge.cluster.set_node(make_node(f"n{number}"))
    judge.cluster.set_node(make_node("z"))
    nodes = judge.cluster.all_nodes()
    passing = judge.runner.filtering.run(state, pod, nodes, Diagnosis())
    assert not isinstance(passing, Status)
    assert nodes.at(passing).names() == ["z"]


def test_a_refused_pod_leaves_an_in_flight_claim_allocated() -> None:
    """Two pods use one claim, and the cycle of one waited while the other was given its device."""
    judge = evaluator(
        PLUGIN, make_node("a"), make_class(), make_slice("a", 1), make_claim("claim", exactly())
    )
    first, second = claiming(NAMED, uid="first"), claiming(NAMED, uid="second")
    states = []
    for pod in (first, second):
        states.append(state := CycleState(PodInfo(pod)))
        judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
        judge.runner.filtering.run(state, pod, judge.cluster.all_nodes(), Diagnosis())
    assert judge.runner.reserving.run_reserve(states[0], first, "a").is_success
    refused = judge.runner.reserving.run_reserve(states[1], second, "a")
    judge.runner.reserving.run_unreserve(states[1], second, "a")
    late = CycleState(PodInfo(second))
    status = judge.runner.pre_filtering.run(late, second, judge.cluster.all_nodes()).status
    in_process = ("resource claim default/claim is in the process of being allocated",)
    assert refused.reasons == status.reasons == in_process
    judge.runner.reserving.run_unreserve(states[0], first, "a")
    assert judge.runner.pre_filtering.run(late, second, judge.cluster.all_nodes()).status.is_success
