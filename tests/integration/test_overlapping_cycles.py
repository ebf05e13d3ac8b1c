"""Many cycles wait for an extender at once while the cluster changes under them, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.api.resource import ResourceClaim
from kuberth.clock import SystemClock, run_in_virtual_time
from kuberth.config.types import Extender
from kuberth.extenders import Extenders, HttpExtender
from kuberth.extenders.http_extender import Passed
from kuberth.extenders.whole_objects import WholeObjects
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import World, running
from tests.unit.plugins.device_objects import exactly, make_claim, make_class, make_slice

CPU_OF_A_NODE = 4


class Slow(HttpExtender):
    """Answers after a while, each time another, and likes some nodes better than others."""

    def __init__(self, rng: random.Random) -> None:
        config = Extender(url_prefix="http://slow", filter_verb="f", prioritize_verb="p", weight=2)
        super().__init__(config, WholeObjects(MemoryApi()), index=0, clock=SystemClock())
        self._rng = rng
        self.under_way = 0
        self.most = 0

    async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
        await self._think()
        left = [name for name in names if self._rng.random() < 0.9]
        return Passed(left, True, {name: "not now" for name in names if name not in left}, {})

    async def prioritize(self, pod: Pod, names: Sequence[str]) -> Sequence[tuple[str, int]]:
        await self._think()
        # All are driven to the same nodes.
        return [(name, 10 if name == min(names) else 0) for name in names]

    async def _think(self) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.01, 0.1, 0.3)))
        self.under_way -= 1


class Change(NamedTuple):
    """Something that happens `after` this number of seconds."""

    after: float
    what: str


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from((0.0, 0.005, 0.05, 0.2)),
        st.sampled_from(("pod gone", "pod ends", "node gone", "node back", "relabelled")),
    ),
    max_size=12,
)


def overcommitted(world: World) -> list[str]:
    """Nodes that the API says hold more than they have."""
    asked: Counter[str] = Counter()
    for pod in world.api.all(Pod):
        asked[pod.spec.node_name] += int(pod.spec.containers[0].resources.requests["cpu"])
    return [node for node, cpu in asked.items() if node and cpu > CPU_OF_A_NODE]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    nodes=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=25),
    changes=CHANGES,
)
def test_nothing_is_overcommitted_and_no_pod_is_lost(
    seed: int, nodes: int, sizes: list[int], changes: list[Change]
) -> None:
    rng = random.Random(seed)

    async def scenario() -> None:
        names = [f"n{number}" for number in range(nodes)]
        slow = Slow(rng)
        async with running(*(make_node(name, cpu=str(CPU_OF_A_NODE)) for name in names)) as world:
            for runner in world.scheduler.runners.values():
                runner.extenders = Extenders([slow])
            for number, size in enumerate(sizes):
                world.api.put(make_pod(f"p{number}", cpu=str(size), memory="1Mi"))
            for change in changes:
                await asyncio.sleep(change.after)
                apply(world, change.what, rng, names)
                assert not overcommitted(world)
            for name in names:
                if name not in {node.metadata.name for node in world.api.all(Node)}:
                    world.api.put(make_node(name, cpu=str(CPU_OF_A_NODE)))
            await settled(world)
            assert not overcommitted(world)
            assert slow.under_way == 0
            waiting = {
                queued.key for queue in world.scheduler.queue.pending_pods().values() for queued in queue
            }
            pending = {f"default/{pod.metadata.name}" for pod in world.api.all(Pod) if not pod.spec.node_name}
            assert waiting == pending
            assert not world.scheduler.queue.in_flight()
            assert world.scheduler.cluster.assumed_count == 0

    run_in_virtual_time(scenario)


def apply(world: World, what: str, rng: random.Random, nodes: Sequence[str]) -> None:
    api = world.api
    pods = [f"default/{pod.metadata.name}" for pod in api.all(Pod)]
    bound = [f"default/{pod.metadata.name}" for pod in api.all(Pod) if pod.spec.node_name]
    there = [node.metadata.name for node in api.all(Node)]
    gone = [name for name in nodes if name not in there]
    match what:
        case "pod gone" if pods:
            api.remove(Pod, rng.choice(pods))
        case "pod ends" if bound:
            api.remove(Pod, rng.choice(bound))
        case "node gone" if len(there) > 1:
            name = rng.choice(there)
            api.remove(Node, name)
            for pod in api.all(Pod):  # as a controller would
                if pod.spec.node_name == name:
                    api.remove(Pod, f"default/{pod.metadata.name}")
        case "node back" if gone:
            api.put(make_node(gone[0], cpu=str(CPU_OF_A_NODE)))
        case "relabelled" if there:
            name = rng.choice(there)
            api.replace(make_node(name, cpu=str(CPU_OF_A_NODE), labels={"seen": str(rng.random())}))


async def settled(world: World) -> None:
    """No pod is under way, and none that is bound has left its trace in the queue."""
    await world.quiet(seconds=5)
    await world.until(lambda: not world.scheduler.queue.in_flight())
    await world.quiet(seconds=1)
    await world.until(
        lambda: not world.scheduler.queue.in_flight() and not world.scheduler.queue.pending_pods()["active"]
    )


def test_one_at_a_time_it_decides_as_the_cycle_that_never_waits() -> None:
    """The same pods, with an extender that objects to nothing and without: the same nodes."""

    class Silent(Slow):
        async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
            await asyncio.sleep(0.01)
            return Passed(names, True, {}, {})

        async def prioritize(self, pod: Pod, names: Sequence[str]) -> Sequence[tuple[str, int]]:
            return []

    def placements(extenders: Extenders) -> dict[str, str]:
        found: dict[str, str] = {}

        async def scenario() -> None:
            rng = random.Random(7)
            nodes = [make_node(f"n{number}", cpu=str(2 + number)) for number in range(9)]
            async with running(*nodes) as world:
                for runner in world.scheduler.runners.values():
                    runner.extenders = extenders
                for number in range(30):
                    name = f"p{number}"
                    world.api.put(make_pod(name, cpu=f"{rng.randrange(100, 900)}m", memory="16Mi"))
                    await world.bound(name)
                    found[name] = world.node_of(name)

        run_in_virtual_time(scenario)
        return found

    plain = placements(Extenders())
    assert placements(Extenders([Silent(random.Random(1))])) == plain
    assert len(set(plain.values())) > 3


def test_no_device_is_given_to_two_pods() -> None:
    """Devices are assumed at Reserve, in one step with filtering the node again."""

    async def scenario() -> None:
        nodes = ("a", "b", "c")
        claims = [make_claim(f"claim-{number}", exactly()) for number in range(8)]
        objects = [make_class(), *map(make_node, nodes), *(make_slice(name) for name in nodes), *claims]
        async with running(*objects) as world:
            slow = Slow(random.Random(3))
            for runner in world.scheduler.runners.values():
                runner.extenders = Extenders([slow])
            for number in range(len(claims)):
                named = {"name": "c", "resourceClaimName": f"claim-{number}"}
                container = {"name": "main", "resources": {"claims": [{"name": "c"}]}}
                world.api.put(make_pod(f"p{number}", containers=[container], resourceClaims=[named]))

            def given() -> list[tuple[str, str]]:
                return [
                    (result.pool, result.device)
                    for claim in world.api.all(ResourceClaim)
                    if claim.status.allocation is not None
                    for result in claim.status.allocation.devices.results
                ]

            await world.until(lambda: sum(bool(pod.spec.node_name) for pod in world.api.all(Pod)) == 6)
            await settled(world)
            assert len(given()) == len(set(given())) == 6
            assert slow.most > 1

    run_in_virtual_time(scenario)
