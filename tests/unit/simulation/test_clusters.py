"""Clusters from files, generators and snapshots; workloads from manifests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.errors import ConfigError
from kuberth.local.memory_api import MemoryApi
from kuberth.simulation.clusters import from_shapes, read_cluster, shape_of
from kuberth.simulation.generating import MIXES, generate, mix_named, shapes_for
from kuberth.simulation.snapshots import read_snapshot, take_snapshot, write_atomically
from kuberth.simulation.workloads import read_workload
from kuberth.testing import make_namespace, make_node, make_pod


def test_nodes_of_manifests_and_of_shapes(tmp_path: Path) -> None:
    manifests = tmp_path / "nodes.yaml"
    manifests.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a, resourceVersion: '7'}\n"
        "status: {capacity: {cpu: '4', pods: '10'}}\n"
    )
    (node,) = read_cluster(manifests).nodes
    assert node.status.allocatable["cpu"] == "4"
    assert not node.metadata.resource_version
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("nodes:\n- {name: big, count: 2, capacity: {cpu: '64'}}\n- {name: small, count: 1}\n")
    assert [node.metadata.name for node in read_cluster(shapes).nodes] == ["big-1", "big-2", "small-1"]
    with pytest.raises(ConfigError, match="there are no nodes"):
        from_shapes(None, count=0)


@pytest.mark.parametrize("text", ["cpu", "cpu=", "=4", "cpu=4,,"])
def test_a_shape_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match="--shape is RESOURCE=AMOUNT"):
        shape_of(text)


def test_a_snapshot_holds_what_a_scheduler_sees_and_no_annotations(tmp_path: Path) -> None:
    api = MemoryApi()
    api.put(make_namespace("default"))
    api.put(make_node("n"))
    api.put(make_pod("p", node="n", cpu="1", metadata={"annotations": {"token": "secret"}}))
    api.put(make_pod("over", node="n", phase="Succeeded"))
    content = run_in_virtual_time(lambda: take_snapshot(api))
    assert b"secret" not in gzip.decompress(content)
    path = tmp_path / "c.json.gz"
    write_atomically(path, content)
    cluster = read_cluster(path)
    assert [node.metadata.name for node in cluster.nodes] == ["n"]
    (pod,) = [each for each in cluster.objects if isinstance(each, Pod)]
    assert (pod.metadata.name, pod.spec.node_name) == ("p", "n")
    assert [each.name for each in tmp_path.iterdir()] == ["c.json.gz"], "nothing is left over"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (gzip.compress(json.dumps({"version": "kuberth.dev/snapshot/v9", "items": []}).encode()), "v9"),
        (gzip.compress(b'{"version": "kuberth.dev/snapshot/v1", "items": 3}'), "list of items"),
        (gzip.compress(b"[]"), "of version None"),
        (gzip.compress(b"{}")[:-9], "not all of one"),
        (b"plain", "not a snapshot"),
    ],
    ids=["version", "items", "list", "cut", "plain"],
)
def test_a_snapshot_that_is_none(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "c.json.gz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=expected):
        read_snapshot(path)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError):
        write_atomically(tmp_path / "taken", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


MANIFESTS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: blue
  annotations: {kuberth.dev/arrival-seconds: "5", kuberth.dev/run-seconds: "7"}
spec:
  priorityClassName: high
  containers: [{name: c, resources: {requests: {cpu: "1"}}}]
"""


def test_pods_of_manifests_come_when_their_annotations_say(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(MANIFESTS)
    coming = read_workload(path)
    (arrival,) = coming.arrivals
    assert (arrival.arrival, arrival.duration, arrival.priority, arrival.tenant) == (5, 7, 100, "blue")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("priorityClassName: high", "priorityClassName: low", "PriorityClass low is not among"),
        ('"5"', '"soon"', "is a number, got 'soon'"),
        ('"5"', '"-5"', "a time is zero or more"),
        ("kind: Pod", "kind: Deployment", "a simulation knows the kinds that a scheduler reads"),
        ('cpu: "1"', 'cpu: "one"', "spec:"),
    ],
)
def test_manifests_that_cannot_be_played(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(MANIFESTS.replace(old, new))
    with pytest.raises(ConfigError, match=expected):
        read_workload(path)


@pytest.mark.parametrize(
    ("amount", "expected"), [("lots", "cannot read quantity 'lots'"), ("-1", "must not be negative, got -1")]
)
def test_amounts_of_nodes_that_cannot_be(tmp_path: Path, amount: str, expected: str) -> None:
    path = tmp_path / "nodes.yaml"
    status = f"status: {{allocatable: {{cpu: '{amount}'}}}}"
    path.write_text(f"{{apiVersion: v1, kind: Node, metadata: {{name: big}}, {status}}}")
    with pytest.raises(ConfigError, match=f"nodes.yaml: Node big: status.allocatable.cpu: {expected}"):
        read_cluster(path)


@pytest.mark.parametrize("name", list(MIXES))
def test_what_is_drawn_is_the_same_for_the_same_seed(name: str) -> None:
    mix = mix_named(name)
    first = generate(mix, pods=50, seconds=86_400, seed=4)
    assert first == generate(mix, pods=50, seconds=86_400, seed=4)
    assert first != generate(mix, pods=50, seconds=86_400, seed=5)
    assert len(first) == 50
    assert all(0 <= each.arrival <= 86_400 for each in first)
    assert sum(shape["count"] for shape in shapes_for(mix, 33)) == 33


def test_a_mix_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="there are services, gpu"):
        mix_named("nothing")
