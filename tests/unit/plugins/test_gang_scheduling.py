"""GangScheduling: its gate, its Permit, its hints; and what chooses among placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from kuberth.api.core import Pod
from kuberth.api.scheduling import PodGroup
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    Code,
    CycleState,
    Hint,
    PermitResult,
    PlacementCandidate,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    ProposedPlacement,
    Status,
)
from kuberth.plugins.gang_scheduling.plugin import PERMIT_SECONDS, GangScheduling
from kuberth.testing import make_node, make_pod
from tests.integration.test_gangs import make_group
from tests.unit.plugins.harness import member

GATES = FeatureGates(
    {
        "GenericWorkload": True,
        "GangScheduling": True,
        "TopologyAwareWorkloadScheduling": True,
        "WorkloadAwarePreemption": True,
    }
)
ZONE = "zone"


class World:
    """The plugins over some objects; pods without a node count as seen by the scheduler."""

    def __init__(self, *objects: Any) -> None:
        self.evaluator = Evaluator(objects, feature_gates=GATES)
        self.cluster = self.evaluator.cluster
        for obj in objects:
            if isinstance(obj, Pod) and not obj.spec.node_name and obj.spec.scheduling_group is not None:
                self.cluster.pod_groups.arrive(PodInfo(obj))
        self.plugins = self.evaluator.runner.profile.plugins

    @property
    def gangs(self) -> GangScheduling:
        return cast(GangScheduling, self.plugins["GangScheduling"])

    def nodes(self) -> Nodes:
        return Nodes(self.cluster, self.cluster.order())

    def placements(self, group: str = "default/g") -> Sequence[PlacementCandidate] | Status:
        plugin = cast(PlacementGeneratePlugin, self.plugins["TopologyPlacementGenerator"])
        return plugin.generate_placements(CycleState(), group, self.nodes())


MISSING = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize(
    "pod, objects, code, message",
    [
        pytest.param(make_pod("p"), [], None, "", id="no-group"),
        pytest.param(
            member("p"), [], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, MISSING, id="the-group-is-missing"
        ),
        pytest.param(member("p"), [make_group("g")], None, "", id="a-basic-group"),
        pytest.param(
            member("p"),
            [make_group("g", min_count=2), member("p"), member("q", "other")],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            TOO_FEW,
            id="too-few",
        ),
        pytest.param(
            member("p"), [make_group("g", min_count=2), member("p"), member("q")], None, "", id="enough"
        ),
        pytest.param(
            member("p"),
            [make_group("g", min_count=2), make_node("n1"), member("p"), member("q", node="n1")],
            None,
            "",
            id="those-that-run-count",
        ),
        pytest.param(
            member("p"),
            [make_group("g", min_count=1)],
            Code.ERROR,
            "pod group state not found for pod group default/g",
            id="the-pod-was-not-seen",
        ),
    ],
)
def test_the_gate(pod: Pod, objects: list[Any], code: Code | None, message: str) -> None:
    status = World(*objects).gangs.pre_enqueue(pod)
    assert (status and status.code, status.message if status else "") == (code, message)


def permit(world: World, pod: Pod) -> PermitResult | Status | None:
    return world.gangs.permit(CycleState(PodInfo(pod)), pod, "n1")


def test_permit_waits_until_enough_have_a_node() -> None:
    pods = [member(name) for name in "abc"]
    world = World(make_group("g", min_count=2), make_node("n1"), *pods)
    world.cluster.assume_pod(PodInfo(pods[0]).placed_on("n1"))
    assert permit(world, pods[0]) == PermitResult.wait(
        PERMIT_SECONDS, "waiting for minCount pods from a gang to be scheduled"
    )
    world.cluster.assume_pod(PodInfo(pods[1]).placed_on("n1"))
    assert permit(world, pods[1]) is None


def test_permit_without_its_group() -> None:
    pod = member("p")
    status = permit(World(pod), pod)
    assert isinstance(status, Status)
    assert (status.code, status.message) == (
        Code.ERROR,
        'failed to get podGroup default/g: podgroup.scheduling.k8s.io "g" not found',
    )


def test_permit_of_others() -> None:
    world = World(make_group("g"), member("p"))
    assert permit(world, make_pod("alone")) is None
    assert permit(world, member("p")) is None


@pytest.mark.parametrize(
    "waiting, new, hint",
    [
        (member("p"), member("q"), Hint.QUEUE),
        (member("p"), member("q", "other"), Hint.SKIP),
        (member("p"), member("q", namespace="elsewhere"), Hint.SKIP),
        (member("p"), make_pod("alone"), Hint.SKIP),
        (make_pod("alone"), member("q"), Hint.SKIP),
        (member("p"), make_group("g", min_count=2), Hint.QUEUE),
        (member("p"), make_group("other", min_count=2), Hint.SKIP),
        (make_pod("alone"), make_group("g", min_count=2), Hint.SKIP),
    ],
)
def test_hints(waiting: Pod, new: Pod | PodGroup, hint: Hint) -> None:
    world = World(make_group("g", min_count=2), member("p"), member("q"))
    by_pod, by_group = world.gangs.events_to_register()
    asked = by_pod if isinstance(new, Pod) else by_group
    assert asked.hint is not None
    assert asked.hint(waiting, None, new) is hint


def test_a_pod_of_an_incomplete_gang_requeues_no_pod() -> None:
    for objects in ([], [make_group("g", min_count=3)]):
        by_pod, _by_group = World(*objects, member("p"), member("q")).gangs.events_to_register()
        assert by_pod.hint is not None
        assert by_pod.hint(member("p"), None, member("q")) is Hint.SKIP


# Placements

TOPOLOGY = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}


def zones() -> list[Any]:
    named = [make_node(f"{zone}{number}", labels={ZONE: zone}) for zone in "ab" for number in (1, 2)]
    return [*named, make_node("nowhere")]


def names(placements: Sequence[PlacementCandidate] | Status) -> dict[str, list[str]]:
    assert not isinstance(placements, Status), placements
    return {each.name: sorted(each.nodes.names()) for each in placements}


def test_a_placement_for_every_domain() -> None:
    world = World(*zones(), make_group("g", min_count=2, **TOPOLOGY), member("p"))
    assert names(world.placements()) == {"a": ["a1", "a2"], "b": ["b1", "b2"]}


def test_without_a_constraint_the_cluster_is_the_placement() -> None:
    world = World(*zones(), make_group("g", min_count=2), member("p"))
    assert names(world.placements()) == {"": ["a1", "a2", "b1", "b2", "nowhere"]}


def test_pods_that_run_bind_the_others_to_their_domain() -> None:
    objects = [*zones(), make_group("g", min_count=2, **TOPOLOGY), member("p")]
    assert names(World(*objects, member("q", node="b1")).placements()) == {"b": ["b1", "b2"]}


@pytest.mark.parametrize(
    "pods, message",
    [
        (
            [member("q", node="a1"), member("r", node="b1")],
            "cannot determine domain for already scheduled pods: "
            "more than 1 domain found for pod group: a, b",
        ),
        (
            [member("q", node="nowhere")],
            "cannot determine domain for already scheduled pods: no topology domain found for pod default/q",
        ),
    ],
)
def test_no_domain_is_right(pods: list[Pod], message: str) -> None:
    world = World(*zones(), make_group("g", min_count=2, **TOPOLOGY), member("p"), *pods)
    status = world.placements()
    assert isinstance(status, Status)
    assert (status.code, status.message) == (Code.ERROR, message)


def test_no_labels_no_placements() -> None:
    world = World(make_node("n1"), make_group("g", min_count=1, **TOPOLOGY), member("p"))
    assert not names(world.placements())


def test_the_group_is_gone() -> None:
    status = World(member("p")).placements()
    assert isinstance(status, Status)
    assert status.message == 'podgroup.scheduling.k8s.io "g" not found'


def scores(world: World, plugin: str, *proposed: ProposedPlacement) -> list[int]:
    scorer = cast(PlacementScorePlugin, world.plugins[plugin])
    raw = [scorer.score_placement(CycleState(), "default/g", each) for each in proposed]
    numbers = [each for each in raw if isinstance(each, int)]
    final = scorer.normalize_placement_scores(CycleState(), "default/g", numbers)
    return numbers if final is None else list(cast("Sequence[int]", final))


def proposals(world: World, *counts: int) -> list[ProposedPlacement]:
    placements = world.placements()
    assert not isinstance(placements, Status)
    return [
        ProposedPlacement(
            each, [PodInfo(member(f"{each.name}-{n}")).placed_on(each.nodes.names()[0]) for n in range(count)]
        )
        for each, count in zip(placements, counts, strict=True)
    ]


def test_more_pods_are_better() -> None:
    world = World(*zones(), make_group("g", min_count=1, **TOPOLOGY), member("p"))
    assert scores(world, "PodGroupPodsCount", *proposals(world, 3, 2)) == [100, 66]
    counting = world.plugins["PodGroupPodsCount"]
    status = cast(PlacementScorePlugin, counting).normalize_placement_scores(
        CycleState(), "default/g", [0, 0]
    )
    assert isinstance(status, Status)
    assert status.message == "no pods from pod group are assigned to any of the candidate placements"


def test_a_fuller_placement_is_better() -> None:
    """Four cores a node, eight a zone; memory is 16Gi and no pod requests any, so the default counts."""
    objects = [*zones(), make_group("g", min_count=1, **TOPOLOGY), member("p")]
    world = World(*objects, make_pod("old", cpu="2", memory="4Gi", node="b2"))
    # a: (1 of 8 cores, 200 MB of 16 GiB) → (12 + 1) / 2; b: (3 of 8, 4.2 of 16) → (37 + 26) / 2.
    assert scores(world, "NodeResourcesFit", *proposals(world, 1, 1)) == [6, 31]
