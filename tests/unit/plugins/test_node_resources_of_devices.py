"""Devices that take something of their node's own resources (gate DRANodeAllocatableResources)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from kuberth.api.core import Pod
from kuberth.api.resource import AllocationResult, ResourceClaim, ResourceSlice
from kuberth.api.wire import convert, to_builtins
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import Code, Status
from kuberth.plugins.dynamic_resources.node_resources import ClaimTake, take_of_allocation
from kuberth.plugins.dynamic_resources.plugin import DynamicResources
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.device_objects import exactly, given, make_claim, make_class, make_slice
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "DynamicResources"
ON = {"DRANodeAllocatableResources": True}
NOT_REFERENCED = "claim claim: node-allocatable resource claim not referenced by any container within the pod"


def container(*claims: str, **requests: str) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "x",
        "resources": {"requests": requests, "claims": [{"name": each} for each in claims]},
    }


def user(*claims: str, name: str = "p", **spec: Any) -> Pod:
    """A pod whose only container uses these claims."""
    return make_pod(
        name,
        **{
            "uid": f"uid-of-{name}",
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            "containers": [container(*claims, cpu="1")],
            **spec,
        },
    )


def device(mappings: Mapping[str, Mapping[str, str]], *, shared: bool = False, **spec: Any) -> dict[str, Any]:
    return {
        "name": "dev-0",
        "nodeAllocatableResourceMappings": mappings,
        **({"allowMultipleAllocations": True} if shared else {}),
        **spec,
    }


def times(amount: str, key: str = "") -> dict[str, str]:
    return {"allocationMultiplier": amount, **({"capacityKey": key} if key else {})}


def judge_of(*objects: Any, gates: Mapping[str, bool] | None = None) -> Evaluator:
    return evaluator(PLUGIN, make_class(), *objects, gates={**ON, **(gates or {})})


def verdict_on(judge: Evaluator, pod: Pod, node: str = "a") -> Status | None:
    return judge.evaluate(pod).rejections.get(node)


def said(status: Status | None) -> tuple[Code, tuple[str, ...]] | None:
    return None if status is None else (status.code, status.reasons)


def taken(judge: Evaluator, pod: Pod, node: str = "a") -> list[dict[str, Any]]:
    """What the pod's status would say on the node."""
    state = CycleState(PodInfo(pod))
    assert judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes()).status.is_success
    placed = state.placed(PodInfo(pod), node)
    assert placed.node_name == node
    statuses: list[dict[str, Any]] = to_builtins(placed.pod.status.node_allocatable_resource_claim_statuses)
    return statuses


@pytest.mark.parametrize(
    ("devices", "resources"),
    [
        pytest.param([device({"cpu": times("2")})], {"cpu": "2"}, id="so much for the device"),
        pytest.param([device({"cpu": {}})], {"cpu": "0"}, id="a multiplier that is not there"),
        pytest.param(
            [device({"memory": times("2", "mem")}, shared=True, capacity={"mem": {"value": "4Gi"}})],
            {"memory": "8Gi"},
            id="so much for each unit",
        ),
        pytest.param(
            [device({"memory": {"capacityKey": "mem"}}, shared=True, capacity={"mem": {"value": "4Gi"}})],
            {"memory": "4Gi"},
            id="all that is consumed",
        ),
        pytest.param(
            [
                device(
                    {"cpu": times("1"), "memory": times("2", "other")},
                    shared=True,
                    capacity={"mem": {"value": "4Gi"}},
                )
            ],
            {"cpu": "1"},
            id="a capacity that is not consumed",
        ),
        pytest.param(
            [{**device({"cpu": times("1500m")}), "name": "x"}, {**device({"cpu": times("1")}), "name": "y"}],
            {"cpu": "2500m"},
            id="several devices",
        ),
    ],
)
def test_a_claim_takes_what_its_devices_take(
    devices: list[dict[str, Any]], resources: dict[str, str]
) -> None:
    node = make_node("a", cpu="8", memory="16Gi")
    judge = judge_of(node, make_slice("a", devices), make_claim("claim", exactly(count=len(devices))))
    status = {"resourceClaimName": "claim", "containers": ["main"], "resources": resources}
    assert taken(judge, user("claim")) == [status]


def test_statuses_stand_in_the_order_of_their_claims_names() -> None:
    devices = [{**device({"cpu": times("1")}), "name": f"d{n}"} for n in range(2)]
    claims = [make_claim("z", exactly()), make_claim("b", exactly())]
    judge = judge_of(make_node("a", cpu="8"), make_slice("a", devices), *claims)
    assert [each["resourceClaimName"] for each in taken(judge, user("z", "b"))] == ["b", "z"]


def test_with_the_gate_off_devices_take_nothing() -> None:
    objects = make_node("a", cpu="1"), make_slice("a", [device({"cpu": times("9")})])
    judge = evaluator(PLUGIN, make_class(), *objects, make_claim("claim", exactly()))
    assert judge.evaluate(user("claim")).feasible == ("a",)
    state = CycleState(PodInfo(user("claim")))
    judge.runner.pre_filtering.run(state, user("claim"), judge.cluster.all_nodes())
    assert state.placing is None


@pytest.mark.parametrize(
    ("mappings", "offered", "expected"),
    [
        pytest.param({"cpu": times("3")}, {"cpu": "4"}, None, id="room for both"),
        pytest.param(
            {"cpu": times("3")},
            {"cpu": "3999m"},
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient cpu",)),
            id="more than the node has",
        ),
        pytest.param(
            {"memory": times("1Gi"), "ephemeral-storage": times("1Gi"), "cpu": times("1")},
            {"cpu": "8", "memory": "1", "ephemeral-storage": "1"},
            (
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                ("Insufficient memory", "Insufficient ephemeral-storage"),
            ),
            id="each of them is reported",
        ),
        pytest.param(
            {"hugepages-2Mi": times("4Mi")},
            {"cpu": "8", "hugepages-2Mi": "2Mi"},
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient hugepages-2Mi",)),
            id="huge pages",
        ),
        pytest.param(
            {"hugepages-2Mi": times("4Mi")},
            {"cpu": "8"},
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient hugepages-2Mi",)),
            id="what no node offers",
        ),
        pytest.param({"kubernetes.io/other": times("9")}, {"cpu": "8"}, None, id="an unscored resource"),
        pytest.param(
            {"memory": times("1")},
            {"cpu": "8", "memory": "0"},
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient memory",)),
            id="a single byte",
        ),
    ],
)
def test_a_node_needs_resources_for_the_pod_and_its_devices(
    mappings: dict[str, Any], offered: dict[str, str], expected: object
) -> None:
    node = make_node("a", allocatable={"pods": "10", "memory": "8Gi", **offered})
    judge = judge_of(node, make_slice("a", [device(mappings)]), make_claim("claim", exactly()))
    assert said(verdict_on(judge, user("claim"))) == expected
    assert_views_agree(judge, PLUGIN, user("claim"))


def test_what_placed_pods_take_is_not_there_any_more_and_may_be_again() -> None:
    status = {"resourceClaimName": "theirs", "containers": ["main"], "resources": {"cpu": "2"}}
    other = make_pod(
        "other",
        nodeName="a",
        containers=[container(cpu="1")],
        status={"nodeAllocatableResourceClaimStatuses": [status]},
    )
    objects = make_slice("a", [device({"cpu": times("3")})]), make_claim("claim", exactly())
    judge = judge_of(make_node("a", cpu="6"), other, *objects)
    # 1 + 3 of 6, of which 1 + 2 are gone; without the other pod there is room.
    assert said(verdict_on(judge, user("claim"))) == (Code.UNSCHEDULABLE, ("Insufficient cpu",))
    judge.cluster.remove_pod(other.metadata.uid)
    assert verdict_on(judge, user("claim")) is None


def test_only_nodes_without_enough_resources_are_rejected() -> None:
    nodes = [make_node(name, cpu=cpu) for name, cpu in (("a", "2"), ("b", "4"), ("c", "8"))]
    slices = [make_slice(name, [device({"cpu": times(cpu)})]) for name, cpu in (("a", "2"), ("b", "2"))]
    slices.append(make_slice("c", [device({"cpu": times("8")})]))
    judge = judge_of(*nodes, *slices, make_claim("claim", exactly()))
    answer = judge.evaluate(user("claim"))
    assert answer.feasible == ("b",)
    assert {name: status.reasons for name, status in answer.rejections.items()} == {
        "a": ("Insufficient cpu",),
        "c": ("Insufficient cpu",),
    }
    assert_views_agree(judge, PLUGIN, user("claim"))


def test_a_device_that_takes_nothing_is_not_charged_what_another_takes() -> None:
    nodes = make_node("a", cpu="8"), make_node("b", cpu="1")
    slices = make_slice("a", [device({"cpu": times("3")})]), make_slice("b", 1)
    judge = judge_of(*nodes, *slices, make_claim("claim", exactly()))
    assert judge.evaluate(user("claim")).feasible == ("a", "b")


def test_an_unknown_amount_ends_the_cycle() -> None:
    """A device that is not shared has no capacity consumed."""
    slice_ = make_slice("a", [device({"cpu": times("1", "cores")}, capacity={"cores": {"value": "4"}})])
    judge = judge_of(make_node("a"), slice_, make_claim("claim", exactly()))
    state = CycleState(PodInfo(user("claim")))
    judge.runner.pre_filtering.run(state, user("claim"), judge.cluster.all_nodes())
    node = judge.cluster.node_named("a")
    assert node is not None
    status = judge.runner.filtering.status(state, user("claim"), node)
    assert status.code is Code.ERROR
    assert status.message.endswith(
        "claim default/claim, device dev-0: ConsumedCapacity is nil, but Capacity key 'cores' is set in "
        "NodeAllocatableResourceMappings for resource cpu"
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, (NOT_REFERENCED,), id="no container uses the claim"),
        pytest.param(
            {"containers": [container()], "initContainers": [container("claim")]},
            None,
            id="an init container does",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "2"}}},
            (
                "pod level request for cpu is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests",
            ),
            id="more than the pod asks for as a whole",
        ),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, None, id="just what it asks for"),
        pytest.param({"resources": {"requests": {"memory": "1Gi"}}}, None, id="of something else"),
    ],
)
def test_the_pod_has_to_account_for_it(spec: dict[str, Any], expected: tuple[str, ...] | None) -> None:
    objects = make_slice("a", [device({"cpu": times("2")})]), make_claim("claim", exactly())
    judge = judge_of(make_node("a", cpu="8"), *objects)
    status = verdict_on(judge, user("claim", **spec))
    wanted = None if expected is None else (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, expected)
    assert said(status) == wanted


def test_without_pod_level_resources_only_containers_count() -> None:
    gates = {
        "PodLevelResources": False,
        "InPlacePodLevelResourcesVerticalScaling": False,
        "PodLevelResourceManagers": False,
    }
    objects = make_slice("a", [device({"cpu": times("2")})]), make_claim("claim", exactly())
    judge = judge_of(make_node("a", cpu="8"), *objects, gates=gates)
    assert verdict_on(judge, user("claim", resources={"requests": {"cpu": "2"}})) is None


def placed_user(name: str, claim: str = "claim", node: str = "a") -> Pod:
    status = {"resourceClaimName": claim, "containers": ["main"], "resources": {"cpu": "1"}}
    placed = user(claim, name=name, nodeName=node)
    return replace(
        placed, status=make_pod("x", status={"nodeAllocatableResourceClaimStatuses": [status]}).status
    )


def allocated() -> ResourceClaim:
    return make_claim("claim", exactly(), status=given("dev-0", node="a"))


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param((), None, id="no user"),
        pytest.param(
            ("one",), "node allocatable resource claim claim is already used by another pod", id="one"
        ),
        pytest.param(
            ("one", "two"), "node allocatable resource claim claim shared by multiple pods", id="two"
        ),
    ],
)
def test_two_pods_do_not_take_of_a_node_by_one_claim(others: tuple[str, ...], reason: str | None) -> None:
    objects = make_slice("a", [device({"cpu": times("1")})]), allocated(), *map(placed_user, others)
    judge = judge_of(make_node("a", cpu="8"), make_node("b"), *objects)
    status = verdict_on(judge, user("claim"))
    expected = None if reason is None else (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
    assert said(status) == expected
    # Where its devices cannot be had, that is what there is to say.
    not_available = verdict_on(judge, user("claim"), "b")
    assert not_available is not None
    assert not_available.reasons == ("resourceclaim not available on the node",)
    for other in others:
        judge.cluster.remove_pod(f"uid-of-{other}")
    assert verdict_on(judge, user("claim")) is None


def test_the_first_claim_that_others_use_is_reported() -> None:
    second = make_claim("second", exactly(), status=given("dev-0", node="a"))
    others = placed_user("one"), placed_user("two", "second"), placed_user("three", "second")
    judge = judge_of(make_node("a", cpu="8"), allocated(), second, *others)
    status = verdict_on(judge, user("claim", "second"))
    assert status is not None
    assert status.reasons == ("node allocatable resource claim claim is already used by another pod",)


def test_a_user_of_the_claim_on_another_node_does_not_count() -> None:
    judge = judge_of(make_node("a", cpu="8"), make_node("b"), allocated(), placed_user("one", node="b"))
    assert verdict_on(judge, user("claim")) is None
    status = verdict_on(judge, user("claim"), "b")
    assert status is not None
    assert status.reasons == ("resourceclaim not available on the node",)


def test_a_pod_that_asks_for_none_of_a_resource_fits_where_none_is_left() -> None:
    """More is taken there than there is: a device driver may have come later than the pods."""
    greedy = make_pod("greedy", nodeName="a", containers=[container(memory="9Gi")])
    objects = make_slice("a", [device({"cpu": times("1")})]), make_claim("claim", exactly()), greedy
    judge = judge_of(make_node("a", cpu="8", memory="8Gi"), *objects)
    pod = user("claim", containers=[container("claim", cpu="1", memory="0")])
    assert verdict_on(judge, pod) is None


def test_what_the_driver_says_when_the_node_is_taken_counts() -> None:
    """A cycle may wait for an extender in between."""
    judge = judge_of(
        make_node("a", cpu="8"),
        make_slice("a", [device({"cpu": times("1")})]),
        make_claim("claim", exactly()),
    )
    pod = user("claim")
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    state.placed(PodInfo(pod), "a")
    judge.stores.of(ResourceSlice).set(make_slice("a", [device({"cpu": times("2")})], generation=2))
    (status,) = state.placed(PodInfo(pod), "a").pod.status.node_allocatable_resource_claim_statuses
    assert status.resources == {"cpu": "2"}


def test_other_users_of_a_claim_are_reported_before_devices_are_searched() -> None:
    claims = allocated(), make_claim("more", exactly(of="none")), make_class("none", selectors=["false"])
    objects = make_slice("a", [device({"cpu": times("1")})]), *claims, placed_user("one")
    judge = judge_of(make_node("a", cpu="8"), *objects)
    status = verdict_on(judge, user("claim", "more"))
    assert status is not None
    assert status.reasons == ("node allocatable resource claim claim is already used by another pod",)


def test_what_was_allocated_before_is_not_counted_again() -> None:
    """As upstream: only what is decided in this cycle gets into the pod's status."""
    objects = make_slice("a", [device({"cpu": times("9")})]), allocated()
    judge = judge_of(make_node("a", cpu="4"), *objects)
    assert verdict_on(judge, user("claim")) is None
    assert taken(judge, user("claim")) == []


def test_what_was_said_in_another_attempt_is_forgotten() -> None:
    judge = judge_of(make_node("a", cpu="4"), make_slice("a", 1), make_claim("claim", exactly()))
    left = replace(user("claim"), status=placed_user("old").status)
    state = CycleState(PodInfo(left))
    judge.runner.pre_filtering.run(state, left, judge.cluster.all_nodes())
    placed = state.placed(PodInfo(left), "a")
    assert placed.pod.status.node_allocatable_resource_claim_statuses == ()
    assert placed.device_claims == frozenset()
    assert placed.request.milli_cpu == 1000


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("dev-0",), ClaimTake((("cpu", "2"),)), id="it is there"),
        pytest.param(("dev-0", "gone"), "device gone: device gone not found in pool a", id="one is gone"),
        pytest.param(("gone",), None, id="nothing is known to take anything"),
    ],
)
def test_what_was_decided_before_is_looked_up(names: tuple[str, ...], expected: object) -> None:
    judge = judge_of(
        make_node("a"),
        make_slice("a", [device({"cpu": times("9")})], name="of before"),
        make_slice("a", [device({"cpu": times("2")})], name="present", generation=2),
        make_slice("a", [device({"cpu": times("9")})], name="some of before"),
    )
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, DynamicResources)
    plugin._inventory.refresh()
    allocation = convert(AllocationResult, given(*names)["allocation"])
    take = take_of_allocation(allocation, plugin._inventory.sites)
    assert (take if take is None or not take.problem else take.problem) == expected


def test_the_devices_of_extended_resources_cannot_take_of_a_node() -> None:
    """Only the scheduler knows their claim, and no container can refer to it."""
    class_ = make_class("gpu", extendedResourceName="example.com/gpu")
    judge = evaluator(
        PLUGIN,
        class_,
        make_node("a", cpu="8"),
        make_slice("a", [device({"cpu": times("1")})]),
        gates=ON,
    )
    pod = make_pod("p", uid="p", containers=[container(**{"example.com/gpu": "1"})])
    status = verdict_on(judge, pod)
    assert status is not None
    assert status.reasons == (
        "claim <extended-resources>: node-allocatable resource claim not referenced by any container "
        "within the pod",
    )
