from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from kuberth.api.core import Node, Pod
from kuberth.api.selectors import compile_label_selector
from kuberth.config.plugin_args import PodTopologySpreadArgs
from kuberth.framework.cluster_events import Action, Hint, Resource
from kuberth.informers.store import Stores
from kuberth.plugins.pod_topology_spread.constraints import ConstraintReader
from kuberth.plugins.pod_topology_spread.hints import SpreadHints
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import evaluator, hint

PLUGIN = "PodTopologySpread"
COMPILE = "kuberth.plugins.pod_topology_spread.constraints.compile_label_selector"
WEB: Mapping[str, str] = {"app": "web"}
DB: Mapping[str, str] = {"app": "db"}
QUEUE, SKIP = Hint.QUEUE, Hint.SKIP


def spread(key: str = "zone", **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(WEB)},
        **more,
    }


def waiting(*constraints: dict[str, Any], **pod: Any) -> Pod:
    return make_pod("waiting", uid="w", labels=WEB, topologySpreadConstraints=list(constraints), **pod)


def other(labels: Mapping[str, str] = WEB, *, node: str = "n", **pod: Any) -> Pod:
    return make_pod("other", uid="o", labels=labels, node=node, **pod)


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, other(), QUEUE, id="a matching pod comes"),
        pytest.param(Action.ADD, None, other(DB), SKIP, id="another pod comes"),
        pytest.param(Action.ADD, None, other(namespace="x"), SKIP, id="in another namespace"),
        pytest.param(Action.ADD, None, other(node=""), SKIP, id="one without a node"),
        pytest.param(
            Action.ADD, None, other(node="", status={"nominatedNodeName": "n"}), QUEUE, id="a nominated one"
        ),
        pytest.param(Action.DELETE, other(), None, QUEUE, id="a matching pod goes"),
        pytest.param(Action.DELETE, other(DB), None, SKIP, id="another pod goes"),
        pytest.param(Action.UPDATE_POD_LABEL, other(DB), other(), QUEUE, id="a pod begins to match"),
        pytest.param(Action.UPDATE_POD_LABEL, other(), other(DB), QUEUE, id="a pod no longer matches"),
        pytest.param(
            Action.UPDATE_POD_LABEL, other(), other({**WEB, "x": "1"}), SKIP, id="a pod matches as before"
        ),
        pytest.param(Action.UPDATE_POD_SCALE_DOWN, other(), other(), None, id="not registered"),
    ],
)
def test_after_a_pod_changed(action: Action, old: Pod | None, new: Pod | None, expected: Hint | None) -> None:
    assert hint(evaluator(PLUGIN), waiting(spread()), (Resource.POD, action), old, new) == expected


TOLERATIONS = [{"key": "k", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("constraint", "change", "expected"),
    [
        pytest.param(spread(nodeTaintsPolicy="Honor"), {"tolerations": TOLERATIONS}, QUEUE, id="honored"),
        pytest.param(spread(), {"tolerations": TOLERATIONS}, SKIP, id="ignored"),
        pytest.param(spread(nodeTaintsPolicy="Honor"), {}, SKIP, id="no new toleration"),
    ],
)
def test_after_the_pod_got_a_toleration(
    constraint: dict[str, Any], change: dict[str, Any], expected: Hint
) -> None:
    event = (Resource.POD, Action.UPDATE_POD_TOLERATION)
    old, new = waiting(constraint), waiting(constraint, **change)
    assert hint(evaluator(PLUGIN), old, event, old, new) == expected


def test_after_the_pods_own_labels_changed() -> None:
    event = (Resource.POD, Action.UPDATE_POD_LABEL)
    old = waiting(spread())
    new = make_pod("waiting", uid="w", labels=DB)
    assert hint(evaluator(PLUGIN), old, event, old, new) == QUEUE


def node(taints: Sequence[Mapping[str, str]] = (), **labels: str) -> Node:
    return make_node("n", labels=labels, taints=taints)


TAINT = [{"key": "k", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, node(zone="a", rack="r"), QUEUE, id="a node with all keys comes"),
        pytest.param(Action.ADD, None, node(zone="a"), SKIP, id="a node that lacks a key comes"),
        pytest.param(Action.DELETE, node(zone="a", rack="r"), None, QUEUE, id="a node with all keys goes"),
        pytest.param(Action.DELETE, node(rack="r"), None, SKIP, id="a node that lacks a key goes"),
        pytest.param(
            Action.UPDATE_NODE_LABEL, node(zone="a"), node(zone="a", rack="r"), QUEUE, id="it gets the key"
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL, node(zone="a", rack="r"), node(zone="a"), QUEUE, id="it loses a key"
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL,
            node(zone="a", rack="r"),
            node(zone="b", rack="r"),
            QUEUE,
            id="it moves to another domain",
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL,
            node(zone="a", rack="r"),
            node(zone="a", rack="r", x="1"),
            SKIP,
            id="an unrelated label",
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL, node(zone="a"), node(zone="b"), SKIP, id="it counts neither way"
        ),
        pytest.param(
            Action.UPDATE_NODE_TAINT,
            node(TAINT, zone="a", rack="r"),
            node(zone="a", rack="r"),
            QUEUE,
            id="taints change",
        ),
        pytest.param(
            Action.UPDATE_NODE_TAINT, node(TAINT, zone="a"), node(zone="a"), SKIP, id="taints of a node aside"
        ),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node(), node(), None, id="not registered"),
    ],
)
def test_after_a_node_changed(
    action: Action, old: Node | None, new: Node | None, expected: Hint | None
) -> None:
    pod = waiting(spread("zone"), spread("rack"))
    assert hint(evaluator(PLUGIN), pod, (Resource.NODE, action), old, new) == expected


def test_what_a_hint_cannot_read_queues_the_pod() -> None:
    judge = evaluator(PLUGIN)
    broken = spread(labelSelector={"matchExpressions": [{"key": "app", "operator": "Like"}]})
    assert hint(judge, waiting(broken), (Resource.POD, Action.ADD), None, other()) == QUEUE
    assert hint(judge, waiting(spread()), (Resource.POD, Action.ADD), None, node()) == QUEUE


def test_many_constraints_are_compiled_once_for_all_attempts_and_hints() -> None:
    many = [spread(f"key-{number}", labelSelector={"matchLabels": {"app": "db"}}) for number in range(50)]
    pod = waiting(*many, spread("zone", matchLabelKeys=["app"]))
    reader = ConstraintReader(
        PodTopologySpreadArgs(), Stores(), inclusion_policies=True, match_label_keys=True
    )
    hints = SpreadHints(reader)
    with patch(COMPILE, side_effect=compile_label_selector) as compiling:
        assert len(reader.hard(pod)) == 51
        assert compiling.call_count == 51
        newer = make_pod("waiting", uid="w", labels=WEB, annotations={"a": "b"})
        newer = replace(newer, spec=pod.spec)
        assert reader.hard(newer) == reader.hard(pod)
        for _ in range(3):
            assert not hints.pod_change_helps(pod, None, other({"app": "x"}))
        assert compiling.call_count == 51
        relabelled = replace(newer, metadata=replace(newer.metadata, labels=DB))
        assert reader.hard(relabelled)[-1].selector != reader.hard(pod)[-1].selector, "matchLabelKeys"
        assert not reader.soft(pod)


def test_what_is_remembered_of_constraints_is_bounded() -> None:
    reader = ConstraintReader(
        PodTopologySpreadArgs(), Stores(), inclusion_policies=True, match_label_keys=True
    )
    values = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b", "c"]}]}
    pods = [waiting(*[spread(f"key-{n}", labelSelector=values) for n in range(20)]) for _ in range(3)]
    with patch("kuberth.api.selectors.compiled_cache.MAX_LENGTH", 200):
        for pod in pods:
            reader.hard(pod)
        with patch(COMPILE, side_effect=compile_label_selector) as compiling:
            for pod in reversed(pods):
                assert len(reader.hard(pod)) == 20
            assert compiling.call_count == 20, (
                "two of them are remembered: 20 constraints, requirements and 60 values each"
            )
