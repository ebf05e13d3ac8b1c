"""Affinity, anti-affinity and spread constraints: the pods in question are named, and remedies found."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.explanation import to_tree
from kuberth.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}


def affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def within(key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, **DB, **more}


def spread(key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **DB, **more}


def pending(**more: Any) -> Pod:
    return make_pod("p", labels={"app": "db"}, **more)


def db(name: str, node: str, **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": "db"}, **more)


def node(name: str, zone: str = "", **more: Any) -> Any:
    return make_node(name, labels={ZONE: zone} if zone else {}, **more)


def explained(pod: Pod, *objects: Any) -> Explanation:
    return explain(Question(pod, objects))


APART = affinity("podAntiAffinity", within())
DROP_APART = f"drop the pod's required anti-affinity to pods with app=db within {ZONE}"
RELAX = f"set whenUnsatisfiable of the spread of app=db over {ZONE} to ScheduleAnyway"


@pytest.mark.parametrize(
    "pod, objects, misses, proposals",
    [
        pytest.param(
            pending(affinity=APART),
            [node("n", "a"), node("m", "a"), db("q", "m")],
            [f"the absence of pods with app=db in namespace default within {ZONE}=a: default/q"],
            [DROP_APART, "delete pod default/q on node m"],
            id="anti-affinity-in-the-zone",
        ),
        pytest.param(
            pending(affinity=APART),
            [node("n", "a"), *(db(f"q{number}", "n") for number in range(5))],
            [
                f"the absence of pods with app=db in namespace default within {ZONE}=a: "
                "default/q0, default/q1, default/q2 and 2 more"
            ],
            [DROP_APART],
            id="anti-affinity-to-many",
        ),
        pytest.param(
            pending(),
            [node("n", "a"), db("q", "n", affinity=APART)],
            [
                "the absence of pods with a required anti-affinity that excludes this pod "
                f"within {ZONE}=a: default/q"
            ],
            ["delete pod default/q on node n"],
            id="anti-affinity-of-another",
        ),
        pytest.param(
            pending(topologySpreadConstraints=[spread()]),
            [node("n")],
            [f"the label {ZONE}, the topology key of a spread constraint"],
            [RELAX],
            id="spread-over-a-label-that-no-node-has",
        ),
        pytest.param(
            pending(cpu="2", topologySpreadConstraints=[spread()]),
            [node("n"), node("m", "a", cpu="1")],
            [f"the label {ZONE}, the topology key of a spread constraint"],
            [
                RELAX,
                "scale the cpu request of container main from 2 to 1",
                f"label node n with {ZONE}=a",
            ],
            id="spread-over-a-label-that-the-node-misses",
        ),
        pytest.param(
            pending(cpu="2", topologySpreadConstraints=[spread()]),
            [node("n", "a"), node("m", "b", cpu="1"), db("q", "n")],
            [f"an even spread of pods with app=db over {ZONE} (maxSkew 1)"],
            [RELAX, "scale the cpu request of container main from 2 to 1", "delete pod default/q on node n"],
            id="skew",
        ),
        pytest.param(
            pending(cpu="2", affinity=affinity("podAffinity", within())),
            [node("n"), node("m", "a", cpu="1"), db("q", "m")],
            [f"the label {ZONE}, the topology key of the pod's affinity"],
            [
                f"drop the pod's required affinity to pods with app=db within {ZONE}",
                "scale the cpu request of container main from 2 to 1",
                f"label node n with {ZONE}=a",
            ],
            id="affinity-to-a-zone",
        ),
        pytest.param(
            pending(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                            ]
                        }
                    }
                }
            ),
            [node("n")],
            ["a label with disk in (ssd)"],
            ["drop the pod's required node affinity", "label node n with disk=ssd"],
            id="node-affinity",
        ),
    ],
)
def test_what_is_in_the_way_and_what_would_help(
    pod: Pod, objects: list[Any], misses: list[str], proposals: list[str]
) -> None:
    explanation = explained(pod, *objects)
    of_n = next(near for near in explanation.near if "n" in near.nodes)
    assert list(of_n.misses) == misses
    found = [proposal.text for proposal in explanation.proposals]
    assert [text for text in found if not text.startswith("add a node")][: len(proposals)] == proposals


def test_of_several_terms_only_the_unmet_ones_are_dropped() -> None:
    terms = within("kubernetes.io/hostname"), within(labelSelector={"matchLabels": {"app": "web"}})
    pod = pending(affinity=affinity("podAntiAffinity", *terms))
    found = explained(pod, node("n", "a"), make_pod("q", node="n", labels={"app": "web"})).proposals
    assert found[0].text == f"drop the pod's required anti-affinity to pods with app=web within {ZONE}"


def test_the_json_of_dropped_constraints() -> None:
    tree = to_tree(explained(pending(affinity=APART), node("n", "a"), db("q", "n")))
    assert tree["proposals"][0]["changes"] == [
        {"kind": "DropAffinity", "affinity": "podAntiAffinity", "term": f"app=db within {ZONE}"}
    ]
