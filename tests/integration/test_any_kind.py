"""Plugins that look up and wait for kinds of any sort: custom ones, built-in ones, and ones not there yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from examples.team_budgets import Budget, TeamBudgets

from kuberth.api import Namespace, ObjectMeta, Pod, ResourceClaim, Service, Wire, register_kind
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.config import load
from kuberth.errors import ConfigError, KuberthError, NotFoundError
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EnqueueExtensions,
    EventWithHint,
    Hint,
    PreFilterPlugin,
    Resource,
    Status,
)
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.in_process import InProcessApi
from kuberth.local.manifests import read_manifests
from kuberth.testing import MemoryApi, make_namespace, make_node, make_pod
from kuberth.testing.harness import API_VERSION, World, profile, running


class Garage(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spots: int = 0


register_kind(Garage, group="any.kuberth.io", version="v1", plural="garages", namespaced=False)


class Waiting(PreFilterPlugin, EnqueueExtensions):
    """Holds pods back until an event of one resource comes; notes the events its hint is asked about."""

    name = "Waiting"

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.seen: list[tuple[Any, Any]] = []

    def pre_filter(self, _state: CycleState, _pod: Pod, _nodes: Any) -> Status | None:
        return None if self.seen else Status.unresolvable("waiting")

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(self.resource, Action.ALL), self._hint)]

    def _hint(self, _pod: Pod, old: Any, new: Any) -> Hint:
        self.seen.append((old, new))
        return Hint.QUEUE


def waiting_world(plugin: Waiting, *objects: Any) -> Any:
    return running(
        make_node("n1"),
        make_pod("p"),
        *objects,
        profiles=[profile("Waiting")],
        plugins={"Waiting": lambda _args, _handle: plugin},
    )


def budget(name: str = "b", *, open: bool = True, namespace: str = "default") -> Any:  # noqa: A002  # the field
    return Budget({"metadata": {"name": name, "namespace": namespace}, "spec": {"open": open}})


def test_a_custom_resource_decides_and_its_events_bring_pods_back() -> None:
    async def scenario() -> None:
        async with running(
            make_node("n1"),
            make_pod("p"),
            profiles=[profile("TeamBudgets")],
            plugins={"TeamBudgets": TeamBudgets},
        ) as world:
            await world.in_queue("p", "unschedulable")
            assert "the namespace has no budget" in world.events("FailedScheduling")[0]
            world.api.put(budget("other", namespace="other"))
            world.api.put(budget(open=False))
            await world.quiet(seconds=20)
            assert world.queue_of("p") == "unschedulable"
            world.api.replace(budget(open=True))
            await world.bound("p", seconds=20)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(
    "resource, make",
    [
        pytest.param(
            "garages.v1.any.kuberth.io", lambda: Garage(metadata=ObjectMeta(name="g")), id="a-struct"
        ),
        pytest.param(
            Resource.RESOURCE_CLAIM,
            lambda: ResourceClaim(metadata=ObjectMeta(name="c", namespace="default")),
            id="a-claim",
        ),
        pytest.param(
            "resourceclaims.v1.resource.k8s.io",
            lambda: ResourceClaim(metadata=ObjectMeta(name="c", namespace="default")),
            id="a-claim-by-its-full-name",
        ),
        pytest.param(
            "services.v1.",
            lambda: Service(metadata=ObjectMeta(name="s", namespace="default")),
            id="a-kind-without-a-group",
        ),
        pytest.param("Namespace", lambda: make_namespace("fresh"), id="namespaces"),
        pytest.param("nodes.v1.", lambda: make_node("n2"), id="nodes-by-their-full-name"),
    ],
)
def test_events_of_any_kind(resource: str, make: Callable[[], Any]) -> None:
    async def scenario() -> None:
        plugin = Waiting(resource)
        async with waiting_world(plugin) as world:
            await world.in_queue("p", "unschedulable")
            made = world.api.put(make())
            await world.bound("p", seconds=20)
            assert plugin.seen[0] == (None, made)

    run_in_virtual_time(scenario)


class Patient(Waiting):
    """Is asked about every event, and has waited for none of them."""

    def _hint(self, pod: Pod, old: Any, new: Any) -> Hint:
        super()._hint(pod, old, new)
        return Hint.SKIP

    def pre_filter(self, _state: CycleState, _pod: Pod, _nodes: Any) -> Status | None:
        return Status.unresolvable("waiting")


def test_hints_receive_the_old_and_the_new_object() -> None:
    async def scenario() -> None:
        plugin = Patient("garages.v1.any.kuberth.io")
        async with waiting_world(plugin) as world:
            await world.in_queue("p", "unschedulable")
            first = world.api.put(Garage(metadata=ObjectMeta(name="g"), spots=1))
            second = world.api.replace(Garage(metadata=ObjectMeta(name="g"), spots=2))
            world.api.remove(Garage, "g")
            await world.quiet()
            assert plugin.seen == [(None, first), (first, second), (second, None)]
            assert world.queue_of("p") == "unschedulable"

    run_in_virtual_time(scenario)


def test_kinds_that_are_only_looked_up_move_no_pod() -> None:
    """A wildcard means the events there are, not those of every kind that someone reads."""

    async def scenario() -> None:
        plugin = Patient(Resource.ANY)

        def make(_args: Any, handle: Any) -> Patient:
            handle.stores.of(Garage)
            return plugin

        async with running(
            make_node("n1"), make_pod("p"), profiles=[profile("Waiting")], plugins={"Waiting": make}
        ) as world:
            await world.in_queue("p", "unschedulable")
            world.api.put(Garage(metadata=ObjectMeta(name="g")))
            await world.quiet()
            assert world.scheduler.stores.of(Garage).get("g") is not None
            world.api.put(make_node("n2"))
            await world.quiet()
            reported = [type(new).__name__ for _old, new in plugin.seen]
            assert "Node" in reported
            assert "Garage" not in reported

    run_in_virtual_time(scenario)


def made(*, plugin: Any) -> Scheduler:
    return Scheduler(MemoryApi(), plugins={"Waiting": plugin}, config=_config())


def _config() -> Any:
    tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile("Waiting")]}
    return load(tree)


@pytest.mark.parametrize(
    "resource",
    [
        "Gargae",
        "garages.v1",
        "garages.any.kuberth.io",
        "garages.v2.any.kuberth.io",
        "any.kuberth.io/Garages",
        "",
    ],
)
def test_an_event_of_an_unknown_kind_is_reported_at_the_start(resource: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(plugin=lambda _args, _handle: Waiting(resource))
    reported = str(caught.value)
    assert f"plugin 'Waiting' registers events of {resource!r}" in reported
    assert 'register_kind("Widget", group="example.com", version="v1", plural="widgets")' in reported
    assert '"widgets.v1.example.com"' in reported


def test_a_store_of_an_unregistered_type_is_reported_at_the_start() -> None:
    class Unknown(Wire):
        metadata: ObjectMeta = ObjectMeta()

    with pytest.raises(
        ConfigError, match=r"plugin 'Waiting' cannot be initialized: TypeError: Unknown is not a known kind"
    ):
        made(plugin=lambda _args, handle: handle.stores.of(Unknown))


def test_a_store_that_is_asked_for_too_late() -> None:
    scheduler = made(plugin=lambda _args, _handle: Waiting(Resource.NODE))
    with pytest.raises(KuberthError, match="the store of Garage was requested too late"):
        scheduler.stores.of(Garage)


# The local cluster, whose kinds come and go


@asynccontextmanager
async def local(plugin: Any) -> AsyncIterator[tuple[Core, InProcessApi, Scheduler]]:
    store = await RevisionStore.open(None)
    clock = LoopClock(asyncio.get_running_loop())
    core = Core(store, clock=clock)
    api = InProcessApi(core)
    scheduler = Scheduler(api, plugins={"Waiting": plugin}, config=_config(), clock=clock)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(), name="scheduler")
            await scheduler.wait_synced()
            yield core, api, scheduler
            scheduler.stop()
    finally:
        await store.close()


class Budgeted(TeamBudgets):
    name = "Waiting"


async def _bound(api: InProcessApi, name: str, *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        async for event in api.watch(Pod, resource_version="0", field_selector=f"metadata.name={name}"):
            if event.object is not None and event.object.spec.node_name:
                return


def test_a_definition_may_come_after_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with local(Budgeted) as (core, api, scheduler):
            await api.create(make_node("n1"))
            pod = {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            }
            await core.create("pods", pod, namespace="default")
            await asyncio.sleep(300)
            assert not (await api.get(Pod, "p", namespace="default")).spec.node_name
            (manifest,) = read_manifests(Path("examples/budget-crd.yaml"))
            await core.create("customresourcedefinitions.apiextensions.k8s.io", manifest.tree)
            await api.create(budget(open=False))
            await asyncio.sleep(60)
            assert len(scheduler.stores.of(Budget)) == 1
            await api.patch(Budget, "b", {"spec": {"open": True}}, namespace="default")
            await _bound(api, "p", seconds=20)
            # And it may go again.
            await core.delete("customresourcedefinitions.apiextensions.k8s.io", "budgets.example.com")
            await asyncio.sleep(60)
            assert len(scheduler.stores.of(Budget)) == 0
            with pytest.raises(NotFoundError):
                await api.list(Budget)

    run_in_virtual_time(scenario)
    reported = [record.getMessage() for record in caplog.records if "is not served" in record.getMessage()]
    assert reported[0].startswith("Budget is not served by the API server")
    assert "budgets.v1.example.com" in reported[0]


def test_namespaces_are_stored_and_their_events_move_pods() -> None:
    """The cluster table needs them, whichever plugin registers for them."""

    async def scenario() -> None:
        plugin = Waiting("Namespace")
        async with waiting_world(plugin) as world:
            assert isinstance(world, World)
            await world.in_queue("p", "unschedulable")
            world.api.put(make_namespace("fresh", labels={"team": "a"}))
            await world.bound("p", seconds=20)
            assert world.scheduler.stores.of(Namespace).get("fresh") is not None

    run_in_virtual_time(scenario)
