from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import Code
from kuberth.testing.factories import make_namespace, make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "InterPodAffinity"
HOST = "kubernetes.io/hostname"
WEB: Mapping[str, str] = {"app": "web"}
DB: Mapping[str, str] = {"app": "db"}
NOT_NEAR = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
NOT_FAR = (Code.UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",))
NOT_BORNE = (Code.UNSCHEDULABLE, ("node(s) didn't satisfy existing pods anti-affinity rules",))
EVERY = ("a1", "a2", "b1", "x")


def term(labels: Mapping[str, str] | None = WEB, key: str = "zone", **more: Any) -> dict[str, Any]:
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {**selector, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def cluster(*pods: Pod) -> Evaluator:
    """Zone a with a1 and a2, zone b with b1, and x without a zone."""
    nodes = [make_node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1")]
    namespaces = [make_namespace("default"), make_namespace("team", labels={"env": "prod"})]
    return evaluator(PLUGIN, *nodes, make_node("x"), *namespaces, *pods)


def placed(node: str, labels: Mapping[str, str] = WEB, **pod: Any) -> Pod:
    return make_pod(f"{labels.get('app')}-{node}", node=node, labels=labels, **pod)


def verdicts(judge: Evaluator, pod: Pod) -> dict[str, Any]:
    answer = judge.evaluate(pod, score=False)
    assert answer.pre_filter is None
    return {name: (status.code, status.reasons) for name, status in answer.rejections.items()}


def on(nodes: Sequence[str], status: Any) -> dict[str, Any]:
    return dict.fromkeys(nodes, status)


@pytest.mark.parametrize(
    ("pods", "affinity", "rejected"),
    [
        pytest.param([placed("a1")], near(term()), on(("b1", "x"), NOT_NEAR), id="near: the zone"),
        pytest.param(
            [placed("a1")], near(term(key=HOST)), on(("a2", "b1", "x"), NOT_NEAR), id="near: the host"
        ),
        pytest.param([], near(term()), on(EVERY, NOT_NEAR), id="near: no such pod"),
        pytest.param(
            [placed("x")], near(term()), on(EVERY, NOT_NEAR), id="near: the only one is in no domain"
        ),
        pytest.param(
            [placed("a1"), placed("b1", DB)],
            near(term(), term(DB)),
            on(EVERY, NOT_NEAR),
            id="near: one pod has to match all terms",
        ),
        pytest.param(
            [placed("a1", {**WEB, "x": "1"})],
            near(term(), term({"x": "1"}, key=HOST)),
            on(("a2", "b1", "x"), NOT_NEAR),
            id="near: every topology is to be shared",
        ),
        pytest.param([placed("a1")], near(term(None)), on(EVERY, NOT_NEAR), id="near: no selector, no pod"),
        pytest.param([placed("a1")], near(term({})), on(("b1", "x"), NOT_NEAR), id="near: any pod"),
        pytest.param([placed("a1")], far(term()), on(("a1", "a2"), NOT_FAR), id="far: the zone"),
        pytest.param([placed("a1")], far(term(key=HOST)), on(("a1",), NOT_FAR), id="far: the host"),
        pytest.param([placed("x")], far(term()), {}, id="far: without the key there is no domain to share"),
        pytest.param(
            [placed("a1"), placed("b1", DB)],
            far(term(), term(DB)),
            on(("a1", "a2", "b1"), NOT_FAR),
            id="far: any term",
        ),
        pytest.param(
            [placed("a1"), placed("b1", DB)],
            {**near(term()), **far(term(DB))},
            on(("b1", "x"), NOT_NEAR),
            id="the reason of affinity comes first",
        ),
        pytest.param(
            [placed("a1"), placed("a2", DB)],
            {**near(term()), **far(term(DB, key=HOST))},
            {"a2": NOT_FAR, **on(("b1", "x"), NOT_NEAR)},
            id="near the one, far from the other",
        ),
    ],
)
def test_terms_of_the_incoming_pod(
    pods: Sequence[Pod], affinity: dict[str, Any], rejected: Mapping[str, Any]
) -> None:
    judge = cluster(*pods)
    pod = make_pod("in", labels={"app": "other"}, affinity=affinity)
    assert verdicts(judge, pod) == rejected
    assert_views_agree(judge, PLUGIN, pod)


def test_terminating_pods_still_count() -> None:
    going = placed("a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert verdicts(cluster(going), make_pod("in", affinity=far(term()))) == on(("a1", "a2"), NOT_FAR)


@pytest.mark.parametrize(
    ("pods", "terms", "labels", "rejected"),
    [
        pytest.param([], [term()], WEB, on(("x",), NOT_NEAR), id="it may start anywhere with the key"),
        pytest.param([], [term()], DB, on(EVERY, NOT_NEAR), id="but must match its own term"),
        pytest.param(
            [placed("b1")], [term()], WEB, on(("a1", "a2", "x"), NOT_NEAR), id="only while there is no other"
        ),
        pytest.param(
            [placed("x")], [term()], WEB, on(("x",), NOT_NEAR), id="one in no domain does not count"
        ),
        pytest.param(
            [placed("x")],
            [term(), term(key=HOST)],
            WEB,
            on(EVERY, NOT_NEAR),
            id="unless it is in a domain of another term",
        ),
        pytest.param([], [term(), term(DB)], WEB, on(EVERY, NOT_NEAR), id="all of its own terms"),
    ],
)
def test_the_first_pod_of_a_series(
    pods: Sequence[Pod], terms: Sequence[dict[str, Any]], labels: Mapping[str, str], rejected: Any
) -> None:
    judge = cluster(*pods)
    pod = make_pod("in", labels=labels, affinity=near(*terms))
    assert verdicts(judge, pod) == rejected
    assert_views_agree(judge, PLUGIN, pod)


@pytest.mark.parametrize(
    ("pods", "labels", "rejected"),
    [
        pytest.param([placed("a1", DB, affinity=far(term()))], WEB, on(("a1", "a2"), NOT_BORNE), id="zone"),
        pytest.param(
            [placed("a1", DB, affinity=far(term(key=HOST)))], WEB, on(("a1",), NOT_BORNE), id="host"
        ),
        pytest.param([placed("a1", DB, affinity=far(term()))], DB, {}, id="it speaks of others"),
        pytest.param([placed("x", DB, affinity=far(term()))], WEB, {}, id="it is in no domain"),
        pytest.param([placed("a1", DB, affinity=near(term()))], WEB, {}, id="affinity rejects no pod"),
        pytest.param(
            [
                placed("a1", DB, affinity=far(term(key=HOST))),
                placed("b1", DB, affinity=far(term({"y": "1"}), term())),
            ],
            WEB,
            on(("a1", "b1"), NOT_BORNE),
            id="several pods and terms",
        ),
    ],
)
def test_anti_affinity_of_placed_pods(pods: Sequence[Pod], labels: Mapping[str, str], rejected: Any) -> None:
    judge = cluster(*pods)
    pod = make_pod("in", labels=labels)
    assert verdicts(judge, pod) == rejected
    assert_views_agree(judge, PLUGIN, pod)


def test_its_own_reason_comes_before_that_of_placed_pods() -> None:
    judge = cluster(placed("a1", WEB, affinity=far(term())))
    pod = make_pod("in", labels=WEB, affinity=far(term(key=HOST)))
    assert verdicts(judge, pod) == {"a1": NOT_FAR, "a2": NOT_BORNE}


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "env", "operator": operator, "values": list(values)}]}


# In namespace team (env=prod) a pod is on a1, in default (no labels) on b1, in ghost, which is not known
# as an object, on x.
@pytest.mark.parametrize(
    ("namespacing", "hosts"),
    [
        pytest.param({}, ["b1"], id="its own namespace"),
        pytest.param({"namespaces": ["team"]}, ["a1"], id="a list"),
        pytest.param({"namespaceSelector": {}}, ["a1", "b1", "x"], id="all namespaces"),
        pytest.param({"namespaceSelector": expression("In", "prod")}, ["a1"], id="by label"),
        pytest.param(
            {"namespaceSelector": expression("In", "prod"), "namespaces": ["ghost"]},
            ["a1", "x"],
            id="or listed",
        ),
        pytest.param(
            {"namespaceSelector": expression("In", "test")}, [], id="by a label that no namespace has"
        ),
        # As upstream: accepting the absence of the label is accepting every namespace.
        pytest.param({"namespaceSelector": expression("NotIn", "prod")}, ["a1", "b1", "x"], id="NotIn"),
        pytest.param({"namespaceSelector": expression("DoesNotExist")}, ["a1", "b1", "x"], id="DoesNotExist"),
    ],
)
def test_namespaces_of_the_incoming_pods_terms(namespacing: dict[str, Any], hosts: list[str]) -> None:
    judge = cluster(placed("a1", namespace="team"), placed("b1"), placed("x", namespace="ghost"))
    pod = make_pod("in", affinity=far(term(key=HOST, **namespacing)))
    assert verdicts(judge, pod) == on(hosts, NOT_FAR)


@pytest.mark.parametrize(
    ("namespacing", "of_default", "of_team"),
    [
        pytest.param({}, True, False, id="its own namespace"),
        pytest.param({"namespaces": ["team"]}, False, True, id="a list"),
        pytest.param({"namespaceSelector": {}}, True, True, id="all namespaces"),
        pytest.param({"namespaceSelector": expression("In", "prod")}, False, True, id="by label"),
        # Unlike the incoming pod's own terms, these are asked of the namespace's labels only.
        pytest.param({"namespaceSelector": expression("NotIn", "prod")}, True, False, id="NotIn"),
        pytest.param({"namespaceSelector": expression("DoesNotExist")}, True, False, id="DoesNotExist"),
    ],
)
def test_namespaces_of_placed_pods_terms(
    namespacing: dict[str, Any], of_default: bool, of_team: bool
) -> None:
    judge = cluster(placed("a1", DB, affinity=far(term(key=HOST, **namespacing))))
    rejected = on(("a1",), NOT_BORNE)
    assert verdicts(judge, make_pod("in", labels=WEB)) == (rejected if of_default else {})
    assert verdicts(judge, make_pod("in", namespace="team", labels=WEB)) == (rejected if of_team else {})


@pytest.mark.parametrize(
    ("placed_pod", "affinity", "skipped"),
    [
        pytest.param(placed("a1", DB), None, True, id="nothing to say"),
        pytest.param(placed("a1", DB), near(term()), False, id="affinity"),
        pytest.param(placed("a1", DB), far(term()), False, id="anti-affinity"),
        pytest.param(placed("a1", DB, affinity=far(term())), None, False, id="a placed pod objects"),
        pytest.param(placed("x", DB, affinity=far(term())), None, True, id="it objects, but in no domain"),
        pytest.param(placed("a1", DB, affinity=far(term(DB))), None, True, id="it objects to others"),
    ],
)
def test_pre_filter_skips(placed_pod: Pod, affinity: dict[str, Any] | None, skipped: bool) -> None:
    judge = cluster(placed_pod)
    pod = make_pod("in", labels=WEB, affinity=affinity)
    state = CycleState(PodInfo(pod))
    assert judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes()).status.is_success
    assert state.skip_filter == (frozenset({PLUGIN}) if skipped else frozenset())


BROKEN = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param(near(term(None, labelSelector=BROKEN)), id="required affinity"),
        pytest.param(far(term(namespaceSelector=BROKEN)), id="required anti-affinity, namespaces"),
        pytest.param(
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": term(None, labelSelector=BROKEN)}
                    ]
                }
            },
            id="preferred anti-affinity",
        ),
    ],
)
def test_an_unreadable_selector_is_reported(affinity: dict[str, Any]) -> None:
    answer = cluster().evaluate(make_pod("in", affinity=affinity))
    assert answer.pre_filter is not None
    assert answer.pre_filter.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.pre_filter.plugin == PLUGIN
    assert "'Like'" in answer.pre_filter.message


def test_other_problems_of_a_pod_are_left_to_others() -> None:
    pod = make_pod("in", cpu="a lot", affinity=far(term()))
    assert PodInfo(pod).problems
    assert cluster().evaluate(pod).feasible == EVERY


def test_no_nodes_at_all() -> None:
    assert evaluator(PLUGIN).evaluate(make_pod("in", affinity=near(term()))).feasible == ()


def test_a_what_if_is_followed() -> None:
    hated = placed("a1")
    judge = cluster(hated)
    pod = make_pod("in", labels=DB, affinity=far(term()))
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    a1, b1 = judge.cluster.node_named("a1"), judge.cluster.node_named("b1")
    assert a1 is not None
    assert b1 is not None
    info = judge.cluster.placed(hated.metadata.uid)
    assert info is not None

    def code(node: Any) -> Code:
        return judge.runner.filtering.status(state, pod, node, with_nominated=False).code

    assert (code(a1), code(b1)) == (Code.UNSCHEDULABLE, Code.SUCCESS)
    with judge.cluster.what_if() as what_if:
        what_if.remove_pod(info, a1.row)
        assert code(a1) == Code.SUCCESS
        what_if.add_pod(PodInfo(make_pod("new", affinity=far(term(DB)))), b1.row)
        assert code(b1) == Code.UNSCHEDULABLE, "a term that no placed pod carried before"
    assert (code(a1), code(b1)) == (Code.UNSCHEDULABLE, Code.SUCCESS)
