"""The process of `kuberth run`: reaching the API server, and how it ends."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import ssl
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import pytest

from kuberth.api.coordination import Lease, LeaseSpec
from kuberth.api.core import Event, Namespace, Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import LoopClock
from kuberth.config import FeatureGates, default_configuration
from kuberth.config.types import LeaderElectionConfiguration
from kuberth.errors import ApiError, ForbiddenError, NotFoundError, UnauthorizedError, UnreachableError
from kuberth.framework import Registry
from kuberth.programs.run import daemon
from kuberth.programs.run.daemon import SchedulerProcess, reach
from kuberth.programs.run.leader_election import ElectionEvents, LeaderElector
from kuberth.queue import FairShareQueue
from kuberth.serving.access import DelegatedAccess
from kuberth.testing import MemoryApi, make_namespace, make_node, make_pod, run_in_virtual_time


class Failing(MemoryApi):
    """Fails with these errors, one a request, before it answers."""

    def __init__(self, *errors: ApiError) -> None:
        super().__init__()
        self.errors = list(errors)
        self.asked = 0
        self.put(make_namespace("kube-system"))

    async def get(self, kind: type[Any], name: str, *, namespace: str = "") -> Any:
        if kind is Namespace:
            self.asked += 1
            if self.errors:
                raise self.errors.pop(0)
        return await super().get(kind, name, namespace=namespace)


def down() -> ApiError:
    return UnreachableError("connection refused")


def refused() -> ApiError:
    return UnauthorizedError("who are you")


def distrusted() -> ApiError:
    error = UnreachableError("the certificate is of another CA")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    return error


@pytest.mark.parametrize(
    "errors, asked",
    [
        pytest.param([], 1, id="there"),
        pytest.param([down() for _ in range(50)], 51, id="down-for-long"),
        pytest.param([ApiError("broken", code=500)] * 5, 6, id="broken"),
        pytest.param([ForbiddenError("not yours")], 1, id="forbidden-is-an-answer"),
        pytest.param([NotFoundError("none")], 1, id="not-found-is-an-answer"),
        pytest.param([refused(), refused(), refused()], 4, id="credentials-not-known-yet"),
        pytest.param([refused(), refused(), refused(), down(), refused()], 6, id="refused-in-between"),
    ],
)
def test_a_server_that_is_not_there_is_waited_for(errors: list[ApiError], asked: int) -> None:
    api = Failing(*errors)
    run_in_virtual_time(lambda: reach(api, rng=random.Random(1)))
    assert api.asked == asked


@pytest.mark.parametrize(
    "errors, asked",
    [
        pytest.param([refused()] * 9, 4, id="wrong-credentials"),
        pytest.param([distrusted()], 1, id="wrong-authority"),
        pytest.param([down(), distrusted()], 2, id="wrong-authority-later"),
    ],
)
def test_what_waiting_cannot_mend_is_an_error(errors: list[ApiError], asked: int) -> None:
    api = Failing(*errors)
    with pytest.raises(ApiError):
        run_in_virtual_time(lambda: reach(api, rng=random.Random(1)))
    assert api.asked == asked


def live(scenario: Callable[[SchedulerProcess, Any], Any], *, api: Any = None, election: bool = False) -> int:
    """A process on virtual time, and a scenario beside it that ends it; returns the exit code."""
    api = Failing() if api is None else api

    async def main() -> int:
        clock = LoopClock(asyncio.get_running_loop())
        settings = LeaderElectionConfiguration()
        elector = events = None
        if election:
            events = ElectionEvents(api, clock, component="first")
            elector = LeaderElector(
                api, settings=settings, identity="me", clock=clock, on_event=events.record
            )
        scheduler = Scheduler(api, clock=clock)
        process = SchedulerProcess(scheduler, api, elector, grace_seconds=5.0, election_events=events)
        async with asyncio.TaskGroup() as tasks:
            code = tasks.create_task(process.until_end())
            tasks.create_task(scenario(process, api))
        return code.result()

    return run_in_virtual_time(main)


async def until(predicate: Callable[[], object]) -> None:
    async with asyncio.timeout(600):
        while not predicate():  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.05)


def test_a_signal_ends_it_well() -> None:
    async def scenario(process: SchedulerProcess, api: Any) -> None:
        api.put(make_node("n"))
        api.put(make_pod("p"))
        await until(lambda: api.read(Pod, "default/p").spec.node_name)
        assert (process.problem(), process.ending) == (None, False)
        os.kill(os.getpid(), signal.SIGTERM)

    assert live(scenario) == 0


def test_a_signal_ends_it_before_the_server_is_reached() -> None:
    async def scenario(process: SchedulerProcess, api: Any) -> None:
        await until(lambda: api.asked > 3)
        assert not process.scheduler.synced
        assert not process.leading
        os.kill(os.getpid(), signal.SIGTERM)

    assert live(scenario, api=Failing(*(down() for _ in range(1000)))) == 0


def test_it_begins_when_the_server_comes() -> None:
    async def scenario(process: SchedulerProcess, api: Any) -> None:
        await until(lambda: process.scheduler.synced and process.leading)
        assert api.asked == 31
        os.kill(os.getpid(), signal.SIGTERM)

    assert live(scenario, api=Failing(*(down() for _ in range(30))), election=True) == 0


def test_a_loop_that_ends_unasked_ends_the_process_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(process: SchedulerProcess, api: Any) -> None:
        def cancelling() -> bool:
            raise asyncio.CancelledError

        await until(lambda: process.leading)
        process.scheduler.loop.schedule_one = cancelling  # type: ignore[method-assign]  # as a plugin could
        api.put(make_node("n"))
        api.put(make_pod("p"))
        await until(lambda: process.ending)
        assert process.problem() == "the scheduling loop ended unexpectedly"

    assert live(scenario) == 1
    assert "the scheduling loop ended unexpectedly" in caplog.text


def test_a_leader_that_cannot_renew_ends_with_an_error_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(process: SchedulerProcess, api: Any) -> None:
        await until(lambda: process.leading)

        async def fail(*_: object, **__: object) -> Any:
            raise down()

        api.get = api.update = api.create = fail

    assert live(scenario, election=True) == 1
    assert "Leaderelection lost: the lease kube-system/kube-scheduler could not be renewed" in caplog.text


async def end_well(_api: MemoryApi) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def take_the_lease(api: MemoryApi) -> None:
    other = LeaseSpec(holder_identity="other", lease_duration_seconds=3600)
    api.change(Lease, "kube-system/kube-scheduler", lambda lease: msgspec.structs.replace(lease, spec=other))


@pytest.mark.parametrize(
    "end, code", [pytest.param(end_well, 0, id="asked-to-end"), pytest.param(take_the_lease, 1, id="lost")]
)
def test_events_name_the_leader(end: Callable[[MemoryApi], Any], code: int) -> None:
    api = Failing()

    async def scenario(process: SchedulerProcess, api: Any) -> None:
        await until(lambda: process.leading and api.all(Event))
        await end(api)

    assert live(scenario, api=api, election=True) == code
    assert [(event.reason, event.message) for event in api.all(Event)] == [
        ("LeaderElection", "me became leader"),
        ("LeaderElection", "me stopped leading"),
    ]


class Silent(Failing):
    """Takes everything but events, which it never answers."""

    async def create(self, obj: Any) -> Any:
        return await (asyncio.Event().wait() if isinstance(obj, Event) else super().create(obj))


def test_a_leader_does_without_events() -> None:
    api = Silent()

    async def scenario(process: SchedulerProcess, api: Any) -> None:
        await until(lambda: process.leading)
        api.put(make_node("n"))
        api.put(make_pod("p"))
        await until(lambda: api.read(Pod, "default/p").spec.node_name)
        os.kill(os.getpid(), signal.SIGTERM)

    assert live(scenario, api=api, election=True) == 0
    assert api.read(Lease, "kube-system/kube-scheduler").spec.holder_identity == ""


class Asked(Exception):  # noqa: N818  # no error: it ends the program where the test has seen enough
    """How a scheduler was asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options


def test_settings_reach_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def scheduler(_api: object, **options: Any) -> NoReturn:
        raise Asked(**options)

    monkeypatch.setattr(daemon, "Scheduler", scheduler)
    config, registry = default_configuration(), Registry()
    settings = daemon.Settings(
        config=config,
        registry=registry,
        queue=FairShareQueue,
        master="http://127.0.0.1:1",
        max_unschedulable_seconds=90.0,
    )
    with pytest.raises(Asked) as asked:
        asyncio.run(daemon.run(settings))
    options = asked.value.options
    assert options["config"] is config
    assert options["registry"] is registry
    assert options["queue"] is FairShareQueue
    assert options["max_unschedulable_seconds"] == 90.0


@pytest.mark.parametrize("on", [True, False])
def test_statusz_speaks_cbor_behind_its_gate(*, on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def routes(**options: Any) -> NoReturn:
        raise Asked(**options)

    monkeypatch.setattr(daemon, "scheduler_routes", routes)
    gates = FeatureGates({"CBORServingAndStorage": on})

    async def serve() -> None:
        api, serving = MemoryApi(), daemon.ServingSettings("127.0.0.1", 0)
        clock = LoopClock(asyncio.get_running_loop())
        process = SchedulerProcess(
            Scheduler(api, clock=clock, feature_gates=gates), api, None, grace_seconds=5.0
        )
        settings = daemon.Settings(config=default_configuration(), registry=Registry())
        access = DelegatedAccess(api, clock=clock)
        daemon._serve(settings, serving, process, access, list, {})

    with pytest.raises(Asked) as asked:
        run_in_virtual_time(serve)
    assert asked.value.options["cbor"] is on


def test_election_events_come_from_the_first_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(_api: object, _clock: object, **options: Any) -> NoReturn:
        raise Asked(**options)

    monkeypatch.setattr(daemon, "ElectionEvents", events)
    first, *_ = default_configuration().profiles
    profiles = [msgspec.structs.replace(first, scheduler_name=name) for name in ("mine", "other")]
    config = msgspec.structs.replace(default_configuration(), profiles=profiles)
    with pytest.raises(Asked) as asked:
        asyncio.run(
            daemon.run(daemon.Settings(config=config, registry=Registry(), master="http://127.0.0.1:1"))
        )
    assert asked.value.options == {"component": "mine"}
