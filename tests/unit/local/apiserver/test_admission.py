"""What objects around a pod do to it on its way in: quotas, limit ranges, accounts, runtime classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import deployment_manifest, pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, FixedClock, refused, run

CLASSES = "runtimeclasses.node.k8s.io"


def asking(*, name: str = "c", limits: dict[str, str] | None = None, **requests: str) -> Obj:
    resources: Obj = {"requests": requests} if requests else {}
    if limits:
        resources["limits"] = limits
    return {"name": name, "image": "i:1", "resources": resources}


async def make(harness: CoreHarness, resource: str, body: Obj, *, name: str = "q") -> Obj:
    row = harness.core.resources.by_id(resource)
    assert row is not None
    body = {"metadata": {"name": name}, **body}
    return await harness.core.create(resource, body, namespace="default" if row.namespaced else "")


async def used(harness: CoreHarness, name: str = "q") -> dict[str, str]:
    quota = await harness.core.get("resourcequotas", name, namespace="default")
    found: dict[str, str] = quota["status"]["used"]
    return found


async def set_phase(harness: CoreHarness, name: str, phase: str) -> None:
    pod = await harness.core.get("pods", name, namespace="default")
    body = {**pod, "status": {**pod["status"], "phase": phase}}
    await harness.core.update("pods", name, body, namespace="default", subresource="status")


def test_a_quota_counts_and_refuses() -> None:
    async def test(harness: CoreHarness) -> None:
        await harness.pod("before", containers=[asking(cpu="250m")])
        hard = {"pods": "3", "requests.cpu": "1", "count/deployments.apps": "1"}
        made = await make(harness, "resourcequotas", {"spec": {"hard": hard}})
        first = {"pods": "1", "requests.cpu": "250m", "count/deployments.apps": "0"}
        assert made["status"] == {"hard": hard, "used": first}
        await harness.pod("a", containers=[asking(cpu="500m")])
        error = await refused(harness.pod("b", containers=[asking(cpu="300m")]), 403)
        assert str(error) == (
            'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=300m, '
            "used: requests.cpu=750m, limited: requests.cpu=1"
        )
        error = await refused(harness.pod("b", containers=[asking(), asking(name="d", cpu="1m")]), 403)
        assert str(error) == 'pods "b" is forbidden: failed quota: q: must specify requests.cpu for: c'
        await harness.core.create("deployments.apps", deployment_manifest("a"), namespace="default")
        error = await refused(
            harness.core.create("deployments.apps", deployment_manifest("b"), namespace="default"), 403
        )
        assert (
            "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1"
            in str(error)
        )
        # What was refused, or only tried, costs nothing.
        await harness.core.create(
            "pods", pod_manifest("b", containers=[asking(cpu="1m")]), namespace="default", dry_run=True
        )
        assert await used(harness) == {"pods": "2", "requests.cpu": "750m", "count/deployments.apps": "1"}

    run(test)


def test_a_quota_gives_back() -> None:
    async def test(harness: CoreHarness) -> None:
        await make(
            harness, "resourcequotas", {"spec": {"hard": {"pods": "2", "count/pods": "9", "cpu": "1"}}}
        )
        for name in ("a", "b"):
            await harness.pod(name, containers=[asking(cpu="100m")])
        await refused(harness.pod("c", containers=[asking(cpu="100m")]), 403)
        await set_phase(harness, "a", "Succeeded")
        assert await used(harness) == {"pods": "1", "count/pods": "2", "cpu": "100m"}
        await harness.pod("c", containers=[asking(cpu="100m")])
        await harness.core.delete("pods", "a", namespace="default", options={"gracePeriodSeconds": 0})
        await harness.core.delete("pods", "b", namespace="default", options={"gracePeriodSeconds": 0})
        assert await used(harness) == {"pods": "1", "count/pods": "1", "cpu": "100m"}
        quota = await harness.core.get("resourcequotas", "q", namespace="default")
        quota = {**quota, "spec": {"hard": {"pods": "1", "services": "5"}}}
        quota = await harness.core.update("resourcequotas", "q", quota, namespace="default")
        assert quota["status"] == {
            "hard": {"pods": "1", "services": "5"},
            "used": {"pods": "1", "services": "1"},
        }

    run(test)


def test_quotas_of_services_and_claims() -> None:
    async def test(harness: CoreHarness) -> None:
        of_class = "fast.storageclass.storage.k8s.io/requests.storage"
        hard = {"services.nodeports": "2", "requests.storage": "5Gi", of_class: "1Gi"}
        await make(harness, "resourcequotas", {"spec": {"hard": hard}})
        ports = [{"name": name, "port": port} for name, port in (("a", 80), ("b", 81))]
        await make(harness, "services", {"spec": {"type": "NodePort", "ports": ports}}, name="s")
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await make(
            harness, "persistentvolumeclaims", {"spec": {**claim, "storageClassName": "fast"}}, name="a"
        )
        await make(harness, "persistentvolumeclaims", {"spec": claim}, name="b")
        attempt = make(
            harness, "persistentvolumeclaims", {"spec": {**claim, "storageClassName": "fast"}}, name="c"
        )
        assert f"limited: {of_class}=1Gi" in str(await refused(attempt, 403))
        assert await used(harness) == {"services.nodeports": "2", "requests.storage": "2Gi", of_class: "1Gi"}

    run(test)


def test_quotas_of_devices() -> None:
    """By class; of alternatives each class with the most it may come to, and all of them with 32."""

    async def test(harness: CoreHarness) -> None:
        gold, tin = (f"{name}.deviceclass.resource.k8s.io/devices" for name in ("gold", "tin"))
        implicit = "requests.deviceclass.resource.kubernetes.io/gold"
        number = "count/resourceclaims.resource.k8s.io"
        hard = {gold: "40", tin: "50", implicit: "40", number: "9"}
        made = await make(harness, "resourcequotas", {"spec": {"hard": hard}})
        assert made["status"]["used"] == dict.fromkeys(hard, "0")

        async def claim(name: str, *requests: Obj, **metadata: Any) -> Obj:
            body = {
                "metadata": {"name": name, **metadata},
                "spec": {
                    "devices": {"requests": [{"name": f"r{i}", **each} for i, each in enumerate(requests)]}
                },
            }
            return await harness.core.create("resourceclaims.resource.k8s.io", body, namespace="default")

        await claim("a", {"exactly": {"deviceClassName": "gold", "count": 2}})
        assert await used(harness) == {gold: "2", tin: "0", implicit: "2", number: "1"}
        choice = [
            {"name": "x", "deviceClassName": "gold", "count": 3},
            {"name": "y", "deviceClassName": "gold", "count": 1},
            {"name": "z", "deviceClassName": "tin", "allocationMode": "All"},
        ]
        await claim("b", {"firstAvailable": choice}, {"exactly": {"deviceClassName": "tin"}})
        assert await used(harness) == {gold: "5", tin: "33", implicit: "5", number: "2"}
        everything = claim("c", {"exactly": {"deviceClassName": "tin", "allocationMode": "All"}})
        assert f"requested: {tin}=32, used: {tin}=33, limited: {tin}=50" in str(
            await refused(everything, 403)
        )
        of_a_pod = {"resource.kubernetes.io/extended-resource-claim": "true"}
        await claim("d", {"exactly": {"deviceClassName": "gold"}}, annotations=of_a_pod)
        assert await used(harness) == {gold: "6", tin: "33", implicit: "5", number: "3"}
        await harness.core.delete("resourceclaims.resource.k8s.io", "b", namespace="default")
        assert await used(harness) == {gold: "3", tin: "0", implicit: "2", number: "2"}

    run(test)


def test_a_quota_counts_itself() -> None:
    async def test(harness: CoreHarness) -> None:
        made = await make(harness, "resourcequotas", {"spec": {"hard": {"resourcequotas": "1"}}})
        assert made["status"]["used"] == {"resourcequotas": "1"}
        assert made == await harness.core.get("resourcequotas", "q", namespace="default")
        await refused(make(harness, "resourcequotas", {"spec": {}}, name="r"), 403)

    run(test)


@pytest.mark.parametrize(
    "scope, spec, counted",
    [
        ({"scopes": ["BestEffort"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 5}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "system-node-critical"}, True),
        *(
            (
                {
                    "scopeSelector": {
                        "matchExpressions": [
                            {
                                "scopeName": "PriorityClass",
                                "operator": operator,
                                "values": ["system-node-critical"],
                            }
                        ]
                    }
                },
                {"priorityClassName": "system-node-critical"},
                operator == "In",
            )
            for operator in ("In", "NotIn")
        ),
    ],
)
def test_scopes(scope: Obj, spec: Obj, counted: bool) -> None:
    async def test(harness: CoreHarness) -> None:
        await make(harness, "resourcequotas", {"spec": {"hard": {"pods": "5"}, **scope}})
        await harness.pod("a", **spec)
        assert await used(harness) == {"pods": str(int(counted))}

    run(test)


def test_a_cluster_from_before_is_mended(tmp_path: Path) -> None:
    import asyncio

    async def main() -> None:
        store = await RevisionStore.open(tmp_path / "cluster.db")
        core = Core(store, clock=FixedClock())
        await core.create(
            "resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}},
            namespace="default",
        )
        await core.create("pods", pod_manifest("a"), namespace="default")
        quota = await core.get("resourcequotas", "q", namespace="default")
        store.stage(
            "resourcequotas", "default/q", {**quota, "status": {"hard": {"pods": "5"}, "used": {"pods": "0"}}}
        )
        store.stage("serviceaccounts", "kube-public/default", None)
        await store.close()
        store = await RevisionStore.open(tmp_path / "cluster.db")
        core = Core(store, clock=FixedClock())
        await core.create("configmaps", {"metadata": {"name": "c"}}, namespace="default")
        assert (await core.get("resourcequotas", "q", namespace="default"))["status"]["used"] == {"pods": "1"}
        await core.get("serviceaccounts", "default", namespace="kube-public")
        await store.close()

    asyncio.run(main())


def test_limit_ranges_give_defaults() -> None:
    async def test(harness: CoreHarness) -> None:
        limit = {
            "type": "Container",
            "default": {"cpu": "500m", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m"},
        }
        await make(harness, "limitranges", {"spec": {"limits": [limit]}})
        pod = await harness.pod(
            "a", containers=[asking(), asking(name="d", cpu="1m", limits={"memory": "1Mi"})]
        )
        first, second = (container["resources"] for container in pod["spec"]["containers"])
        assert first == {
            "requests": {"cpu": "100m", "memory": "1Gi"},
            "limits": {"cpu": "500m", "memory": "1Gi"},
        }
        assert second == {
            "requests": {"cpu": "1m", "memory": "1Mi"},
            "limits": {"cpu": "500m", "memory": "1Mi"},
        }
        assert pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
            "LimitRanger plugin set: cpu, memory request for container c; "
            "cpu, memory limit for container c; cpu limit for container d"
        )
        assert pod["status"]["qosClass"] == "Burstable"

    run(test)


@pytest.mark.parametrize(
    "limit, container, words",
    [
        (
            {"type": "Container", "min": {"cpu": "100m"}},
            asking(cpu="50m"),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"type": "Container", "max": {"memory": "1Gi"}},
            asking(limits={"memory": "2Gi"}),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            asking(cpu="1"),
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
        (
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}},
            asking(limits={"cpu": "3"}),
            "maximum cpu usage per Pod is 2, but limit is 3",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            asking(cpu="100m", limits={"cpu": "300m"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_limit_ranges_refuse(limit: Obj, container: Obj, words: str) -> None:
    async def test(harness: CoreHarness) -> None:
        await make(harness, "limitranges", {"spec": {"limits": [limit]}})
        error = await refused(harness.pod("a", containers=[container]), 403)
        assert str(error) == f'pods "a" is forbidden: {words}'

    run(test)


def test_limit_ranges_of_claims() -> None:
    async def test(harness: CoreHarness) -> None:
        limit = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
        await make(harness, "limitranges", {"spec": {"limits": [limit]}})
        for size, words in (("3Gi", "maximum storage"), ("1Mi", "minimum storage")):
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            error = await refused(make(harness, "persistentvolumeclaims", {"spec": claim}), 403)
            assert f"{words} usage per PersistentVolumeClaim" in str(error)
            assert f"but request is {size}" in str(error)

    run(test)


def test_accounts() -> None:
    async def test(harness: CoreHarness) -> None:
        pod = await harness.pod("a")
        assert (pod["spec"]["serviceAccountName"], pod["spec"]["serviceAccount"]) == ("default", "default")
        error = await refused(harness.pod("b", serviceAccountName="robot"), 403)
        assert str(error) == (
            'pods "b" is forbidden: error looking up service account default/robot: '
            'serviceaccount "robot" not found'
        )
        await make(harness, "serviceaccounts", {"imagePullSecrets": [{"name": "s"}]}, name="robot")
        pod = await harness.pod("b", serviceAccountName="robot")
        assert pod["spec"]["imagePullSecrets"] == [{"name": "s"}]

    run(test)


def test_every_namespace_has_its_account() -> None:
    async def test(harness: CoreHarness) -> None:
        await harness.core.create("namespaces", {"metadata": {"name": "new"}})
        made = await harness.core.create("pods", pod_manifest("a"), namespace="new")
        assert made["spec"]["serviceAccountName"] == "default"
        first = await harness.core.get("serviceaccounts", "default", namespace="new")
        await harness.core.delete("serviceaccounts", "default", namespace="new")
        second = await harness.core.get("serviceaccounts", "default", namespace="new")
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        service = await harness.core.get("services", "kubernetes", namespace="default")
        assert service["spec"]["clusterIPs"] == ["10.96.0.1"]

    run(test)


def test_a_runtime_class() -> None:
    async def test(harness: CoreHarness) -> None:
        toleration = {"key": "vm", "operator": "Exists", "effect": "NoSchedule"}
        body: dict[str, Any] = {
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [toleration]},
        }
        await make(harness, CLASSES, body, name="kata")
        pod = await harness.pod("a", runtimeClassName="kata", nodeSelector={"zone": "a"})
        assert pod["spec"]["overhead"] == {"cpu": "250m"}
        assert pod["spec"]["nodeSelector"] == {"zone": "a", "vm": "yes"}
        assert toleration in pod["spec"]["tolerations"]
        for spec, words in (
            ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
            (
                {"runtimeClassName": "kata", "nodeSelector": {"vm": "no"}},
                "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
            ),
            (
                {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ),
            (
                {"overhead": {"cpu": "1"}},
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
        ):
            error = await refused(harness.pod("b", **spec), 403)
            assert str(error) == f'pods "b" is forbidden: {words}'

    run(test)
