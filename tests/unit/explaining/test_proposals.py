"""What is proposed helps, and nothing in it is superfluous: on clusters that chance made."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.evaluation import Evaluator
from kuberth.explaining import Explanation, Question, explain, proposals
from kuberth.explaining.edits import (
    CORDON_TAINT,
    AddNodes,
    DeletePod,
    DropNodeSelector,
    Edit,
    EditedCluster,
    RemoveGate,
    RemoveTaint,
    RepairNode,
    ScaleRequest,
    SetLabel,
    Tolerate,
    Uncordon,
)
from kuberth.explaining.proposals import MAX_DELETIONS, TRIED_IN_FULL, minimal
from kuberth.explaining.question import PodEvaluation
from kuberth.testing import make_node, make_pod
from tests.unit.explaining.edited import applied

GPU = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
BROKEN = {"key": "broken", "effect": "NoExecute"}
NOT_READY = {"key": "node.kubernetes.io/not-ready"}
PORT: dict[str, Any] = {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}


def ask(pod: Pod, *objects: Any) -> Explanation:
    return explain(Question(pod, objects))


def edits(answer: Explanation) -> list[tuple[Edit, ...]]:
    return [proposal.edits for proposal in answer.proposals]


def takes(pod: Pod, objects: Iterable[Any], changes: Iterable[Edit]) -> bool:
    """Evaluated from scratch, by an evaluator that knows nothing of what was tried before."""
    everything = list(objects)
    nodes = {obj.metadata.name: obj for obj in everything if isinstance(obj, Node)}
    scene = EditedCluster(pod, nodes.get)
    for change in changes:
        scene = change.apply(scene)
    changed, cluster = applied(scene, everything)
    evaluator = Evaluator(cluster)
    gated = not evaluator.runner.run_pre_enqueue(changed).is_success
    return not gated and bool(evaluator.evaluate(changed).feasible)


CASES = [
    pytest.param(
        make_pod("p", cpu="1400m"),
        [make_node("n", cpu="1")],
        {(ScaleRequest("main", "cpu", "1400m", "1"),)},
        id="scale-to-a-node-that-is-too-small",
    ),
    pytest.param(
        make_pod("p", cpu="1"),
        [make_node("n", cpu="1"), make_pod("q", cpu="1", node="n")],
        {(DeletePod("default/q", "n"),), (AddNodes("n", 1),)},
        id="nothing-is-left-to-scale-to",
    ),
    pytest.param(
        make_pod("p"),
        [make_node("n", taints=[GPU])],
        {(RemoveTaint("n", "gpu", "a", "NoSchedule"),), (Tolerate("gpu", "a", "NoSchedule"),)},
        id="taint",
    ),
    pytest.param(
        make_pod("p"),
        [make_node("n", unschedulable=True)],
        {(Uncordon("n"),), (AddNodes("n", 1),)},
        id="cordon",
    ),
    pytest.param(
        make_pod("p"),
        [make_node("n", taints=[{**NOT_READY, "effect": effect} for effect in ("NoSchedule", "NoExecute")])],
        {(RepairNode("n", "node.kubernetes.io/not-ready"),), (AddNodes("n", 1),)},
        id="broken-node",
    ),
    pytest.param(
        make_pod("p", nodeSelector={"disk": "ssd"}),
        [make_node("n")],
        {(SetLabel("n", "disk", "ssd"),), (DropNodeSelector("disk"),)},
        id="label",
    ),
    pytest.param(
        make_pod("p", gates=["a", "b"]),
        [make_node("n")],
        {(RemoveGate("a"), RemoveGate("b"))},
        id="gates",
    ),
    pytest.param(
        make_pod("p", cpu="2", gates=["a"]),
        [make_node("n", cpu="1")],
        {(RemoveGate("a"), ScaleRequest("main", "cpu", "2", "1"))},
        id="gate-and-request",
    ),
    pytest.param(
        make_pod("p", cpu="1", priority=10),
        [make_node("n", cpu="1"), make_pod("q", cpu="1", node="n", priority=1)],
        {(DeletePod("default/q", "n", preempted=True),), (AddNodes("n", 1),)},
        id="preemption",
    ),
    pytest.param(
        make_pod("p", cpu="1"),
        [
            make_node("n", cpu="1"),
            make_pod("ds", cpu="1", node="n", metadata={"ownerReferences": [{"kind": "DaemonSet"}]}),
        ],
        {(AddNodes("n", 1),)},
        id="pods-that-come-back-are-left-alone",
    ),
    pytest.param(
        make_pod("p", cpu="2"),
        [
            *(make_node(name, cpu="2") for name in "ab"),
            *(make_pod(f"{name}{each}", cpu="1", node=name) for name in "ab" for each in (1, 2)),
        ],
        {(DeletePod("default/a1", "a"), DeletePod("default/a2", "a")), (AddNodes("a", 1),)},
        id="of-equal-nodes-one-is-cleared",
    ),
    pytest.param(
        make_pod("p", **PORT),
        [
            *(make_node(name) for name in "ab"),
            *(make_pod(f"holder-{name}", node=name, **PORT) for name in "ab"),
            *(make_pod(f"other-{name}", node=name) for name in "ab"),
        ],
        {(DeletePod("default/holder-a", "a"),), (DeletePod("default/holder-b", "b"),), (AddNodes("a", 1),)},
        id="the-holder-of-a-port-on-each-node",
    ),
    pytest.param(make_pod("p", cpu="1"), [], set(), id="no-nodes"),
]


@pytest.mark.parametrize("pod, objects, expected", CASES)
def test_proposals(pod: Pod, objects: list[Any], expected: set[tuple[Edit, ...]]) -> None:
    found = edits(ask(pod, *objects))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_what_a_node_misses_is_made_up_for_together() -> None:
    answer = ask(make_pod("p", cpu="3"), make_node("n", cpu="2", taints=[GPU, BROKEN], unschedulable=True))
    found = [set(changes) for changes in edits(answer)]
    assert {
        ScaleRequest("main", "cpu", "3", "2"),
        RemoveTaint("n", "gpu", "a", "NoSchedule"),
        RemoveTaint("n", "broken", "", "NoExecute"),
        Uncordon("n"),
    } in found


def test_the_toleration_is_found_among_a_thousand_nodes() -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    objects: list[Any] = [make_node(f"large{number}", cpu="64", taints=[taint]) for number in range(100)]
    for number, cpu in enumerate([8] * 600 + [32] * 300):
        objects.append(make_node(f"n{number}", cpu=str(cpu)))
        used = f"{(number * 37) % (cpu * 900)}m"
        objects.append(make_pod(f"q{number}", cpu=used, node=f"n{number}"))
    explanation = ask(make_pod("p", cpu="40"), *objects)
    assert explanation.near[0].misses == ("a toleration of the taint dedicated=ml:NoSchedule",)
    assert len(explanation.near[0].nodes) == 100
    assert edits(explanation) == [
        (Tolerate("dedicated", "ml", "NoSchedule"),),
        (ScaleRequest("main", "cpu", "40", explanation.proposals[1].edits[0].after),),  # type: ignore[attr-defined]
        (RemoveTaint("large0", "dedicated", "ml", "NoSchedule"),),
    ]


def test_proposals_are_ordered_by_harm() -> None:
    explanation = ask(
        make_pod("p", cpu="3", nodeSelector={"disk": "ssd"}),
        make_node("unlabelled"),
        make_node("tainted", labels={"disk": "ssd"}, taints=[GPU]),
        make_node("small", cpu="2", labels={"disk": "ssd"}),
        make_node("cordoned", labels={"disk": "ssd"}, unschedulable=True),
        make_node("full", labels={"disk": "ssd"}),
        make_pod("q", cpu="4", node="full"),
    )
    assert edits(explanation) == [
        (Tolerate("gpu", "a", "NoSchedule"),),
        (DropNodeSelector("disk"),),
        (ScaleRequest("main", "cpu", "3", "2"),),
        (Uncordon("cordoned"),),
        (RemoveTaint("tainted", "gpu", "a", "NoSchedule"),),
        (SetLabel("unlabelled", "disk", "ssd"),),
        (DeletePod("default/q", "full"),),
        (AddNodes("cordoned", 1),),
    ]


@pytest.mark.parametrize("has_taint", [False, True])
def test_a_cordon_and_its_taint_are_one_change(has_taint: bool) -> None:
    taints = [{"key": CORDON_TAINT, "effect": "NoSchedule"}] if has_taint else []
    others = [make_node(f"full{number}", cpu=str(number + 1)) for number in range(12)]
    fillers = [make_pod(f"q{number}", cpu=str(number + 1), node=f"full{number}") for number in range(12)]
    explanation = ask(
        make_pod("p", cpu="9"),
        *others,
        *fillers,
        make_node("tainted", cpu="4", taints=[GPU, BROKEN]),
        make_node("cordoned", cpu="9", taints=taints, unschedulable=True),
    )
    assert explanation.near[0].misses == ("being open to new pods (it is cordoned)",)
    with_uncordon = [changes for changes in edits(explanation) if Uncordon("cordoned") in changes]
    assert with_uncordon == [(Uncordon("cordoned"),)]
    assert not any(CORDON_TAINT in proposal.text for proposal in explanation.proposals)


def owned(name: str, *, kind: str = "ReplicaSet", **labels: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": name}], "labels": labels}


@pytest.mark.parametrize(
    "mine, other, may_go",
    [
        pytest.param(owned("web"), owned("web"), False, id="same-owner"),
        pytest.param(owned("web"), owned("db"), True, id="other-owner"),
        pytest.param(
            owned("web", kind="Deployment"),
            owned("web-abc", **{"pod-template-hash": "abc"}),
            False,
            id="a-template-and-its-pods",
        ),
        pytest.param(
            owned("web-def", **{"pod-template-hash": "def"}),
            owned("web-abc", **{"pod-template-hash": "abc"}),
            False,
            id="two-revisions",
        ),
    ],
)
def test_siblings_are_never_deleted(mine: dict[str, Any], other: dict[str, Any], may_go: bool) -> None:
    pod = make_pod("p", cpu="1", metadata=mine)
    found = edits(ask(pod, make_node("n", cpu="1"), make_pod("q", cpu="1", node="n", metadata=other)))
    assert ((DeletePod("default/q", "n"),) in found) == may_go


def test_one_large_pod_goes_rather_than_many_small_ones() -> None:
    small = [make_pod(f"q{number}", cpu="100m", node="n") for number in range(20)]
    large = make_pod("large", cpu="2", node="n", priority=5)
    found = edits(ask(make_pod("p", cpu="2"), make_node("n", cpu="4"), *small, large))
    assert (DeletePod("default/large", "n"),) in found


@pytest.mark.parametrize(
    ("main", "init", "more", "node", "expected"),
    [
        pytest.param("1", "4", {}, "2", {ScaleRequest("init", "cpu", "4", "2")}, id="requests-more"),
        pytest.param(
            "2",
            "2",
            {},
            "1",
            {ScaleRequest("init", "cpu", "2", "1"), ScaleRequest("main", "cpu", "2", "1")},
            id="requests-the-same",
        ),
        pytest.param("2", "1", {}, "1", {ScaleRequest("main", "cpu", "2", "1")}, id="requests-less"),
        pytest.param(
            "2",
            "2",
            {"restartPolicy": "Always"},
            "3",
            {ScaleRequest("main", "cpu", "2", "1")},
            id="sidecar-beside-the-container",
        ),
    ],
)
def test_init_containers_are_scaled_where_they_request_most(
    main: str, init: str, more: dict[str, Any], node: str, expected: set[Edit]
) -> None:
    containers = [{"name": "init", "resources": {"requests": {"cpu": init}}, **more}]
    answer = ask(make_pod("p", cpu=main, initContainers=containers), make_node("n", cpu=node))
    assert [set(changes) for changes in edits(answer)] == [expected]


def test_the_request_of_the_pod_itself_is_scaled() -> None:
    resources = {"requests": {"cpu": "4"}}
    explanation = ask(make_pod("p", cpu="1", resources=resources), make_node("n", cpu="2"))
    assert edits(explanation) == [(ScaleRequest("", "cpu", "4", "2"),)]
    assert explanation.proposals[0].text == "scale the cpu request of the pod from 4 to 2"


def test_problems_of_a_node_are_no_part_of_its_shape() -> None:
    taints = [{"key": CORDON_TAINT, "effect": "NoSchedule"}]
    nodes = [make_node("a", unschedulable=True, taints=taints), make_node("b", unschedulable=True)]
    found = edits(ask(make_pod("p"), *nodes))
    assert [changes for changes in found if isinstance(changes[0], AddNodes)] == [(AddNodes("a", 1),)]


def test_the_mildest_scale_is_proposed_alone() -> None:
    nodes = [make_node(f"n{cpu}", cpu=str(cpu)) for cpu in (1, 2, 3)]
    assert edits(ask(make_pod("p", cpu="4"), *nodes)) == [(ScaleRequest("main", "cpu", "4", "3"),)]


def test_several_containers_give_way_the_largest_first() -> None:
    containers = [
        {"name": "small", "resources": {"requests": {"cpu": "500m"}}},
        {"name": "large", "resources": {"requests": {"cpu": "2"}}},
    ]
    answer = ask(make_pod("p", containers=containers), make_node("n", cpu="400m"))
    assert edits(answer) == [
        (ScaleRequest("large", "cpu", "2", "0"), ScaleRequest("small", "cpu", "500m", "400m"))
    ]


def test_a_text_lists_all_changes() -> None:
    answer = ask(make_pod("p", gates=["a", "b"]), make_node("n"))
    assert answer.proposals[0].text == "remove the scheduling gate a and remove the scheduling gate b"


@pytest.mark.parametrize("number", [3, TRIED_IN_FULL, TRIED_IN_FULL + 3])
def test_what_is_not_needed_is_left_out(number: int) -> None:
    changes = [RemoveGate(str(each)) for each in range(number)]
    needed = {changes[0], changes[2]}
    assert set(minimal(changes, lambda given: needed <= set(given))) == needed


def test_of_changes_that_do_not_help_nothing_is_left() -> None:
    assert minimal([RemoveGate("a")], lambda _given: False) == ()


def test_a_search_that_finds_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    helps = PodEvaluation.helps

    def counted(evaluation: PodEvaluation, given: Iterable[Edit]) -> bool:
        tried.append(1)
        return helps(evaluation, given)

    monkeypatch.setattr(PodEvaluation, "helps", counted)
    monkeypatch.setattr(proposals, "MAX_TRIES", 10)
    objects: list[Any] = []
    for number in range(12):
        name = f"n{number}"
        objects.append(make_node(name, cpu=str(number + 1), taints=[GPU, BROKEN]))
        objects += (make_pod(f"q{number}-{each}", cpu="10m", node=name) for each in range(30))
    ask(make_pod("p", cpu="64", nodeSelector={"a": "b"}), *objects)
    assert len(tried) < 10 + MAX_DELETIONS + 2**TRIED_IN_FULL


# By chance

CPU = st.sampled_from(["500m", "1", "2", "3"])
TAINTS = st.lists(st.sampled_from([GPU, BROKEN]), max_size=2, unique_by=lambda taint: taint["key"])
LABELS = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b"]), max_size=2)
APPS = st.sampled_from(["web", "db"])


def spread(app: str) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    objects: list[Any] = []
    for number in range(draw(st.integers(1, 4))):
        name = f"n{number}"
        objects.append(
            make_node(
                name,
                cpu=draw(CPU),
                pods=draw(st.sampled_from(["1", "2", "110"])),
                labels=draw(LABELS),
                taints=draw(TAINTS),
                unschedulable=draw(st.integers(0, 5)) == 0,
            )
        )
        for other in range(draw(st.integers(0, 3))):
            app = draw(APPS)
            more: dict[str, Any] = {"affinity": apart(app)} if draw(st.integers(0, 4)) == 0 else {}
            objects.append(
                make_pod(
                    f"q{number}-{other}",
                    cpu=draw(CPU),
                    node=name,
                    labels={"app": app},
                    priority=draw(st.integers(0, 2)),
                    **more,
                )
            )
    return objects


@st.composite
def pending(draw: st.DrawFn) -> Pod:
    app = draw(APPS)
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["nodeSelector"] = draw(LABELS)
    if draw(st.integers(0, 3)) == 0:
        more["topologySpreadConstraints"] = spread(app)
    if draw(st.integers(0, 3)) == 0:
        more["affinity"] = apart(draw(APPS))
    if draw(st.integers(0, 3)) == 0:
        more["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    return make_pod(
        "p",
        cpu=draw(CPU),
        memory=draw(st.sampled_from([None, "1Gi", "16Gi"])),
        labels={"app": app},
        priority=draw(st.integers(0, 2)),
        gates=draw(st.lists(st.sampled_from(["g", "h"]), max_size=2, unique=True)),
        **more,
    )


@given(pending(), clusters())
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_every_proposal_helps_and_none_is_superfluous(pod: Pod, objects: list[Any]) -> None:
    answer = ask(pod, *objects)
    assert (answer.verdict == "fits") == takes(pod, objects, ())
    if answer.verdict == "fits":
        assert answer.proposals == ()
    for proposal in answer.proposals:
        assert takes(pod, objects, proposal.edits), proposal
        for size in range(len(proposal.edits)):
            for part in combinations(proposal.edits, size):
                if len(proposal.edits) <= TRIED_IN_FULL or size == len(proposal.edits) - 1:
                    assert not takes(pod, objects, part), (proposal, part)
