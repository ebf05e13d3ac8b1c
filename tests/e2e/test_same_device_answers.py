"""Claims, templates, classes and slices: the embedded API server answers as kube-apiserver does."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.e2e.test_same_answers import APPLY, MERGE, NAMESPACE, Ask, Reply, both

__all__ = ["both"]  # the fixture

pytestmark = pytest.mark.e2e

V1 = "/apis/resource.k8s.io/v1"
CLASSES, SLICES = f"{V1}/deviceclasses", f"{V1}/resourceslices"
CLAIMS, TEMPLATES = (
    f"{V1}/namespaces/{NAMESPACE}/{plural}" for plural in ("resourceclaims", "resourceclaimtemplates")
)
DRY = "?dryRun=All"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Tree = dict[str, Any]


def cel(expression: str) -> Tree:
    return {"cel": {"expression": expression}}


def request(name: str = "r", **exactly: Any) -> Tree:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def claim(*requests: Tree, **devices: Any) -> Tree:
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests), **devices}}}


def template(*requests: Tree, **metadata: Any) -> Tree:
    inner = {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}
    return {"metadata": {"name": "t"}, "spec": inner}


def class_of(**spec: Any) -> Tree:
    return {"metadata": {"name": "gpu"}, "spec": spec}


def slice_of(*devices: Tree, **spec: Any) -> Tree:
    base = {
        "driver": "gpu.example.com",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": list(devices),
    }
    kept = {**base, **spec}
    return {
        "metadata": {"name": "s"},
        "spec": {key: value for key, value in kept.items() if value is not None},
    }


def device(name: str = "d", **fields: Any) -> Tree:
    return {"name": name, **fields}


def policy(**fields: Any) -> Tree:
    memory = {"value": "80Gi", "requestPolicy": fields}
    return device(allowMultipleAllocations=True, capacity={"memory": memory})


PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPU = {"name": "gpu", "resourceClaimTemplateName": "t"}


def pod_of(*claims: Tree, uses: Sequence[Tree] = ()) -> Tree:
    container = {"name": "c", "image": "i", "resources": {"claims": list(uses)}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], "resourceClaims": list(claims)}}


TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
OPAQUE = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}
GOOD = {
    "defaults of a request": (CLAIMS, claim(request())),
    "defaults of alternatives": (
        CLAIMS,
        claim({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}),
    ),
    "all devices": (CLAIMS, claim(request(allocationMode="All"))),
    "a toleration": (CLAIMS, claim(request(tolerations=[{"key": "k", "operator": "Exists"}]))),
    "many tolerations": (CLAIMS, claim(request(tolerations=[{"operator": "Exists"}] * 17))),
    "a toleration without an operator": (CLAIMS, claim(request(tolerations=[{"key": "k"}]))),
    "a status is ignored at creation": (CLAIMS, {**claim(request()), "status": {"reservedFor": []}}),
    "no requests": (CLAIMS, claim()),
    "no spec": (CLAIMS, {"metadata": {"name": "c"}}),
    "constraints and configuration": (
        CLAIMS,
        claim(request(), constraints=[{"matchAttribute": "a.b/c"}], config=[{"requests": ["r"], **OPAQUE}]),
    ),
    "a template": (TEMPLATES, template(request(), labels={"a": "b"})),
    "a class": (CLASSES, class_of(selectors=[cel("device.driver == 'x'")], config=[OPAQUE])),
    "a class of an extended resource": (CLASSES, class_of(extendedResourceName="example.com/gpu")),
    "a slice": (
        SLICES,
        slice_of(device(attributes={"model": {"string": "x"}}, capacity={"m": {"value": "1Gi"}})),
    ),
    "a slice without devices": (SLICES, slice_of(devices=None)),
    "a slice for all nodes": (SLICES, slice_of(nodeName=None, allNodes=True)),
    "a slice for some nodes": (SLICES, slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [TERM]})),
    "counters": (
        SLICES,
        slice_of(devices=None, sharedCounters=[{"name": "c", "counters": {"m": {"value": "4"}}}]),
    ),
    "a pool with a slash": (SLICES, slice_of(pool={"name": "a/b", "generation": 0, "resourceSliceCount": 1})),
    "a device for multiple allocations": (
        SLICES,
        slice_of(policy(default="1Gi", validValues=["1Gi", "2Gi"])),
    ),
    "lists, which are not enabled": (
        SLICES,
        slice_of(device(attributes={"a": {"string": "x", "strings": ["y"]}})),
    ),
}
REFUSED = {
    "no name of a request": (CLAIMS, claim({"exactly": {"deviceClassName": "x"}})),
    "neither exactly nor alternatives": (CLAIMS, claim({"name": "r"})),
    "both": (
        CLAIMS,
        claim({**request(), "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}),
    ),
    "no class": (CLAIMS, claim({"name": "r", "exactly": {}})),
    "a bad class": (CLAIMS, claim(request(deviceClassName="Not A Class"))),
    "a count with all": (CLAIMS, claim(request(allocationMode="All", count=2))),
    "a negative count": (CLAIMS, claim(request(count=-1))),
    "an unknown mode": (CLAIMS, claim(request(allocationMode="Some"))),
    "two of a name": (CLAIMS, claim(request(), request())),
    "too many requests": (CLAIMS, claim(*(request(f"r{n}") for n in range(33)))),
    "too many alternatives": (
        CLAIMS,
        claim({"name": "r", "firstAvailable": [{"name": f"a{n}", "deviceClassName": "x"} for n in range(9)]}),
    ),
    "too many selectors": (CLAIMS, claim(request(selectors=[cel("true")] * 33))),
    "an unknown operator": (CLAIMS, claim(request(tolerations=[{"key": "k", "operator": "Is"}]))),
    "an unknown effect": (CLAIMS, claim(request(tolerations=[{"operator": "Exists", "effect": "Nope"}]))),
    "a value that is not asked for": (
        CLAIMS,
        claim(request(tolerations=[{"operator": "Exists", "value": "x"}])),
    ),
    "no expression": (CLAIMS, claim(request(selectors=[{}]))),
    "an expression that cannot be read": (CLAIMS, claim(request(selectors=[cel("device.driver ==")]))),
    "an expression that is no condition": (CLAIMS, claim(request(selectors=[cel("1 + 1")]))),
    "an expression about nothing": (CLAIMS, claim(request(selectors=[cel("devise.driver == 'x'")]))),
    "a long expression": (CLAIMS, claim(request(selectors=[cel("true" + " " * 10240)]))),
    "a constraint on nothing": (CLAIMS, claim(request(), constraints=[{"requests": ["r"]}])),
    "an unqualified attribute": (CLAIMS, claim(request(), constraints=[{"matchAttribute": "model"}])),
    "a constraint on others": (
        CLAIMS,
        claim(request(), constraints=[{"requests": ["x"], "matchAttribute": "a.b/c"}]),
    ),
    "a configuration of others": (CLAIMS, claim(request(), config=[{"requests": ["r/a/b"], **OPAQUE}])),
    "an empty configuration": (CLAIMS, claim(request(), config=[{}])),
    "a configuration without parameters": (CLAIMS, claim(request(), config=[{"opaque": {"driver": "a.b"}}])),
    "access for administrators": (CLAIMS, claim(request(adminAccess=True))),
    "a bad template": (TEMPLATES, template(request(count=-1))),
    "bad labels of a template": (TEMPLATES, template(request(), labels={"a b": "c"})),
    "a class with a bad expression": (CLASSES, class_of(selectors=[cel("device.")])),
    "a native resource": (CLASSES, class_of(extendedResourceName="cpu")),
    "a claim without a name": (PODS, pod_of({"resourceClaimName": "c"})),
    "a claim with a bad name": (PODS, pod_of({**GPU, "name": "a.b"})),
    "two claims of a name": (PODS, pod_of(GPU, GPU)),
    "a claim from nowhere": (PODS, pod_of({"name": "gpu"})),
    "a claim from two places": (PODS, pod_of({**GPU, "resourceClaimName": "c"})),
    "a claim that cannot be": (PODS, pod_of({"name": "gpu", "resourceClaimName": "A_B"})),
    "a use of what is not there": (PODS, pod_of(GPU, uses=[{"name": "other"}])),
    "a use without claims": (PODS, pod_of(uses=[{"name": "other"}])),
    "a use without a name": (PODS, pod_of(GPU, uses=[{}])),
    "a use of a request twice": (PODS, pod_of(GPU, uses=[{"name": "gpu", "request": "a"}] * 2)),
    "a use of all and of one": (PODS, pod_of(GPU, uses=[{"name": "gpu"}, {"name": "gpu", "request": "a"}])),
    "a use of one and of all": (PODS, pod_of(GPU, uses=[{"name": "gpu", "request": "a"}, {"name": "gpu"}])),
    "no driver": (SLICES, slice_of(driver="")),
    "a bad driver": (SLICES, slice_of(driver="a_b")),
    "a long driver": (SLICES, slice_of(driver="a" * 64)),
    "no pool": (SLICES, slice_of(pool={})),
    "a negative generation": (
        SLICES,
        slice_of(pool={"name": "p", "generation": -1, "resourceSliceCount": 1}),
    ),
    "a bad pool": (SLICES, slice_of(pool={"name": "a//b", "generation": 1, "resourceSliceCount": 1})),
    "no nodes": (SLICES, slice_of(nodeName=None)),
    "two kinds of nodes": (SLICES, slice_of(allNodes=True)),
    "an empty node": (SLICES, slice_of(nodeName="")),
    "not all nodes": (SLICES, slice_of(nodeName=None, allNodes=False)),
    "counters and devices": (
        SLICES,
        slice_of(device(), sharedCounters=[{"name": "c", "counters": {"m": {"value": "4"}}}]),
    ),
    "counters without any": (SLICES, slice_of(devices=None, sharedCounters=[{"name": "c"}])),
    "too many devices": (SLICES, slice_of(*(device(f"d{n}") for n in range(129)))),
    "too many devices with taints": (
        SLICES,
        slice_of(*(device(f"d{n}", taints=[{"key": "k", "effect": "None"}]) for n in range(65))),
    ),
    "two devices of a name": (SLICES, slice_of(device(), device())),
    "a bad device": (SLICES, slice_of(device("D_1"))),
    "a bad attribute's name": (SLICES, slice_of(device(attributes={"a-b": {"int": 1}}))),
    "an attribute of no domain": (SLICES, slice_of(device(attributes={"/b": {"int": 1}}))),
    "an attribute without a value": (SLICES, slice_of(device(attributes={"a": {}}))),
    "a version that is none": (SLICES, slice_of(device(attributes={"a": {"version": "1.0"}}))),
    "a long text": (SLICES, slice_of(device(attributes={"a": {"string": "x" * 65}}))),
    "too many attributes": (SLICES, slice_of(device(attributes={f"a{n}": {"int": n} for n in range(33)}))),
    "a taint without an effect": (SLICES, slice_of(device(taints=[{"key": "k"}]))),
    "a taint with another effect": (SLICES, slice_of(device(taints=[{"key": "k", "effect": "Nope"}]))),
    "a policy for one": (
        SLICES,
        slice_of(device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}})),
    ),
    "values without a default": (SLICES, slice_of(policy(validValues=["1Gi"]))),
    "values that are not sorted": (SLICES, slice_of(policy(default="1Gi", validValues=["2Gi", "1Gi"]))),
    "a range above the capacity": (
        SLICES,
        slice_of(policy(default="1Gi", validRange={"min": "1Gi", "max": "99Gi"})),
    ),
    "a range and no capacity": (
        SLICES,
        slice_of(
            device(
                allowMultipleAllocations=True,
                capacity={"m": {"requestPolicy": {"default": "1", "validRange": {"min": "1"}}}},
            )
        ),
    ),
    "steps that lead past the end": (
        SLICES,
        slice_of(policy(default="2Gi", validRange={"min": "1Gi", "max": "4Gi", "step": "2Gi"})),
    ),
    "a step that leads past the capacity": (
        SLICES,
        slice_of(policy(default="1Gi", validRange={"min": "1Gi", "step": "80Gi"})),
    ),
    "conditions without failures": (SLICES, slice_of(device(bindingConditions=["a"]))),
    "a device with a node of its own": (SLICES, slice_of(device(nodeName="n1"))),
    "a device without one": (SLICES, slice_of(device(), nodeName=None, perDeviceNodeSelection=True)),
    "consumption of nothing": (SLICES, slice_of(device(consumesCounters=[{"counterSet": "c"}]))),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD)
def test_what_is_taken_is_completed_alike(both: tuple[Ask, Ask], case: tuple[str, Tree]) -> None:
    path, body = case
    wanted, found = (without_identity(ask("POST", path + DRY, copy.deepcopy(body))) for ask in both)
    assert found == wanted
    assert found[0] == 201


def without_identity(reply: Reply) -> tuple[int, Any]:
    if isinstance(reply.body, dict) and "metadata" in reply.body:
        for field in ("uid", "creationTimestamp", "managedFields"):
            reply.body["metadata"].pop(field, None)
    return reply.status, without_nulls(reply.body)


def without_nulls(tree: Any) -> Any:
    """A field that is null says no more than one that is not there."""
    if isinstance(tree, list):
        return [without_nulls(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: without_nulls(value) for key, value in tree.items() if value is not None}


def without_compiler_texts(message: str) -> str:
    """What cel-go says of an expression is its own."""
    return re.sub(r"compilation failed: .*", "compilation failed", message, flags=re.DOTALL)


def refusal(reply: Reply) -> Any:
    assert reply.status == 422, reply
    details = reply.body["details"]
    causes = sorted(
        (cause["field"], cause["reason"], without_objects(without_compiler_texts(cause["message"])))
        for cause in details["causes"]
    )
    return reply.body["reason"], details["kind"], details["name"], causes


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_refused_alike(both: tuple[Ask, Ask], case: tuple[str, Tree]) -> None:
    path, body = case
    wanted, found = (refusal(ask("POST", path + DRY, copy.deepcopy(body))) for ask in both)
    assert found == wanted


RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d"}
ALLOCATION = {"devices": {"results": [RESULT]}}
USER = {"resource": "pods", "name": "p", "uid": "u"}


def test_the_life_of_a_claim(both: tuple[Ask, Ask]) -> None:
    """Allocated once, reserved, given a device status and deallocated; its requests stay."""
    status, own = f"{CLAIMS}/c/status", f"{CLAIMS}/c"
    steps: list[tuple[Any, ...]] = [
        ("POST", CLAIMS, claim(request())),
        ("PATCH", own, {"spec": {"devices": {"requests": []}}}, MERGE),
        ("PATCH", status, {"status": {"reservedFor": [USER]}}, MERGE),
        (
            "PATCH",
            status,
            {"status": {"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}}},
            MERGE,
        ),
        ("PATCH", status, {"status": {"allocation": ALLOCATION, "reservedFor": [USER]}}, MERGE),
        ("PATCH", status, {"status": {"reservedFor": [USER, USER]}}, MERGE),
        ("PATCH", status, {"status": {"reservedFor": [{"resource": "pods"}]}}, MERGE),
        ("PATCH", status, {"status": {"allocation": {"devices": {"results": []}}}}, MERGE),
        ("PATCH", status, {"status": {"devices": [{**RESULT, "device": "other"}]}}, MERGE),
        (
            "PATCH",
            status,
            {"status": {"devices": [{"driver": "gpu.example.com", "pool": "n1", "device": "d"}]}},
            MERGE,
        ),
        ("PATCH", status, {"status": {"allocation": None, "reservedFor": None}}, MERGE),
        ("PATCH", f"{own}?fieldManager=a", {**typed("ResourceClaim"), **claim(request())}, APPLY),
        ("DELETE", own),
    ]
    for step in steps:
        wanted, found = (ask(*step) for ask in both)
        assert outcome(found) == outcome(wanted), step


def typed(kind: str) -> Tree:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind}


def without_objects(message: str) -> str:
    """A value that is a whole object is shown in Go's way there."""
    return re.sub(r"Invalid value: \{.*\}: ", "Invalid value: {…}: ", message)


def outcome(reply: Reply) -> Any:
    if reply.status == 422:
        causes = sorted(
            (cause["field"], without_objects(cause["message"])) for cause in reply.body["details"]["causes"]
        )
        return 422, causes
    return reply.status, without_nulls([reply.body.get(part) for part in ("spec", "status")])


CHANGES: dict[str, tuple[str, str, Tree, Callable[[Tree], Any]]] = {
    "a template": ("t", TEMPLATES, template(request()), lambda t: t["spec"]["spec"].update(devices={})),
    "a slice's driver": ("s", SLICES, slice_of(), lambda s: s["spec"].update(driver="other.example.com")),
    "a slice's pool": ("s", SLICES, slice_of(), lambda s: s["spec"]["pool"].update(name="n2")),
    "a slice's node": ("s", SLICES, slice_of(), lambda s: s["spec"].update(nodeName="n2")),
    "a slice's devices": ("s", SLICES, slice_of(), lambda s: s["spec"].update(devices=[device()])),
    "a class": ("gpu", CLASSES, class_of(), lambda c: c["spec"].update(selectors=[cel("true")])),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_changes(both: tuple[Ask, Ask], case: tuple[str, str, Tree, Callable[[Tree], Any]]) -> None:
    name, path, body, change = case
    answers = []
    for ask in both:
        made = ask("POST", path, copy.deepcopy(body))
        assert made.status == 201, made
        change(made.body)
        answers.append(outcome(ask("PUT", f"{path}/{name}", made.body)))
        gone = ask("DELETE", f"{path}/{name}")
        assert gone.status == 200
    assert answers[0] == answers[1]


def test_columns_and_selectors(both: tuple[Ask, Ask]) -> None:
    made = [
        (CLAIMS, claim(request())),
        (TEMPLATES, template(request())),
        (CLASSES, class_of()),
        (SLICES, slice_of(device())),
    ]
    for ask in both:
        for path, body in made:
            assert ask("POST", path, copy.deepcopy(body)).status == 201
    try:
        for path, _ in made:
            wanted, found = (table(ask("GET", path, accept=TABLE)) for ask in both)
            assert found == wanted
        for selector in (
            "spec.nodeName=n1",
            "spec.nodeName=n2",
            "spec.driver=gpu.example.com",
            "spec.pool=x",
        ):
            wanted, found = (ask("GET", f"{SLICES}?fieldSelector={selector}") for ask in both)
            assert found.status == wanted.status
            names = [
                [each["metadata"]["name"] for each in reply.body.get("items", ())]
                for reply in (wanted, found)
            ]
            assert names[0] == names[1]
    finally:
        for ask in both:
            for path, body in made:
                ask("DELETE", f"{path}/{body['metadata']['name']}")


def table(reply: Reply) -> Any:
    columns = [(each["name"], each["type"], each["priority"]) for each in reply.body["columnDefinitions"]]
    ages = [name for name, *_ in columns].index("Age")
    return columns, [row["cells"][:ages] + row["cells"][ages + 1 :] for row in reply.body["rows"]]
