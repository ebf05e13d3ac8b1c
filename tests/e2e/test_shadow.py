"""`kuberth shadow` beside the Go kube-scheduler, with the rights that its documentation names, no others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.e2e.assets import REPOSITORY
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import BARE, UPSTREAM
from tests.e2e.objects import ZONE, Object, configuration, node, pod
from tests.e2e.processes import Process
from tests.e2e.schedulers import KUBERTH, command_of
from tests.e2e.test_scale import create_all
from tests.e2e.waiting import wait_for
from tests.manifests import HOSTNAME

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

NAME = "real"
RBAC = "rbac.authorization.k8s.io/v1"
READING = {"get", "list", "watch"}
EVERY_NODE = configuration({"schedulerName": NAME, "percentageOfNodesToScore": 100})
"""So that no difference can be put down to nodes that were not looked at."""
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Path]:
    """The kubeconfig of a user with the documented ClusterRole."""
    text = (REPOSITORY / "docs" / "shadow.md").read_text(encoding="utf-8")
    role: Object = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    binding: Object = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role["metadata"]["name"]},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": "bare", "name": "bare"}],
    }
    for tree in (role, binding):
        cluster.api.create(tree)
    yield cluster.control_plane.kubeconfig(BARE)
    for tree in (binding, role):
        cluster.api.delete(RBAC, tree["kind"], tree["metadata"]["name"])


class Shadowed(NamedTuple):
    decisions: list[dict[str, Any]]
    report: dict[str, Any]


class RunningShadow:
    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, *flags: str) -> None:
        config = folder / "shadow.config.json"
        config.write_text(json.dumps(EVERY_NODE), encoding="utf-8")
        program = command_of(KUBERTH, cluster.control_plane.assets)[0]
        command = [program, "shadow", f"--kubeconfig={kubeconfig}", f"--scheduler-name={NAME}"]
        self.process = Process(
            "shadow", [*command, f"--config={config}", "-ojson", *flags], log=folder / "shadow.log"
        )
        wait_for(
            "the shadow to follow",
            lambda: "following" in self.process.output() or not self.process.alive,
            seconds=60,
            explain=self.process.tail,
        )

    def end(self, seconds: float) -> Shadowed:
        assert self.process.wait(seconds) == 0, self.process.tail()
        lines = [json.loads(line) for line in self.process.output().splitlines() if line.startswith("{")]
        return Shadowed(lines[:-1], lines[-1]["report"])


def make_nodes(number: int) -> list[Object]:
    return [
        node(
            f"node-{i:04d}",
            cpu=str((4, 8, 16)[i % 3]),
            memory=("8Gi", "32Gi")[i % 2],
            labels={ZONE: f"zone-{i % 5}", "disk": ("ssd", "hdd", "nvme")[i % 7 % 3]},
            taints=[TAINT] if i % 10 == 0 else [],
        )
        for i in range(number)
    ]


def affinity(kind: str, app: str, key: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(app: str, key: str, when: str) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def wanting_disk(disk: str) -> Object:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    preferred = {
        "weight": 50,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-1"]}]},
    }
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [preferred],
            }
        }
    }


def make_pod(i: int, namespace: str) -> Object:
    """Every eighth is of one kind."""
    app = f"app-{i % 8}-{i // 8 % 10}"
    of_kind: list[Object] = [
        {},
        wanting_disk(("ssd", "hdd")[i // 8 % 2]),
        {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
        spread(app, ZONE, "DoNotSchedule"),
        spread(app, HOSTNAME, "ScheduleAnyway"),
        affinity("podAntiAffinity", app, HOSTNAME),
        affinity("podAffinity", app, ZONE),
        {"priorityClassName": ("low", "high")[i // 8 % 2]},
    ]
    sizes = {"cpu": f"{50 * (1 + i % 7)}m", "memory": f"{64 * (1 + i % 5)}Mi"}
    made = pod(f"pod-{i:05d}", scheduler=NAME, labels={"app": app}, **sizes, **of_kind[i % 8])
    made["metadata"]["namespace"] = namespace
    return made


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def check_explained(shadowed: Shadowed, pods: int) -> float:
    """Every pod was decided and whatever does not agree is explained; the share that agrees."""
    agreements = Counter(each["agreement"] for each in shadowed.decisions if each.get("node"))
    assert agreements.total() == pods
    unexplained = [
        each
        for each in shadowed.decisions
        if each["agreement"] not in ("same node", "equal score", "rejected by both")
        and "explanation" not in each
    ]
    assert not unexplained, unexplained[:3]
    assert shadowed.report["unexplained"] == 0
    return (agreements["same node"] + agreements["equal score"]) / pods


def check_nothing_written(cluster: Cluster) -> None:
    requests = [
        entry
        for _, entry in cluster.control_plane.audit.entries(cluster.audit_start)
        if entry["user"]["username"] == BARE
    ]
    assert {entry["verb"] for entry in requests} <= READING
    assert "watch" in {entry["verb"] for entry in requests}
    assert not cluster.control_plane.audit.forbidden(BARE, cluster.audit_start)


def shadow_pods(
    cluster: Cluster, start: StartScheduler, peer: str, reader: Path, folder: Path, *, nodes: int, pods: int
) -> Shadowed:
    cluster.create(priority_class("low", 10), priority_class("high", 1000))
    create_all(cluster.control_plane, make_nodes(nodes))
    start(EVERY_NODE, program=peer, user=UPSTREAM)
    shadow = RunningShadow(cluster, reader, folder, f"--pods={pods}")
    # The first of each group is there before those that want to be near it.
    create_all(cluster.control_plane, (make_pod(i, cluster.namespace) for i in range(pods)))
    shadowed = shadow.end(400)
    check_nothing_written(cluster)
    return shadowed


def test_it_agrees_with_kube_scheduler(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str, reader: Path, tmp_path: Path
) -> None:
    shadowed = shadow_pods(cluster, start_scheduler, peer, reader, tmp_path, nodes=60, pods=240)
    assert check_explained(shadowed, 240) >= 0.99


@pytest.mark.scale
def test_two_thousand_pods_on_five_hundred_nodes(
    cluster: Cluster,
    start_scheduler: StartScheduler,
    peer: str,
    reader: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shadowed = shadow_pods(cluster, start_scheduler, peer, reader, tmp_path, nodes=500, pods=2000)
    with capsys.disabled():
        print(f"\n{json.dumps(shadowed.report, indent=1)}")
    assert check_explained(shadowed, 2000) >= 0.99


def test_rejections_and_preemption(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str, reader: Path, tmp_path: Path
) -> None:
    cluster.create(priority_class("low", 10), priority_class("high", 1000), node("n0", cpu="2"))
    start_scheduler(EVERY_NODE, program=peer, user=UPSTREAM)
    shadow = RunningShadow(cluster, reader, tmp_path, "--pods=2")
    cluster.create(pod("small", scheduler=NAME, cpu="1500m", priorityClassName="low"))
    cluster.wait_bound("small")
    cluster.create(pod("huge", scheduler=NAME, cpu="64"))
    cluster.wait_unschedulable("huge")
    cluster.create(pod("important", scheduler=NAME, cpu="1500m", priorityClassName="high"))
    cluster.wait_bound("important")
    shadowed = shadow.end(60)
    found = [(each["pod"].partition("/")[2], each["agreement"]) for each in shadowed.decisions]
    assert ("huge", "rejected by both") in found
    assert ("important", "same node") in found
    assert found[0] == ("small", "same node")
    important = shadowed.decisions[-1]
    assert important["attempts"] >= 2
    assert shadowed.report["unexplained"] == 0
    check_nothing_written(cluster)
