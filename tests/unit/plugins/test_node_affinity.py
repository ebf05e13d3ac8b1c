from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.errors import ConfigError, KuberthError
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "NodeAffinity"
Tree = dict[str, Any]

NODES = (
    make_node("a", labels={"disk": "ssd", "gen": "5"}),
    make_node("b", labels={"disk": "hdd", "gen": "10"}),
    make_node("c", labels={"disk": "", "gen": "many"}),
    make_node("d"),
)
ALL = ("a", "b", "c", "d")


def asks(key: str, operator: str, *values: str) -> Tree:
    return {"key": key, "operator": operator, "values": list(values)}


def labels(*requirements: Tree) -> Tree:
    return {"matchExpressions": list(requirements)}


def names(operator: str, *values: str) -> Tree:
    return {"matchFields": [asks("metadata.name", operator, *values)]}


def pod_with(
    *required: Tree, preferred: Mapping[int, Tree] | None = None, selector: Mapping[str, str] | None = None
) -> Pod:
    affinity: Tree = {}
    if required:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(required)}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": term} for weight, term in preferred.items()
        ]
    return make_pod("p", affinity={"nodeAffinity": affinity}, nodeSelector=dict(selector or {}))


@pytest.mark.parametrize(
    ("pod", "feasible"),
    [
        pytest.param(pod_with(), ALL, id="asks nothing"),
        pytest.param(pod_with(selector={"disk": "ssd"}), ("a",), id="nodeSelector"),
        pytest.param(pod_with(selector={"disk": ""}), ("c",), id="nodeSelector with an empty value"),
        pytest.param(pod_with(labels(asks("disk", "In", "ssd", "hdd"))), ("a", "b"), id="In"),
        pytest.param(
            pod_with(labels(asks("disk", "NotIn", "ssd"))), ("b", "c", "d"), id="NotIn takes a missing label"
        ),
        pytest.param(pod_with(labels(asks("disk", "Exists"))), ("a", "b", "c"), id="Exists"),
        pytest.param(pod_with(labels(asks("disk", "DoesNotExist"))), ("d",), id="DoesNotExist"),
        pytest.param(pod_with(labels(asks("gen", "Gt", "5"))), ("b",), id="Gt compares numbers"),
        pytest.param(pod_with(labels(asks("gen", "Lt", "10"))), ("a",), id="Lt compares numbers"),
        pytest.param(
            pod_with(labels(asks("disk", "In", "ssd")), labels(asks("gen", "In", "10"))),
            ("a", "b"),
            id="any term suffices",
        ),
        pytest.param(
            pod_with(labels(asks("disk", "Exists"), asks("gen", "In", "10"))), ("b",), id="all of a term"
        ),
        pytest.param(
            pod_with(labels(asks("gen", "Exists")), selector={"disk": "hdd"}), ("b",), id="with nodeSelector"
        ),
        pytest.param(pod_with(names("NotIn", "b")), ("a", "c", "d"), id="name NotIn"),
        pytest.param(
            pod_with({"matchFields": [asks("metadata.uid", "NotIn", "x")]}), ALL, id="other fields are empty"
        ),
        pytest.param(pod_with({}), (), id="a term that asks nothing matches nothing"),
        pytest.param(pod_with({}, labels(asks("disk", "In", "ssd"))), ("a",), id="beside another term"),
        pytest.param(pod_with(labels(asks("disk", "Like", "s"))), (), id="unknown operator"),
        pytest.param(pod_with(labels(asks("gen", "Gt", "few"))), (), id="Gt without a number"),
        pytest.param(
            pod_with(labels(asks("disk", "Like", "s")), labels(asks("disk", "In", "ssd"))),
            ("a",),
            id="a term that cannot be read does not spoil the others",
        ),
    ],
)
def test_required_affinity(pod: Pod, feasible: tuple[str, ...]) -> None:
    answer = evaluator(PLUGIN, *NODES).evaluate(pod)
    assert (answer.feasible, answer.considered) == (feasible, None)
    for status in answer.rejections.values():
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert status.reasons == ("node(s) didn't match Pod's node affinity/selector",)


@pytest.mark.parametrize(
    ("pod", "considered", "feasible"),
    [
        pytest.param(pod_with(names("In", "b")), ("b",), ("b",), id="one node"),
        pytest.param(pod_with(names("In", "b"), names("In", "d")), ("b", "d"), ("b", "d"), id="two terms"),
        pytest.param(pod_with(names("In", "gone")), ("gone",), (), id="a node that does not exist"),
        pytest.param(
            pod_with(names("In", "b") | labels(asks("disk", "In", "ssd"))), ("b",), (), id="and its labels"
        ),
        pytest.param(pod_with(names("In", "a", "b")), ("a", "b"), (), id="two values cannot be read"),
    ],
)
def test_named_nodes_narrow_the_search(
    pod: Pod, considered: tuple[str, ...], feasible: tuple[str, ...]
) -> None:
    answer = evaluator(PLUGIN, *NODES).evaluate(pod)
    assert (answer.considered, answer.feasible) == (considered, feasible)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(
            pod_with(names("In", "b"), labels(asks("disk", "In", "ssd"))), id="a term without names"
        ),
        pytest.param(pod_with(names("NotIn", "b")), id="only excludes"),
        pytest.param(pod_with(names("In", "b"), {}), id="an empty term"),
    ],
)
def test_the_search_is_not_narrowed_unless_every_term_names_nodes(pod: Pod) -> None:
    assert evaluator(PLUGIN, *NODES).evaluate(pod).considered is None


def test_terms_that_name_no_common_node_end_the_search() -> None:
    fields = [asks("metadata.name", "In", "a"), asks("metadata.name", "In", "b")]
    status = evaluator(PLUGIN, *NODES).evaluate(pod_with({"matchFields": fields})).pre_filter
    assert status is not None
    assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert status.reasons == ("pod affinity terms conflict",)


@pytest.mark.parametrize(
    ("preferred", "scores"),
    [
        pytest.param(
            {50: labels(asks("disk", "In", "ssd")), 25: labels(asks("gen", "Exists"))},
            {"a": 100, "b": 33, "c": 33, "d": 0},
            id="weights add up",
        ),
        pytest.param({7: names("In", "d")}, {"a": 0, "b": 0, "c": 0, "d": 100}, id="by name"),
        pytest.param({7: {}}, dict.fromkeys(ALL, 0), id="an empty preference matches nothing"),
        pytest.param({0: labels(asks("x", "Like"))}, dict.fromkeys(ALL, 0), id="weight 0 is not even read"),
        pytest.param({9: labels(asks("gen", "Gt", "99"))}, dict.fromkeys(ALL, 0), id="no node preferred"),
    ],
)
def test_preferred_terms_score(preferred: dict[int, Tree], scores: dict[str, int]) -> None:
    judge = evaluator(PLUGIN, *NODES)
    weight = judge.runner.profile.score_weights[PLUGIN]
    given = judge.evaluate(pod_with(preferred=preferred)).scores[PLUGIN]
    assert given == {name: score * weight for name, score in scores.items()}


def test_without_preferences_the_score_is_skipped() -> None:
    assert PLUGIN not in evaluator(PLUGIN, *NODES).evaluate(pod_with(selector={"disk": "ssd"})).scores


@pytest.mark.parametrize("disabled_at", [(), ("preScore",)], ids=["PreScore", "Score"])
def test_a_preference_that_cannot_be_read_fails_the_cycle_and_says_why(disabled_at: tuple[str, ...]) -> None:
    judge = evaluator(PLUGIN, *NODES, disabled_at=disabled_at)
    with pytest.raises(KuberthError, match=r"preferred node affinity is invalid.*'Like'"):
        judge.evaluate(pod_with(preferred={5: labels(asks("disk", "Like", "s"))}))


ADDED: Tree = {
    "addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [labels(asks("disk", "Exists"))]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "preference": labels(asks("disk", "In", "hdd"))}
        ],
    }
}


def test_added_affinity_holds_for_every_pod() -> None:
    answer = evaluator(PLUGIN, *NODES, args=ADDED).evaluate(make_pod("p"))
    assert answer.feasible == ("a", "b", "c")
    assert answer.rejections["d"].reasons == ("node(s) didn't match scheduler-enforced node affinity",)
    assert answer.rejections["d"].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert [name for name, score in answer.scores[PLUGIN].items() if score] == ["b"]


def test_added_affinity_is_judged_before_the_pods_own() -> None:
    answer = evaluator(PLUGIN, *NODES, args=ADDED).evaluate(pod_with(selector={"gen": "5"}))
    assert answer.feasible == ("a",)
    assert answer.rejections["b"].reasons == ("node(s) didn't match Pod's node affinity/selector",)
    assert answer.rejections["d"].reasons == ("node(s) didn't match scheduler-enforced node affinity",)


def test_added_preferences_add_to_the_pods() -> None:
    judge = evaluator(PLUGIN, *NODES, args=ADDED)
    weight = judge.runner.profile.score_weights[PLUGIN]
    given = judge.evaluate(pod_with(preferred={1: labels(asks("disk", "Exists"))})).scores[PLUGIN]
    assert given == {"a": 25 * weight, "b": 100 * weight, "c": 25 * weight}


def test_added_affinity_that_cannot_be_read_is_a_configuration_error() -> None:
    terms = {"nodeSelectorTerms": [labels(asks("disk", "Like"))]}
    with pytest.raises(ConfigError):
        evaluator(PLUGIN, args={"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def test_filter_works_without_its_pre_filter() -> None:
    judge = evaluator(PLUGIN, *NODES, disabled_at=("preFilter",))
    answer = judge.evaluate(pod_with(names("In", "b")))
    assert (answer.feasible, answer.considered) == (("b",), None)


@pytest.mark.parametrize(
    "pod",
    [
        pod_with(labels(asks("disk", "In", "ssd")), names("NotIn", "b"), preferred={4: names("In", "a")}),
        pod_with(selector={"gen": "10"}, preferred={4: labels(asks("gen", "Lt", "9"))}),
    ],
    ids=["terms", "nodeSelector"],
)
@pytest.mark.parametrize("args", [None, ADDED], ids=["plain", "added"])
def test_all_views_say_the_same(pod: Pod, args: Tree | None) -> None:
    assert_views_agree(evaluator(PLUGIN, *NODES, args=args), PLUGIN, pod)


SSD, HDD, BARE = (
    make_node("n", labels={"disk": "ssd"}),
    make_node("n", labels={"disk": "hdd"}),
    make_node("n"),
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, SSD, Hint.QUEUE, id="a matching node is added"),
        pytest.param(None, HDD, Hint.SKIP, id="another node is added"),
        pytest.param(HDD, SSD, Hint.QUEUE, id="begins to match"),
        pytest.param(SSD, SSD, Hint.SKIP, id="matched before"),
        pytest.param(SSD, HDD, Hint.SKIP, id="ceases to match"),
    ],
)
def test_hint_after_a_node_change(old: object, new: object, expected: Hint) -> None:
    action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
    pod = pod_with(labels(asks("disk", "In", "ssd")))
    assert hint(evaluator(PLUGIN), pod, ("Node", action), old, new) is expected


def test_hint_honours_added_affinity() -> None:
    judge, event = evaluator(PLUGIN, args=ADDED), ("Node", Action.ADD)
    assert hint(judge, make_pod("p"), event, None, BARE) is Hint.SKIP
    assert hint(judge, make_pod("p"), event, None, HDD) is Hint.QUEUE


def test_hint_about_an_affinity_that_cannot_be_read_is_queue() -> None:
    pod = pod_with(labels(asks("disk", "Like")))
    assert hint(evaluator(PLUGIN), pod, ("Node", Action.ADD), None, SSD) is Hint.QUEUE


def test_other_node_updates_are_not_registered() -> None:
    event = ("Node", Action.UPDATE_NODE_TAINT)
    assert hint(evaluator(PLUGIN), make_pod("p"), event, BARE, SSD) is None
