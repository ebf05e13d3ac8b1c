"""Whatever arrives and leaves: no gang is ever bound in part, no node overcommitted, no pod lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Pod
from kuberth.api.scheduling import PodGroup
from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import World, running
from tests.integration.test_gangs import GATES, Turn, assert_consistent, bound, make_group, member

MIN_COUNTS = {"a": 2, "b": 3, "c": 5}
ALL_GATES = {**GATES, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}
REST_SECONDS = 45.0
"""Longer than the longest backoff, several times over."""


class Step(NamedTuple):
    what: str
    gang: str = ""
    number: int = 0
    priority: int = 0


gangs = st.sampled_from(sorted(MIN_COUNTS))
steps = st.lists(
    st.one_of(
        st.builds(Step, st.just("pod"), gangs, st.integers(1, 6), st.sampled_from([0, 0, 5])),
        st.builds(Step, st.just("group"), gangs),
        st.builds(Step, st.just("single"), number=st.integers(1, 3), priority=st.sampled_from([0, 9])),
        st.builds(Step, st.just("node"), number=st.integers(1, 4)),
        st.builds(Step, st.just("finish"), gangs),
        st.builds(Step, st.just("drop group"), gangs),
        st.builds(Step, st.just("drop pending"), gangs),
        st.builds(Step, st.just("wait"), number=st.integers(0, 4)),
    ),
    max_size=12,
)
at_first = st.tuples(
    *(st.builds(Step, st.just("pod"), st.just(gang), st.integers(0, 6)) for gang in MIN_COUNTS)
)
"""Gangs that are there from the start, with more pods than there is room for, more often than not."""


class Play:
    """Plays steps on a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._names = 0

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names}"

    async def play(self, step: Step) -> None:
        api = self.world.api
        match step.what:
            case "pod":
                for _ in range(step.number):
                    api.put(member(self._name(step.gang), step.gang, priority=step.priority))
            case "group":
                if not self._group(step.gang):
                    zones = {"topology": [{"key": "zone"}]} if step.gang == "c" else None
                    more: dict[str, Any] = {"schedulingConstraints": zones} if zones else {}
                    api.put(make_group(step.gang, min_count=MIN_COUNTS[step.gang], priority=5, **more))
            case "single":
                for _ in range(step.number):
                    api.put(make_pod(self._name("single"), cpu="1", priority=step.priority))
            case "node":
                name = self._name("node")
                api.put(make_node(name, cpu=str(step.number), labels={"zone": str(step.number % 2)}))
            case "finish":
                for pod in self._pods(step.gang):
                    api.remove(Pod, f"default/{pod.metadata.name}")
            case "drop group":
                if self._group(step.gang):
                    api.remove(PodGroup, f"default/{step.gang}")
            case "drop pending":
                for pod in self._pods(step.gang):
                    if not pod.spec.node_name:
                        api.remove(Pod, f"default/{pod.metadata.name}")
            case "wait":
                await self.world.quiet(seconds=step.number)
        self.end_victims()

    def end_victims(self) -> None:
        """A kubelet ends pods that are to be deleted; a gang that loses one is restarted as a whole."""
        api = self.world.api
        leaving = [pod for pod in api.all(Pod) if pod.metadata.deletion_timestamp is not None]
        for pod in leaving:
            group = pod.spec.scheduling_group
            fellows = [pod] if group is None else self._pods(group.pod_group_name or "")
            for fellow in fellows:
                if any(fellow.metadata.uid == each.metadata.uid for each in api.all(Pod)):
                    api.remove(Pod, f"default/{fellow.metadata.name}")

    def _group(self, name: str) -> bool:
        return any(group.metadata.name == name for group in self.world.api.all(PodGroup))

    def _pods(self, gang: str) -> Sequence[Pod]:
        return [
            pod
            for pod in self.world.api.all(Pod)
            if pod.spec.scheduling_group is not None and pod.spec.scheduling_group.pod_group_name == gang
        ]

    async def rest(self) -> None:
        for _ in range(3):
            await self.world.quiet(seconds=REST_SECONDS / 3)
            self.end_victims()
        await self.world.quiet(seconds=REST_SECONDS)

    def check(self) -> None:
        for gang, count in bound(self.world).items():
            assert count >= MIN_COUNTS[gang], f"{gang} is bound in part: {count}"
        assert_consistent(self.world)
        members = self.world.scheduler.cluster.pod_groups
        counted = Counter(
            pod.spec.scheduling_group.pod_group_name
            for pod in self.world.api.all(Pod)
            if pod.spec.scheduling_group is not None
        )
        assert len(members) == len(counted)
        for name, total in counted.items():
            gang = name or ""
            known = members.get(f"default/{gang}")
            assert known is not None
            assert (known.total, known.scheduled) == (total, bound(self.world)[gang])
            assert known.queued == known.unscheduled


@settings(max_examples=25)
@given(
    cpu=st.integers(1, 9),
    at_first=at_first,
    steps=steps,
    gates=st.sampled_from([GATES, ALL_GATES]),
    pops_only=st.booleans(),
)
def test_whatever_comes_gangs_stay_whole(
    cpu: int, at_first: Sequence[Step], steps: Sequence[Step], gates: dict[str, bool], pops_only: bool
) -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {"queue": Turn} if pops_only else {}
        nodes = [make_node("first", cpu=str(cpu), labels={"zone": "0"})]
        async with running(*nodes, gates=gates, **options) as world:
            play = Play(world)
            for step in at_first:
                await play.play(Step("group", step.gang))
                await play.play(step)
            await play.rest()
            play.check()
            for step in steps:
                await play.play(step)
            await play.rest()
            play.check()

    run_in_virtual_time(scenario)
