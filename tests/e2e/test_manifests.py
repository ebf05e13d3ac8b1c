"""What deploy/ ships is accepted by a real API server, and is what it claims to be."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kuberth.config import load
from tests.e2e.assets import REPOSITORY
from tests.e2e.control_plane import REPLACEMENT, SECOND_SCHEDULER, UPSTREAM, ControlPlane
from tests.e2e.objects import Object

pytestmark = pytest.mark.e2e

BASES = ["second-scheduler", "replace"]
LEASES = {"second-scheduler": ("kuberth-system", "kuberth"), "replace": ("kube-system", "kube-scheduler")}
USERS = {"second-scheduler": SECOND_SCHEDULER, "replace": REPLACEMENT}


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def manifests(control_plane: ControlPlane, base: str) -> list[Object]:
    rendered = control_plane.kubectl("kustomize", str(REPOSITORY / "deploy" / base))
    return [tree for tree in yaml.safe_load_all(rendered) if tree]


def one(manifests: list[Object], kind: str, name: str = "") -> Object:
    found = [tree for tree in manifests if tree["kind"] == kind and name in tree["metadata"]["name"]]
    assert len(found) == 1, [tree["metadata"]["name"] for tree in found]
    return found[0]


def test_the_api_server_accepts_every_object(control_plane: ControlPlane, base: str) -> None:
    folder = str(REPOSITORY / "deploy" / base)
    # Unknown and misspelt fields are errors, not warnings.
    applied = control_plane.kubectl("apply", "-k", folder, "--validate=strict")
    assert len(applied.splitlines()) >= 10
    before = generations(control_plane, folder)
    control_plane.kubectl("apply", "-k", folder)
    assert generations(control_plane, folder) == before, "applying it twice changes something"


def generations(control_plane: ControlPlane, folder: str) -> list[str]:
    printed = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{'\\n'}{end}"
    return control_plane.kubectl("get", "-k", folder, "-o", printed).splitlines()


def test_the_role_is_upstreams_with_a_lease_of_its_own(
    control_plane: ControlPlane, base: str, manifests: list[Object]
) -> None:
    live = json.loads(control_plane.kubectl("get", "clusterrole", UPSTREAM, "-o", "json"))
    _, lease = LEASES[base]
    expected = [
        {**rule, "resourceNames": [lease]} if "resourceNames" in rule else rule
        for rule in live["rules"]
        if rule["resources"] != ["leasecandidates"]
    ]
    assert one(manifests, "ClusterRole")["rules"] == expected


ALLOWED = [
    ("create", "pods/binding", ""),
    ("patch", "persistentvolumeclaims", ""),
    ("patch", "pods/status", ""),
    ("delete", "pods", ""),
    ("create", "events.events.k8s.io", ""),
    ("create", "tokenreviews.authentication.k8s.io", ""),
    ("get", "configmaps/extension-apiserver-authentication", "kube-system"),
]
REFUSED = [
    ("delete", "nodes", ""),
    ("create", "pods", ""),
    ("get", "secrets", "kube-system"),
    ("update", "leases.coordination.k8s.io/kube-controller-manager", "kube-system"),
]


def test_the_service_account_may_do_its_work_and_no_more(control_plane: ControlPlane, base: str) -> None:
    control_plane.kubectl("apply", "-k", str(REPOSITORY / "deploy" / base))
    namespace, lease = LEASES[base]
    own_lease = [("update", f"leases.coordination.k8s.io/{lease}", namespace)]
    for verb, resource, where in [*ALLOWED, *own_lease]:
        assert may(control_plane, USERS[base], verb, resource, where) == "yes", f"{verb} {resource}"
    for verb, resource, where in REFUSED:
        assert may(control_plane, USERS[base], verb, resource, where) == "no", f"{verb} {resource}"


def may(control_plane: ControlPlane, user: str, verb: str, resource: str, namespace: str) -> str:
    resource, _, subresource = resource.partition("/") if resource.startswith("pods/") else (resource, "", "")
    more = [f"--subresource={subresource}"] if subresource else []
    command = [
        "auth",
        "can-i",
        verb,
        resource,
        f"--as={user}",
        f"--namespace={namespace or 'default'}",
        *more,
    ]
    return control_plane.kubectl(*command, check=False).strip()


def test_its_requests_do_not_queue_with_the_workloads(
    control_plane: ControlPlane, base: str, manifests: list[Object]
) -> None:
    namespace, name = USERS[base].split(":")[2:]
    levels: dict[str, Any] = {}
    for schema in (tree for tree in manifests if tree["kind"] == "FlowSchema"):
        subject = schema["spec"]["rules"][0]["subjects"][0]["serviceAccount"]
        assert subject == {"name": name, "namespace": namespace}
        levels[schema["spec"]["priorityLevelConfiguration"]["name"]] = schema
    assert levels.keys() == {"workload-high", "leader-election"}
    assert levels["leader-election"]["spec"]["rules"][0]["resourceRules"][0]["namespaces"] == [
        LEASES[base][0]
    ]


def test_the_pods_are_confined_and_watched(base: str, manifests: list[Object]) -> None:
    deployment = one(manifests, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    container = spec["containers"][0]
    namespace, name = USERS[base].split(":")[2:]
    assert (deployment["metadata"]["namespace"], spec["serviceAccountName"]) == (namespace, name)
    assert deployment["spec"]["replicas"] == 2
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "https", "scheme": "HTTPS"}
    assert {"name": "https", "containerPort": 10259} in container["ports"]
    budget = one(manifests, "PodDisruptionBudget")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    mounted = next(volume for volume in spec["volumes"] if volume["name"] == "config")["configMap"]["name"]
    assert mounted == one(manifests, "ConfigMap")["metadata"]["name"]


def test_the_configuration_is_valid(base: str, manifests: list[Object]) -> None:
    config = load(one(manifests, "ConfigMap")["data"]["config.yaml"].encode())
    election = config.leader_election
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == LEASES[base]
    names = {"second-scheduler": "kuberth", "replace": "default-scheduler"}
    assert [profile.scheduler_name for profile in config.profiles] == [names[base]]
