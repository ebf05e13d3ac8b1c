"""Claims that pods use as one of their group (gate DRAWorkloadResourceClaims)."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.api.resource import ResourceClaim
from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code, Status
from kuberth.plugins.dynamic_resources.finding import user_for
from kuberth.plugins.dynamic_resources.hints import claims_named_by, users_of
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.device_objects import exactly, given, make_claim, make_class, make_slice
from tests.unit.plugins.harness import evaluator, hint

PLUGIN = "DynamicResources"
ON = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
NAMED = {"name": "gpu", "resourceClaimName": "claim"}
GROUP_USER = {
    "apiGroup": "scheduling.k8s.io",
    "resource": "podgroups",
    "name": "team",
    "uid": "uid-of-team",
}


def member(*claims: dict[str, str], made: str = "claim", group: str = "team", **spec: Any) -> Pod:
    statuses = [
        {"name": each["name"], "resourceClaimName": made}
        for each in claims
        if "resourceClaimTemplateName" in each
    ]
    grouped: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return make_pod(
        "p", uid="me", resourceClaims=[*claims], status={"resourceClaimStatuses": statuses}, **grouped, **spec
    )


def group(*claims: dict[str, str], made: str = "") -> PodGroup:
    statuses = [{"name": each["name"], "resourceClaimName": made} for each in claims] if made else []
    return convert(
        PodGroup,
        {
            "metadata": {"name": "team", "namespace": "default", "uid": "uid-of-team"},
            "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [*claims]},
            "status": {"resourceClaimStatuses": statuses},
        },
    )


def owned(
    *,
    name: str = "team",
    kind: str = "PodGroup",
    version: str = "scheduling.k8s.io/v1alpha2",
    status: Any = None,
) -> ResourceClaim:
    owner = {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": "uid-of-team",
        "controller": True,
    }
    return make_claim("claim", exactly(), status=status, metadata={"ownerReferences": [owner]})


def judge_of(*objects: Any, on: bool = True) -> Evaluator:
    gates = {**ON, "DRAWorkloadResourceClaims": on}
    return evaluator(PLUGIN, make_node("a"), make_class(), make_slice("a", 2), *objects, gates=gates)


def refusal(judge: Evaluator, pod: Pod) -> tuple[str, ...]:
    status = judge.evaluate(pod).pre_filter
    return () if status is None else status.reasons


@pytest.mark.parametrize(
    ("claim", "grouped", "on", "why"),
    [
        pytest.param(owned(), "team", True, None, id="made for the group"),
        pytest.param(owned(version="scheduling.k8s.io/v9"), "team", True, None, id="in another version"),
        pytest.param(
            owned(name="other"), "team", True, "neither Pod nor PodGroup team is the owner", id="of another"
        ),
        pytest.param(
            owned(kind="Job"), "team", True, "neither Pod nor PodGroup team is the owner", id="of no group"
        ),
        pytest.param(
            owned(version="example.com/v1"),
            "team",
            True,
            "neither Pod nor PodGroup team is the owner",
            id="of a group of another kind",
        ),
        pytest.param(owned(), "", True, "Pod is not owner", id="a pod without a group"),
        pytest.param(owned(), "team", False, "Pod is not owner", id="the gate is off"),
    ],
)
def test_what_was_made_for_the_group_is_for_its_pods(
    claim: ResourceClaim, grouped: str, on: bool, why: str | None
) -> None:
    judge, pod = judge_of(claim, group(TEMPLATE), on=on), member(TEMPLATE, group=grouped)
    expected: tuple[str, ...] = ()
    if why is not None:
        expected = (f"ResourceClaim default/claim was not created for Pod default/p ({why})",)
    assert refusal(judge, pod) == expected
    assert judge.runner.run_pre_enqueue(pod).reasons == expected


@pytest.mark.parametrize("claims", [(), (NAMED,)], ids=["no claims", "a claim"])
def test_the_group_has_to_be_there(claims: tuple[dict[str, str], ...]) -> None:
    pod = member(*claims)
    assert refusal(judge_of(make_claim("claim", exactly())), pod) == (
        'podgroup.scheduling.k8s.io "team" not found',
    )
    assert refusal(judge_of(make_claim("claim", exactly()), on=False), pod) == ()
    assert refusal(judge_of(make_claim("claim", exactly()), group()), pod) == ()


def test_a_groups_claim_that_says_nothing_is_no_claim() -> None:
    judge = judge_of(make_claim("claim", exactly()), group({"name": "odd"}))
    assert refusal(judge, member(NAMED)) == (
        "PodGroup default/team claim odd: none of the supported fields are set",
    )


@pytest.mark.parametrize(
    ("own", "is_group"),
    [
        pytest.param(NAMED, True, id="the same"),
        pytest.param({**NAMED, "name": "nic"}, False, id="under another name"),
        pytest.param({**NAMED, "resourceClaimName": "other"}, False, id="another claim"),
        pytest.param(TEMPLATE, False, id="from a template"),
    ],
)
def test_a_claim_is_used_in_the_groups_name_if_it_is_the_groups(own: dict[str, str], is_group: bool) -> None:
    pod = member(NAMED)
    user = user_for(pod, pod.spec.resource_claims[0], group(own))
    assert (user.api_group, user.resource, user.name, user.uid) == (
        ("scheduling.k8s.io", "podgroups", "team", "uid-of-team") if is_group else ("", "pods", "p", "me")
    )


@pytest.mark.parametrize("on", [True, False])
def test_a_new_claim_of_the_group_helps_its_pods(on: bool) -> None:
    judge = judge_of(owned(), group(TEMPLATE), on=on)
    event = ("resource.k8s.io/ResourceClaim", Action.ADD)
    expected = Hint.QUEUE if on else Hint.SKIP
    assert hint(judge, member(TEMPLATE), event, None, owned()) is expected
    statuses = ("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    assert hint(judge, member(TEMPLATE), statuses, member(TEMPLATE), member(TEMPLATE)) is expected


def test_the_queue_finds_the_pods_that_a_groups_claim_concerns() -> None:
    concerned = users_of(None, owned())
    assert concerned is not None
    assert set(concerned) & set(claims_named_by(member(TEMPLATE)))
    assert not set(concerned) & set(claims_named_by(member(TEMPLATE, group="other")))


def post_filter(judge: Evaluator, pod: Pod) -> Status:
    _, preemption = judge.preempt(pod)
    assert preemption is not None
    return preemption.status


def reserved(user: dict[str, str]) -> dict[str, Any]:
    return {**given("dev-0", node="elsewhere"), "reservedFor": [user]}


RELEASED = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("ResourceClaim unreserved for PodGroup",))
STILL_NOT = (Code.UNSCHEDULABLE, ("still not schedulable",))


@pytest.mark.parametrize(
    ("objects", "on", "expected"),
    [
        pytest.param((owned(status=reserved(GROUP_USER)),), True, RELEASED, id="of the group"),
        pytest.param((owned(status=reserved(GROUP_USER)),), False, None, id="the gate is off"),
        pytest.param(
            (owned(status=reserved({**GROUP_USER, "name": "others", "uid": "x"})),),
            True,
            STILL_NOT,
            id="of others",
        ),
        pytest.param(
            (owned(status=reserved({**GROUP_USER, "apiGroup": "example.com"})),),
            True,
            STILL_NOT,
            id="of a group of another kind",
        ),
        pytest.param(
            (
                owned(status=reserved(GROUP_USER)),
                make_pod("other", nodeName="a", schedulingGroup={"podGroupName": "team"}),
            ),
            True,
            STILL_NOT,
            id="while a pod of the group runs",
        ),
    ],
)
def test_a_group_without_pods_on_nodes_lets_its_claim_go(
    objects: tuple[Any, ...], on: bool, expected: object
) -> None:
    judge = judge_of(*objects, group(TEMPLATE, made="claim"), on=on)
    status = post_filter(judge, member(TEMPLATE))
    if expected is None:
        assert "no new claims to deallocate" in status.reasons
    else:
        assert (status.code, status.reasons) == expected


def test_a_groups_claim_that_is_not_made_yet_cannot_be_let_go() -> None:
    judge = judge_of(owned(status=reserved(GROUP_USER)), group(TEMPLATE))
    status = post_filter(judge, member(TEMPLATE))
    assert status.code is Code.ERROR
    assert "PodGroup default/team: ResourceClaim not created yet" in status.message
