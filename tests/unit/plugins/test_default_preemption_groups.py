"""Preemption for a whole group: which victims, which words; and what it means for single members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from kuberth.api.core import Pod
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.framework import SUCCESS, CycleState, Diagnosis, Status
from kuberth.plugins.default_preemption.eviction import Evictions
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.testing import make_node, make_pod
from tests.integration.test_gangs import make_group
from tests.unit.plugins.harness import member

GATES = {
    "GenericWorkload": True,
    "GangScheduling": True,
    "WorkloadAwarePreemption": True,
    "TopologyAwareWorkloadScheduling": True,
}
KEY = "default/g"


def running(name: str, priority: int, *, started: int = 0, **more: Any) -> Pod:
    status = {"startTime": f"2026-01-01T00:00:{started:02}Z"}
    return make_pod(name, uid=name, cpu="1", node="n1", priority=priority, status=status, **more)


class Scene:
    """A node with room for `free` pods besides those that run; the group needs `needs` places."""

    def __init__(self, *objects: Any, needs: int, priority: int | None = 50, never: bool = False) -> None:
        spec = {} if priority is None else {"priority": priority}
        places = sum(isinstance(obj, Pod) for obj in objects)
        self.evaluator = Evaluator(
            [make_node("n1", cpu=str(places)), make_group("g", min_count=needs, **spec), *objects],
            feature_gates=FeatureGates(GATES),
        )
        self.cluster, self.needs = self.evaluator.cluster, needs
        self.plugin = cast(DefaultPreemption, self.evaluator.runner.profile.plugins["DefaultPreemption"])
        policy = {"preemptionPolicy": "Never"} if never else {}
        self.pods = [PodInfo(member(f"m{number}", **policy)) for number in range(needs)]
        self.tries = 0

    def find(self) -> tuple[list[str], str]:
        """Names of the victims, or why there are none."""
        started: list[Sequence[PodInfo]] = []

        class Noting:
            """Notes which pods are evicted, not how."""

            def start_for(self, _preemptor: object, victims: Sequence[PodInfo], *, node_name: str) -> None:
                started.append(victims)

        self.plugin._evictions = cast(Evictions, Noting())

        def try_again() -> Status:
            self.tries += 1
            free = self.cluster.allowed_pods[0] - self.cluster.pod_count[0]
            taken = int(self.cluster.requested[0, 0]) // 1000
            fits = int(self.cluster.allocatable[0, 0]) // 1000 - taken >= self.needs and free >= self.needs
            return SUCCESS if fits else Status.unschedulable()

        with self.cluster.logged_what_if() as what_if:
            status = self.plugin.post_filter_group(KEY, self.pods, what_if, try_again)
        victims = [info.pod.metadata.name for each in started for info in each]
        return victims, "" if status is None else status.message


def test_the_least_important_give_way() -> None:
    pods = [running("low-new", 1, started=9), running("low-old", 1, started=1), running("mid", 10)]
    assert Scene(*pods, needs=1).find() == (["low-new"], "")
    assert Scene(*pods, needs=2).find() == (["low-old", "low-new"], "")


def test_no_pod_of_lower_priority() -> None:
    words = "No preemption victims found for incoming preemptor"
    assert Scene(running("high", 90), needs=1).find() == ([], words)
    assert Scene(running("zero", 0), needs=1, priority=None).find() == ([], words)


def test_not_even_without_them() -> None:
    scene = Scene(running("high", 90), running("low", 1), needs=2)
    assert scene.find() == ([], "")
    assert scene.tries == 1


def test_never() -> None:
    assert Scene(running("low", 1), needs=1, never=True).find() == (
        [],
        "not eligible due to preemptionPolicy=Never.",
    )


def test_a_group_that_goes_as_a_whole() -> None:
    whole = make_group("whole", min_count=2, disruptionMode="PodGroup", priority=1)
    members = [
        running(name, 40, schedulingGroup={"podGroupName": "whole"}) for name in ("whole-1", "whole-2")
    ]
    single = running("single", 0)
    victims, _why = Scene(whole, *members, single, needs=1).find()
    assert victims == ["single"]
    victims, _why = Scene(whole, *members, single, needs=2).find()
    assert sorted(victims) == ["whole-1", "whole-2"]  # the single pod was spared: two places are enough
    victims, _why = Scene(whole, *members, needs=1).find()
    assert sorted(victims) == ["whole-1", "whole-2"]


def test_its_priority_is_the_groups() -> None:
    whole = make_group("whole", min_count=2, disruptionMode="PodGroup", priority=60)
    members = [running("whole-1", 0, schedulingGroup={"podGroupName": "whole"})]
    assert Scene(whole, *members, needs=1).find()[0] == []


def test_budgets_are_broken_last() -> None:
    budget = convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )
    protected = running("protected", 1, labels={"app": "a"})
    assert Scene(budget, protected, running("other", 5), needs=1).find()[0] == ["other"]


def test_nothing_remains_in_the_table() -> None:
    scene = Scene(running("a", 1), running("b", 1), needs=1)
    before = scene.cluster.requested[:, :1].tolist()
    scene.find()
    assert scene.cluster.requested[:, :1].tolist() == before


@pytest.mark.parametrize(
    "spec, gates, message",
    [
        pytest.param(
            {}, GATES, "preemption: not eligible due to workload aware preemption enabled", id="by-groups"
        ),
        pytest.param(
            {"schedulingConstraints": {"topology": [{"key": "zone"}]}},
            GATES,
            "preemption: not eligible due to placement-based pod group scheduling limitation",
            id="placements",
        ),
        pytest.param(None, GATES, "preemption: pod group for pod not found", id="gone"),
    ],
)
def test_a_member_does_not_preempt_by_itself(
    spec: dict[str, Any] | None, gates: dict[str, bool], message: str
) -> None:
    objects = [] if spec is None else [make_group("g", min_count=1, **spec)]
    pod = member("p", priority=9)
    evaluator = Evaluator([make_node("n1"), *objects], feature_gates=FeatureGates(gates))
    plugin = cast(DefaultPreemption, evaluator.runner.profile.plugins["DefaultPreemption"])
    result, status = plugin.post_filter(CycleState(PodInfo(pod)), pod, Diagnosis())
    assert result is None
    assert status is not None
    assert status.message == message


def test_many_pods_that_can_stay_are_tried_at_once() -> None:
    pods = [running(f"low-{number}", 1, started=number % 60) for number in range(100)]
    scene = Scene(*pods, needs=2)
    victims, _why = scene.find()
    assert len(victims) == 2
    assert scene.tries < 30  # one by one it would be more than a hundred
