"""Rules of the kinds: defaults, admission, what may be written, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.patching import MERGE_PATCH
from kuberth.text import names
from tests.manifests import deployment_manifest, pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

GATES = [{"name": "a.example/one"}, {"name": "two"}]
OFF = {"PodSchedulingReadiness": False}


async def change(harness: CoreHarness, spec: Obj) -> Obj:
    """Send a pod back with another spec."""
    pod = await harness.core.get("pods", "p", namespace="default")
    return await harness.core.update(
        "pods", "p", {**pod, "spec": {**pod["spec"], **spec}}, namespace="default"
    )


class TestSchedulingGates:
    def test_a_gated_pod_says_so(self) -> None:
        async def main(harness: CoreHarness) -> None:
            pod = await harness.pod(schedulingGates=GATES)
            (condition,) = pod["status"]["conditions"]
            assert {**condition, "lastTransitionTime": ""} == {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": "",
            }

        run(main)

    @pytest.mark.parametrize(
        "spec, field, message",
        (
            (
                {"schedulingGates": GATES, "nodeName": "n"},
                "spec.nodeName",
                "Forbidden: cannot be set until all schedulingGates have been cleared",
            ),
            (
                {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
                "spec.schedulingGates[1]",
                'Duplicate value: "a"',
            ),
            (
                {"schedulingGates": [{"name": ""}]},
                "spec.schedulingGates[0]",
                'Invalid value: "": name part must be non-empty',
            ),
        ),
    )
    def test_creation(self, spec: Obj, field: str, message: str) -> None:
        async def main(harness: CoreHarness) -> None:
            error = await refused(harness.pod(**spec), 422)
            assert (field, message) in {(cause.field, cause.message) for cause in error.causes}

        run(main)

    def test_gates_can_only_be_removed(self) -> None:
        async def main(harness: CoreHarness) -> None:
            await harness.pod(schedulingGates=GATES)
            error = await refused(change(harness, {"schedulingGates": [*GATES, {"name": "more"}]}), 422)
            assert error.causes[0].field == "spec.schedulingGates[2].name"
            assert error.causes[0].message == (
                "Forbidden: only deletion is allowed, but found new scheduling gate 'more'"
            )
            left = await change(harness, {"schedulingGates": GATES[1:]})
            assert left["spec"]["schedulingGates"] == GATES[1:]
            assert left["metadata"]["generation"] == 2
            free = await change(harness, {"schedulingGates": []})
            assert "schedulingGates" not in free["spec"]
            await refused(change(harness, {"schedulingGates": GATES}), 422)

        run(main)

    def test_a_node_cannot_be_set_by_an_update(self) -> None:
        async def main(harness: CoreHarness) -> None:
            await harness.pod(schedulingGates=GATES)
            await refused(change(harness, {"nodeName": "n"}), 422)
            await refused(change(harness, {"nodeName": "n", "schedulingGates": []}), 422)

        run(main)

    def test_a_gated_pod_may_be_narrowed(self) -> None:
        async def main(harness: CoreHarness) -> None:
            await harness.pod(schedulingGates=GATES, nodeSelector={"a": "b"})
            more = await change(harness, {"nodeSelector": {"a": "b", "c": "d"}})
            assert more["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
            error = await refused(change(harness, {"nodeSelector": {"c": "d"}}), 422)
            assert "only additions to spec.nodeSelector are allowed" in str(error)
            term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            await change(harness, {"affinity": {"nodeAffinity": required}})
            longer = {"matchExpressions": [*term["matchExpressions"], {"key": "l", "operator": "Exists"}]}
            wider = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [longer]}}
            await change(harness, {"affinity": {"nodeAffinity": wider}})
            await refused(change(harness, {"affinity": {"nodeAffinity": required}}), 422)
            await change(harness, {"schedulingGates": []})
            await refused(change(harness, {"nodeSelector": {"a": "b", "c": "d", "e": "f"}}), 422)

        run(main)

    def test_with_the_feature_off_the_field_is_dropped(self) -> None:
        async def main(harness: CoreHarness) -> None:
            pod = await harness.pod(schedulingGates=GATES)
            assert "schedulingGates" not in pod["spec"]
            assert "conditions" not in pod["status"]

        run(main, feature_gates=OFF)

    def test_with_the_feature_off_older_pods_keep_it(self) -> None:
        async def main(harness: CoreHarness) -> None:
            from kuberth.local.apiserver.verbs.core import Core

            await harness.pod(schedulingGates=GATES)
            harness.core = Core(harness.store, clock=harness.clock, feature_gates=OFF)
            for gates in (GATES[1:], [], [*GATES, {"name": "more"}]):
                error = await refused(change(harness, {"schedulingGates": gates}), 422)
                assert error.causes[0].field == "spec.schedulingGates"
                assert "PodSchedulingReadiness is off" in error.causes[0].message
            pod = await change(harness, {"activeDeadlineSeconds": 60})
            assert pod["spec"]["schedulingGates"] == GATES, "other fields may change"
            assert (await harness.bind("p", "n1"))["status"] == "Success", "and it holds them back no longer"
            harness.core = Core(harness.store, clock=harness.clock)
            pod = await change(harness, {"schedulingGates": []})
            assert "schedulingGates" not in pod["spec"], "with the feature on again they may go"

        run(main)


class TestPodUpdates:
    @pytest.mark.parametrize(
        "spec",
        (
            {"containers": [{"name": "main", "image": "nginx:2", "imagePullPolicy": "Always"}]},
            {"activeDeadlineSeconds": 5},
        ),
    )
    def test_allowed(self, spec: Obj) -> None:
        async def main(harness: CoreHarness) -> None:
            await harness.pod()
            await change(harness, spec)

        run(main)

    def test_tolerations_can_only_be_added(self) -> None:
        async def main(harness: CoreHarness) -> None:
            pod = await harness.pod(tolerations=[{"key": "a", "operator": "Exists"}])
            present = pod["spec"]["tolerations"]
            more = await change(harness, {"tolerations": [*present, {"key": "b", "operator": "Exists"}]})
            assert len(more["spec"]["tolerations"]) == 4
            error = await refused(change(harness, {"tolerations": [{"key": "b", "operator": "Exists"}]}), 422)
            assert "existing toleration can not be modified except its tolerationSeconds" in str(error)

        run(main)

    @pytest.mark.parametrize(
        "spec",
        (
            {"containers": [{"name": "other", "image": "nginx"}]},
            {"containers": [{"name": "main", "image": "nginx"}, {"name": "d", "image": "nginx"}]},
            {"nodeName": "n"},
            {"nodeSelector": {"a": "b"}},
            {"schedulerName": "mine"},
            {"priority": 5},
            {"terminationGracePeriodSeconds": 1},
        ),
        ids=str,
    )
    def test_forbidden(self, spec: Obj) -> None:
        async def main(harness: CoreHarness) -> None:
            await harness.pod()
            error = await refused(change(harness, spec), 422)
            assert error.causes[-1].message.startswith("Forbidden: pod updates may not ")

        run(main)


class TestDefaults:
    def test_pods(self) -> None:
        async def main(harness: CoreHarness) -> None:
            containers = [
                {
                    "name": "c",
                    "image": "registry:5000/image",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                }
            ]
            pod = await harness.pod(containers=containers, volumes=[{"name": "v"}], hostNetwork=True)
            spec = pod["spec"]
            assert spec["restartPolicy"] == "Always"
            assert spec["terminationGracePeriodSeconds"] == 30
            assert spec["schedulerName"] == "default-scheduler"
            assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
            assert [each["key"] for each in spec["tolerations"]] == [
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unreachable",
            ]
            assert spec["volumes"] == [{"name": "v", "emptyDir": {}}]
            (container,) = spec["containers"]
            assert container["imagePullPolicy"] == "Always"
            assert container["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
            assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
            assert pod["status"]["qosClass"] == "Guaranteed"

        run(main)

    def test_workloads(self) -> None:
        async def main(harness: CoreHarness) -> None:
            deployment = await harness.core.create(
                "deployments.apps", deployment_manifest(), namespace="default"
            )
            spec = deployment["spec"]
            assert spec["strategy"] == {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            }
            assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
            assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
            body = {
                "metadata": {"name": "j"},
                "spec": {"template": {"spec": pod_manifest(restartPolicy="Never")["spec"]}},
            }
            job = await harness.core.create("jobs.batch", body, namespace="default")
            uid = job["metadata"]["uid"]
            assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
            labels = job["spec"]["template"]["metadata"]["labels"]
            assert labels == {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": "j",
                "controller-uid": uid,
                "job-name": "j",
            }
            assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (1, 6)

        run(main)

    def test_claims_take_the_default_class(self) -> None:
        async def main(harness: CoreHarness) -> None:
            marked = {"storageclass.kubernetes.io/is-default-class": "true"}
            body = {"metadata": {"name": "std", "annotations": marked}, "provisioner": "x.io/y"}
            await harness.core.create("storageclasses.storage.k8s.io", body)
            spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            claim = await harness.core.create(
                "persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}, namespace="default"
            )
            assert claim["spec"]["storageClassName"] == "std"
            assert claim["status"] == {"phase": "Pending"}
            without = await harness.core.create(
                "persistentvolumeclaims",
                {"metadata": {"name": "d"}, "spec": {**spec, "storageClassName": ""}},
                namespace="default",
            )
            assert without["spec"]["storageClassName"] == ""

        run(main)

    def test_services_get_an_address_each(self) -> None:
        async def main(harness: CoreHarness) -> None:
            found = set()
            for name in ("a", "b"):
                body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
                service = await harness.core.create("services", body, namespace="default")
                found.add(service["spec"]["clusterIP"])
                assert service["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
            assert len(found) == 2

        run(main)


class TestPriority:
    def test_classes_are_resolved(self) -> None:
        async def main(harness: CoreHarness) -> None:
            body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
            await harness.core.create("priorityclasses.scheduling.k8s.io", body)
            pod = await harness.pod("a", priorityClassName="high")
            assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (1000, "Never")
            critical = await harness.pod("b", priorityClassName="system-node-critical")
            assert critical["spec"]["priority"] == 2_000_001_000
            missing = await refused(harness.pod("c", priorityClassName="nope"), 403)
            assert str(missing) == 'pods "c" is forbidden: no PriorityClass with name nope was found'
            wrong = await refused(harness.pod("c", priority=7), 403)
            assert "the integer value of priority (7) must not be provided in pod spec" in str(wrong)
            policy = await refused(harness.pod("c", priorityClassName="high", preemptionPolicy="Always"), 403)
            assert "the string value of PreemptionPolicy (Always)" in str(policy)

        run(main)

    def test_the_global_default(self) -> None:
        async def main(harness: CoreHarness) -> None:
            classes = "priorityclasses.scheduling.k8s.io"
            body = {"metadata": {"name": "normal"}, "value": 5, "globalDefault": True}
            await harness.core.create(classes, body)
            pod = await harness.pod()
            assert (pod["spec"]["priority"], pod["spec"]["priorityClassName"]) == (5, "normal")
            second = {**body, "metadata": {"name": "second"}}
            error = await refused(harness.core.create(classes, second), 403)
            assert "PriorityClass normal is already marked as default" in str(error)

        run(main)

    @pytest.mark.parametrize(
        "name, value, field",
        (("mine", 1_000_000_001, "value"), ("system-mine", 5, "metadata.name")),
    )
    def test_what_users_may_not_define(self, name: str, value: int, field: str) -> None:
        async def main(harness: CoreHarness) -> None:
            body = {"metadata": {"name": name}, "value": value}
            error = await refused(harness.core.create("priorityclasses.scheduling.k8s.io", body), 422)
            assert [cause.field for cause in error.causes] == [field]

        run(main)

    def test_values_do_not_change(self) -> None:
        async def main(harness: CoreHarness) -> None:
            classes = "priorityclasses.scheduling.k8s.io"
            await harness.core.create(classes, {"metadata": {"name": "c"}, "value": 5})
            patch = {"value": 6, "preemptionPolicy": "Never"}
            error = await refused(harness.core.patch(classes, "c", patch, content_type=MERGE_PATCH), 422)
            assert [cause.field for cause in error.causes] == ["value", "preemptionPolicy"]

        run(main)


def test_all_causes_come_at_once() -> None:
    async def main(harness: CoreHarness) -> None:
        body = {
            "metadata": {"name": "Bad_Name", "labels": {"-": "x", "ok": "not ok!"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    },
                    {"name": "c", "image": "i", "ports": [{"containerPort": 70000}]},
                ],
                "nodeSelector": {"a/b/c": "d"},
                "restartPolicy": "Sometimes",
                "tolerations": [{"key": "a", "operator": "Exists", "value": "v", "effect": "Now"}],
            },
        }
        error = await refused(harness.core.create("pods", body, namespace="default"), 422)
        assert error.reason == "Invalid"
        assert str(error).startswith(
            'Pod "Bad_Name" is invalid: [metadata.name: Invalid value: "Bad_Name": a lower'
        )
        fields = {cause.field for cause in error.causes}
        assert fields == {
            "metadata.name",
            "metadata.labels",
            "spec.containers[0].image",
            "spec.containers[0].resources.requests",
            "spec.containers[1].name",
            "spec.containers[1].ports[0].containerPort",
            "spec.nodeSelector",
            "spec.restartPolicy",
            "spec.tolerations[0].operator",
            "spec.tolerations[0].effect",
        }
        status = error.to_object()
        assert status["details"]["kind"] == "Pod"
        assert status["code"] == 422

    run(main)


@pytest.mark.parametrize(
    "taints, fields",
    (
        ([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}], []),
        ([{"key": "a", "effect": "NoSchedule"}] * 2, ["metadata.taints[1]"]),
        ([{"key": "a"}], ["metadata.taints[0].effect"]),
        (
            [{"key": "", "effect": "Never", "value": "not ok"}],
            [
                "metadata.taints[0].key",
                "metadata.taints[0].key",
                "metadata.taints[0].value",
                "metadata.taints[0].effect",
            ],
        ),
    ),
)
def test_taints(taints: list[Obj], fields: list[str]) -> None:
    async def main(harness: CoreHarness) -> None:
        body = {"metadata": {"name": "n"}, "spec": {"taints": taints}}
        if not fields:
            await harness.core.create("nodes", body)
            return
        error = await refused(harness.core.create("nodes", body), 422)
        assert [cause.field for cause in error.causes] == fields

    run(main)


@pytest.mark.parametrize(
    "spec, message",
    (
        (
            {"resources": {"requests": {"cpu": "one"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"ports": [{"containerPort": "80"}]},
            "json: cannot unmarshal string into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        ({"env": {"a": "b"}}, "cannot unmarshal object"),
    ),
)
def test_what_cannot_be_decoded(spec: Obj, message: str) -> None:
    async def main(harness: CoreHarness) -> None:
        error = await refused(harness.pod(containers=[{"name": "c", "image": "i", **spec}]), 400)
        assert str(error).startswith('Pod in version "v1" cannot be handled as a Pod: ')
        assert message in str(error)

    run(main)


@pytest.mark.parametrize(
    "name, valid",
    (
        ("a", True),
        ("a.b/c", True),
        ("example.com/A_b.C", True),
        ("", False),
        ("/a", False),
        ("a/", False),
        ("a/b/c", False),
        ("UP.er/c", False),
        ("a" * 64, False),
        ("-a", False),
        ("a\n", False),
    ),
)
def test_qualified_names(name: str, valid: bool) -> None:
    assert (not names.qualified_name_problems(name)) is valid


def invalid_objects() -> list[Any]:
    template = deployment_manifest()["spec"]["template"]
    return [
        pytest.param("deployments.apps", {"spec": {"template": template}}, "spec.selector", id="no selector"),
        pytest.param(
            "deployments.apps",
            deployment_manifest(selector={"matchLabels": {"x": "y"}}),
            "spec.template.metadata.labels",
            id="selects others",
        ),
        pytest.param("deployments.apps", deployment_manifest(replicas=-1), "spec.replicas", id="replicas"),
        pytest.param(
            "jobs.batch", {"spec": {"template": template}}, "spec.template.spec.restartPolicy", id="job"
        ),
        pytest.param(
            "poddisruptionbudgets.policy", {"spec": {"minAvailable": "x%"}}, "spec.minAvailable", id="percent"
        ),
        pytest.param("persistentvolumeclaims", {"spec": {}}, "spec.accessModes", id="claim"),
        pytest.param("services", {"spec": {}}, "spec.ports", id="service"),
        pytest.param("configmaps", {"data": {"a b": ""}}, "data[a b]", id="config key"),
        pytest.param(
            "leases.coordination.k8s.io",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds",
            id="lease",
        ),
    ]


@pytest.mark.parametrize("resource, body, field", invalid_objects())
def test_other_kinds(resource: str, body: Obj, field: str) -> None:
    async def main(harness: CoreHarness) -> None:
        obj = {**body, "metadata": {"name": "x"}}
        error = await refused(harness.core.create(resource, obj, namespace="default"), 422)
        assert field in {cause.field for cause in error.causes}

    run(main)
