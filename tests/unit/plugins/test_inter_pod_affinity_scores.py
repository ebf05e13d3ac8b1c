"""Expected scores are worked out by hand: weights summed per domain, then (score - lowest) * 100 / span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from kuberth.api.core import Pod
from kuberth.evaluation import Evaluator
from kuberth.plugins.inter_pod_affinity.scoring import scaled
from kuberth.testing.factories import make_namespace, make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "InterPodAffinity"
HOST = "kubernetes.io/hostname"
WEB: Mapping[str, str] = {"app": "web"}
DB: Mapping[str, str] = {"app": "db"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(labels: Mapping[str, str] = WEB, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **more}


def weighted(weight: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": term(*args, **kwargs)}


def likes(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {PREFERRED: list(terms)}}


def dislikes(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {PREFERRED: list(terms)}}


def needs(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: list(terms)}}


def cluster(*pods: Pod, args: Mapping[str, Any] | None = None) -> Evaluator:
    """Zone a with a1 and a2, zone b with b1, and x without a zone."""
    nodes = [make_node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1")]
    namespaces = [make_namespace("default"), make_namespace("team", labels={"env": "prod"})]
    return evaluator(PLUGIN, *nodes, make_node("x"), *namespaces, *pods, args=args)


def placed(node: str, labels: Mapping[str, str] = WEB, **pod: Any) -> Pod:
    return make_pod(f"{labels.get('app')}-{node}", node=node, labels=labels, **pod)


def by_name(a1: int, a2: int, b1: int, x: int) -> dict[str, int]:
    return {"a1": a1, "a2": a2, "b1": b1, "x": x}


@pytest.mark.parametrize(
    ("pods", "affinity", "expected"),
    [
        pytest.param([placed("a1")], likes(weighted(5)), by_name(100, 100, 0, 0), id="liked zone"),
        pytest.param([placed("a1")], likes(weighted(5, key=HOST)), by_name(100, 0, 0, 0), id="liked host"),
        # a: -5, b and x: 0.
        pytest.param([placed("a1")], dislikes(weighted(5)), by_name(0, 0, 100, 100), id="disliked zone"),
        # a1: 10, a2: 10, b1: 5: counts multiply the weight.
        pytest.param(
            [placed("a1"), placed("a2"), placed("b1")],
            likes(weighted(5)),
            by_name(100, 100, 50, 0),
            id="counts",
        ),
        # a1: 3+7, a2: 3, b1: 0, x: 0.
        pytest.param(
            [placed("a1")],
            likes(weighted(3), weighted(7, key=HOST)),
            by_name(100, 30, 0, 0),
            id="terms add up over topologies",
        ),
        # a: 6-2=4, b: -2, x: 0; span 6: 100, 100, 0, 33.
        pytest.param(
            [placed("a1"), placed("a1", DB), placed("b1", DB)],
            {**likes(weighted(6)), **dislikes(weighted(2, DB))},
            by_name(100, 100, 0, 33),
            id="likes and dislikes",
        ),
        # Equal everywhere with the terms cancelling out: scored, and nothing gained.
        pytest.param(
            [placed("a1")],
            {**likes(weighted(4)), **dislikes(weighted(4))},
            by_name(0, 0, 0, 0),
            id="terms that cancel each other out",
        ),
        pytest.param([placed("x")], likes(weighted(4)), None, id="no pod in any domain"),
        pytest.param([placed("a1", DB)], likes(weighted(4)), None, id="no such pod"),
        pytest.param([placed("a1")], None, None, id="no preference on either side"),
        pytest.param(
            [placed("a1", DB, affinity=likes(weighted(4)))],
            None,
            by_name(100, 100, 0, 0),
            id="a pod likes it",
        ),
        pytest.param(
            [placed("a1", DB, affinity=dislikes(weighted(4)))],
            None,
            by_name(0, 0, 100, 100),
            id="a pod dislikes it",
        ),
        pytest.param(
            [placed("a1", DB, affinity=likes(weighted(4, DB)))], None, None, id="a pod likes someone else"
        ),
        pytest.param(
            [placed("b1", DB, affinity=needs(term()))], None, by_name(0, 0, 100, 0), id="a pod needs it"
        ),
        # a: its own 2 for the web pod, b: 1 because the db pod there needs it; x: 0.
        pytest.param(
            [placed("a1"), placed("b1", DB, affinity=needs(term()))],
            likes(weighted(2)),
            by_name(100, 100, 50, 0),
            id="both sides add up",
        ),
        pytest.param(
            [placed("b1", DB, affinity={"podAntiAffinity": {REQUIRED: [term({"x": "y"})]}})],
            None,
            None,
            id="required anti-affinity gives no score",
        ),
    ],
)
def test_preferences(
    pods: Sequence[Pod], affinity: dict[str, Any] | None, expected: Mapping[str, int] | None
) -> None:
    judge = cluster(*pods)
    pod = make_pod("in", labels=WEB, affinity=affinity)
    assert judge.evaluate(pod).scores.get(PLUGIN) == expected
    assert_views_agree(judge, PLUGIN, pod)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        # b1 gains the weight because the pod there needs the incoming one; a gains 10 by its own liking.
        pytest.param(0, by_name(100, 100, 0, 0), id="not at all"),
        pytest.param(1, by_name(100, 100, 10, 0), id="the default"),
        pytest.param(20, by_name(50, 50, 100, 0), id="more than its own preference"),
    ],
)
def test_weight_of_required_affinity(weight: int, expected: Mapping[str, int]) -> None:
    pods = [placed("a1"), placed("b1", DB, affinity=needs(term()))]
    judge = cluster(*pods, args={"hardPodAffinityWeight": weight})
    pod = make_pod("in", labels=WEB, affinity=likes(weighted(10)))
    assert judge.evaluate(pod).scores[PLUGIN] == expected


def test_without_weight_required_affinity_alone_is_skipped() -> None:
    judge = cluster(placed("b1", DB, affinity=needs(term())), args={"hardPodAffinityWeight": 0})
    assert PLUGIN not in judge.evaluate(make_pod("in", labels=WEB)).scores


def test_preferences_of_placed_pods_can_be_ignored() -> None:
    pods = [placed("a1"), placed("b1", DB, affinity=likes(weighted(10)))]
    judge = cluster(*pods, args={"ignorePreferredTermsOfExistingPods": True})
    assert PLUGIN not in judge.evaluate(make_pod("in", labels=WEB)).scores
    # With preferences of its own the pod is scored, and then by those of placed pods, too, as upstream.
    pod = make_pod("in", labels=WEB, affinity=likes(weighted(5)))
    assert judge.evaluate(pod).scores[PLUGIN] == by_name(50, 50, 100, 0)


def test_namespaces_are_selected() -> None:
    judge = cluster(placed("a1", namespace="team"), placed("b1"))
    selector = {"matchLabels": {"env": "prod"}}
    pod = make_pod("in", labels=WEB, affinity=likes(weighted(5, namespaceSelector=selector)))
    assert judge.evaluate(pod).scores[PLUGIN] == by_name(100, 100, 0, 0)
    # As upstream: a selector that accepts the absence of a label accepts every namespace.
    absent = {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}
    pod = make_pod("in", labels=WEB, affinity=likes(weighted(5, namespaceSelector=absent)))
    assert judge.evaluate(pod).scores[PLUGIN] == by_name(100, 100, 100, 0)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([7, 7], [0, 0], id="equal"),
        pytest.param([-3, 0, 6], [0, 33, 100], id="negative"),
        # In floating point 100 * (29 / 100) is just below 29 and is cut off, as upstream.
        pytest.param([0, 29, 100], [0, 28, 100], id="cut off, not rounded"),
    ],
)
def test_scaling(raw: list[int], expected: list[int]) -> None:
    assert scaled(np.array(raw, np.int64), highest=100).tolist() == expected
