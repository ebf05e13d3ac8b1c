from __future__ import annotations

import datetime
import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api import (
    KINDS,
    Lease,
    Node,
    Pod,
    PodDisruptionBudget,
    convert,
    decode,
    encode,
    to_builtins,
)
from kuberth.api.coordination import LeaseSpec
from kuberth.api.core import Namespace
from kuberth.api.kinds import KindInfo
from kuberth.api.wire import MicroTime, Wire
from kuberth.errors import WireError

CONFORMANCE = Path(__file__).parents[2] / "conformance/corpus/schedule.jsonl.gz"


@pytest.mark.parametrize("info", KINDS.values(), ids=KINDS.keys())
def test_every_kind_carries_its_type(info: KindInfo) -> None:
    assert json.loads(encode(info.type())) == {"apiVersion": info.api_version, "kind": info.kind}


@pytest.mark.parametrize("info", KINDS.values(), ids=KINDS.keys())
def test_every_kind_round_trips(info: KindInfo) -> None:
    empty = info.type()
    assert decode(info.type, encode(empty)) == empty
    assert convert(info.type, to_builtins(empty)) == empty
    assert decode(info.type, b"{}") == empty


def test_kind_paths() -> None:
    assert (KINDS["Pod"].path, KINDS["Lease"].path) == ("/api/v1", "/apis/coordination.k8s.io/v1")
    assert {key for key, info in KINDS.items() if key != info.kind} == {"CoreEvent"}


def _all_structs(type_: type[Wire], seen: set[type[Wire]]) -> set[type[Wire]]:
    for child in type_.__subclasses__():
        if child not in seen and child.__module__.startswith("kuberth."):
            seen.add(child)
            _all_structs(child, seen)
    return seen


@pytest.mark.parametrize("type_", sorted(_all_structs(Wire, set()), key=str))
def test_every_field_takes_null_for_its_default(type_: type[Wire]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(type_)]
    assert decode(type_, json.dumps(dict.fromkeys(names))) == type_()


@pytest.mark.parametrize("type_", sorted(_all_structs(Wire, set()), key=str))
def test_structs_are_frozen_and_have_no_required_fields(type_: type[Wire]) -> None:
    assert type_.__struct_config__.frozen
    assert type_() == type_()


def test_pod_fields_survive() -> None:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}],
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "nginx:1",
                    "ports": [
                        {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}
                    ],
                    "resources": {"requests": {"cpu": "100m", "memory": 1024}},
                }
            ],
            "volumes": [
                {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                {"name": "e", "emptyDir": {}},
            ],
            "schedulingGates": [{"name": "wait"}],
            "priority": 0,
        },
        "status": {"phase": "Pending", "hostIP": "10.0.0.2", "startTime": "2026-01-02T03:04:06Z"},
    }
    pod = convert(Pod, tree)
    assert pod.metadata.creation_timestamp == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.volumes[0].aws_elastic_block_store is not None
    assert pod.spec.volumes[1].empty_dir is not None
    assert pod.spec.volumes[1].config_map is None
    assert pod.spec.priority == 0
    assert json.loads(encode(pod)) == tree


def test_unknown_fields_are_dropped() -> None:
    assert decode(Node, b'{"spec":{"externalID":"x","unschedulable":true},"more":[1]}').spec.unschedulable


def test_micro_time_always_has_six_digits() -> None:
    moment = MicroTime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    lease = Lease(spec=LeaseSpec(renew_time=moment))
    assert to_builtins(lease)["spec"]["renewTime"] == "2026-01-02T03:04:05.000000Z"
    back = decode(Lease, encode(lease))
    assert back == lease
    assert type(back.spec.renew_time) is MicroTime


def test_micro_time_from_yaml_is_taken_as_it_is() -> None:
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert convert(Lease, {"spec": {"acquireTime": moment}}).spec.acquire_time == moment


def test_int_or_string() -> None:
    assert decode(PodDisruptionBudget, b'{"spec":{"minAvailable":"50%"}}').spec.min_available == "50%"
    assert decode(PodDisruptionBudget, b'{"spec":{"minAvailable":2}}').spec.min_available == 2


@pytest.mark.parametrize(
    ("type_", "raw", "message"),
    [
        (
            Pod,
            b'{"kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"priority":"high"}}',
            "Pod shop/web: field spec.priority: Expected `int | null`, got `str`",
        ),
        (
            Node,
            b'{"metadata":{"name":"n"},"spec":{"taints":[{"key":1}]}}',
            "Node n: field spec.taints[0].key:",
        ),
        (Node, b'{"metadata":null,"spec":[]}', "Node: field spec:"),
        (Lease, b'{"spec":{"renewTime":7}}', "Lease: field spec.renewTime:"),
        (Lease, b'{"spec":{"renewTime":"soon"}}', "Lease: field spec.renewTime:"),
        (Pod, b"[]", "Pod: Expected `object`, got `array`"),
        (Pod, b"{", "Pod: not valid JSON"),
        (Pod, b'{"kind":"\xff"}', "Pod: not valid JSON"),
    ],
    ids=[
        "namespaced",
        "in-a-list",
        "unnamed",
        "micro-time-number",
        "micro-time-text",
        "not-an-object",
        "cut",
        "utf8",
    ],
)
def test_errors_name_object_and_field(type_: type[Wire], raw: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(type_, raw)
    assert str(caught.value).startswith(message)


def test_encoding_a_foreign_object_fails() -> None:
    with pytest.raises(NotImplementedError, match="no JSON form"):
        encode(object())


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "containers", "labels", "name", "requests", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_json)
def test_any_json_decodes_or_is_a_wire_error(tree: Any) -> None:
    raw = json.dumps(tree)
    try:
        pod = decode(Pod, raw)
    except WireError:
        return
    assert decode(Pod, encode(pod)) == pod


@pytest.mark.skipif(not CONFORMANCE.exists(), reason="the recorded cases are not on this machine")
def test_recorded_clusters_decode() -> None:
    seen = 0
    with gzip.open(CONFORMANCE, "rt") as lines:
        for line in islice(lines, 100):
            case = json.loads(line)
            for tree in [case["pod"], *case["pods"]]:
                pod = convert(Pod, tree)
                assert decode(Pod, json.dumps(tree)) == pod
                assert pod.metadata.name == tree["metadata"]["name"]
                assert dict(pod.metadata.labels) == tree["metadata"].get("labels", {})
                assert pod.spec.node_name == tree["spec"].get("nodeName", "")
                requests = [
                    container["resources"].get("requests", {})
                    for container in tree["spec"]["containers"]
                    if "resources" in container
                ]
                assert [
                    dict(container.resources.requests)
                    for container, raw in zip(pod.spec.containers, tree["spec"]["containers"], strict=True)
                    if "resources" in raw
                ] == requests
                back = to_builtins(pod)
                for key in (
                    "affinity",
                    "tolerations",
                    "topologySpreadConstraints",
                    "nodeSelector",
                    "schedulingGates",
                ):
                    assert back["spec"].get(key) == (tree["spec"].get(key) or None)
                seen += 1
            for tree in case["nodes"]:
                node = convert(Node, tree)
                assert dict(node.status.allocatable) == tree["status"]["allocatable"]
                assert to_builtins(node)["metadata"]["labels"] == tree["metadata"]["labels"]
            for tree in case["namespaces"]:
                assert convert(Namespace, tree).metadata.name == tree["metadata"]["name"]
    assert seen > 100
