"""Every operation, on a cluster of a few nodes in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.bench.executor import Pace, WorkloadFailed
from kuberth.errors import ConfigError, KuberthError
from tests.unit.bench.harness import MEASURED, PACE, run

NODES = "{opcode: createNodes, count: 3}"


def test_pods_are_created_scheduled_and_measured(tmp_path: Path) -> None:
    ran = run(tmp_path, NODES, "{opcode: createPods, count: 2}", MEASURED)
    (measurement,) = ran.measurements
    assert (measurement.name, measurement.scheduled) == ("measured", 3)
    assert measurement.attempts_ms is not None
    assert {each.labels["result"] for each in measurement.metrics if "result" in each.labels} == {"scheduled"}
    assert {"extension_point": "Filter"} in [each.labels for each in measurement.metrics]
    assert all(pod["spec"]["nodeName"] for pod in ran.objects("pods", "namespace-1"))
    assert len(ran.objects("pods", "measured")) == 3
    (container,) = ran.objects("pods", "measured")[0]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "500Mi"}


def test_nodes_of_every_strategy(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}",
        "{opcode: createNodes, count: 5, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}",
        "{opcode: createNodes, count: 3, uniqueNodeLabelStrategy: {labelKey: id}}",
        "{opcode: createNodes, count: 1, nodeAllocatableStrategy: {nodeAllocatable: {example.com/x: '7'}, "
        "csiNodeAllocatable: {d.example.com: {count: 4}}, migratedPlugins: [kubernetes.io/aws-ebs]}}",
        MEASURED,
    )
    nodes = {node["metadata"]["name"]: node for node in ran.objects("nodes")}
    assert {"node-0", "node-1"} <= nodes.keys()
    assert nodes["node-0"]["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
    labels = [node["metadata"]["labels"] for node in nodes.values()]
    assert sorted(each["zone"] for each in labels if "zone" in each) == ["a", "a", "a", "b", "b"]
    assert len({each["id"] for each in labels if "id" in each}) == 3
    (large,) = [node for name, node in nodes.items() if name.startswith("node-3-")]
    assert large["status"]["allocatable"] == {
        "cpu": "4",
        "memory": "32Gi",
        "pods": "110",
        "example.com/x": "7",
    }
    (csi,) = ran.objects("csinodes.storage.k8s.io")
    assert csi["metadata"]["name"] == large["metadata"]["name"]
    assert csi["spec"]["drivers"][0]["allocatable"] == {"count": 4}
    assert csi["metadata"]["annotations"] == {
        "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
    }


def test_namespaces_and_sets_of_pods(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createNamespaces, prefix: team, count: 2, namespaceTemplatePath: namespace.yaml}",
        "{opcode: createPodSets, count: 2, namespacePrefix: team, "
        "createPodsOp: {opcode: createPods, count: 2}}",
        MEASURED,
    )
    teams = [each for each in ran.objects("namespaces") if each["metadata"]["name"].startswith("team-")]
    assert [each["metadata"]["labels"]["team"] for each in teams] == ["blue", "blue"]
    assert len(ran.objects("pods", "team-0")) == len(ran.objects("pods", "team-1")) == 2


def test_pods_with_volumes_that_are_bound(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 2, namespace: v, persistentVolumeTemplatePath: pv.yaml, "
        "persistentVolumeClaimTemplatePath: pvc.yaml}",
        MEASURED,
    )
    assert all(pod["spec"]["nodeName"] for pod in ran.objects("pods", "v"))
    claims = {each["metadata"]["name"]: each for each in ran.objects("persistentvolumeclaims", "v")}
    assert claims["pvc-1"]["spec"]["volumeName"] == "v-vol-1"
    assert claims["pvc-1"]["status"]["phase"] == "Bound"
    volumes = {each["metadata"]["name"]: each for each in ran.objects("persistentvolumes")}
    assert volumes["v-vol-0"]["spec"]["csi"]["volumeHandle"] == "v-vol-0"
    assert volumes["v-vol-0"]["spec"]["claimRef"]["name"] == "pvc-0"


def test_a_priority_gets_a_class_where_the_server_resolves_them(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 2, namespace: high, podTemplatePath: priority.yaml}",
        MEASURED,
    )
    assert [pod["spec"]["priority"] for pod in ran.objects("pods", "high")] == [50, 50]
    names = [each["metadata"]["name"] for each in ran.objects("priorityclasses.scheduling.k8s.io")]
    assert names.count("bench-50") == 1


def test_objects_of_any_kind_are_made_and_changed(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}",
        "{opcode: createAny, namespace: maps, templatePath: config-map.yaml, count: 2}",
        "{opcode: updateAny, templatePath: node-labelled.yaml, count: 2, updatePerSecond: 200}",
        MEASURED,
    )
    assert [each["data"] for each in ran.objects("configmaps", "maps")] == [{"of": "2"}, {"of": "2"}]
    nodes = {node["metadata"]["name"]: node for node in ran.objects("nodes")}
    assert nodes["node-1"]["metadata"]["labels"]["seen"] == "yes"
    assert nodes["node-1"]["status"]["capacity"]["cpu"] == "6", "the status has a request of its own"


def test_pods_are_updated_by_an_operation_other_than_their_creator(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 2, namespace: a, podTemplatePath: held.yaml, "
        "skipWaitToCompletion: true}",
        "{opcode: updateAny, namespace: a, templatePath: freed.yaml, count: 2}",
        MEASURED,
    )
    assert [pod["metadata"]["labels"] for pod in ran.objects("pods", "a")] == [{"seen": "yes"}] * 2


@pytest.mark.parametrize(
    "operation, left",
    [
        ("{opcode: deletePods, namespace: gone}", 0),
        ("{opcode: deletePods, namespace: gone, deletePodsPerSecond: 100}", 0),
        ("{opcode: deletePods, namespace: gone, labelSelector: {app: other}}", 4),
        ("{opcode: deletePods, namespace: gone, labelSelector: {app: other}, deletePodsPerSecond: 100}", 4),
    ],
)
def test_pods_are_deleted(tmp_path: Path, operation: str, left: int) -> None:
    # Pods that were never bound are gone at once; no kubelet has to confirm.
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 4, namespace: gone, podTemplatePath: large.yaml, "
        "skipWaitToCompletion: true}",
        "{opcode: barrier, namespaces: [gone], stageRequirement: Attempted}",
        operation,
        MEASURED,
    )
    assert len(ran.objects("pods", "gone")) == left


def test_deleting_may_go_on_behind_what_follows(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 50, namespace: slow, podTemplatePath: gated.yaml, "
        "skipWaitToCompletion: true}",
        "{opcode: barrier, stageRequirement: Attempted}",
        "{opcode: deletePods, namespace: slow, deletePodsPerSecond: 1, skipWaitToCompletion: true}",
        MEASURED,
    )
    assert ran.objects("pods", "slow"), "it ended with the workload, long before all were gone"


def test_churn_creates_up_to_a_number(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: churn, mode: create, number: 2, intervalMilliseconds: 1, namespace: churned, "
        "templatePaths: [service.yaml, large.yaml]}",
        "{opcode: sleep, duration: 300ms}",
        MEASURED,
    )
    assert len(ran.objects("services", "churned")) == 2
    assert len(ran.objects("pods", "churned")) == 2


def test_churn_recreates_in_turns(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: startCollectingMetrics, name: churned, namespaces: [churned]}",
        "{opcode: churn, mode: recreate, number: 1, intervalMilliseconds: 1, namespace: churned, "
        "templatePaths: [brief.yaml]}",
        "{opcode: sleep, duration: 1500ms}",
        "{opcode: stopCollectingMetrics}",
    )
    assert len(ran.objects("pods", "churned")) <= 1
    assert ran.measurements[0].scheduled > 1


def test_a_barrier_waits_for_what_others_left_behind(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 5, namespace: a, skipWaitToCompletion: true}",
        "{opcode: createPods, count: 2, namespace: b, podTemplatePath: large.yaml, "
        "skipWaitToCompletion: true}",
        "{opcode: barrier, namespaces: [a]}",
        "{opcode: barrier, namespaces: [b], labelSelector: {app: large}, stageRequirement: Attempted}",
        MEASURED,
    )
    assert all(pod["spec"]["nodeName"] for pod in ran.objects("pods", "a"))
    assert all(pod["status"]["conditions"] for pod in ran.objects("pods", "b"))


def test_metrics_between_start_and_stop(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createNamespaces, prefix: both, count: 2}",
        "{opcode: startCollectingMetrics, name: x, namespaces: [both-0, both-1], labelSelector: {app: web}}",
        "{opcode: createPods, count: 2, namespace: both-0, podTemplatePath: pod.yaml}",
        "{opcode: createPods, count: 2, namespace: both-1}",
        "{opcode: createPods, count: 2, namespace: other, podTemplatePath: pod.yaml}",
        "{opcode: stopCollectingMetrics}",
        MEASURED,
    )
    assert [(each.name, each.scheduled) for each in ran.measurements] == [("x", 2), ("measured", 3)]


def test_a_steady_state_lasts_as_long_as_it_says(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        NODES,
        "{opcode: createPods, count: 1, namespace: steady, podTemplatePath: pod.yaml, steadyState: true, "
        "durationParam: $long, collectMetrics: true}",
        params="{long: 3s}",
    )
    (measurement,) = ran.measurements
    assert measurement.scheduled > 1, "more than one batch"
    assert len(ran.objects("pods", "steady")) <= 1


def failure(folder: Path, *operations: str, pace: Pace = PACE) -> str:
    with pytest.RaisesGroup(KuberthError, flatten_subgroups=True, allow_unwrapped=True) as caught:
        run(folder, *operations, pace=pace)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, WorkloadFailed | ConfigError)
    assert "cases.yaml: case C: workload w: " in str(error)
    return str(error)


@pytest.mark.parametrize(
    "operation, message",
    [
        ("{opcode: stopCollectingMetrics}", "op 0 (stopCollectingMetrics): no metrics are being collected"),
        (
            "{opcode: startCollectingMetrics, namespaces: [a]}",
            "op 1 (createPods): metrics are being collected already",
        ),
        (
            "{opcode: barrier, namespaces: [nowhere]}",
            "op 0 (barrier): no earlier operation creates the namespace nowhere",
        ),
        ("{opcode: createPods, count: 1, podTemplatePath: gone.yaml}", "op 0 (createPods): template "),
        ("{opcode: createPods, count: 1, podTemplatePath: node.yaml}", "expected a Pod, found a Node"),
        ("{opcode: createNodes, count: 1, nodeTemplatePath: pod.yaml}", "expected a Node, found a Pod"),
        (
            "{opcode: createAny, templatePath: config-map.yaml}",
            "a ConfigMap is in a namespace; name a namespace",
        ),
        ("{opcode: createAny, templatePath: node.yaml, namespace: a}", "remove the namespace"),
        (
            "{opcode: updateAny, templatePath: node.yaml}",
            'op 0 (updateAny): nodes "node-0" not found',
        ),
        (
            "{opcode: createResourceClaims, count: 1, namespace: a, templatePath: gone.yaml}",
            "op 0 (createResourceClaims): template ",
        ),
    ],
)
def test_failures_are_reported_with_their_place(tmp_path: Path, operation: str, message: str) -> None:
    assert message in failure(tmp_path, operation, MEASURED)


def test_collecting_that_never_stops(tmp_path: Path) -> None:
    message = failure(
        tmp_path,
        "{opcode: startCollectingMetrics, namespaces: [a]}",
        "{opcode: stopCollectingMetrics}",
        "{opcode: startCollectingMetrics, namespaces: [a]}",
    )
    assert "startCollectingMetrics has no stopCollectingMetrics" in message


def test_pods_that_never_fit_are_given_up(tmp_path: Path) -> None:
    pace = Pace(sample_seconds=0.02, poll_seconds=0.01, patience_seconds=0.2)
    message = failure(tmp_path, MEASURED, pace=pace)
    assert (
        "op 0 (createPods): only 0 of 3 pods in measured were scheduled within 0.2 s; measured/pod-"
        in message
    )
    assert "is a longer --timeout needed?" in message
