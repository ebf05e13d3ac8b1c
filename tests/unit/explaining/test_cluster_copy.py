"""A copy that earlier questions used answers as a new one does, whatever changed in between."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kuberth.api.core import Node, Pod
from kuberth.assembly.profiles import full_registry
from kuberth.cluster.nodes import NodeRow
from kuberth.config import default_configuration, load
from kuberth.evaluation import Evaluator
from kuberth.explaining import Question, explain
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.explanation import to_tree
from kuberth.framework import CycleState, FilterPlugin, Handle, Status
from kuberth.testing import make_node, make_pod, profile
from kuberth.testing.harness import API_VERSION

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


class ChangingCluster:
    """Nodes and pods by name, and random changes of them."""

    def __init__(self, seed: int) -> None:
        self._random, self._numbers = Random(seed), count()
        self.nodes = {name: self._node(name) for name in ("a", "b", "c", "d")}
        self.pods = {name: self._pod(name) for name in ("p", "q", "r", "s", "t", "u")}

    def change(self) -> None:
        name = self._random.choice(["a", "b", "c", "d"])
        if self._random.random() < 0.3:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = self._node(name)
        for _ in range(3):
            name = self._random.choice(["p", "q", "r", "s", "t", "u"])
            if self._random.random() < 0.2:
                self.pods.pop(name, None)
            else:
                self.pods[name] = self._pod(name)

    def question(self) -> Question:
        waiting = [pod for pod in self.pods.values() if self._random.random() < 0.5]
        pod = self._random.choice([*waiting, self._pod("new", node="")])
        return Question(pod, [*self.nodes.values(), *self.pods.values()])

    def _node(self, name: str) -> Node:
        taints = [TAINT] if self._random.random() < 0.3 else []
        labels = {"disk": self._random.choice(["ssd", "hdd"])}
        return make_node(name, cpu=str(self._random.randint(1, 4)), labels=labels, taints=taints)

    def _pod(self, name: str, *, node: str | None = None) -> Pod:
        random = self._random
        pod = make_pod(
            name,
            cpu=f"{random.randint(1, 40)}00m",
            # Each its own: which of two equal victims is chosen depends on the order of the rows.
            priority=1000 * random.randint(0, 9) + next(self._numbers),
            node=random.choice(["", "a", "b", "c", "d"]) if node is None else node,
            gates=["g"] if node is None and random.random() < 0.1 else (),
            nodeSelector={"disk": "ssd"} if random.random() < 0.3 else {},
        )
        fate = random.random()
        if fate < 0.1:
            return replace(pod, status=replace(pod.status, phase="Succeeded"))
        if fate < 0.3 and not pod.spec.node_name:
            return replace(pod, status=replace(pod.status, nominated_node_name=random.choice("abcd")))
        return pod


@pytest.mark.parametrize("seed", range(25))
def test_a_used_copy_answers_as_a_new_one(seed: int) -> None:
    cluster, copy = ChangingCluster(seed), ClusterCopy(default_configuration())
    for _ in range(8):
        question = cluster.question()
        assert _answer(question, copy) == _answer(question, None)
        cluster.change()


def test_the_pod_in_question_is_there_again_for_the_next_question() -> None:
    copy = ClusterCopy(default_configuration())
    large, small = make_pod("large", cpu="3", node="n"), make_pod("small", cpu="2")
    objects = [make_node("n", cpu="4"), large, small]
    assert explain(Question(large, objects), copy).verdict == "placed"
    assert explain(Question(small, objects), copy).verdict == "rejected"
    assert explain(Question(small, objects[:1]), copy).verdict == "fits"


def _answer(question: Question, copy: ClusterCopy | None) -> Any:
    return to_tree(explain(question, copy))


class NeedsTwo(FilterPlugin):
    """Rejects a pod until two pods of its app exist, whether they have a node or not."""

    name = "NeedsTwo"

    def __init__(self, args: object, handle: Handle) -> None:
        self._pods = handle.stores.of(Pod)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        alike = [other for other in self._pods if other.metadata.labels == pod.metadata.labels]
        return None if len(alike) >= 2 else Status.unschedulable(f"{len(alike)} of 2 pods exist")


@pytest.mark.parametrize("others, verdict", [(0, "rejected"), (1, "fits")])
def test_plugins_see_the_pod_in_question_among_the_pods(others: int, verdict: str) -> None:
    pods = [make_pod(f"q{number}", labels={"app": "a"}) for number in range(others + 1)]
    registry = full_registry({"NeedsTwo": NeedsTwo})
    tree = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile("NeedsTwo")],
    }
    config = load(tree)
    question = Question(pods[0], [make_node("n"), *pods], config=config, registry=registry)
    assert explain(question).verdict == verdict
    evaluator = Evaluator([make_node("n"), *pods[1:]], config=config, registry=registry)
    assert bool(evaluator.evaluate(pods[0]).feasible) == (verdict == "fits")
    assert len(evaluator.stores.of(Pod)) == others
