"""Tables: what `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from kuberth.cel.validation_rules import compile_rule
from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.cells import human_duration
from kuberth.local.apiserver.printing.columns import compile_path
from kuberth.local.apiserver.printing.forms import to_table
from kuberth.local.apiserver.resources import ResourceTable
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.text.documents import read_tree
from kuberth.text.timestamps import parse_timestamp, timestamp

RESOURCES = ResourceTable(ROWS)
NOW = 1_700_000_000 * NANOSECONDS
META = {"name": "x", "uid": "u", "creationTimestamp": "2023-11-14T22:12:20Z"}


def cells(resource: str, obj: Obj) -> dict[str, Any]:
    row = RESOURCES.by_id(resource)
    assert row is not None
    table = to_table(row, [{**obj, "metadata": META | obj.get("metadata", {})}], {}, now=NOW)
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def container(state: Obj, **more: Any) -> Obj:
    return {"name": "c", "state": state, **more}


SPEC = {"containers": [{"name": "c"}, {"name": "d"}]}
RUNNING = container({"running": {}}, ready=True)


@pytest.mark.parametrize(
    "pod, ready, status, restarts",
    (
        pytest.param({"status": {"phase": "Pending"}}, "0/2", "Pending", "0", id="pending"),
        pytest.param(
            {
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
                }
            },
            "0/2",
            "SchedulingGated",
            "0",
            id="gated",
        ),
        pytest.param(
            {"status": {"phase": "Running", "containerStatuses": [RUNNING, RUNNING]}},
            "2/2",
            "Running",
            "0",
            id="running",
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        container(
                            {"waiting": {"reason": "CrashLoopBackOff"}},
                            restartCount=3,
                            lastState={"terminated": {"finishedAt": "2023-11-14T22:08:20Z"}},
                        ),
                        RUNNING,
                    ],
                }
            },
            "1/2",
            "CrashLoopBackOff",
            "3 (5m ago)",
            id="crashing",
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Succeeded",
                    "containerStatuses": [container({"terminated": {"exitCode": 0, "reason": "Completed"}})],
                }
            },
            "0/2",
            "Completed",
            "0",
            id="completed",
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [container({"terminated": {"exitCode": 3}})],
                }
            },
            "0/2",
            "ExitCode:3",
            "0",
            id="failed",
        ),
        pytest.param(
            {
                "spec": {**SPEC, "initContainers": [{"name": "i"}, {"name": "j"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [container({"running": {}})]},
            },
            "0/2",
            "Init:0/2",
            "0",
            id="initializing",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2023-11-14T22:12:20Z"}, "status": {"phase": "Running"}},
            "0/2",
            "Terminating",
            "0",
            id="terminating",
        ),
        pytest.param(
            {"status": {"phase": "Failed", "reason": "Evicted"}}, "0/2", "Evicted", "0", id="evicted"
        ),
    ),
)
def test_pods(pod: Obj, ready: str, status: str, restarts: str) -> None:
    shown = cells("pods", {"spec": SPEC, **pod})
    assert (shown["Ready"], shown["Status"], shown["Restarts"]) == (ready, status, restarts)
    assert shown["Age"] == "60s"


def test_pods_wide() -> None:
    spec = {**SPEC, "nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    status = {"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "a", "status": "True"}]}
    shown = cells("pods", {"spec": spec, "status": status})
    assert list(shown.values())[5:] == ["10.0.0.1", "n", "<none>", "1/2"]
    assert list(shown) == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]


@pytest.mark.parametrize(
    "resource, obj, expected",
    (
        (
            "nodes",
            {
                "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6", "architecture": "amd64"},
                },
            },
            {
                "Status": "Ready,SchedulingDisabled",
                "Roles": "control-plane",
                "Version": "v1.36.0",
                "Kernel-Version": "6 (amd64)",
                "Internal-IP": "<none>",
            },
        ),
        ("nodes", {}, {"Status": "Unknown", "Roles": "<none>", "Version": ""}),
        (
            "deployments.apps",
            {
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                },
                "status": {"readyReplicas": 2, "updatedReplicas": 3},
            },
            {
                "Ready": "2/3",
                "Up-to-date": 3,
                "Available": 0,
                "Containers": "c",
                "Images": "i",
                "Selector": "a=b",
            },
        ),
        (
            "replicasets.apps",
            {"spec": {"replicas": 3}, "status": {"replicas": 2}},
            {"Desired": 3, "Current": 2},
        ),
        (
            "jobs.batch",
            {
                "spec": {"completions": 2},
                "status": {
                    "succeeded": 2,
                    "startTime": "2023-11-14T22:12:20Z",
                    "completionTime": "2023-11-14T22:12:25Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "2/2", "Duration": "5s"},
        ),
        ("statefulsets.apps", {"spec": {"replicas": 1}}, {"Ready": "0/1"}),
        (
            "services",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
                }
            },
            {
                "Type": "NodePort",
                "Cluster-IP": "10.0.0.1",
                "External-IP": "<none>",
                "Port(s)": "80:30000/TCP",
            },
        ),
        (
            "persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "claimRef": {"namespace": "n", "name": "c"},
                },
                "status": {"phase": "Bound"},
            },
            {"Capacity": "1Gi", "Access Modes": "RWO,RWX", "Claim": "n/c", "Status": "Bound"},
        ),
        (
            "persistentvolumeclaims",
            {"spec": {"storageClassName": "s"}, "status": {"phase": "Pending"}},
            {"Status": "Pending", "Volume": "", "Capacity": "", "StorageClass": "s"},
        ),
        (
            "storageclasses.storage.k8s.io",
            {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
            {"Name": "x (default)", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate"},
        ),
        ("priorityclasses.scheduling.k8s.io", {"value": 5}, {"Value": 5, "Global-Default": False}),
        (
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 2}},
            {"Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 2},
        ),
        ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
        (
            "events",
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "message": " hi ",
                "lastTimestamp": "2023-11-14T22:13:10Z",
                "source": {"component": "sched", "host": "h"},
            },
            {"Object": "pod/p", "Message": "hi", "Last Seen": "10s", "Source": "sched, h", "Count": 1},
        ),
        (
            "events.events.k8s.io",
            {
                "regarding": {"kind": "Pod", "name": "p"},
                "note": "hi",
                "eventTime": "2023-11-14T22:13:10.5Z",
                "reportingController": "sched",
                "series": {"count": 4, "lastObservedTime": "2023-11-14T22:13:18Z"},
            },
            {
                "Object": "pod/p",
                "Message": "hi",
                "Last Seen": "2s",
                "First Seen": "9s",
                "Count": 4,
                "Source": "sched",
            },
        ),
        ("namespaces", {"status": {"phase": "Active"}}, {"Status": "Active", "Age": "60s"}),
        ("csinodes.storage.k8s.io", {"spec": {"drivers": [{}]}}, {"Drivers": 1}),
        (
            "resourceclaims.resource.k8s.io",
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            {"State": "allocated,reserved"},
        ),
    ),
)
def test_other_kinds(resource: str, obj: Obj, expected: Obj) -> None:
    shown = cells(resource, obj)
    assert {name: shown[name] for name in expected} == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_an_empty_object_of_every_kind_can_be_printed(row: Any) -> None:
    table = to_table(row, [{"metadata": META}], {"resourceVersion": "5"}, now=NOW)
    assert table["metadata"] == {"resourceVersion": "5"}
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])


@pytest.mark.parametrize(
    "include, kind", (("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod"))
)
def test_the_object_of_a_row(include: str, kind: str | None) -> None:
    row = RESOURCES.by_id("pods")
    assert row is not None
    table = to_table(row, [{"kind": "Pod", "metadata": META}], None, now=NOW, include_object=include)
    assert table["rows"][0].get("object", {}).get("kind") == kind


@pytest.mark.parametrize(
    "seconds, expected",
    (
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ),
)
def test_durations(seconds: int, expected: str) -> None:
    assert human_duration(seconds * NANOSECONDS) == expected


def test_timestamps() -> None:
    assert timestamp(NOW) == "2023-11-14T22:13:20Z"
    assert parse_timestamp("2023-11-14T22:13:20Z") == NOW
    assert parse_timestamp("2023-11-14T23:13:20.5+01:00") == NOW + NANOSECONDS // 2
    assert parse_timestamp("now") is None


@pytest.mark.parametrize(
    "path, expected",
    (
        (".spec.size", 3),
        (".spec.list[1]", "b"),
        (".spec.list[-1]", "b"),
        (".spec.list[7]", None),
        (".conditions[?(@.type=='Ready')].status", "True"),
        (r".labels.a\.b", "c"),
        (".labels['a.b']", "c"),
        (".nope.deeper", None),
        ("nonsense[", None),
    ),
)
def test_json_paths(path: str, expected: Any) -> None:
    obj = {
        "spec": {"size": 3, "list": ["a", "b"]},
        "conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}],
        "labels": {"a.b": "c"},
    }
    assert compile_path(path)(obj) == expected


def expressions(tree: Any) -> Iterator[str]:
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from expressions(part)
    if isinstance(tree, dict) and isinstance(tree.get("expression"), str):
        yield tree["expression"]


def test_expressions_of_columns_can_be_compiled() -> None:
    text = files("kuberth.local.apiserver.schema").joinpath("resources.yaml").read_bytes()
    tree, _errors = read_tree(text)
    found = set(expressions(tree))
    assert found
    for expression in found:
        compile_rule(expression)


@pytest.mark.parametrize(
    "resource, obj, column, shown",
    [
        (
            "services",
            {"spec": {"ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}},
            "Port(s)",
            "80:30080/TCP",
        ),
        ("deployments.apps", {"status": {"readyReplicas": 2}, "spec": {"replicas": 3}}, "Ready", "2/3"),
        ("cronjobs.batch", {"spec": {"suspend": False}}, "Suspend", "False"),
        ("poddisruptionbudgets.policy", {"spec": {"minAvailable": 1}}, "Min Available", "1"),
        ("poddisruptionbudgets.policy", {"spec": {"minAvailable": 1}}, "Max Unavailable", "N/A"),
        ("configmaps", {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}, "Data", 2),
        (
            "podtemplates",
            {"template": {"metadata": {"labels": {"b": "2", "a": "1"}}}},
            "Pod Labels",
            "a=1,b=2",
        ),
    ],
)
def test_cells_that_are_expressions(resource: str, obj: Obj, column: str, shown: str | int) -> None:
    assert cells(resource, obj)[column] == shown
