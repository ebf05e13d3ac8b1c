"""Requests byte for byte as Go's encoder writes them, answers as its decoder reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kuberth.errors import WireError
from kuberth.extenders.messages import (
    ProposedVictims,
    binding_request,
    nodes_request,
    preemption_request,
    read_binding,
    read_filter,
    read_scores,
    read_victims,
)

POD = b'{"metadata":{"name":"p"}}'


def test_requests() -> None:
    node = b'{"metadata":{"name":"n1"}}'
    assert nodes_request(POD, nodes=None, names=["n1", "n2"]) == (
        b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["n1","n2"]}'
    )
    assert nodes_request(POD, nodes=[node], names=None) == (
        b'{"Pod":{"metadata":{"name":"p"}},'
        b'"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n1"}}]},"NodeNames":null}'
    )
    victims = {"n2": ProposedVictims(["b"], 1), "n1": ProposedVictims(["a"], 0)}
    assert preemption_request(POD, victims, whole=None) == (
        b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":null,"NodeNameToMetaVictims":{'
        b'"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":0},'
        b'"n2":{"Pods":[{"UID":"b"}],"NumPDBViolations":1}}}'
    )
    assert preemption_request(POD, {"n1": ProposedVictims(["a"], 0)}, whole={"a": b'{"spec":{}}'}) == (
        b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":{'
        b'"n1":{"Pods":[{"spec":{}}],"NumPDBViolations":0}},"NodeNameToMetaVictims":null}'
    )
    assert binding_request(name="p", namespace="d", uid="u", node_name="n") == (
        b'{"PodName":"p","PodNamespace":"d","PodUID":"u","Node":"n"}'
    )


@pytest.mark.parametrize(
    "answer, names, node_names, failed, unresolvable, error",
    [
        pytest.param({}, None, None, {}, {}, "", id="nothing"),
        pytest.param(None, None, None, {}, {}, "", id="null"),
        pytest.param({"NodeNames": []}, [], None, {}, {}, "", id="no names"),
        pytest.param({"nodenames": ["a"], "ERROR": "x"}, ["a"], None, {}, {}, "x", id="any case"),
        pytest.param({"Nodes": {"items": None}}, None, [], {}, {}, "", id="no items"),
        pytest.param(
            {"Nodes": {"items": [{"metadata": {"name": "a", "labels": {}}, "spec": {}}]}, "More": [1]},
            None,
            ["a"],
            {},
            {},
            "",
            id="nodes, and an unknown field",
        ),
        pytest.param(
            {"FailedNodes": {"a": "x", "b": None}, "FailedAndUnresolvableNodes": {"c": "y"}},
            None,
            None,
            {"a": "x", "b": ""},
            {"c": "y"},
            "",
            id="failed",
        ),
    ],
)
def test_filter(answer: Any, names: Any, node_names: Any, failed: Any, unresolvable: Any, error: str) -> None:
    assert read_filter(json.dumps(answer).encode()) == (names, node_names, failed, unresolvable, error)


def test_scores() -> None:
    assert read_scores(b'[{"Host":"a","Score":3},{"host":"b"},{"HOST":"c","score":null}]') == [
        ("a", 3),
        ("b", 0),
        ("c", 0),
    ]
    assert read_scores(b"null") == []


def test_victims_and_bindings() -> None:
    assert read_victims(
        b'{"nodeNameToMetaVictims":{"n":{"pods":[{"uid":"a"},{"UID":"b"}],"NumPDBViolations":2},"m":null}}'
    ) == {"n": ProposedVictims(["a", "b"], 2), "m": None}
    assert read_victims(b"{}") == {}
    assert (read_binding(b"{}"), read_binding(b'{"Error":"x"}')) == ("", "x")


@pytest.mark.parametrize("read", [read_filter, read_scores, read_victims, read_binding])
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"7", b'"text"', b'{"NodeNames":', b"\xff\xfe", b"[" * 100_000, b"[[]]", b"[7]"],
    ids=["empty", "HTML", "number", "text", "cut", "binary", "deep", "lists", "numbers"],
)
def test_what_cannot_be_read(read: Any, body: bytes) -> None:
    with pytest.raises(WireError):
        read(body)


@pytest.mark.parametrize(
    "read, body",
    [
        (read_filter, b'{"NodeNames":{"a":1}}'),
        (read_filter, b'{"Nodes":[]}'),
        (read_filter, b'{"FailedNodes":["a"]}'),
        (read_filter, b'{"Error":{"code":1}}'),
        (read_scores, b'{"Host":"a"}'),
        (read_scores, b'[{"Host":"a","Score":"3"}]'),
        (read_scores, b'[{"Host":"a","Score":1.5}]'),
        (read_scores, b'[{"Host":"a","Score":99999999999999999999}]'),
        (read_victims, b'{"NodeNameToMetaVictims":[]}'),
        (read_victims, b'{"NodeNameToMetaVictims":{"n":{"Pods":[7]}}}'),
        (read_victims, b'{"NodeNameToMetaVictims":{"n":7}}'),
        (read_binding, b'{"Error":7}'),
    ],
)
def test_wrong_types(read: Any, body: bytes) -> None:
    with pytest.raises(WireError):
        read(body)
