"""`start` and `close` of plugins and queues, and what becomes of the tasks that they spawn."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.config import KubeSchedulerConfiguration, load
from kuberth.errors import KuberthError
from kuberth.framework import CycleState, FilterPlugin, Handle, PermitPlugin, PermitResult, Status
from kuberth.queue import PriorityQueue, QueueContext
from kuberth.testing import MemoryApi, make_node, make_pod, profile, running
from kuberth.testing.harness import API_VERSION, World


def config(*plugins: str) -> KubeSchedulerConfiguration:
    tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    return load({**tree, "profiles": [profile(*plugins)]})


class Recorder:
    """Makes plugins and queues that write down what happens to them."""

    def __init__(self, *, is_async: bool = False) -> None:
        self.log: list[str] = []
        self.made = 0
        self.is_async = is_async
        self.failing: set[str] = set()
        self.constructor: Callable[[Handle], None] = lambda handle: None
        self.filtering: Callable[[Handle], None] = lambda handle: None

    def note(self, what: str) -> Awaitable[None] | None:
        async def later() -> None:
            await asyncio.sleep(1)
            self._note(what)

        if self.is_async:
            return later()
        self._note(what)
        return None

    def _note(self, what: str) -> None:
        self.log.append(what)
        if what in self.failing:
            raise ValueError("out of order")

    def plugin(self, _args: Any, handle: Handle) -> FilterPlugin:
        recorder, number = self, self.made
        self.made += 1

        class Watched(FilterPlugin):
            name = "Watched"

            def start(self) -> Awaitable[None] | None:
                return recorder.note(f"start {number}")

            def close(self) -> Awaitable[None] | None:
                return recorder.note(f"close {number}")

            def filter(self, _state: CycleState, pod: Pod, _node: NodeRow) -> Status | None:
                recorder.log.append(f"filter {number} {pod.metadata.name}")
                recorder.filtering(handle)
                return None

        self.constructor(handle)
        return Watched()

    async def forever(self, name: str) -> None:
        self.log.append(f"{name} runs")
        try:
            await asyncio.sleep(10_000)
        finally:
            self.log.append(f"{name} ends")

    def play(self, scenario: Callable[[World], Any], **options: Any) -> list[str]:
        async def play() -> None:
            plugins = {"Watched": self.plugin, **options.pop("plugins", {})}
            profiles = options.pop("profiles", [profile("Watched")])
            async with running(make_node("n1"), plugins=plugins, profiles=profiles, **options) as world:
                await scenario(world)

        run_in_virtual_time(play)
        return self.log


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_plugin_starts_before_the_first_pod_and_closes_at_the_end(is_async: bool) -> None:
    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.bound("p")

    assert Recorder(is_async=is_async).play(scenario) == ["start 0", "filter 0 p", "close 0"]


def test_a_reload_starts_the_new_plugin_and_closes_the_old_one() -> None:
    async def scenario(world: World) -> None:
        await world.scheduler.reconfigure(config("Watched"))
        world.api.put(make_pod("p"))
        await world.bound("p")

    assert Recorder().play(scenario) == ["start 0", "start 1", "close 0", "filter 1 p", "close 1"]


class Hold(PermitPlugin):
    name = "Hold"

    def permit(self, _state: CycleState, _pod: Pod, _node_name: str) -> PermitResult:
        return PermitResult.wait(100)


def test_a_replaced_plugin_is_closed_when_pods_in_flight_no_longer_use_it() -> None:
    recorder = Recorder()

    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.quiet()
        await world.scheduler.reconfigure(config("Watched"))
        await world.quiet(seconds=50)
        assert recorder.log == ["start 0", "filter 0 p", "start 1"]
        await world.bound("p", seconds=100)
        await world.quiet(seconds=2)
        assert "close 0" in recorder.log

    recorder.play(scenario, plugins={"Hold": Hold}, profiles=[profile("Watched", "Hold")])


def test_a_plugin_that_does_not_start_ends_the_start_of_the_scheduler() -> None:
    recorder = Recorder()
    recorder.failing = {"start 0"}
    api = MemoryApi()
    api.put(make_pod("p"))

    async def scenario() -> None:
        scheduler = Scheduler(api, config=config("Watched"), plugins={"Watched": recorder.plugin})
        with pytest.raises(KuberthError, match="plugin 'Watched' failed in start: ValueError: out of order"):
            await scheduler.run()

    run_in_virtual_time(scenario)
    assert recorder.log == ["start 0"]


def test_a_plugin_that_does_not_start_refuses_a_reload(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.failing = {"start 1"}

    async def scenario(world: World) -> None:
        with pytest.raises(KuberthError, match="plugin 'Watched' failed in start"):
            await world.scheduler.reconfigure(config("Watched"))
        world.api.put(make_pod("p"))
        await world.bound("p")

    with caplog.at_level(logging.ERROR):
        assert recorder.play(scenario) == ["start 0", "start 1", "filter 0 p", "close 0"]
    assert "plugin 'Watched' failed in start" in caplog.text


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_plugin_that_fails_to_close_stops_nothing(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(is_async=is_async)
    recorder.failing = {"close 0", "close 1"}

    async def scenario(world: World) -> None:
        await world.scheduler.reconfigure(config("Watched"))
        await world.quiet(seconds=3)
        world.api.put(make_pod("p"))
        await world.bound("p")

    with caplog.at_level(logging.ERROR):
        recorder.play(scenario)
    assert caplog.text.count("plugin 'Watched' failed in close") == 2


def test_a_close_that_hangs_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()

    class Hangs(FilterPlugin):
        name = "Hangs"

        async def close(self) -> None:
            await asyncio.sleep(1_000_000)

        def filter(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None: ...

    async def scenario(_world: World) -> None: ...

    with caplog.at_level(logging.ERROR):
        recorder.play(scenario, plugins={"Hangs": Hangs}, profiles=[profile("Hangs")])
    assert "plugin 'Hangs' failed in close" in caplog.text


def test_the_scheduler_can_be_stopped_while_a_plugin_starts() -> None:
    class Endless(FilterPlugin):
        name = "Endless"

        async def start(self) -> None:
            await asyncio.sleep(1_000_000)

        def filter(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None: ...

    async def scenario() -> None:
        scheduler = Scheduler(MemoryApi(), config=config("Endless"), plugins={"Endless": Endless})
        task = asyncio.create_task(scheduler.run())
        await asyncio.sleep(5)
        scheduler.stop()
        async with asyncio.timeout(60):
            await task

    run_in_virtual_time(scenario)


def test_work_that_a_constructor_spawns_runs_until_the_plugin_is_replaced() -> None:
    recorder = Recorder()
    recorder.constructor = lambda handle: handle.spawn(
        recorder.forever(f"loop {recorder.made}"), name="a loop"
    )

    async def scenario(world: World) -> None:
        assert recorder.log == ["start 0", "loop 1 runs"]
        await world.scheduler.reconfigure(config("Watched"))
        await world.quiet()
        assert recorder.log[2:] == ["start 1", "loop 2 runs", "close 0", "loop 1 ends"]
        recorder.log.clear()

    assert recorder.play(scenario) == ["close 1", "loop 2 ends"]


def test_a_job_may_end_after_its_plugin_was_replaced() -> None:
    recorder = Recorder()

    async def write() -> None:
        await asyncio.sleep(30)
        recorder.log.append("written")

    recorder.filtering = lambda handle: handle.spawn(write(), name="a write")

    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.bound("p")
        await world.quiet()
        await world.scheduler.reconfigure(config("Watched"))
        await world.quiet(seconds=40)

    assert recorder.play(scenario)[2:] == ["start 1", "close 0", "written", "close 1"]


def test_a_job_that_does_not_end_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.filtering = lambda handle: handle.spawn(recorder.forever("job"), name="the job")

    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.bound("p")
        await world.scheduler.reconfigure(config("Watched"))
        await world.quiet(seconds=100)
        assert recorder.log[-1] == "job ends"

    with caplog.at_level(logging.WARNING):
        recorder.play(scenario)
    assert "cancelled tasks of replaced plugins after 60 s: the job" in caplog.text


def test_work_of_a_refused_configuration_never_runs() -> None:
    recorder = Recorder()

    class Broken(FilterPlugin):
        name = "Broken"

        def __init__(self, _args: Any, _handle: Handle) -> None:
            raise ValueError("cannot be made")

        def filter(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None: ...

    async def scenario(world: World) -> None:
        recorder.constructor = lambda handle: handle.spawn(recorder.forever("loop"), name="a loop")
        with pytest.raises(KuberthError, match="cannot be made"):
            await world.scheduler.reconfigure(config("Watched", "Broken"))
        await world.quiet()

    assert recorder.play(scenario, plugins={"Broken": Broken}) == ["start 0", "close 0"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_queue_starts_and_closes_like_a_plugin(is_async: bool) -> None:
    recorder = Recorder(is_async=is_async)
    made: list[PriorityQueue] = []

    class Watched(PriorityQueue):
        def __init__(self, context: QueueContext) -> None:
            super().__init__(context)
            made.append(self)
            self.number = len(made)
            context.spawn(recorder.forever(f"loop {self.number}"), name="a loop")

        def start(self) -> Awaitable[None] | None:
            return recorder.note(f"start queue {self.number}")

        def close(self) -> Awaitable[None] | None:
            return recorder.note(f"close queue {self.number}")

        def add(self, info: Any) -> None:
            recorder.log.append(f"add to {self.number}")
            super().add(info)

    async def scenario(world: World) -> None:
        world.api.put(make_pod("p"))
        await world.bound("p")
        await world.scheduler.reconfigure(config())
        await world.quiet()

    log = recorder.play(scenario, queue=Watched, profiles=[profile()])
    assert [line for line in log if "loop" not in line] == [
        "start queue 1",
        "add to 1",
        "start queue 2",
        "close queue 1",
        "close queue 2",
    ]
    assert [line for line in log if "ends" in line] == ["loop 1 ends", "loop 2 ends"]


def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    async def work() -> None:
        raise AssertionError("it never begins")

    async def scenario() -> str:
        scheduler = Scheduler(MemoryApi())
        running = asyncio.create_task(scheduler.run())
        await scheduler.wait_synced()
        waiting = work()
        running.cancel()
        scheduler.spawn(waiting, name="the work")
        with pytest.raises(asyncio.CancelledError):
            await running
        return inspect.getcoroutinestate(waiting)

    assert run_in_virtual_time(scenario) == inspect.CORO_CLOSED


def test_work_that_comes_while_the_scheduler_is_cancelled_is_refused_and_closed() -> None:
    async def work() -> None:
        raise AssertionError("it never begins")

    async def scenario() -> str:
        scheduler = Scheduler(MemoryApi())
        running = asyncio.create_task(scheduler.run())
        await scheduler.wait_synced()
        running.cancel()
        await asyncio.sleep(0)
        waiting = work()
        with pytest.raises(
            KuberthError, match="'the work' cannot be started: the scheduler is shutting down"
        ):
            scheduler.spawn(waiting, name="the work")
        with pytest.raises(asyncio.CancelledError):
            await running
        return inspect.getcoroutinestate(waiting)

    assert run_in_virtual_time(scenario) == inspect.CORO_CLOSED


def test_a_configuration_that_comes_while_the_scheduler_is_cancelled_is_refused() -> None:
    async def scenario() -> None:
        scheduler = Scheduler(MemoryApi())
        running = asyncio.create_task(scheduler.run())
        await scheduler.wait_synced()
        running.cancel()
        await asyncio.sleep(0)
        with pytest.raises(KuberthError, match="'replaced plugins' cannot be started: the scheduler is"):
            await scheduler.reconfigure(config())
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(scenario)
