"""Every pod that kube-scheduler rejected in the corpus: explained, each node gets the recorded verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuberth.config import load
from kuberth.explaining import Question, explain
from kuberth.explaining.explanation import to_tree
from tests.conformance.cases import CORPUS, Case, decoded, lines_by_family
from tests.conformance.replay import object_of, objects_of

KINDS = ("schedule", "preempt")


class _Answer(msgspec.Struct):
    feasible: list[str] | None = None


class _Case(msgspec.Struct):
    expect: _Answer


def rejected(kind: str) -> dict[str, list[bytes]]:
    """The cases without a feasible node, by family."""
    return {
        name: found
        for name, lines in lines_by_family(CORPUS / f"{kind}.jsonl.gz").items()
        if (found := [line for line in lines if not msgspec.json.decode(line, type=_Case).expect.feasible])
    }


FAMILIES = {name: lines for kind in KINDS for name, lines in rejected(kind).items()}


def actual_and_expected(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """The explanation of a case, and what it says of every node it looked at, in the corpus' words."""
    config = load(case["config"]) if case.get("config") else None
    tree = to_tree(explain(Question(object_of("Pod", case["pod"]), objects_of(case), config=config)))
    by_node: dict[str, Any] = {}
    for group in tree.get("rejected", ()):
        status = {"plugin": group["plugin"], "code": group["code"], "reasons": sorted(group["reasons"])}
        assert group["count"] == len(group["nodes"])
        for node in group["nodes"]:
            assert node not in by_node
            by_node[node] = {key: value for key, value in status.items() if value}
    return tree, by_node


def test_the_corpus_has_rejected_pods_of_both_kinds() -> None:
    counts = {kind: sum(map(len, rejected(kind).values())) for kind in KINDS}
    assert counts["schedule"] > 300
    assert counts["preempt"] > 300


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    for case in map(decoded, FAMILIES[name]):
        expected = case["expect"]
        tree, by_node = actual_and_expected(case)
        nodes = {node["metadata"]["name"] for node in case.get("nodes") or ()}
        assert tree["verdict"] in ("rejected", "gated"), case["id"]
        if "preFilter" in expected:
            assert by_node == dict.fromkeys(nodes, expected["preFilter"]), case["id"]
        elif "preFilterNodes" in expected:
            considered = set(expected["preFilterNodes"])
            looked_at = {node: by_node[node] for node in by_node if node in considered}
            assert looked_at == expected.get("filter", {}), case["id"]
            assert by_node.keys() == nodes, case["id"]
        else:
            assert by_node == expected.get("filter", {}), case["id"]
        story = tree.get("preemption", {})
        assert story.get("nominatedNode", "") == expected.get("nominatedNode", ""), case["id"]
        assert story.get("victims", []) == expected.get("victims", story.get("victims", [])), case["id"]
