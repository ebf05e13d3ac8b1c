from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.framework.cluster_events import Action, Hint, Resource
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import evaluator, hint

PLUGIN = "InterPodAffinity"
WEB: Mapping[str, str] = {"app": "web"}
DB: Mapping[str, str] = {"app": "db"}
QUEUE, SKIP = Hint.QUEUE, Hint.SKIP


def term(labels: Mapping[str, str] = WEB, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def waiting(affinity: dict[str, Any] | None, **pod: Any) -> Pod:
    return make_pod("waiting", uid="w", affinity=affinity, **pod)


def other(labels: Mapping[str, str] = WEB, *, node: str = "n", **pod: Any) -> Pod:
    return make_pod("other", uid="o", labels=labels, node=node, **pod)


BOTH = {**near(term()), **far(term(DB))}
ANYWHERE: dict[str, Any] = {"namespaceSelector": {}}
PROD: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}


@pytest.mark.parametrize(
    ("affinity", "action", "old", "new", "expected"),
    [
        pytest.param(BOTH, Action.ADD, None, other(), QUEUE, id="a wanted pod comes"),
        pytest.param(BOTH, Action.ADD, None, other(DB), SKIP, id="a hated pod comes"),
        pytest.param(BOTH, Action.ADD, None, other(node=""), SKIP, id="a pod without a node comes"),
        pytest.param(
            BOTH,
            Action.ADD,
            None,
            other(node="", status={"nominatedNodeName": "n"}),
            QUEUE,
            id="a nominated pod comes",
        ),
        pytest.param(
            near(term(), term({"x": "1"})), Action.ADD, None, other(), SKIP, id="it matches one of two terms"
        ),
        pytest.param(BOTH, Action.ADD, None, other(namespace="x"), SKIP, id="in another namespace"),
        pytest.param(near(term(**ANYWHERE)), Action.ADD, None, other(namespace="x"), QUEUE, id="in any"),
        pytest.param(near(term(**PROD)), Action.ADD, None, other(namespace="x"), SKIP, id="in one selected"),
        pytest.param(BOTH, Action.DELETE, other(DB), None, QUEUE, id="a hated pod goes"),
        pytest.param(BOTH, Action.DELETE, other(), None, SKIP, id="a wanted pod goes"),
        pytest.param(
            None, Action.DELETE, other(DB, affinity=far(term({}))), None, QUEUE, id="one that hated it goes"
        ),
        pytest.param(
            None, Action.DELETE, other(affinity=far(term({"x": "1"}))), None, SKIP, id="one that hated others"
        ),
        pytest.param(BOTH, Action.UPDATE_POD_LABEL, other(DB), other(), QUEUE, id="a pod becomes wanted"),
        pytest.param(BOTH, Action.UPDATE_POD_LABEL, other(DB), other({}), QUEUE, id="hated no more"),
        pytest.param(BOTH, Action.UPDATE_POD_LABEL, other(), other({}), SKIP, id="wanted no more"),
        pytest.param(BOTH, Action.UPDATE_POD_LABEL, other({}), other(DB), SKIP, id="becomes hated"),
        pytest.param(
            None,
            Action.UPDATE_POD_LABEL,
            waiting(None),
            waiting(None, labels=WEB),
            QUEUE,
            id="its own labels",
        ),
        pytest.param(BOTH, Action.UPDATE_POD_TOLERATION, other(), other(), None, id="not registered"),
    ],
)
def test_after_a_pod_changed(
    affinity: dict[str, Any] | None, action: Action, old: Pod | None, new: Pod | None, expected: Hint | None
) -> None:
    assert hint(evaluator(PLUGIN), waiting(affinity), (Resource.POD, action), old, new) == expected


def node(**labels: str) -> Node:
    return make_node("n", labels=labels)


@pytest.mark.parametrize(
    ("affinity", "old", "new", "expected"),
    [
        pytest.param(near(term()), None, node(zone="a"), QUEUE, id="affinity: a node with the key comes"),
        pytest.param(near(term()), None, node(), SKIP, id="affinity: a node without the key comes"),
        pytest.param(near(term()), node(), node(zone="a"), QUEUE, id="affinity: it gets the key"),
        pytest.param(near(term()), node(zone="a"), node(), SKIP, id="affinity: it loses the key"),
        pytest.param(near(term()), node(zone="a"), node(zone="b"), QUEUE, id="affinity: it moves"),
        pytest.param(near(term()), node(zone="a"), node(zone="a", x="1"), SKIP, id="affinity: it stays"),
        pytest.param(far(term()), None, node(), QUEUE, id="anti-affinity: any node comes"),
        pytest.param(far(term()), node(), node(zone="a"), SKIP, id="anti-affinity: it gets the key"),
        pytest.param(far(term()), node(zone="a"), node(), QUEUE, id="anti-affinity: it loses the key"),
        pytest.param(far(term()), node(zone="a"), node(zone="b"), QUEUE, id="anti-affinity: it moves"),
        pytest.param(far(term()), node(zone=""), node(zone=""), SKIP, id="anti-affinity: it stays"),
        pytest.param(None, None, node(zone="a"), SKIP, id="no terms of its own"),
    ],
)
def test_after_a_node_changed(
    affinity: dict[str, Any] | None, old: Node | None, new: Node, expected: Hint
) -> None:
    action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
    assert hint(evaluator(PLUGIN), waiting(affinity), (Resource.NODE, action), old, new) == expected


@pytest.mark.parametrize("action", [Action.DELETE, Action.UPDATE_NODE_TAINT, Action.UPDATE_NODE_ALLOCATABLE])
def test_other_changes_of_nodes_are_of_no_interest(action: Action) -> None:
    assert hint(evaluator(PLUGIN), waiting(BOTH), (Resource.NODE, action), node(), node()) is None


def test_what_a_hint_cannot_read_queues_the_pod() -> None:
    judge = evaluator(PLUGIN)
    broken = near(term(namespaceSelector={"matchExpressions": [{"key": "app", "operator": "Like"}]}))
    added = (Resource.POD, Action.ADD)
    assert hint(judge, waiting(broken), added, None, other()) == QUEUE
    assert hint(judge, waiting(BOTH), added, None, node()) == QUEUE
    assert hint(judge, waiting(BOTH), added, None, None) == QUEUE
    assert hint(judge, waiting(BOTH), (Resource.NODE, Action.ADD), None, None) == QUEUE
