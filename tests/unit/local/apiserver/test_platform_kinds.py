"""The kinds around the workloads: defaults, what is refused in which words, and what `kubectl get` shows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.forms import to_table
from tests.manifests import pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

RBAC = "rbac.authorization.k8s.io"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod_manifest()["spec"]}
JOB_TEMPLATE = {"spec": {"template": {"spec": {**pod_manifest()["spec"], "restartPolicy": "OnFailure"}}}}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": BACKEND}
CRON_JOB = {"spec": {"schedule": "*/5 * * * *", "jobTemplate": JOB_TEMPLATE}}
DAEMON_SET = {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
WEBHOOK = {
    "name": "a.example.org",
    "clientConfig": {"service": {"name": "s", "namespace": "d"}},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
}

SIGNING = {
    "spec": {
        "request": "LS0tLS1CRUdJTg==",
        "signerName": "example.com/serving",
        "usages": ["server auth"],
        "expirationSeconds": 86400,
    }
}
ATTRIBUTES = {"driverName": "csi.example.com", "parameters": {"iops": "100"}}

GOOD: dict[str, tuple[Obj, dict[str, Any], dict[str, Any]]] = {
    "certificatesigningrequests.certificates.k8s.io": (
        SIGNING,
        {},
        {
            "SignerName": "example.com/serving",
            "Requestor": "<none>",
            "RequestedDuration": "24h",
            "Condition": "Pending",
        },
    ),
    "volumeattributesclasses.storage.k8s.io": (ATTRIBUTES, {}, {"DriverName": "csi.example.com"}),
    "servicecidrs.networking.k8s.io": (
        {"spec": {"cidrs": ["10.0.0.0/16", "fd00::/112"]}},
        {},
        {"CIDRs": "10.0.0.0/16,fd00::/112"},
    ),
    "secrets": (
        {"stringData": {"password": "open"}, "data": {"user": "bWU="}},
        {"type": "Opaque", "data": {"password": "b3Blbg==", "user": "bWU="}},
        {"Type": "Opaque", "Data": 2},
    ),
    "serviceaccounts": ({}, {}, {"Name": "x"}),
    "resourcequotas": (
        {"spec": {"hard": {"pods": "4", "limits.cpu": "2", "count/deployments.apps": "1"}}},
        {},
        {"Request": "count/deployments.apps: 0/1, pods: 0/4", "Limit": "limits.cpu: 0/2"},
    ),
    "limitranges": (
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}},
        {
            "spec.limits.0.default": {"cpu": "2"},
            "spec.limits.0.defaultRequest": {"cpu": "2", "memory": "1Mi"},
        },
        {"Created At": "2023-11-14T22:13:20Z"},
    ),
    "endpoints": (
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}]},
        {"subsets.0.ports.0.protocol": "TCP"},
        {"Endpoints": "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."},
    ),
    "podtemplates": (
        {"template": TEMPLATE},
        {"template.spec.restartPolicy": "Always"},
        {"Containers": "main", "Images": "nginx", "Pod Labels": "app=x"},
    ),
    "daemonsets.apps": (
        DAEMON_SET,
        {
            "spec.updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "status.numberReady": 0,
        },
        {"Desired": 0, "Node Selector": "<none>", "Containers": "main", "Selector": "app=x"},
    ),
    "controllerrevisions.apps": (
        {"data": {"a": 1}, "revision": 3},
        {},
        {"Controller": "<none>", "Revision": 3},
    ),
    "cronjobs.batch": (
        CRON_JOB,
        {
            "spec.concurrencyPolicy": "Allow",
            "spec.suspend": False,
            "spec.successfulJobsHistoryLimit": 3,
            "spec.failedJobsHistoryLimit": 1,
            "spec.jobTemplate.spec.template.spec.schedulerName": "default-scheduler",
        },
        {"Schedule": "*/5 * * * *", "Timezone": "<none>", "Suspend": "False", "Last Schedule": "<none>"},
    ),
    "horizontalpodautoscalers.autoscaling": (
        {"spec": {"maxReplicas": 5, "scaleTargetRef": TARGET, "behavior": {"scaleUp": {}}}},
        {
            "spec.minReplicas": 1,
            "spec.metrics.0.resource.target.averageUtilization": 80,
            "spec.behavior.scaleUp.policies.1.type": "Percent",
        },
        {
            "Reference": "Deployment/web",
            "Targets": "cpu: <unknown>/80%",
            "MinPods": "1",
            "MaxPods": 5,
            "Replicas": 0,
        },
    ),
    "runtimeclasses.node.k8s.io": ({"handler": "gvisor"}, {}, {"Handler": "gvisor"}),
    "ingresses.networking.k8s.io": (
        {"spec": {"rules": [{"host": f"{n}.org", "http": {"paths": [PATH]}} for n in "abcd"], "tls": [{}]}},
        {"status.loadBalancer": {}},
        {"Class": "<none>", "Hosts": "a.org,b.org,c.org + 1 more...", "Address": "", "Ports": "80, 443"},
    ),
    "ingressclasses.networking.k8s.io": (
        {"spec": {"controller": "acme.io/foo", "parameters": {"kind": "K", "name": "n", "apiGroup": "g"}}},
        {},
        {"Controller": "acme.io/foo", "Parameters": "K.g/n"},
    ),
    "networkpolicies.networking.k8s.io": (
        {"spec": {"egress": [{"ports": [{"port": 53}]}]}},
        {"spec.policyTypes": ["Ingress", "Egress"], "spec.egress.0.ports.0.protocol": "TCP"},
        {"Pod-Selector": "<none>"},
    ),
    "endpointslices.discovery.k8s.io": (
        {
            "addressType": "IPv4",
            "ports": [{"port": 80}],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}],
        },
        {"ports.0": {"port": 80, "protocol": "TCP", "name": ""}},
        {"AddressType": "IPv4", "Ports": "80", "Endpoints": "10.0.0.1,10.0.0.2"},
    ),
    f"roles.{RBAC}": (
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        {},
        {"Created At": "2023-11-14T22:13:20Z"},
    ),
    f"clusterroles.{RBAC}": (
        {"metadata": {"name": "system:x"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        {},
        {"Name": "system:x"},
    ),
    f"rolebindings.{RBAC}": (
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "User", "name": "u"},
            ],
        },
        {"roleRef.apiGroup": RBAC, "subjects.1.apiGroup": RBAC},
        {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"},
    ),
    f"clusterrolebindings.{RBAC}": (
        {"roleRef": {"kind": "ClusterRole", "name": "r"}},
        {},
        {"Role": "ClusterRole/r"},
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": (
        {"spec": {"priorityLevelConfiguration": {"name": "p"}}},
        {"spec.matchingPrecedence": 1000},
        {"PriorityLevel": "p", "DistinguisherMethod": "<none>", "MissingPL": "?"},
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
        {"spec.limited.nominalConcurrencyShares": 30, "spec.limited.limitResponse.queuing.queues": 64},
        {"Type": "Limited", "NominalConcurrencyShares": 30, "Queues": 64, "HandSize": 8},
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        {"webhooks": [WEBHOOK]},
        {
            "webhooks.0.failurePolicy": "Fail",
            "webhooks.0.rules.0.scope": "*",
            "webhooks.0.clientConfig.service.port": 443,
        },
        {"Webhooks": 1},
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        {"webhooks": [WEBHOOK]},
        {"webhooks.0.reinvocationPolicy": "Never", "webhooks.0.timeoutSeconds": 10},
        {"Webhooks": 1},
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        {
            "spec": {
                "matchConstraints": {"resourceRules": WEBHOOK["rules"]},
                "validations": [{"expression": "true"}, {"expression": "1 == 1"}],
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            }
        },
        {
            "spec.failurePolicy": "Fail",
            "spec.matchConstraints.matchPolicy": "Equivalent",
            "spec.matchConstraints.objectSelector": {},
            "spec.matchConstraints.resourceRules.0.scope": "*",
            "metadata.generation": 1,
        },
        {"Validations": 2, "ParamKind": "v1/ConfigMap"},
    ),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (
        {
            "spec": {
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
                "reinvocationPolicy": "Never",
            }
        },
        {"spec.failurePolicy": "Fail"},
        {"Mutations": 1, "ParamKind": "<unset>"},
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        {
            "spec": {
                "policyName": "p",
                "paramRef": {"name": "settings", "parameterNotFoundAction": "Deny"},
                "matchResources": {},
                "validationActions": ["Deny"],
            }
        },
        {"spec.matchResources.matchPolicy": "Equivalent", "spec.matchResources.namespaceSelector": {}},
        {"PolicyName": "p", "ParamRef": "*/settings"},
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (
        {"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}},
        {"spec.policyName": "p"},
        {"PolicyName": "p", "ParamRef": "a=b"},
    ),
}


def at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj[int(part)] if isinstance(obj, list) else obj[part]
    return obj


async def create(harness: CoreHarness, resource: str, body: Obj, **metadata: Any) -> Obj:
    row = harness.core.resources.by_id(resource)
    assert row is not None
    body = {**body, "metadata": {"name": "x", **body.get("metadata", {}), **metadata}}
    return await harness.core.create(resource, body, namespace="default" if row.namespaced else "")


@pytest.mark.parametrize("resource", GOOD)
def test_defaults_and_columns(resource: str) -> None:
    body, defaults, shown = GOOD[resource]

    async def test(harness: CoreHarness) -> None:
        made = await create(harness, resource, body)
        assert {path: at(made, path) for path in defaults} == defaults
        assert "stringData" not in made
        row = harness.core.resources.by_id(resource)
        assert row is not None
        table = to_table(row, [made], {}, now=harness.clock.now_ns() + 60 * NANOSECONDS)
        names = [column["name"] for column in table["columnDefinitions"]]
        cells = dict(zip(names, table["rows"][0]["cells"], strict=True))
        assert {name: cells[name] for name in shown} == shown
        # What was defaulted is stable: an update that changes nothing writes nothing.
        again = await harness.core.update(resource, made["metadata"]["name"], made, namespace=namespace(made))
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    run(test)


def namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def changed(body: Obj, **spec: Any) -> Obj:
    return {**body, "spec": {**body["spec"], **spec}}


@pytest.mark.parametrize(
    "resource, body, words",
    [
        ("secrets", {"type": "kubernetes.io/tls"}, "data[tls.crt]: Required value"),
        ("secrets", {"data": {"a b": ""}}, "a valid config key must consist of"),
        (
            "secrets",
            {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "W10="}},
            "<secret contents redacted>",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/service-account-token"},
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        ),
        ("resourcequotas", {"spec": {"hard": {"bananas": "1"}}}, "must be a standard resource for quota"),
        ("resourcequotas", {"spec": {"hard": {"pods": "1500m"}}}, "must be an integer"),
        ("resourcequotas", {"spec": {"scopes": ["Mine"]}}, "unsupported scope"),
        (
            "limitranges",
            {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
            "min value 2 is greater than max value 1",
        ),
        (
            "limitranges",
            {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "2"}}]}},
            "may not be specified when `type` is 'Pod'",
        ),
        (
            "cronjobs.batch",
            changed(CRON_JOB, schedule="* * *"),
            "expected exactly 5 fields, found 3: [* * *]",
        ),
        ("cronjobs.batch", changed(CRON_JOB, timeZone="Mars/Base"), "unknown time zone Mars/Base"),
        ("cronjobs.batch", changed(CRON_JOB, schedule="TZ=UTC 0 * * * *"), "use timeZone field instead"),
        ("cronjobs.batch", changed(CRON_JOB, concurrencyPolicy="Maybe"), 'supported values: "Allow"'),
        (
            "cronjobs.batch",
            changed(CRON_JOB, jobTemplate={"spec": {"template": TEMPLATE}}),
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value",
        ),
        ("cronjobs.batch", {**CRON_JOB, "metadata": {"name": "x" * 53}}, "no more than 52 characters"),
        ("daemonsets.apps", {"spec": {"template": TEMPLATE}}, "spec.selector: Required value"),
        (
            "horizontalpodautoscalers.autoscaling",
            {"spec": {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": TARGET}},
            "must be greater than or equal to `minReplicas`",
        ),
        ("horizontalpodautoscalers.autoscaling", {"spec": {}}, "spec.maxReplicas: Required value"),
        ("runtimeclasses.node.k8s.io", {"handler": "A_b"}, "lowercase RFC 1123 label"),
        (
            "ingresses.networking.k8s.io",
            {"spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": BACKEND}]}}]}},
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ),
        ("ingresses.networking.k8s.io", {"spec": {}}, "either `defaultBackend` or `rules` must be specified"),
        ("ingressclasses.networking.k8s.io", {"spec": {"controller": "x"}}, "must be a domain-prefixed path"),
        (
            "networkpolicies.networking.k8s.io",
            {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "here"}}]}]}},
            "must be a valid CIDR value",
        ),
        ("endpointslices.discovery.k8s.io", {"addressType": "Post"}, 'supported values: "FQDN"'),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "x"}]}]}, "must be a valid IP address"),
        (f"roles.{RBAC}", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "verbs must contain"),
        (
            f"roles.{RBAC}",
            {"rules": [{"verbs": ["get"]}]},
            "resource rules must supply at least one api group",
        ),
        (
            f"clusterrolebindings.{RBAC}",
            {"roleRef": {"kind": "Role", "name": "r"}},
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        ),
        (
            f"rolebindings.{RBAC}",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            "subjects[0].namespace: Required value",
        ),
        ("flowschemas.flowcontrol.apiserver.k8s.io", {"spec": {}}, "must reference a priority level"),
        ("certificatesigningrequests.certificates.k8s.io", {"spec": {}}, "spec.request: Required value"),
        (
            "certificatesigningrequests.certificates.k8s.io",
            {"spec": {**SIGNING["spec"], "expirationSeconds": 1}},
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
        ("volumeattributesclasses.storage.k8s.io", {"driverName": "a"}, "parameters: Required value"),
        ("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["10"]}}, "must be a valid CIDR value"),
        (
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            {"webhooks": [{**WEBHOOK, "sideEffects": "Some"}]},
            "webhooks[0].sideEffects: Unsupported value",
        ),
    ],
)
def test_refused_in_upstreams_words(resource: str, body: Obj, words: str) -> None:
    async def test(harness: CoreHarness) -> None:
        error = await refused(create(harness, resource, body), 422)
        assert words in str(error)

    run(test)


@pytest.mark.parametrize(
    "resource, body, change, words",
    [
        ("secrets", {"type": "a"}, {"type": "b"}, "type: Invalid value"),
        ("secrets", {"immutable": True}, {"data": {"a": ""}}, "field is immutable when `immutable` is set"),
        ("runtimeclasses.node.k8s.io", {"handler": "a"}, {"handler": "b"}, "handler: Invalid value"),
        (
            f"rolebindings.{RBAC}",
            {"roleRef": {"kind": "Role", "name": "r"}},
            {"roleRef": {"kind": "Role", "name": "s"}},
            "cannot change roleRef",
        ),
        ("endpointslices.discovery.k8s.io", {"addressType": "IPv4"}, {"addressType": "IPv6"}, "immutable"),
        ("controllerrevisions.apps", {"data": 1}, {"data": 2}, "data: Invalid value"),
        ("volumeattributesclasses.storage.k8s.io", ATTRIBUTES, {"parameters": {"a": "b"}}, "immutable"),
    ],
)
def test_what_stays_as_it_is(resource: str, body: Obj, change: Obj, words: str) -> None:
    async def test(harness: CoreHarness) -> None:
        made = await create(harness, resource, body)
        update = harness.core.update(resource, "x", {**made, **change}, namespace=namespace(made))
        assert words in str(await refused(update, 422))

    run(test)


def test_an_autoscaler_in_both_versions() -> None:
    async def test(harness: CoreHarness) -> None:
        old = harness.core.resources.find("autoscaling", "v1", "horizontalpodautoscalers")
        new = harness.core.resources.find("autoscaling", "v2", "horizontalpodautoscalers")
        assert old is not None
        assert new is not None
        spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "targetCPUUtilizationPercentage": 50}
        made = await harness.core.create(old, {"metadata": {"name": "x"}, "spec": spec}, namespace="default")
        assert (made["apiVersion"], made["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 50)
        stored = await harness.core.get(new, "x", namespace="default")
        target = {"type": "Utilization", "averageUtilization": 50}
        assert stored["spec"]["metrics"] == [
            {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        ]
        # What only v2 knows survives a writer of v1.
        memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
        stored = await harness.core.update(
            new,
            "x",
            {**stored, "spec": {**stored["spec"], "metrics": [*stored["spec"]["metrics"], memory]}},
            namespace="default",
        )
        seen = await harness.core.get(old, "x", namespace="default")
        assert "autoscaling.alpha.kubernetes.io/metrics" in seen["metadata"]["annotations"]
        seen["spec"] = {**seen["spec"], "maxReplicas": 4}
        await harness.core.update(old, "x", seen, namespace="default")
        back = await harness.core.get(new, "x", namespace="default")
        assert back["spec"] == {**stored["spec"], "maxReplicas": 4}
        assert "annotations" not in back["metadata"]

    run(test)


def test_the_default_ingress_class() -> None:
    async def test(harness: CoreHarness) -> None:
        mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
        await create(
            harness, "ingressclasses.networking.k8s.io", {"spec": {"controller": "a.io/b"}}, annotations=mark
        )
        made = await create(harness, "ingresses.networking.k8s.io", {"spec": {"defaultBackend": BACKEND}})
        assert made["spec"]["ingressClassName"] == "x"

    run(test)


def test_a_stateful_set_mounts_the_volumes_of_its_claims() -> None:
    async def test(harness: CoreHarness) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        mounts = [{"name": "data", "mountPath": "/data"}]
        container = {"name": "c", "image": "i", "volumeMounts": mounts}
        spec = {
            "selector": {"matchLabels": {"app": "x"}},
            "serviceName": "x",
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}},
        }
        await create(harness, "statefulsets.apps", {"spec": {**spec, "volumeClaimTemplates": [claim]}})
        error = await refused(create(harness, "statefulsets.apps", {"spec": spec}, name="y"), 422)
        assert 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"' in str(error)

    run(test)


def test_base64_may_be_folded() -> None:
    async def test(harness: CoreHarness) -> None:
        made = await create(harness, "secrets", {"data": {"a": "b3Bl\nbg=\r\n=\n"}})
        assert made["data"] == {"a": "b3Blbg=="}
        await refused(create(harness, "secrets", {"data": {"a": "b3 B"}}, name="y"), 400)

    run(test)


def test_node_ports() -> None:
    async def test(harness: CoreHarness) -> None:
        async def numbers(name: str) -> list[int | None]:
            service = await harness.core.get("services", name, namespace="default")
            return [port.get("nodePort") for port in service["spec"]["ports"]]

        def spec(*ports: Obj, kind: str = "NodePort") -> Obj:
            return {"spec": {"type": kind, "ports": list(ports)}}

        first, second = {"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30001}
        made = copy.deepcopy(await create(harness, "services", spec(first, second), name="s"))
        assert await numbers("s") == [30000, 30001]
        await create(harness, "services", spec(first, kind="LoadBalancer"), name="t")
        assert await numbers("t") == [30002]
        for port, words in ((80, "The range of valid ports is 30000-32767"), (30000, "already allocated")):
            attempt = create(harness, "services", spec({"port": 1, "nodePort": port}), name="u")
            assert f"spec.ports[0].nodePort: Invalid value: {port}: provided port" in (
                message := str(await refused(attempt, 422))
            )
            assert words in message
        # A writer that does not know of them changes nothing, another type gives them back.
        for port in made["spec"]["ports"]:
            del port["nodePort"]
        del made["metadata"]["resourceVersion"]
        await harness.core.update("services", "s", made, namespace="default")
        assert await numbers("s") == [30000, 30001]
        made["spec"]["type"] = "ClusterIP"
        await harness.core.update("services", "s", made, namespace="default")
        assert await numbers("s") == [None, None]

    run(test)


API_SERVICES = "apiservices.apiregistration.k8s.io"


def api_service(name: str = "v1.example.org", **spec: Any) -> Obj:
    given = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def test_api_services_are_stored_and_shown() -> None:
    async def main(harness: CoreHarness) -> None:
        local = await harness.core.create(API_SERVICES, api_service())
        elsewhere = api_service(
            "v2.example.org", version="v2", service={"namespace": "kube-system", "name": "metrics"}
        )
        remote = await harness.core.create(API_SERVICES, elsewhere)
        assert remote["spec"]["service"]["port"] == 443
        row = harness.core.resources.by_id(API_SERVICES)
        assert row is not None
        table = to_table(row, [local, remote], {}, now=harness.clock.now_ns())
        names = [column["name"] for column in table["columnDefinitions"]]
        rows = [dict(zip(names, each["cells"], strict=True)) for each in table["rows"]]
        assert [(each["Service"], each["Available"]) for each in rows] == [
            ("Local", "True"),
            ("kube-system/metrics", "Unknown"),
        ]

    run(main)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (api_service("other"), 'must be `spec.version+"."+spec.group`: "v1.example.org"'),
        (api_service("v2.", group="", version="v2"), "only v1 may have an empty group"),
        (api_service(groupPriorityMinimum=0), "must be positive and less than 20000"),
        (api_service(versionPriority=1001), "must be positive and less than 1000"),
        (api_service(caBundle="YWJj"), "local APIServices may not have a caBundle"),
        (api_service(insecureSkipTLSVerify=True), "may not have insecureSkipTLSVerify"),
        (api_service(service={"name": "a"}), "spec.service.namespace: Required value"),
        (api_service(service={"name": "a", "namespace": "b", "port": 70_000}), "port is not valid"),
        (
            api_service(service={"name": "a", "namespace": "b"}, caBundle="YWJj", insecureSkipTLSVerify=True),
            "may not be true if caBundle is present",
        ),
    ],
)
def test_api_services_that_are_none(body: Obj, words: str) -> None:
    async def main(harness: CoreHarness) -> None:
        assert words in str(await refused(harness.core.create(API_SERVICES, body), 422))

    run(main)


@pytest.mark.parametrize("how", ["update", "patch"])
def test_a_signing_request_is_approved(how: str) -> None:
    async def main(harness: CoreHarness) -> None:
        resource = "certificatesigningrequests.certificates.k8s.io"
        made = await create(harness, resource, SIGNING)
        status = {"conditions": [{"type": "Approved", "status": "True", "reason": "Mine"}]}
        if how == "update":
            body = {**made, "status": status}
            approved = await harness.core.update(resource, "x", body, subresource="approval")
        else:
            content_type = "application/merge-patch+json"
            approved, _ = await harness.core.patch(
                resource, "x", {"status": status}, content_type=content_type, subresource="approval"
            )
        assert approved["status"]["conditions"][0]["type"] == "Approved"
        row = harness.core.resources.by_id(resource)
        assert row is not None
        assert to_table(row, [approved], {}, now=0)["rows"][0]["cells"][-1] == "Approved"

    run(main)


def test_the_service_of_the_api_server_comes_back() -> None:
    async def main(harness: CoreHarness) -> None:
        before = await harness.core.get("services", "kubernetes", namespace="default")
        await harness.core.delete("services", "kubernetes", namespace="default")
        after = await harness.core.get("services", "kubernetes", namespace="default")
        assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

    run(main)
