"""The whole answer: verdicts, groups, preemption, events and scores."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.config import default_configuration, load
from kuberth.errors import ConfigError
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.explanation import BEST_NODES, event_text
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from kuberth.testing import make_node, make_pod

TAINT = [{"key": "a", "effect": "NoSchedule"}]


def ask(pod: Any, *objects: Any, **more: Any) -> Explanation:
    return explain(Question(pod, objects, **more))


def test_a_rejected_pod() -> None:
    pod = make_pod("p", cpu="2")
    answer = ask(pod, pod, make_node("a", cpu="1"), make_node("b", cpu="1"), make_node("c", taints=TAINT))
    assert (answer.pod, answer.verdict, answer.nodes, answer.node) == ("default/p", "rejected", 3, "")
    assert [(group.plugin, group.reasons, group.nodes) for group in answer.rejected] == [
        ("NodeResourcesFit", ("Insufficient cpu",), ("a", "b")),
        ("TaintToleration", ("node(s) had untolerated taint(s)",), ("c",)),
    ]
    assert answer.message.startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    assert answer.events is not None
    assert answer.events["TaintToleration"] == ("Node: Add, UpdateNodeTaint", "Pod: UpdatePodToleration")
    assert answer.preemption is not None
    assert (answer.preemption.nodes_that_could_help, answer.preemption.nodes_beyond_help) == (0, 3)
    assert answer.scores is None


def test_preemption_that_would_happen() -> None:
    answer = ask(
        make_pod("p", cpu="2", priority=5),
        make_node("n", cpu="2"),
        make_pod("q", cpu="1", node="n", priority=1),
    )
    assert answer.preemption is not None
    assert (answer.preemption.nominated_node, answer.preemption.victims) == ("n", ("default/q",))


def test_a_gated_pod_is_judged_all_the_same() -> None:
    answer = ask(make_pod("p", gates=["g"]), make_node("n"))
    assert (answer.verdict, answer.message) == ("gated", "waiting for scheduling gates: [g]")
    assert answer.events == {"SchedulingGates": ("Pod: UpdatePodSchedulingGatesEliminated",)}
    assert answer.answer.feasible == ("n",)


def test_a_placed_pod_is_judged_as_if_it_were_not() -> None:
    pod = make_pod("p", cpu="3", node="n")
    answer = ask(pod, pod, make_node("n", cpu="4"), make_node("m", cpu="16"))
    assert (answer.verdict, answer.node) == ("placed", "n")
    assert answer.scores is not None
    assert answer.scores.winner == "n"
    assert {each.node for each in answer.scores.best} == {"n", "m"}
    assert answer.scores.reason.startswith("now m would score ")
    assert all(each.total == sum(each.by_plugin.values()) for each in answer.scores.best)


@pytest.mark.parametrize(
    "objects, reason",
    [
        pytest.param([make_node("n")], "n is the only feasible node", id="only-one"),
        pytest.param([make_node("n"), make_node("m")], "2 nodes share the highest score", id="equals"),
        pytest.param([make_node("n", cpu="64"), make_node("m")], "n leads m by +", id="a-lead"),
    ],
)
def test_why_the_winner_won(objects: list[Any], reason: str) -> None:
    answer = ask(make_pod("p", cpu="1"), *objects)
    assert answer.verdict == "fits"
    assert answer.scores is not None
    assert answer.scores.reason.startswith(reason)


def test_a_node_that_would_not_take_its_pod_any_more() -> None:
    pod = make_pod("p", node="n")
    answer = ask(pod, pod, make_node("n", taints=TAINT), make_node("m"))
    assert answer.scores is not None
    assert answer.scores.reason == "n is not feasible for the pod now"


def test_the_table_has_the_best_nodes_and_the_pods_own() -> None:
    pod = make_pod("p", cpu="1", node="z")
    nodes = [make_node(f"n{number:02}", cpu="64") for number in range(20)]
    answer = ask(pod, pod, *nodes, make_node("z", cpu="2"))
    assert answer.scores is not None
    assert len(answer.scores.best) == BEST_NODES
    assert answer.scores.best[-1].node == "z"
    assert answer.scores.feasible == 21


def test_a_pod_that_is_in_no_cluster_yet_asks_for_a_node_by_name() -> None:
    answer = ask(make_pod("p", node="n"), make_node("m"))
    assert (answer.verdict, answer.rejected[0].plugin) == ("rejected", "NodeName")


def test_finished_pods_use_no_resources() -> None:
    done = make_pod("done", cpu="4", node="n", phase="Succeeded")
    assert ask(make_pod("p", cpu="4"), make_node("n", cpu="4"), done).verdict == "fits"


def test_nodes_nominated_for_others_are_taken() -> None:
    nominated = make_pod("q", cpu="4", priority=9, status={"nominatedNodeName": "n"})
    answer = ask(make_pod("p", cpu="4"), make_node("n", cpu="4"), nominated)
    assert answer.verdict == "rejected"
    assert answer.near[0].nodes == ("n",)


def test_nodes_the_pod_does_not_name_are_not_looked_at() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = make_pod("p", cpu="9", affinity={"nodeAffinity": required})
    answer = ask(pod, make_node("a"), make_node("b"))
    assert [(group.plugin, group.nodes) for group in answer.rejected] == [
        ("NodeResourcesFit", ("a",)),
        ("", ("b",)),
    ]
    assert [group.nodes for group in answer.near] == [("a",)]


def test_what_pre_filter_rejects_is_rejected_everywhere() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
    answer = ask(make_pod("p", volumes=volumes), make_node("a"), make_node("b"))
    assert [(group.nodes, group.reasons) for group in answer.rejected] == [
        (("a", "b"), ('persistentvolumeclaim "gone" not found',))
    ]
    assert answer.near == ()
    assert answer.preemption is not None
    assert answer.preemption.nodes_beyond_help == 2
    assert answer.preemption.message == ""


def test_nothing_is_changed_by_asking() -> None:
    objects = [make_node("n", cpu="2", taints=TAINT), make_pod("q", cpu="1", node="n")]
    question = Question(make_pod("p", cpu="2"), objects)
    assert explain(question) == explain(question)


def test_a_scheduler_that_the_configuration_does_not_know() -> None:
    with pytest.raises(ConfigError, match=r"'volcano'.*default-scheduler.*--config"):
        ask(make_pod("p", scheduler="volcano"), make_node("n"), config=default_configuration())


@pytest.mark.parametrize(
    "condition, message",
    [
        pytest.param({"reason": "Unschedulable", "message": "pod group is unschedulable"}, True, id="group"),
        pytest.param({"reason": "SchedulerError", "message": "plugin 'A' at Reserve"}, True, id="error"),
        pytest.param({"reason": "SchedulingGated", "message": "gated"}, False, id="opened-gate"),
        pytest.param({"status": "True", "message": "was bound"}, False, id="no-failure"),
    ],
)
def test_a_pod_that_fits_has_the_failure_of_its_last_attempt(condition: Any, message: bool) -> None:
    reported = {"type": "PodScheduled", "status": "False", **condition}
    pod = make_pod("p", status={"conditions": [{"type": "Ready", "status": "False"}, reported]})
    answer = ask(pod, pod, make_node("n"))
    assert answer.verdict == "fits"
    assert answer.message == (condition["message"] if message else "")


def test_without_a_configuration_the_default_one_judges_and_says_so() -> None:
    answer = ask(make_pod("p", scheduler="volcano"), make_node("n"))
    assert (answer.verdict, answer.profile) == ("fits", "default-scheduler")
    assert answer.notes == (
        "the pod waits for the scheduler volcano; it was evaluated with the profile default-scheduler",
    )


def test_a_pod_of_a_group_is_judged_alone_and_that_is_said() -> None:
    answer = ask(make_pod("p", schedulingGroup={"podGroupName": "g"}), make_node("n"))
    assert answer.notes == ("the pod is in the group default/g and was evaluated without the group",)


def test_the_profile_is_the_pods_own() -> None:
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"schedulerName": "default-scheduler"},
                {
                    "schedulerName": "brave",
                    "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
                },
            ],
        }
    )
    pod = make_pod("p", scheduler="brave")
    assert ask(pod, make_node("n", taints=TAINT), config=config).verdict == "fits"


@pytest.mark.parametrize(
    "event, text",
    [
        (ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), "Node: Add, UpdateNodeTaint"),
        (ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE), "Node: Add, Update"),
        (ClusterEvent(Resource.POD, Action.ALL), "Pod: All"),
    ],
)
def test_events_have_names(event: ClusterEvent, text: str) -> None:
    assert event_text(event) == text
