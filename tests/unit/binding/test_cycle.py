from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

import pytest

from kuberth.api.core import Pod
from kuberth.client.adaptive_limit import STALLED_SECONDS
from kuberth.clock import LoopClock
from kuberth.errors import KuberthError
from kuberth.framework import (
    SKIP,
    Action,
    BindPlugin,
    ClusterEvent,
    CycleState,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    PermitPlugin,
    PermitResult,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    Resource,
    Status,
)
from kuberth.testing import make_node, make_pod, run_in_virtual_time
from tests.unit.framework.harness import Outside, plugin
from tests.unit.queue.harness import kept_events
from tests.unit.scheduling.harness import CycleHarness, make_harness

Steps = Callable[[CycleHarness], Coroutine[Any, Any, None]]


async def nothing(_scheduler: CycleHarness) -> None: ...


async def bound(scheduler: CycleHarness, pod: Pod, steps: Steps = nothing) -> None:
    """One pod through both cycles; `steps` happen while it is being bound."""
    placement = scheduler.place(pod)
    scheduler.binding.start_waiting(placement)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.binding.run(placement))
        await asyncio.sleep(0.5)
        await steps(scheduler)


def now() -> float:
    return asyncio.get_running_loop().time()


def run(
    *plugins: type[Plugin], steps: Steps = nothing, pod: Pod | None = None, **options: Any
) -> CycleHarness:
    async def main() -> CycleHarness:
        options.setdefault("nodes", ["n1"])
        scheduler = make_harness(
            *plugins, clock=LoopClock(asyncio.get_running_loop(), epoch_ns=10**12), **options
        )
        await bound(scheduler, make_pod("p", uid="u", cpu="1") if pod is None else pod, steps)
        return scheduler

    return run_in_virtual_time(main)


def is_bound(scheduler: CycleHarness, name: str = "p") -> str:
    return scheduler.made.api.read(Pod, f"default/{name}").spec.node_name


def later(answer: Any) -> Callable[..., Awaitable[Any]]:
    async def method(*_: object) -> Any:
        await asyncio.sleep(1)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return method


def reserving(*names: str, log: list[str]) -> list[type[Plugin]]:
    return [plugin(name, ReservePlugin, reserve=None, unreserve=None, log=log) for name in names]


def expect_undone(scheduler: CycleHarness, *, queue: str, rejectors: set[str]) -> None:
    """The pod is off its node and back in the queue."""
    assert scheduler.queues() == {queue: ["p"]}
    queued = scheduler.queue.get("default/p")
    assert queued is not None
    assert queued.unschedulable_plugins == rejectors
    assert scheduler.made.cluster.placed("u") is None
    assert scheduler.made.node("n1").requested("cpu") == 0
    assert scheduler.queue.in_flight() == ()
    assert len(scheduler.made.waiting_pods) == 0


# Started


def test_a_binding_that_may_have_to_wait_has_a_task() -> None:
    async def main() -> CycleHarness:
        scheduler = make_harness(waiting("A", 60), nodes=["n1"])
        scheduler.binding.start(scheduler.place(make_pod("p", uid="u")))
        (held,) = scheduler.made.waiting_pods
        held.allow("A")
        [work] = scheduler.made.outside.spawned
        await work
        return scheduler

    assert is_bound(run_in_virtual_time(main)) == "n1"


@pytest.mark.parametrize("error", [KuberthError("it has ended"), RuntimeError("a defect")], ids=repr)
def test_a_binding_that_does_not_start_leaves_no_pod_waiting(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_outside: Outside, work: Coroutine[Any, Any, None], *, name: str) -> None:
        work.close()
        assert name == "bind default/p"
        raise error

    monkeypatch.setattr(Outside, "spawn", refuse)

    async def main() -> None:
        scheduler = make_harness(waiting("A", 60), nodes=["n1"])
        with pytest.raises(type(error), match=str(error)):
            scheduler.binding.start(scheduler.place(make_pod("p", uid="u")))
        assert len(scheduler.made.waiting_pods) == 0

    run_in_virtual_time(main)


# Bound


def test_capacity_that_returns_is_no_error_without_a_callback() -> None:
    async def main() -> list[dict[str, Any]]:
        loop, errors = asyncio.get_running_loop(), list[dict[str, Any]]()
        loop.set_exception_handler(lambda _loop, context: errors.append(context))
        binding = make_harness(clock=LoopClock(loop, epoch_ns=10**12), nodes=["n1"]).binding
        while binding.has_capacity():
            binding.limit.start()
        await asyncio.sleep(2 * STALLED_SECONDS)
        return errors

    assert run_in_virtual_time(main) == []


def test_a_bound_pod_stays_on_its_node_and_its_event_is_recorded() -> None:
    log: list[str] = []
    scheduler = run(
        *reserving("R", log=log),
        plugin("B", PreBindPlugin, PostBindPlugin, pre_bind=None, post_bind=None, log=log),
    )
    assert is_bound(scheduler) == "n1"
    assert log == ["R.reserve", "B.pre_bind", "B.post_bind"]
    assert scheduler.made.node("n1").requested("cpu") == 1000
    assert scheduler.made.outside.events == [("p", "Scheduled", "Successfully assigned default/p to n1")]
    assert (scheduler.queues(), scheduler.queue.in_flight()) == ({}, ())
    metrics = scheduler.made.metrics
    assert metrics.schedule_attempts.values == {("scheduled", "default-scheduler"): 1}
    assert metrics.pod_scheduling_attempts.values[()].sum == 1
    assert metrics.pod_scheduling_sli_duration.values[("1",)].count == 1


def test_the_time_to_schedule_is_the_clocks() -> None:
    scheduler = run(plugin("B", PreBindPlugin, pre_bind=later(None)))
    assert scheduler.made.metrics.pod_scheduling_sli_duration.values[("1",)].sum == pytest.approx(1)


def test_post_bind_may_raise_without_harm(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    scheduler = run(
        plugin("A", PostBindPlugin, post_bind=ValueError("lost"), log=log),
        plugin("B", PostBindPlugin, post_bind=None, log=log),
    )
    assert is_bound(scheduler) == "n1"
    assert log == ["A.post_bind", "B.post_bind"]
    assert scheduler.made.cluster.placed("u") is not None
    assert "plugin 'A' failed at PostBind" in caplog.text


def test_bindings_run_side_by_side() -> None:
    async def main() -> float:
        scheduler = make_harness(
            plugin("B", PreBindPlugin, pre_bind=later(None)),
            nodes=["n1"],
            clock=LoopClock(asyncio.get_running_loop()),
        )
        await asyncio.gather(*(bound(scheduler, make_pod(name)) for name in "abcde"))
        assert all(is_bound(scheduler, name) for name in "abcde")
        return now()

    assert run_in_virtual_time(main) == pytest.approx(1)


def test_pods_a_plugin_wants_tried_again_once_this_one_is_bound() -> None:
    other = make_pod("other", uid="other")

    def activate(state: CycleState, _pod: object, _node_name: str) -> None:
        state.pods_to_activate["default/other"] = other

    only_p = plugin(
        "F",
        FilterPlugin,
        filter=lambda _s, pod, _n: None if pod.metadata.name == "p" else Status.unschedulable("not p"),
    )

    async def main() -> CycleHarness:
        scheduler = make_harness(only_p, plugin("A", PreBindPlugin, pre_bind=activate), nodes=["n1"])
        scheduler.failures.handle(scheduler.reject(other))
        assert scheduler.queues() == {"unschedulable": ["other"]}
        await bound(scheduler, make_pod("p"))
        return scheduler

    assert run_in_virtual_time(main).queues() == {"active": ["other"]}


# Not bound


@pytest.mark.parametrize("form", [lambda answer: answer, later], ids=["sync", "async"])
@pytest.mark.parametrize(
    "answer, reason, note",
    [
        pytest.param(Status.error("no disk"), "SchedulerError", "plugin 'B' at PreBind: no disk", id="error"),
        pytest.param(
            ValueError("no disk"), "SchedulerError", "plugin 'B' at PreBind: ValueError: no disk", id="raises"
        ),
        pytest.param(Status.unschedulable("no disk"), "Unschedulable", "no disk", id="rejects"),
    ],
)
def test_a_failing_pre_bind_returns_the_pod(form: Any, answer: Any, reason: str, note: str) -> None:
    """After Permit no event can help, so whatever the plugin answers the pod is retried after a backoff."""
    log: list[str] = []
    scheduler = run(
        *reserving("R1", "R2", log=log),
        plugin("B", PreBindPlugin, pre_bind=form(answer), log=log),
        plugin("C", PreBindPlugin, PostBindPlugin, pre_bind=None, post_bind=None, log=log),
    )
    assert log == ["R1.reserve", "R2.reserve", "B.pre_bind", "R2.unreserve", "R1.unreserve"]
    assert is_bound(scheduler) == ""
    expect_undone(scheduler, queue="backoff", rejectors=set())
    assert scheduler.made.outside.events == [("p", "FailedScheduling", note)]
    ((_, condition, nomination),) = scheduler.written.writes
    assert condition is not None
    assert condition.reason == reason
    assert nomination == "", "the nomination of an earlier attempt is cleared"


def test_a_placement_is_not_undone_while_changes_are_held_back() -> None:
    log: list[str] = []

    async def main() -> CycleHarness:
        scheduler = make_harness(
            *reserving("R", log=log),
            plugin("B", PreBindPlugin, pre_bind=Status.error("no disk")),
            clock=LoopClock(asyncio.get_running_loop(), epoch_ns=10**12),
            nodes=["n1"],
        )
        scheduler.hold.begin()
        await bound(scheduler, make_pod("p", uid="u", cpu="1"))
        assert (log, scheduler.queues(), scheduler.made.cluster.is_assumed("u")) == (["R.reserve"], {}, True)
        scheduler.hold.end()
        return scheduler

    expect_undone(run_in_virtual_time(main), queue="backoff", rejectors=set())
    assert log == ["R.reserve", "R.unreserve"]


def test_a_bind_that_conflicts_returns_the_pod() -> None:
    """Someone else bound the pod; the API refuses the second binding, and the pod is not ours any more."""
    log: list[str] = []

    async def steps(scheduler: CycleHarness) -> None:
        assigned = make_pod("p", uid="u", node="n9")
        scheduler.pods.set(scheduler.made.api.replace(assigned))

    scheduler = run(*reserving("R", log=log), plugin("B", PreBindPlugin, pre_bind=later(None)), steps=steps)
    assert log == ["R.reserve", "R.unreserve"]
    assert is_bound(scheduler) == "n9"
    assert scheduler.queues() == {}
    assert scheduler.made.cluster.placed("u") is None


@pytest.mark.parametrize(
    "answers, note",
    [
        pytest.param(
            [SKIP, SKIP], "no bind plugin of profile 'default-scheduler' took the pod", id="all-skip"
        ),
        pytest.param([SKIP, ValueError("lost")], "plugin 'B1' at Bind: ValueError: lost", id="raises"),
        pytest.param([Status.unschedulable("full"), None], "full", id="rejects"),
    ],
)
def test_a_pod_that_no_plugin_binds_returns_to_the_queue(answers: list[Any], note: str) -> None:
    log: list[str] = []
    binders = [plugin(f"B{i}", BindPlugin, bind=answer, log=log) for i, answer in enumerate(answers)]
    scheduler = run(*reserving("R", log=log), *binders)
    assert scheduler.made.outside.events == [("p", "FailedScheduling", note)]
    assert log[-1] == "R.unreserve"
    expect_undone(scheduler, queue="backoff", rejectors=set())


def test_a_defect_of_ours_does_not_lose_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> CycleHarness:
        scheduler = make_harness(nodes=["n1"])

        async def fail(*_: object) -> NoReturn:
            raise RuntimeError("our own mistake")

        monkeypatch.setattr(scheduler.runner.binding, "run_bind", fail)
        await bound(scheduler, make_pod("p", uid="u", cpu="1"))
        return scheduler

    scheduler = run_in_virtual_time(main)
    expect_undone(scheduler, queue="backoff", rejectors=set())
    assert scheduler.made.outside.events[0].note == "our own mistake"


QUEUE_MAKER = EventWithHint(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE))


@pytest.mark.parametrize("rejected", [True, False], ids=["rejected", "error"])
def test_the_queue_it_leaves_is_an_event_for_others(rejected: bool) -> None:
    def fits(_state: object, _pod: Pod, node: Any) -> Status | None:
        return None if node.requested("cpu") == 0 else Status.unschedulable("no room")

    fit = plugin("Fit", FilterPlugin, EnqueueExtensions, filter=fits, events_to_register=[QUEUE_MAKER])
    group = plugin(
        "Group",
        PermitPlugin,
        EnqueueExtensions,
        permit=PermitResult.wait(5),
        events_to_register=[QUEUE_MAKER],
    )

    async def main() -> CycleHarness:
        scheduler = make_harness(fit, group, nodes=[make_node("n1", cpu="1")])
        placement = scheduler.place(make_pod("p", uid="u", cpu="1"))
        scheduler.binding.start_waiting(placement)
        scheduler.failures.handle(scheduler.reject(make_pod("other", cpu="1")))
        assert scheduler.queues() == {"unschedulable": ["other"]}
        (held,) = scheduler.made.waiting_pods
        (held.reject if rejected else held.preempt)("Group", "no")
        await scheduler.binding.run(placement)
        return scheduler

    queues = run_in_virtual_time(main).queues()
    assert "other" in [name for queue in ("active", "backoff") for name in queues.get(queue, [])]
    # A rejected pod must not be brought back by its own leaving; after an error it is retried anyway.
    assert queues.get("unschedulable", []) == (["p"] if rejected else [])


# Permit


def waiting(name: str, seconds: float, log: list[str] | None = None) -> type[Plugin]:
    return plugin(name, PermitPlugin, permit=PermitResult.wait(seconds), log=log)


def test_a_pod_waits_until_all_allow_it_and_is_then_bound() -> None:
    log: list[str] = []

    async def steps(scheduler: CycleHarness) -> None:
        (held,) = scheduler.made.waiting_pods
        assert held.pod.metadata.name == "p"
        assert held.pod.spec.node_name == "n1"
        assert [pod.metadata.name for pod in scheduler.queue.in_flight()] == ["p"]
        held.allow("A")
        await asyncio.sleep(1)
        assert is_bound(scheduler) == ""
        held.allow("B")
        await asyncio.sleep(1)
        assert is_bound(scheduler) == "n1"

    scheduler = run(
        waiting("A", 10), waiting("B", 10), plugin("P", PreBindPlugin, pre_bind=None, log=log), steps=steps
    )
    assert log == ["P.pre_bind"]
    assert len(scheduler.made.waiting_pods) == 0
    assert scheduler.made.metrics.permit_wait_duration.values[("Success",)].count == 1


def test_a_pod_that_is_permitted_at_once_does_not_wait() -> None:
    class Own(PermitPlugin):
        name = "Own"

        def __init__(self, _args: object, handle: Any) -> None:
            self._handle = handle

        def permit(self, _state: object, _pod: object, _node_name: str) -> PermitResult | None:
            asyncio.get_running_loop().call_soon(self._allow)
            return PermitResult.wait(10)

        def _allow(self) -> None:
            for held in self._handle.waiting_pods:
                held.allow("Own")

    scheduler = run(Own)
    assert [event.reason for event in scheduler.made.outside.events] == ["Scheduled"]


@pytest.mark.parametrize(("seconds", "reported"), [(1, False), (5, True)])
def test_a_slow_pre_bind_is_reported(seconds: float, reported: bool) -> None:
    async def pre_bind(*_: object) -> None:
        await asyncio.sleep(seconds)

    async def steps(_scheduler: CycleHarness) -> None:
        await asyncio.sleep(10)

    scheduler = run(plugin("P", PreBindPlugin, pre_bind=pre_bind), steps=steps)
    slow = ("p", "WaitingOnPreBind", "Placed on n1, PreBind has not finished yet")
    bound = ("p", "Scheduled", "Successfully assigned default/p to n1")
    assert scheduler.made.outside.events == ([slow, bound] if reported else [bound])


def test_events_are_kept_for_a_pod_that_waits_and_not_for_one_that_is_bound() -> None:
    """Once Permit let it go no event can help the pod any more, so the queue need not keep any."""
    seen: list[float] = []

    async def steps(scheduler: CycleHarness) -> None:
        scheduler.queue.move(ClusterEvent(Resource.NODE, Action.ADD), None, make_node("n2"))
        seen.append(kept_events(scheduler.made.metrics))
        for held in scheduler.made.waiting_pods:
            held.allow("A")
        await asyncio.sleep(0.1)  # it is in its PreBind now
        seen.append(len(scheduler.queue.in_flight()))
        seen.append(kept_events(scheduler.made.metrics))

    run(waiting("A", 10), plugin("P", PreBindPlugin, pre_bind=later(None)), steps=steps)
    assert seen == [1, 0, 0]


def reject(scheduler: CycleHarness) -> None:
    assert scheduler.made.waiting_pods.reject("u", "group is incomplete", plugin="Group")


@pytest.mark.parametrize(
    "decide, rejectors, note, took",
    [
        pytest.param(
            reject,
            {"Group"},
            "0/1 nodes are available: 1 group is incomplete.",
            0.5,
            id="a-plugin-rejects-it",
        ),
        pytest.param(
            None,
            {"A"},
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin A.",
            5.0,
            id="its-time-runs-out",
        ),
    ],
)
def test_a_denied_pod_comes_back(decide: Any, rejectors: set[str], note: str, took: float) -> None:
    log: list[str] = []
    ended: list[float] = []

    async def steps(scheduler: CycleHarness) -> None:
        if decide is not None:
            decide(scheduler)

    scheduler = run(
        *reserving("R1", "R2", log=log),
        plugin("R3", ReservePlugin, reserve=None, unreserve=lambda *_: ended.append(now())),
        waiting("A", 5),
        waiting("B", 50),
        plugin("P", PreBindPlugin, pre_bind=None, log=log),
        steps=steps,
    )
    assert log == ["R1.reserve", "R2.reserve", "R2.unreserve", "R1.unreserve"]
    assert is_bound(scheduler) == ""
    expect_undone(scheduler, queue="unschedulable", rejectors=rejectors)
    assert scheduler.made.outside.events == [
        ("p", "WaitingOnPermit", "Placed on n1, waiting for A, B to permit the binding"),
        ("p", "FailedScheduling", note),
    ]
    assert ended == [pytest.approx(took)]
    assert scheduler.made.metrics.permit_wait_duration.values[("Unschedulable",)].count == 1


def test_no_one_waits_longer_than_fifteen_minutes() -> None:
    ended: list[float] = []
    noting = plugin("R", ReservePlugin, reserve=None, unreserve=lambda *_: ended.append(now()))
    run(noting, waiting("A", 10**6))
    assert ended == [pytest.approx(15 * 60)]


def test_a_pod_can_gather_others_and_let_them_go_together() -> None:
    """Coscheduling, as KEP-624 sketches it: the last of three approves those that wait."""

    class Group(PermitPlugin):
        name = "Group"

        def __init__(self, _args: object, handle: Any) -> None:
            self._waiting = handle.waiting_pods

        def permit(self, _state: object, _pod: object, _node_name: str) -> PermitResult | None:
            if len(self._waiting) < 2:
                return PermitResult.wait(60)
            for held in self._waiting:
                held.allow(self.name)
            return None

    async def main() -> list[str]:
        scheduler = make_harness(Group, nodes=["n1"])
        async with asyncio.TaskGroup() as tasks:
            for name in "abc":
                placement = scheduler.place(make_pod(name))
                scheduler.binding.start_waiting(placement)
                tasks.create_task(scheduler.binding.run(placement))
                await asyncio.sleep(1)
                if name != "c":
                    assert is_bound(scheduler, name) == ""
        return [is_bound(scheduler, name) for name in "abc"]

    assert run_in_virtual_time(main) == ["n1", "n1", "n1"]


# Saying early where a pod goes


@pytest.mark.parametrize(
    "announce, pre_flight, wait, announced",
    [
        pytest.param(True, None, False, True, id="there-is-work-before-the-binding"),
        pytest.param(True, SKIP, False, False, id="there-is-none"),
        pytest.param(True, SKIP, True, True, id="but-the-pod-waits"),
        pytest.param(False, None, True, False, id="the-feature-is-off"),
    ],
)
def test_a_long_way_is_announced(announce: bool, pre_flight: Any, wait: bool, announced: bool) -> None:
    log: list[str] = []

    async def steps(scheduler: CycleHarness) -> None:
        for held in scheduler.made.waiting_pods:
            held.allow("A")

    scheduler = run(
        *([waiting("A", 10)] if wait else []),
        plugin("P", PreBindPlugin, pre_bind=None, pre_bind_pre_flight=pre_flight, log=log),
        announce_nomination=announce,
        steps=steps,
    )
    assert scheduler.written.writes == ([("p", None, "n1")] if announced else [])
    assert is_bound(scheduler) == "n1"
    assert ("P.pre_bind" in log) is (pre_flight is None or not announce)


@pytest.mark.parametrize("wait", [False, True], ids=["at-once", "waiting"])
def test_a_failing_look_ahead_returns_the_pod(wait: bool) -> None:
    scheduler = run(
        *([waiting("A", 10)] if wait else []),
        plugin("P", PreBindPlugin, pre_bind=None, pre_bind_pre_flight=ValueError("lost")),
        announce_nomination=True,
    )
    assert scheduler.made.outside.events == [
        ("p", "FailedScheduling", "plugin 'P' at PreBindPreFlight: ValueError: lost")
    ]
    expect_undone(scheduler, queue="backoff", rejectors=set())
