"""Pods bound without a task: the whole scheduler over an API that takes posts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kuberth.api.core import Binding, Node, Pod
from kuberth.api.events import Event
from kuberth.api.wire import decode
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.adaptive_limit import CEILING, FLOOR, STALLED_SECONDS
from kuberth.client.fencing import FencedApi
from kuberth.client.writes import Verb, Write
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.config import load
from kuberth.errors import AnswerLostError, ApiError, ConflictError
from kuberth.framework import (
    SKIP,
    BindPlugin,
    CycleState,
    Handle,
    PermitPlugin,
    PermitResult,
    PreBindPlugin,
    Status,
)
from kuberth.plugins.default_binder.plugin import DefaultBinder
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import API_VERSION, profile

POST = Write(Verb.CREATE, Node, "n", body=b"{}")
Bind = Callable[["PostOffice", Binding], Awaitable[None]]


class PostOffice(MemoryApi):
    """Takes posts, a second each; `then` is what becomes of a posted binding."""

    def __init__(self, then: Bind | None = None) -> None:
        super().__init__(clock=LoopClock(asyncio.get_running_loop()))
        self.then = then
        self.posted: list[str] = []
        self.asked: list[str] = []

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        self.posted.append(str(write))
        return asyncio.ensure_future(self._deliver(write.kind, write.body))

    async def _deliver(self, kind: type[Any], body: bytes) -> None:
        await asyncio.sleep(1)
        if kind is Event:
            await self.create(decode(Event, body))
        elif self.then is None:
            await super().bind(decode(Binding, body))
        else:
            await self.then(self, decode(Binding, body))

    async def really_bind(self, binding: Binding) -> None:
        await super().bind(binding)

    async def bind(self, binding: Binding) -> None:
        self.asked.append(f"bind {binding.metadata.name}")
        await super().bind(binding)

    @property
    def bindings_posted(self) -> list[str]:
        return [what for what in self.posted if what.startswith("bind")]

    def node_of(self, name: str = "p") -> str:
        return self.read(Pod, f"default/{name}").spec.node_name

    def events(self) -> list[str]:
        return [event.reason for event in self.all(Event)]


Script = Callable[[Scheduler, PostOffice], Coroutine[Any, Any, None]]


def scheduling(
    script: Script, *, then: Bind | None = None, grace_seconds: float = 10.0, **options: Any
) -> None:
    async def main() -> None:
        api = PostOffice(then)
        api.put(make_node("n1", cpu="4"))
        api.put(make_pod("p", uid="u", cpu="1"))
        scheduler = Scheduler(api, clock=LoopClock(asyncio.get_running_loop()), **options)
        running = asyncio.ensure_future(scheduler.run(grace_seconds=grace_seconds))
        try:
            await script(scheduler, api)
        finally:
            scheduler.stop()
            await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(main, limit_seconds=3600)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - virtual time: what is waited for has no event
        await asyncio.sleep(0.1)


def tasks_of_bindings() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("bind ")]


def test_a_pod_is_bound_without_a_task_and_its_event_is_recorded() -> None:
    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.posted)
        assert tasks_of_bindings() == []
        assert scheduler.metrics.goroutines.values == {("binding",): 1}
        assert scheduler.cluster.is_assumed("u")
        await until(lambda: api.events())
        assert (api.node_of(), api.events()) == ("n1", ["Scheduled"])
        assert api.bindings_posted == ["bind pod default/p to node n1"]
        assert api.asked == []
        assert scheduler.metrics.goroutines.values == {("binding",): 0}
        assert scheduler.metrics.schedule_attempts.values == {("scheduled", "default-scheduler"): 1}
        durations = scheduler.metrics.extension_point_duration.values
        for point in ("PreBind", "Bind", "PostBind"):
            assert durations[point, "Success", "default-scheduler"].count == 1
        assert scheduler.queue.in_flight() == ()
        await until(lambda: not scheduler.cluster.is_assumed("u"))
        placed = scheduler.cluster.placed("u")
        assert placed is not None
        assert placed.pod == api.read(Pod, "default/p")

    scheduling(script)


def test_a_refused_binding_is_undone_and_tried_again() -> None:
    async def refused(api: PostOffice, binding: Binding) -> None:
        api.then = None
        raise ConflictError("bind pod default/p to node n1: another client was faster")

    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.events())
        assert scheduler.cluster.placed("u") is None
        assert scheduler.queue.in_flight() == ()
        assert scheduler.metrics.schedule_attempts.values == {("error", "default-scheduler"): 1}
        await until(lambda: api.node_of())
        await until(lambda: len(api.events()) == 2)
        assert sorted(api.events()) == ["FailedScheduling", "Scheduled"]
        (failed,) = (event for event in api.all(Event) if event.reason == "FailedScheduling")
        assert "another client was faster" in failed.note
        assert len(api.bindings_posted) == 2

    scheduling(script, then=refused)


def test_a_defect_after_the_binding_is_logged_and_delays_no_other_pod(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        recorder = scheduler.recorder
        monkeypatch.setattr(recorder, "record", lambda *_, **__: 1 / 0)
        await until(lambda: api.node_of())
        await until(lambda: "bind default/p failed" in caplog.text)
        api.put(make_pod("q", uid="v", cpu="1"))
        await until(lambda: "bind default/q failed" in caplog.text)
        assert api.node_of("q") == "n1"
        assert scheduler.metrics.goroutines.values == {("binding",): 0}

    scheduling(script)


@pytest.mark.parametrize("happened", [True, False], ids=["bound", "not-bound"])
def test_when_the_answer_is_lost_the_pod_itself_is_asked(happened: bool) -> None:
    async def lost(api: PostOffice, binding: Binding) -> None:
        if happened:
            await api.really_bind(binding)
        raise AnswerLostError("bind pod default/p to node n1: the connection was lost")

    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.events())
        assert (api.node_of(), api.events()) == ("n1", ["Scheduled"])
        assert len(api.bindings_posted) == 1
        assert api.asked == ([] if happened else ["bind p"])
        assert scheduler.metrics.goroutines.values == {("binding",): 0}

    scheduling(script, then=lost)


def test_ending_waits_for_bindings_under_way() -> None:
    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.posted)
        assert api.node_of() == ""
        scheduler.stop()
        await until(lambda: api.events())
        assert api.node_of() == "n1"

    scheduling(script)


def test_ending_gives_up_a_binding_that_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async def never(_api: PostOffice, _binding: Binding) -> None:
        await asyncio.sleep(10_000)

    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.posted)
        scheduler.stop()
        await asyncio.sleep(6)
        assert "not done within 5 s, abandoned: bind default/p" in caplog.text
        assert scheduler.metrics.goroutines.values == {("binding",): 0}
        assert asyncio.get_running_loop().time() < 1000

    scheduling(script, then=never, grace_seconds=5.0)
    assert "failed" not in caplog.text


def test_a_scheduler_that_is_cancelled_takes_its_posts_back() -> None:
    """As when the lease is lost: what was not sent yet must not be."""
    ended: list[str] = []

    async def never(_api: PostOffice, _binding: Binding) -> None:
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        api = PostOffice(never)
        api.put(make_node("n1"))
        api.put(make_pod("p", uid="u"))
        scheduler = Scheduler(api, clock=LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(scheduler.run())
        await until(lambda: api.posted)
        await asyncio.sleep(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0)
        assert ended == ["cancelled"]

    run_in_virtual_time(main, limit_seconds=3600)


def test_a_fenced_api_posts_nothing() -> None:
    async def main() -> None:
        api = PostOffice()
        api.put(make_node("n1"))
        api.put(make_pod("p", uid="u"))
        may_write = True
        fenced = FencedApi(api, lambda: may_write)
        assert fenced.post_nowait(POST) is not None
        may_write = False
        assert fenced.post_nowait(POST) is None
        assert FencedApi(MemoryApi(), lambda: True).post_nowait(POST) is None
        api.posted.clear()
        scheduler = Scheduler(fenced, events_api=api, clock=LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(scheduler.run())
        await until(lambda: api.events())
        assert (api.bindings_posted, api.asked, api.node_of()) == ([], [], "")
        (event,) = api.all(Event)
        assert "not the leader any more" in event.note
        scheduler.stop()
        await running

    run_in_virtual_time(main, limit_seconds=3600)


# Plugins keep their say


class Meddling(DefaultBinder):
    """Overrides `bind` alone: every binding is to go through it."""

    name = "Meddling"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        SEEN.append(f"bind {pod.metadata.name}")
        await super().bind(state, pod, node_name)


class Patient(PreBindPlugin):
    name = "Patient"

    def __init__(self, _args: object, _handle: Handle) -> None: ...

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        SEEN.append(f"pre_bind {pod.metadata.name}")


class Gate(PermitPlugin):
    name = "Gate"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:
        asyncio.get_running_loop().call_later(3, self._open, pod.metadata.uid)
        return PermitResult.wait(60)

    def _open(self, uid: str) -> None:
        SEEN.append("open")
        waiting = self._handle.waiting_pods.get(uid)
        assert waiting is not None
        waiting.allow(self.name)


SEEN: list[str] = []


def with_plugin(plugin: type[Any]) -> dict[str, Any]:
    tree = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile(plugin.name)],
    }
    SEEN.clear()
    return {"config": load(tree), "plugins": {plugin.name: plugin}}


@pytest.mark.parametrize(
    "plugin, posted, seen",
    [
        pytest.param(Patient, 0, ["pre_bind p"], id="work-before-the-binding"),
        pytest.param(Gate, 0, ["open"], id="a-gate"),
    ],
)
def test_a_pod_that_has_to_wait_takes_the_long_way(plugin: type[Any], posted: int, seen: list[str]) -> None:
    async def script(_scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: "Scheduled" in api.events())
        assert (len(api.bindings_posted), api.asked, SEEN) == (posted, ["bind p"], seen)

    scheduling(script, **with_plugin(plugin))


class Quick(BindPlugin):
    """Binds without a task; `answers` says how."""

    name = "Quick"
    answers: Callable[[], Any]

    def __init__(self, _args: object, handle: Handle) -> None:
        self._api = handle.api

    def bind_nowait(self, state: CycleState, pod: Pod, node_name: str) -> asyncio.Future[Status] | None:
        SEEN.append("bind_nowait")
        answer = type(self).answers()
        if answer is None:
            return None
        future: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer == "cancel":
            future.cancel()
        else:
            future.set_result(answer)
        return future

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        SEEN.append("bind")
        await DefaultBinder.bind(self, state, pod, node_name)  # type: ignore[arg-type]  # it needs just an API

    async def _is_bound(self, _pod: Pod, _node_name: str) -> bool:
        return False


def fails() -> Any:
    raise ValueError("bind_nowait is broken")


@pytest.mark.parametrize(
    "answers, bound, logged",
    [
        pytest.param(lambda: None, True, "", id="leaves-it-to-bind"),
        pytest.param(fails, True, "bind_nowait is broken", id="raises"),
        pytest.param(lambda: AnswerLostError("gone"), True, "", id="lost"),
        pytest.param(lambda: Status.unschedulable("full"), False, "full", id="rejects"),
        pytest.param(lambda: ApiError("etcd is away", code=500), False, "etcd is away", id="fails"),
        pytest.param(lambda: "cancel", False, "CancelledError", id="was-cancelled"),
        pytest.param(lambda: Status.error("oh"), False, "oh", id="error"),
        pytest.param(lambda: "what", False, "returned 'what'", id="nonsense"),
        pytest.param(lambda: SKIP, False, "returned 'Skip'", id="skips-too-late"),
    ],
)
def test_what_a_plugin_may_answer(
    answers: Callable[[], Any], bound: bool, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(scheduler: Scheduler, api: PostOffice) -> None:
        await until(api.events)
        assert api.node_of() == ("n1" if bound else "")
        assert SEEN[:2] == (["bind_nowait", "bind"] if bound else ["bind_nowait"])
        (event,) = api.all(Event)
        assert event.reason == ("Scheduled" if bound else "FailedScheduling")
        assert logged in caplog.text if bound else logged in event.note
        assert (scheduler.cluster.placed("u") is not None) is bound

    class Answering(Quick):
        name = "Answering"

    Answering.answers = staticmethod(answers)
    scheduling(script, **with_plugin(Answering))


def test_a_plugin_that_overrides_only_bind_is_called_for_every_pod() -> None:
    async def script(_scheduler: Scheduler, api: PostOffice) -> None:
        await until(lambda: api.events())
        assert (SEEN, api.bindings_posted, api.asked) == (["bind p"], [], ["bind p"])

    scheduling(script, **with_plugin(Meddling))


def test_a_server_that_cannot_follow_is_not_run_ahead_of() -> None:
    """What it has not got yet waits in the queue, where a more urgent pod still comes first."""
    answers = asyncio.Semaphore(0)

    async def when_asked(api: PostOffice, binding: Binding) -> None:
        await answers.acquire()
        await api.really_bind(binding)

    async def main() -> None:
        api = PostOffice(when_asked)
        api.put(make_node("n1", cpu="1000", pods="2000"))
        for number in range(100):
            api.put(make_pod(f"p{number}", uid=f"u{number}", cpu="1m"))
        scheduler = Scheduler(api, clock=LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(scheduler.run())
        await asyncio.sleep(0.9)
        assert len(api.bindings_posted) == FLOOR
        assert scheduler.cluster.assumed_count == FLOOR
        assert scheduler.metrics.write_limit.values == {("binding",): FLOOR, ("pod_status_patch",): FLOOR}
        assert scheduler.metrics.writes_in_flight.values["binding",] == FLOOR
        api.put(make_pod("urgent", uid="urgent", cpu="1m", priority=10))
        for _ in range(FLOOR // 4):
            answers.release()
        await asyncio.sleep(0.5)
        assert len(api.bindings_posted) == FLOOR  # one more answer, and there is room again
        answers.release()
        await asyncio.sleep(0.1)
        assert len(api.bindings_posted) == FLOOR + FLOOR // 4 + 1
        assert api.bindings_posted[FLOOR] == "bind pod default/urgent to node n1"
        for _ in range(100):
            answers.release()
        await until(lambda: api.node_of("p99"))
        assert len(api.bindings_posted) == 101
        assert scheduler.metrics.writes_in_flight.values["binding",] == 0
        scheduler.stop()
        await running

    run_in_virtual_time(main, limit_seconds=3600)


def test_a_stalled_server_gets_a_few_more_bindings_every_second() -> None:
    """What it has got may be lost with its connection, and others may still be answered."""

    async def never(api: PostOffice, binding: Binding) -> None:
        if binding.metadata.name != "urgent":
            await asyncio.sleep(10_000)
        await api.really_bind(binding)

    async def main() -> None:
        api = PostOffice(never)
        api.put(make_node("n1", cpu="1000", pods="2000"))
        for number in range(2 * CEILING):
            api.put(make_pod(f"p{number}", uid=f"u{number}", cpu="1m"))
        scheduler = Scheduler(api, clock=LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(scheduler.run())
        await asyncio.sleep(0.5)
        assert len(api.bindings_posted) == FLOOR
        api.put(make_pod("urgent", uid="urgent", cpu="1m", priority=10))
        await asyncio.sleep(0.9 * STALLED_SECONDS)
        assert len(api.bindings_posted) == 2 * FLOOR
        await until(lambda: api.node_of("urgent"))
        assert asyncio.get_running_loop().time() < 3
        await asyncio.sleep(600)
        assert scheduler.metrics.writes_in_flight.values["binding",] == CEILING
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(main, limit_seconds=3600)
