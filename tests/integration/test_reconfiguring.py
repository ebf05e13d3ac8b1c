"""Another configuration while the scheduler runs: no pod is lost, each is placed by the rules in force."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kuberth.api import PersistentVolumeClaim
from kuberth.api.core import Binding, Pod
from kuberth.clock import run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.config import KubeSchedulerConfiguration, load
from kuberth.errors import ApiError, ConfigError
from kuberth.framework import (
    CycleState,
    FilterPlugin,
    PermitPlugin,
    PermitResult,
    PreEnqueuePlugin,
    ReservePlugin,
    Status,
)
from kuberth.framework.handle import Handle
from kuberth.queue.interface import QueueContext
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import API_VERSION, World, profile, running
from tests.unit.queue.fifo import Fifo


class Only(FilterPlugin, ReservePlugin):
    """Lets pods on the nodes of one letter only, and notes which configuration it was made for."""

    name = "Only"
    placed: dict[str, str]

    def __init__(self, args: dict[str, Any] | None, handle: Handle) -> None:
        self.letter = str((args or {}).get("letter", "a"))

    def filter(self, _state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
        return None if node.name.startswith(self.letter) else Status.unschedulable(f"not {self.letter}")

    def reserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        Only.placed[pod.metadata.name] = self.letter
        assert node_name.startswith(self.letter)

    def unreserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None: ...


class Gate(PreEnqueuePlugin):
    name = "Gate"

    def __init__(self, _args: Any, _handle: Handle) -> None: ...

    def pre_enqueue(self, _pod: Pod) -> Status:
        return Status.unresolvable("shut")


class Hold(PermitPlugin):
    name = "Hold"

    def __init__(self, _args: Any, _handle: Handle) -> None: ...

    def permit(self, _state: CycleState, _pod: Pod, _node_name: str) -> PermitResult:
        return PermitResult.wait(600.0)


class Broken(FilterPlugin):
    name = "Broken"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        raise ValueError("cannot be made")

    def filter(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None: ...


class Claims(FilterPlugin):
    """Registers for claims, which no other plugin here does."""

    name = "Claims"

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._claims = handle.stores.of(PersistentVolumeClaim)

    def filter(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None:
        return None if len(self._claims) else Status.unschedulable("no claim")


PLUGINS = {plugin.name: plugin for plugin in (Only, Gate, Hold, Broken, Claims)}


def config(*profiles: dict[str, Any], **fields: Any) -> KubeSchedulerConfiguration:
    tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": list(profiles)}
    return load({**tree, **fields})


def only(letter: str) -> dict[str, Any]:
    return profile("Only", pluginConfig=[{"name": "Only", "args": {"letter": letter}}])


def play(
    scenario: Callable[[World], Any],
    *nodes: str,
    start: dict[str, Any],
    api: MemoryApi | None = None,
    **options: Any,
) -> None:
    Only.placed = {}

    async def scene() -> None:
        made = [make_node(name) for name in nodes or ("a1", "b1")]
        async with running(*made, profiles=[start], plugins=PLUGINS, api=api, **options) as world:
            await scenario(world)

    run_in_virtual_time(scene)


def test_pods_that_wait_are_tried_by_the_new_rules_and_keep_their_history() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.in_queue("p", "unschedulable")
        await world.quiet(seconds=5)
        queued = world.scheduler.queue.get("default/p")
        assert queued is not None
        attempts = queued.attempts
        await world.scheduler.reconfigure(config(only("b")))
        await world.bound("p")
        assert world.node_of("p") == "b1"
        assert queued.attempts == attempts + 1

    play(scenario, "b1", start=only("a"))


def test_gates_come_and_go_with_the_configuration() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("gated"))
        await world.in_queue("gated", "gated")
        await world.scheduler.reconfigure(config(only("b")))
        await world.bound("gated")
        await world.scheduler.reconfigure(config(only("z")))
        world.api.put(make_pod("waits"))
        await world.in_queue("waits", "unschedulable")
        await world.scheduler.reconfigure(config(profile("Gate")))
        await world.in_queue("waits", "gated")

    play(scenario, start=profile("Gate"))


def test_a_pod_in_backoff_waits_the_rest_of_it_by_the_new_settings() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.in_queue("p", "unschedulable")
        slow = config(only("b"), podInitialBackoffSeconds=40, podMaxBackoffSeconds=40)
        await world.scheduler.reconfigure(slow)
        assert world.queue_of("p") == "backoff"
        queued = world.scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.backoff_expires_ns is not None
        assert 39 <= (queued.backoff_expires_ns - queued.timestamp_ns) / 1e9 <= 40

    play(scenario, "b1", start=only("a"), gates={"SchedulerPopFromBackoffQ": False})


def test_how_many_cycles_may_overlap_changes_with_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        limits: list[int] = []
        monkeypatch.setattr(world.scheduler.loop, "allow_overlapping", limits.append)
        await world.scheduler.reconfigure(config(only("a"), parallelism=3))
        assert limits == [3]

    play(scenario, start=only("a"))


def test_profiles_come_and_go() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("ours"))
        world.api.put(make_pod("others", scheduler="other"))
        await world.in_queue("ours", "unschedulable")
        assert world.queue_of("others") == ""
        await world.scheduler.reconfigure(config(profile(name="other")))
        await world.bound("others")
        assert world.queue_of("ours") == ""
        await world.scheduler.reconfigure(config(profile(name="other"), profile()))
        await world.bound("ours")
        [note] = [event for event in world.events("Scheduled") if "others" in event]
        assert note

    play(scenario, start=profile("Only", pluginConfig=[{"name": "Only", "args": {"letter": "z"}}]))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda: config(profile("Broken")), "cannot be made"),
        (lambda: config(profile("Unknown")), "Unknown"),
        (
            lambda: config(profile(), featureGates={"SchedulerPopFromBackoffQ": False}),
            "SchedulerPopFromBackoffQ",
        ),
    ],
)
def test_a_bad_configuration_changes_nothing(
    bad: Callable[[], KubeSchedulerConfiguration], says: str
) -> None:
    async def scenario(world: World) -> None:
        scheduler = world.scheduler
        before, runners = scheduler.config, dict(scheduler.runners)
        with pytest.raises(ConfigError, match=says):
            await scheduler.reconfigure(bad())
        assert scheduler.config is before
        assert scheduler.runners == runners
        world.api.put(make_pod("p"))
        await world.bound("p")
        assert world.node_of("p") == "a1"

    play(scenario, start=only("a"))


class NoClaims(MemoryApi):
    """Claims cannot be listed, though they should be there."""

    async def list(self, kind: type[Any], **options: Any) -> Any:
        if kind is PersistentVolumeClaim:
            raise ApiError("etcd is slow", code=500)
        return await super().list(kind, **options)


def test_kinds_that_new_plugins_look_up_are_known_before_they_count() -> None:
    async def scenario(world: World) -> None:
        world.api.put(PersistentVolumeClaim(metadata=make_pod("claim").metadata))
        await world.scheduler.reconfigure(config(profile("Claims")))
        world.api.put(make_pod("p"))
        await world.bound("p")
        assert world.scheduler.synced

    play(scenario, start=profile())


def test_a_kind_that_cannot_be_listed_keeps_the_old_rules_in_force() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ConfigError, match="PersistentVolumeClaim, which could not be listed"):
            await world.scheduler.reconfigure(config(profile("Claims")))
        world.api.put(make_pod("p"))
        await world.bound("p")
        assert world.scheduler.synced

    play(scenario, start=profile(), api=NoClaims())


def test_a_pod_on_its_way_goes_there() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("held"))
        await world.until(lambda: len(list(world.scheduler.waiting_pods)) == 1)
        await world.scheduler.reconfigure(config(only("b")))
        [waiting] = world.scheduler.waiting_pods
        assert world.queue_of("held") == "in flight"
        waiting.allow("Hold")
        await world.bound("held")
        assert world.queue_of("held") == ""

    play(scenario, "a1", start=profile("Hold"))


def test_a_pod_on_its_way_that_is_sent_back_is_tried_by_the_new_rules() -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("held"))
        await world.until(lambda: len(list(world.scheduler.waiting_pods)) == 1)
        await world.scheduler.reconfigure(config(only("b")))
        [waiting] = world.scheduler.waiting_pods
        waiting.reject("Hold", "no")
        await world.bound("held")
        assert world.node_of("held") == "b1"
        assert not world.scheduler.queue.in_flight()

    play(scenario, start=profile("Hold"))


class Forgetful(Fifo):
    """Cannot take over."""

    def take_over(self, other: Any) -> None:
        raise RuntimeError("no")


@pytest.mark.parametrize("queue", [Fifo, Forgetful])
def test_a_queue_of_ones_own_keeps_all_pods(queue: Any) -> None:
    async def scenario(world: World) -> None:
        for number in range(5):
            world.api.put(make_pod(f"p{number}"))
        await world.quiet()
        await world.scheduler.reconfigure(config(only("b")))
        await world.bound(*(f"p{number}" for number in range(5)))

    play(scenario, "b1", start=only("a"), queue=queue)


class Closing(Fifo):
    """Notes that it was closed, and fails at that."""

    def __init__(self, context: QueueContext) -> None:
        super().__init__(context)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        raise RuntimeError("cannot be closed")


async def unlisted(world: World) -> None:
    with pytest.raises(ConfigError, match="could not be listed"):
        await world.scheduler.reconfigure(config(profile("Claims")))


async def cancelled(world: World) -> None:
    reload = asyncio.create_task(world.scheduler.reconfigure(config(profile("Claims"))), name="reload")
    await world.quiet()
    reload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reload


@pytest.mark.parametrize("fail", [unlisted, cancelled])
def test_a_queue_that_does_not_come_into_use_is_closed(fail: Callable[[World], Any]) -> None:
    made: list[Closing] = []

    def make(context: QueueContext) -> Closing:
        made.append(Closing(context))
        return made[-1]

    async def scenario(world: World) -> None:
        await fail(world)
        assert [queue.closed for queue in made] == [0, 1]
        world.api.put(make_pod("p"))
        await world.bound("p")

    play(scenario, start=profile(), api=NoClaims(), queue=make)


class CountingApi(MemoryApi):
    def __init__(self) -> None:
        super().__init__()
        self.bindings: Counter[str] = Counter()

    async def bind(self, binding: Binding) -> None:
        await super().bind(binding)
        self.bindings[binding.metadata.name] += 1


def test_two_hundred_reloads_under_load() -> None:
    """Configurations alternate, some of them broken, while pods arrive; some wait for the other half."""
    api, rng = CountingApi(), random.Random(7)
    names = [f"p{number}" for number in range(600)]

    async def scenario(world: World) -> None:
        async def create() -> None:
            for name in names:
                world.api.put(make_pod(name))
                await asyncio.sleep(rng.choice((0, 0, 0.01, 0.05)))

        creating = asyncio.create_task(create(), name="create")
        rules: list[tuple[KubeSchedulerConfiguration, bool]] = [
            (config(only("a")), True),
            (config(only("b"), percentageOfNodesToScore=50), True),
            (config(only("c")), True),  # there is no such node: pods wait for the next
            (config(profile("Broken")), False),
            (config(profile("Gate")), True),
        ]
        for _ in range(200):
            wanted, is_good = rng.choice(rules)
            try:
                await world.scheduler.reconfigure(wanted)
                assert is_good
            except ConfigError:
                assert not is_good
            await asyncio.sleep(rng.choice((0, 0.01, 0.03)))
        await creating
        await world.scheduler.reconfigure(config(only("a")))
        await world.bound(*names, seconds=600)

    play(scenario, *(f"{letter}{number}" for letter in "ab" for number in range(4)), start=only("a"), api=api)
    assert api.bindings == Counter(names)
    # `reserve` saw the letter of the rules in force; the node it went to has that letter.
    assert set(Only.placed) == set(names)
    assert {"a", "b"} == set(Only.placed.values())
