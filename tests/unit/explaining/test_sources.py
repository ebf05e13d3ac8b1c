"""Clusters and pods from an API that is only read, and from files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from kuberth.api.core import Node, Pod
from kuberth.api.kinds import KINDS
from kuberth.api.scheduling import PriorityClass
from kuberth.client.protocol import ObjectList
from kuberth.errors import ConfigError, ForbiddenError, NotFoundError
from kuberth.evaluation import Evaluator
from kuberth.explaining.sources import (
    find_in_dump,
    read_cluster,
    read_dump,
    read_pod,
    read_template,
    template_pod,
    with_priority,
)
from kuberth.explaining.targets import WORKLOADS, ExplainTarget
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.text.documents import MAX_VALUES

CONTAINER = {"name": "main", "resources": {"limits": {"cpu": "2"}}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4"}},
}


def workload(kind: str, name: str = "web") -> dict[str, Any]:
    tree: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
    inner = tree
    for field in WORKLOADS[kind].template[:-1]:
        inner = inner.setdefault(field, {})
    inner[WORKLOADS[kind].template[-1]] = TEMPLATE
    return tree


def written(path: Path, *trees: dict[str, Any]) -> Path:
    file = path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(trees))
    return file


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workloads_pod_is_its_template(kind: str) -> None:
    pod = template_pod(workload(kind))
    assert (pod.metadata.namespace, pod.metadata.name) == ("default", "web")
    assert pod.metadata.labels == {"app": "web"}
    owner = pod.metadata.owner_references[0]
    assert (owner.kind, owner.controller) == (kind, True)
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.containers[0].resources.requests == {"cpu": "2"}  # as its limits say


def test_a_workload_without_a_template() -> None:
    with pytest.raises(ConfigError, match=r"Deployment web has no pod template at spec\.template"):
        template_pod({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {}})


def test_a_dump(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1"}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    items = {"apiVersion": "v1", "kind": "List", "items": [NODE, pod, config_map, workload("Deployment")]}
    objects, manifests = read_dump(written(tmp_path, items))
    assert [type(obj) for obj in objects] == [Node, Pod]
    assert objects[1].metadata.uid == "default/p"
    assert find_in_dump(objects, manifests, ExplainTarget("Pod", "p"), "default").pod is objects[1]
    found = find_in_dump(objects, manifests, ExplainTarget("Deployment", "web"), "default")
    assert found.pod.metadata.name == "web"
    assert found.refusal == ""
    with pytest.raises(ConfigError, match=r"no deployment wen in namespace default; did you mean web\?"):
        find_in_dump(objects, manifests, ExplainTarget("Deployment", "wen"), "default")


def test_a_file_leaves_out_what_the_api_server_adds(tmp_path: Path) -> None:
    limited = {"name": "c", "resources": {"limits": {"cpu": "2", "example.com/gpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [limited]}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}}
    request = {"name": "d", "exactly": {"deviceClassName": "gpu"}}
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus"},
        "spec": {"devices": {"requests": [request]}},
    }
    objects, _ = read_dump(written(tmp_path, NODE, pod, claim, volume, devices))
    found = {type(obj).__name__: obj for obj in objects}
    assert found["Pod"].spec.containers[0].resources.requests == {"cpu": "2", "example.com/gpu": "1"}
    exactly_one = found["ResourceClaim"].spec.devices.requests[0].exactly
    assert (exactly_one.allocation_mode, exactly_one.count) == ("ExactCount", 1)
    namespaces = {kind: obj.metadata.namespace for kind, obj in found.items()}
    assert namespaces == {
        "Node": "",
        "Pod": "default",
        "PersistentVolumeClaim": "default",
        "PersistentVolume": "",
        "ResourceClaim": "default",
    }


def test_a_dump_may_have_any_number_of_objects(tmp_path: Path) -> None:
    """One document, as kubectl writes it, with more values than a configuration may have."""
    labels = {f"k{number}": "" for number in range(MAX_VALUES)}
    file = tmp_path / "dump.json"
    large = {**NODE, "metadata": {"name": "large", "labels": labels}}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, large]}))
    objects, _ = read_dump(file)
    assert len(objects[1].metadata.labels) == MAX_VALUES


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    rows = [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 9)]
    file.write_text("\n".join(["kind: List", "a0: &a0 [x, x]", *rows]))
    with pytest.raises(ConfigError, match="more than 200000 values"):
        read_dump(file)


def refused(kind: str, name: str) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": "default"}
    metadata = {"name": "e", "namespace": "default"}
    event = {"reason": "FailedCreate", "message": "exceeded quota", "lastTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, **event}


def test_refused_pods_of_a_dump(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE, workload("Job"), refused("Job", "other"), refused("Job", "web"))
    objects, manifests = read_dump(dump)
    found = find_in_dump(objects, manifests, ExplainTarget("Job", "web"), "default")
    assert found.refusal == "could not create a pod at 2026-01-01T00:00:00Z: exceeded quota"


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
            "it has no nodes, only ConfigMap; make one",
        ),
        ("apiVersion: v1\nkind: List\nitems: []\n", "it has no nodes, only nothing; make one"),
        ("apiVersion: v1\nkind: List\n", "it has no nodes, only nothing; make one"),
        ("apiVersion: v1\nkind: List\nitems: 3\n", "the items of a List are a list, got 3"),
        ("just: text\n", "expected Kubernetes objects with apiVersion and kind"),
        ("{", "cannot be read as YAML or JSON"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: 7}\n", r"dump\.yaml: Node: field metadata\.name"),
    ],
)
def test_a_dump_of_something_else(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_dump(file)


def test_a_manifest_of_one_pod(tmp_path: Path) -> None:
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "p"}}
    pod = read_pod(written(tmp_path, tree, service), namespace="mine")
    assert (pod.metadata.namespace, pod.spec.scheduler_name) == ("mine", "default-scheduler")
    assert (
        read_pod(written(tmp_path, workload("Job")), namespace=None).metadata.owner_references[0].kind
        == "Job"
    )


def test_the_namespace_of_a_manifest(tmp_path: Path) -> None:
    bare = written(tmp_path, workload("Job"))
    assert read_pod(bare, namespace=None).metadata.namespace == "default"
    assert read_pod(bare, namespace=None, otherwise="context").metadata.namespace == "context"
    placed = written(tmp_path, {**workload("Job"), "metadata": {"name": "web", "namespace": "own"}})
    assert read_pod(placed, namespace=None, otherwise="context").metadata.namespace == "own"
    assert read_pod(placed, namespace="given").metadata.namespace == "given"


@pytest.mark.parametrize(
    "trees, problem",
    [
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "x"}}],
            "containers",
        ),
        ([workload("Job", "a"), workload("Job", "b")], "holds 2 pods or workloads: .*Job a.*Job b"),
        ([NODE], "holds no pod or workload, but Node"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "it needs metadata.name"),
        (
            [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {"containers": [{**CONTAINER, "resources": {"requests": {"memory": "-5Gi"}}}]},
                }
            ],
            "Pod default/p: container .* requests -5Gi of memory; an amount is zero or more",
        ),
    ],
)
def test_a_manifest_that_does_not_say_which_pod(
    tmp_path: Path, trees: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_pod(written(tmp_path, *trees), namespace=None)


def test_priorities_come_from_their_classes() -> None:
    def named(name: str, value: int, **more: Any) -> PriorityClass:
        metadata = make_node(name).metadata
        return PriorityClass(metadata=metadata, value=value, **more)

    classes = [named("high", 9, preemption_policy="Never"), named("usual", 3, global_default=True)]
    high = with_priority(make_pod("p", priorityClassName="high"), classes)
    assert (high.spec.priority, high.spec.preemption_policy) == (9, "Never")
    assert with_priority(make_pod("p"), classes).spec.priority == 3
    assert with_priority(make_pod("p", priority=1), classes).spec.priority == 1
    assert with_priority(make_pod("p"), []).spec.priority is None
    with pytest.raises(ConfigError, match="there is no PriorityClass none"):
        with_priority(make_pod("p", priorityClassName="none"), classes)


class Guarded(MemoryApi):
    """Refuses some kinds, and keeps book of the verbs."""

    def __init__(self, **refused: Exception) -> None:
        super().__init__()
        self._refused = {KINDS[name].type: error for name, error in refused.items()}

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        if kind in self._refused:
            raise self._refused[kind]
        return await super().list(kind, resource_version=resource_version, field_selector=field_selector)


def test_a_cluster_is_read_as_far_as_one_may() -> None:
    api = Guarded(
        StorageClass=ForbiddenError("no"),
        DeviceClass=ForbiddenError("no"),
        ResourceSlice=NotFoundError("none"),
    )
    for obj in (make_node("n"), make_pod("p"), make_pod("done", phase="Succeeded")):
        api.put(obj)
    objects, notes = asyncio.run(read_cluster(api, Evaluator()))
    assert {obj.metadata.name for obj in objects} >= {"n", "p"}
    assert "done" not in {obj.metadata.name for obj in objects}
    assert sorted(note.partition(" ")[0] for note in notes) == ["deviceclasses", "storageclasses"]


@pytest.mark.parametrize("kind", ["Node", "Pod"])
def test_without_nodes_and_pods_there_is_no_answer(kind: str) -> None:
    with pytest.raises(ForbiddenError):
        asyncio.run(read_cluster(Guarded(**{kind: ForbiddenError("no")}), Evaluator()))


class Raw:
    """Answers paths from a dictionary."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def call(self, method: str, path: str) -> bytes:
        assert method == "GET"
        if path not in self._answers:
            raise NotFoundError(path)
        if isinstance(self._answers[path], Exception):
            raise self._answers[path]
        return json.dumps(self._answers[path]).encode()


def test_a_template_is_read_from_the_api() -> None:
    path = "/apis/apps/v1/namespaces/x/deployments"
    events = "/api/v1/namespaces/x/events?" + urlencode(
        {"fieldSelector": "involvedObject.kind=Deployment,involvedObject.name=web,reason=FailedCreate"}
    )
    api = Raw(
        {
            f"{path}/web": workload("Deployment"),
            path: {"items": [workload("Deployment")]},
            events: ForbiddenError("events"),
        }
    )
    found = asyncio.run(read_template(api, ExplainTarget("Deployment", "web"), "x"))
    assert (found.pod.metadata.name, found.refusal) == ("web", "")
    with pytest.raises(ConfigError, match=r"no deployment wbe in namespace x; did you mean web\?"):
        asyncio.run(read_template(api, ExplainTarget("Deployment", "wbe"), "x"))


def test_a_server_without_events_has_no_refusals() -> None:
    api = Raw({"/apis/batch/v1/namespaces/x/jobs/web": workload("Job")})
    assert asyncio.run(read_template(api, ExplainTarget("Job", "web"), "x")).refusal == ""
