"""The embedded API server against kube-apiserver: the same requests, the same managedFields and refusals."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.e2e.control_plane import ADMIN, ControlPlane, token_of
from tests.e2e.embedded import embedded_server
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
YAML = "application/yaml"
NAMESPACE = "same-answers"


class Reply(NamedTuple):
    status: int
    body: Any
    warnings: list[str]


Ask = Callable[..., Reply]


def asker(server: str, token: str, ca_file: Path) -> Ask:
    address = urlsplit(server)
    context = ssl.create_default_context(cafile=str(ca_file))

    def ask(
        method: str,
        path: str,
        body: Any = None,
        content_type: str = JSON,
        *,
        agent: str = "tester/1.0 (x)",
        accept: str = JSON,
    ) -> Reply:
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=context, timeout=30
        )
        try:
            sent = body if body is None or isinstance(body, str) else json.dumps(body)
            headers = {"authorization": f"Bearer {token}", "user-agent": agent}
            headers |= {"content-type": content_type, "accept": accept}
            connection.request(method, path, sent, headers)
            response = connection.getresponse()
            text = response.read().decode()
            warnings = response.headers.get_all("warning") or []
            # Upstream's handler of timeouts does not say that it sends JSON.
            return Reply(response.status, json.loads(text) if text[:1] == "{" else text, warnings)
        finally:
            connection.close()

    return ask


@pytest.fixture
def both(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Ask, Ask]]:
    """Upstream and us, each with a namespace for the test."""
    with embedded_server(tmp_path) as cluster:
        ca_file = tmp_path / "ca.crt"
        ca_file.write_bytes(cluster.credentials.ca_certificate)
        theirs = asker(control_plane.server, token_of(ADMIN), control_plane.authority.file)
        ours = asker(cluster.url, cluster.credentials.token, ca_file)
        for ask in (theirs, ours):
            ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield theirs, ours
        for kind in ("apis/apps/v1/%s/deployments", "api/v1/%s/configmaps", "api/v1/%s/pods"):
            path = kind % f"namespaces/{NAMESPACE}"
            theirs("DELETE", f"/{path}?gracePeriodSeconds=0")
        theirs("DELETE", "/api/v1/nodes/same-answers")


def path_of(resource: str, name: str = "") -> str:
    group, _, plural = resource.rpartition("/")
    root = f"/apis/{group}" if group != "v1" else "/api/v1"
    return f"{root}/namespaces/{NAMESPACE}/{plural}" + (f"/{name}" if name else "")


def comparable(reply: Reply) -> Any:
    """What must be the same: the outcome, the owners of fields, and every word of a refusal."""
    body = reply.body
    if isinstance(body, dict) and body.get("status") == "Failure":
        # Among several managers upstream names now this one first, now that one.
        causes = sorted(body.get("details", {}).pop("causes", []), key=json.dumps)
        return reply, sorted(body.pop("message").split("\n")), causes
    if not isinstance(body, dict):
        return reply
    managed = [
        {name: entry[name] for name in sorted(entry) if name != "time"}
        for entry in body.get("metadata", {}).get("managedFields", ())
    ]
    # The order is by time, and seconds pass as they like.
    managed.sort(key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", "")))
    return reply.status, json.dumps(managed, indent=1), reply.warnings


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"a": "b"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 443}]},
                    {"name": "side", "image": "s", "env": [{"name": "A", "value": "1"}]},
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        },
    },
}


def changed(tree: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    fresh = copy.deepcopy(tree)
    change(fresh)
    return fresh


def containers(tree: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tree["spec"]["template"]["spec"]["containers"]
    return found


DEPLOYMENTS = path_of("apps/v1/deployments")
WEB = path_of("apps/v1/deployments", "web")
MAPS = path_of("v1/configmaps")
MAP = path_of("v1/configmaps", "m")
PODS = path_of("v1/pods")
POD = path_of("v1/pods", "p")
APPLIED_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
POD_OBJECT = {
    "metadata": {"name": "p", "labels": {"l": "1"}, "finalizers": ["example.com/x"]},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}},
}
TYPED = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}

MANAGED = {
    "updates and appliers share a deployment": [
        ("POST", DEPLOYMENTS, DEPLOYMENT),
        (
            "PATCH",
            f"{WEB}?fieldManager=al",
            changed(DEPLOYMENT, lambda d: d["spec"].update(replicas=3)),
            APPLY,
        ),
        (
            "PATCH",
            f"{WEB}?fieldManager=al&force=true",
            changed(DEPLOYMENT, lambda d: d["spec"].update(replicas=3)),
            APPLY,
        ),
        (
            "PATCH",
            f"{WEB}/status?fieldManager=bo",
            {"status": {"replicas": 1}, "spec": {"paused": True}},
            MERGE,
        ),
        (
            "PATCH",
            f"{WEB}?fieldManager=ki",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "y"}]}}}},
            STRATEGIC,
        ),
        # It is removed although another manager set its image: no other manager applied the container.
        ("PATCH", f"{WEB}?fieldManager=al", changed(DEPLOYMENT, lambda d: containers(d).pop()), APPLY),
        (
            "PATCH",
            f"{WEB}?fieldManager=al&force=true",
            changed(DEPLOYMENT, lambda d: containers(d).pop()),
            APPLY,
        ),
        ("GET", WEB),
        ("PATCH", f"{WEB}?fieldManager=jo", [{"op": "remove", "path": "/metadata/labels/a"}], JSON_PATCH),
        ("PATCH", f"{WEB}?fieldManager=al", changed(DEPLOYMENT, lambda d: d["spec"].pop("replicas")), APPLY),
        ("GET", WEB),
    ],
    "an applier of a new object": [
        ("PATCH", f"{WEB}?fieldManager=al", DEPLOYMENT, APPLY),
        ("PATCH", f"{WEB}?fieldManager=al", DEPLOYMENT, APPLY),
        ("PATCH", f"{WEB}?fieldManager=bo", changed(DEPLOYMENT, lambda d: containers(d).pop()), APPLY),
        (
            "PATCH",
            f"{WEB}?fieldManager=al",
            changed(DEPLOYMENT, lambda d: d.update(metadata={"name": "web"})),
            APPLY,
        ),
        ("PATCH", f"{WEB}/status?fieldManager=st", {**DEPLOYMENT, "status": {"replicas": 5}}, APPLY),
        ("PUT", WEB, DEPLOYMENT),
    ],
    "conflicts with several managers": [
        ("POST", f"{MAPS}?fieldManager=one", {**APPLIED_MAP, "data": {"a": "b", "c": "d"}}),
        ("PATCH", f"{MAP}?fieldManager=two", {"data": {"e": "1"}}, MERGE),
        ("PATCH", f"{MAP}?fieldManager=ap", {**APPLIED_MAP, "data": {"a": "z", "c": "1", "e": "2"}}, APPLY),
        ("PATCH", f"{MAP}?fieldManager=ap", {**APPLIED_MAP, "data": {"a": "b", "e": "2"}}, APPLY),
        ("PATCH", f"{MAP}?fieldManager=ap&force=true", {**APPLIED_MAP, "data": {"a": "b", "e": "2"}}, APPLY),
        ("PATCH", f"{MAP}?fieldManager=ap", {**APPLIED_MAP, "data": {"a": "b"}}, APPLY),
        ("PATCH", f"{MAP}?fieldManager=two", {"data": None}, MERGE),
    ],
    "managedFields that clients set": [
        ("POST", MAPS, APPLIED_MAP),
        ("PATCH", f"{MAP}?fieldManager=b", {"metadata": {"managedFields": [{"manager": "x"}]}}, MERGE),
        (
            "PATCH",
            f"{MAP}?fieldManager=b",
            {
                "metadata": {
                    "managedFields": [
                        {
                            "manager": "z",
                            "operation": "Apply",
                            "apiVersion": "v1",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:a": {}}},
                        }
                    ]
                },
                "data": {"b": "1"},
            },
            MERGE,
        ),
        ("PATCH", f"{MAP}?fieldManager=b", {"metadata": {"managedFields": []}, "data": {"c": "1"}}, MERGE),
        ("PATCH", f"{MAP}?fieldManager=b", {"data": {"d": "1"}}, MERGE),
        ("PATCH", f"{MAP}?fieldManager=ap", APPLIED_MAP | {"data": {"a": "2"}}, APPLY),
        ("PATCH", f"{MAP}?fieldManager=ap&force=true", APPLIED_MAP | {"data": {"a": "2"}}, APPLY),
    ],
    "a pod and its status": [
        ("POST", PODS, POD_OBJECT),
        (
            "PATCH",
            f"{POD}/status?fieldManager=st",
            {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}},
            MERGE,
        ),
        (
            "PATCH",
            f"{POD}?fieldManager=ap",
            {**TYPED, "spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Failed"}},
            APPLY,
        ),
        ("PATCH", f"{POD}?fieldManager=fi", {"metadata": {"finalizers": None}}, MERGE),
    ],
    "a node": [
        (
            "POST",
            "/api/v1/nodes",
            {
                "metadata": {"name": "same-answers"},
                "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            },
        ),
        (
            "PATCH",
            "/api/v1/nodes/same-answers/status?fieldManager=k",
            {
                "metadata": {"annotations": {"a": "b"}},
                "status": {"capacity": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1"}},
            },
            MERGE,
        ),
        ("PATCH", "/api/v1/nodes/same-answers?fieldManager=c", {"spec": {"unschedulable": True}}, MERGE),
    ],
}


@pytest.mark.parametrize("requests", MANAGED.values(), ids=MANAGED)
def test_managed_fields(both: tuple[Ask, Ask], requests: list[Any]) -> None:
    theirs, ours = both
    for request in requests:
        assert comparable(ours(*request)) == comparable(theirs(*request)), request[:2]


PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        },
    },
}
BOAT_SPEC = {
    "type": "object",
    "properties": {
        "ports": PORTS,
        "crew": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "cargo": {"type": "array", "items": {"type": "object", "properties": {"what": {"type": "string"}}}},
        "flag": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"color": {"type": "string"}, "stripes": {"type": "integer"}},
        },
        "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
BOAT_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.same.example.com"},
    "spec": {
        "group": "same.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": BOAT_SPEC}}},
            }
        ],
    },
}
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BOAT = path_of("same.example.com/v1/boats", "b")


def boat(**spec: Any) -> dict[str, Any]:
    typed = {"apiVersion": "same.example.com/v1", "kind": "Boat", "metadata": {"name": "b"}}
    return {**typed, "spec": spec}


HTTP = {"port": 80, "name": "http"}
BOATS = {
    "lists by key, sets, whole values": [
        (
            "PATCH",
            f"{BOAT}?fieldManager=al",
            boat(ports=[HTTP], crew=["ann"], cargo=[{"what": "tea"}], flag={"color": "red"}),
            APPLY,
        ),
        (
            "PATCH",
            f"{BOAT}?fieldManager=bo",
            boat(ports=[{"port": 80, "protocol": "UDP"}], crew=["ben"], notes={"a": "1"}),
            APPLY,
        ),
        ("PATCH", f"{BOAT}?fieldManager=bo", boat(ports=[{"port": 80, "name": "other"}]), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=bo", boat(flag={"stripes": 3}), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=bo&force=true", boat(flag={"stripes": 3}), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=al", boat(crew=["ann"], anything={"x": {"y": [1]}}), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=me", {"spec": {"notes": {"b": "2"}}}, MERGE),
        ("GET", BOAT),
    ],
    "what the schema does not have": [
        ("PATCH", f"{BOAT}?fieldManager=al", {**boat(crew=["ann"]), "unknown": 1}, APPLY),
        ("PATCH", f"{BOAT}?fieldManager=al", boat(sails=2), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=al", boat(ports=[{"port": 1, "color": "red"}]), APPLY),
        ("PATCH", f"{BOAT}?fieldManager=al", boat(notes={"whatever": "1"}, anything={"z": 1}), APPLY),
    ],
}


def knows_boats(ask: Ask) -> bool:
    """The kind is served, and its schema is enforced when objects are applied."""
    trial = f"{BOAT}?dryRun=All&fieldManager=a"
    return ask("PATCH", trial, boat(), APPLY).status < 300 <= ask("PATCH", trial, boat(sails=1), APPLY).status


@pytest.mark.parametrize("requests", BOATS.values(), ids=BOATS)
def test_managed_fields_of_a_custom_kind(both: tuple[Ask, Ask], requests: list[Any]) -> None:
    theirs, ours = both
    for ask in both:
        ask("POST", KINDS, BOAT_KIND)
        wait_for("the kind", partial(knows_boats, ask))
    try:
        for request in requests:
            our, their = ours(*request), theirs(*request)
            if their.status == 500:  # for what the types cannot hold; here that is no failure of the server
                assert (our.status, our.body["message"]) == (400, their.body["message"])
            else:
                assert comparable(our) == comparable(their), request[:2]
    finally:
        theirs("DELETE", BOAT)
        theirs("DELETE", f"{KINDS}/boats.same.example.com")


YAML_POD = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeName: a
  nodeName: b
  containers:
  - name: c
    image: i
    image: k
"""
JSON_POD = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"a","nodeName":"b","bar":1,'
    '"containers":[{"name":"c","image":"i","image":"k","imag":2}]}}'
)
FIELD_CHECKS = {
    "JSON": ("POST", f"{PODS}?dryRun=All&fieldValidation={{}}", JSON_POD),
    "YAML": ("POST", f"{PODS}?dryRun=All&fieldValidation={{}}", YAML_POD + "  bar: 1\n", YAML),
    "apply": ("PATCH", f"{POD}?dryRun=All&fieldManager=a&fieldValidation={{}}", YAML_POD, APPLY),
}


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore", "", "Nope"])
@pytest.mark.parametrize("request_", FIELD_CHECKS.values(), ids=FIELD_CHECKS)
def test_field_validation(both: tuple[Ask, Ask], request_: tuple[Any, ...], mode: str) -> None:
    method, path, *rest = request_
    wanted, found = (ask(method, path.format(mode), *rest) for ask in both)
    # Several warnings may be in one header, or in one header each.
    assert ", ".join(found.warnings) == ", ".join(wanted.warnings)
    assert comparable(found._replace(warnings=[])) == comparable(wanted._replace(warnings=[]))


@pytest.mark.parametrize("mode", ["Warn", "Ignore"])
@pytest.mark.parametrize(
    "body, content_type",
    [
        (
            '{"metadata":{"labels":{"a":"b","a":"c"}},"spec":{"foo":1,"containers":[{"name":"c","x":1}]}}',
            STRATEGIC,
        ),
        ('{"metadata":{"labels":{"a":"b","a":"c"}},"spec":{"foo":1}}', MERGE),
        ('[{"op":"add","op":"add","path":"/spec/foo","value":1,"x":2}]', JSON_PATCH),
    ],
    ids=("strategic", "merge", "json"),
)
def test_field_validation_of_patches(both: tuple[Ask, Ask], body: str, content_type: str, mode: str) -> None:
    for ask in both:
        ask("POST", PODS, POD_OBJECT)
    wanted, found = (
        ask("PATCH", f"{POD}?dryRun=All&fieldValidation={mode}", body, content_type) for ask in both
    )
    assert sorted(", ".join(found.warnings).split(", ")) == sorted(wanted.warnings or [""])
    assert found.status == wanted.status == 200
    strict = f"{POD}?dryRun=All&fieldValidation=Strict"
    wanted, found = (ask("PATCH", strict, body, content_type) for ask in both)
    assert found.status == wanted.status == 422
    for reply in (wanted, found):
        assert "strict decoding error: " in reply.body["message"]
        assert 'unknown field \\"spec.foo\\"' in json.dumps(reply.body["message"])
    for ask in both:
        ask("PATCH", POD, {"metadata": {"finalizers": None}}, MERGE)


REFUSED = {
    "no such pod": ("GET", f"{PODS}/none"),
    "no such pod's status": ("GET", f"{PODS}/none/status"),
    "no such pod's log": ("GET", f"{PODS}/none/log"),
    "no such pod's debug containers": ("GET", f"{PODS}/none/ephemeralcontainers"),
    "no such deployment's scale": ("GET", f"{DEPLOYMENTS}/none/scale"),
    "no such subresource": ("GET", f"{PODS}/none/nothing"),
    "no such subresource to write": ("POST", f"{PODS}/none/nothing", {}),
    "no such resource": ("GET", f"/api/v1/namespaces/{NAMESPACE}/unicorns/x"),
    "a timeout that is no duration": ("GET", f"{MAPS}?timeout=abc"),
    "a timeout without a unit": ("GET", f"{MAPS}?timeout=5"),
    "no time at all": ("GET", f"{MAPS}?timeout=0s"),
    "time enough": ("GET", f"{MAPS}?timeout=1h"),
    "a watch has a timeout of its own": ("GET", f"{MAPS}?watch=1&timeoutSeconds=1&timeout=abc"),
    "apply without a manager": ("PATCH", f"{MAP}", APPLIED_MAP, APPLY),
    "a manager of many words": ("PATCH", f"{MAP}?fieldManager={'a' * 129}", APPLIED_MAP, APPLY),
    "a manager that cannot be printed": ("PATCH", f"{MAP}?fieldManager=a%01", APPLIED_MAP, APPLY),
    "force without apply": ("PATCH", f"{MAP}?force=true", {}, MERGE),
}


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
def test_refusals(both: tuple[Ask, Ask], request_: tuple[Any, ...]) -> None:
    theirs, ours = both
    assert comparable(ours(*request_)) == comparable(theirs(*request_))


def test_too_little_time(both: tuple[Ask, Ask]) -> None:
    for ask in both:
        reply = ask("GET", f"{MAPS}?timeout=1ns")
        assert (reply.status, reply.body["reason"], reply.body["details"]) == (504, "Timeout", {})
        assert reply.body["message"] == "Timeout: request did not complete within the allotted timeout"


_KEY = ec.generate_private_key(ec.SECP256R1())
_NAMED = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(_KEY, hashes.SHA256())
REQUEST = base64.b64encode(_NAMED.public_bytes(Encoding.PEM)).decode()
SIGNING = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ATTRIBUTES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ACCOUNTS = path_of("v1/serviceaccounts")


def sized(**resources: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def resize(**resources: Any) -> tuple[Any, ...]:
    change = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    return "PATCH", f"{POD}/resize", change, STRATEGIC


def signing(**fields: Any) -> dict[str, Any]:
    spec = {"request": REQUEST, "signerName": "example.com/serving", "usages": ["server auth"], **fields}
    return {"metadata": {"name": "x"}, "spec": spec}


BURSTABLE = sized(requests={"cpu": "1", "memory": "1Gi"})
STORED = {
    "attributes-without-parameters": [("POST", ATTRIBUTES, {"metadata": {"name": "x"}, "driverName": "a.b"})],
    "attributes-without-driver": [
        ("POST", ATTRIBUTES, {"metadata": {"name": "x"}, "parameters": {"a": "b"}})
    ],
    "no-signer": [("POST", SIGNING, signing(signerName=""))],
    "no-usages": [("POST", SIGNING, signing(usages=None))],
    "short-certificate": [("POST", SIGNING, signing(expirationSeconds=10))],
    "no-cidrs": [("POST", CIDRS, {"metadata": {"name": "x"}, "spec": {}})],
    "no-cidr": [("POST", CIDRS, {"metadata": {"name": "x"}, "spec": {"cidrs": ["10"]}})],
    "short-token": [
        ("POST", ACCOUNTS, {"metadata": {"name": "robot"}}),
        ("POST", f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 10}}),
    ],
    "no-account": [("POST", f"{ACCOUNTS}/missing/token", {})],
    "resized": [("POST", PODS, BURSTABLE), resize(requests={"cpu": "2"})],
    "resized-to-another-class": [
        ("POST", PODS, BURSTABLE),
        resize(limits={"cpu": "1", "memory": "1Gi"}),
    ],
    "resized-to-nothing": [("POST", PODS, BURSTABLE), resize(requests={"memory": None})],
    "resized-storage": [
        ("POST", PODS, sized(requests={"cpu": "1", "ephemeral-storage": "1Gi"})),
        resize(requests={"ephemeral-storage": "2Gi"}),
    ],
    "resized-beyond-its-limit": [
        ("POST", PODS, sized(requests={"cpu": "1"}, limits={"cpu": "2"})),
        resize(requests={"cpu": "3"}),
    ],
    "resized-with-another-container": [
        ("POST", PODS, BURSTABLE),
        ("PATCH", f"{POD}/resize", {"spec": {"containers": [{"name": "d", "image": "i"}]}}, STRATEGIC),
    ],
}


@pytest.mark.parametrize("requests", STORED.values(), ids=STORED)
def test_newer_resources(both: tuple[Ask, Ask], requests: list[Any]) -> None:
    theirs, ours = both
    for request_ in requests:
        assert comparable(ours(*request_)) == comparable(theirs(*request_))
