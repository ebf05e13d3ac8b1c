"""The page of a running scheduler: its queue, its rules, its cluster as it stands."""

from __future__ import annotations

import asyncio
import datetime
import gc
import io
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.cli.explain_display import print_explanation
from kuberth.clock import LoopClock
from kuberth.cluster.pod_info import PodInfo
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.page import PATH, explain_page
from kuberth.framework import CycleState, PermitPlugin, PermitResult, PreBindPlugin, Status
from kuberth.https.messages import Query, Request, Response
from kuberth.informers.store import Store
from kuberth.serving.messages import Handler
from kuberth.testing import make_node, make_pod, running, running_with


async def asked(
    scheduler: Scheduler, page: Handler | None = None, **query: str
) -> tuple[int, dict[str, Any]]:
    given = Query({name: [value] for name, value in query.items()})
    answer: Response = (page or explain_page(scheduler))(Request("GET", PATH, given))
    if isinstance(answer.body, AsyncIterator):
        body = b"".join([piece async for piece in answer.body])
    else:
        body = answer.body
    return answer.status, json.loads(body)


def test_a_pod_that_waits() -> None:
    async def scenario() -> None:
        async with running(make_node("n", cpu="1")) as world:
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            status, tree = await asked(world.scheduler, pod="p")
            before = world.pod("p")
            assert (status, tree["verdict"]) == (200, "rejected")
            waiting = tree["waiting"]
            assert (waiting["queue"], waiting["attempts"]) == ("unschedulable", 1)
            assert waiting["rejectedBy"] == ["NodeResourcesFit"]
            assert waiting["since"] < waiting["nextAttempt"]
            assert tree["proposals"]
            assert world.pod("p") == before  # nothing is stored on the pod

    asyncio.run(scenario())


def test_a_pod_that_backs_off() -> None:
    class Broken(PreBindPlugin):
        name = "Broken"

        async def pre_bind(self, _state: CycleState, _pod: Pod, _node_name: str) -> Status:
            return Status.error("broken")

    async def scenario() -> None:
        no_early_pop = {"SchedulerPopFromBackoffQ": False}
        async with running_with(Broken(), make_node("n"), gates=no_early_pop) as world:
            world.api.put(make_pod("p"))
            await world.in_queue("p", "backoff")
            _status, tree = await asked(world.scheduler, pod="p")
            waiting = tree["waiting"]
            assert waiting["queue"] == "backoff"
            since, due = (datetime.datetime.fromisoformat(waiting[key]) for key in ("since", "nextAttempt"))
            assert (due - since).total_seconds() == 1

    asyncio.run(scenario())


def test_a_gated_pod() -> None:
    async def scenario() -> None:
        async with running(make_node("n")) as world:
            world.api.put(make_pod("p", gates=["g"]))
            await world.in_queue("p", "gated")
            _status, tree = await asked(world.scheduler, pod="p")
            assert (tree["verdict"], tree["waiting"]["queue"]) == ("gated", "gated")
            assert "nextAttempt" not in tree["waiting"]

    asyncio.run(scenario())


def test_a_pod_that_permit_holds() -> None:
    class Hold(PermitPlugin):
        name = "Hold"

        def permit(self, _state: CycleState, _pod: Pod, _node_name: str) -> PermitResult:
            return PermitResult.wait(90)

    async def scenario() -> None:
        async with running_with(Hold(), make_node("a"), make_node("b"), make_node("c")) as world:
            world.api.put(make_pod("p", nodeSelector={}))
            await world.until(lambda: len(world.scheduler.waiting_pods) == 1)
            (held,) = world.scheduler.waiting_pods
            page = explain_page(world.scheduler, clock=LoopClock(asyncio.get_running_loop()))
            _status, tree = await asked(world.scheduler, page, pod="p")
            assert (tree["verdict"], tree["feasible"]) == ("fits", ["a", "b", "c"])
            waiting = tree["waiting"]
            assert (waiting["queue"], waiting["node"]) == ("permit", held.pod.spec.node_name)
            (hold,) = waiting["heldBy"]
            begun, end = (datetime.datetime.fromisoformat(hold[key]) for key in ("since", "until"))
            assert hold["plugin"] == "Hold"
            assert (end - begun).total_seconds() == 90
            text = io.StringIO()
            print_explanation(tree, Console(file=text, width=200))
            assert f"in Permit, assumed on node {waiting['node']}: Hold holds it since" in text.getvalue()
            assert "Feasible nodes\n  a, b, c\n" in text.getvalue()

    asyncio.run(scenario())


def test_a_placed_pod() -> None:
    async def scenario() -> None:
        async with running(make_node("n")) as world:
            world.api.put(make_pod("p"))
            await world.bound("p")
            await world.until(lambda: any(pod.spec.node_name for pod in world.scheduler.stores.of(Pod)))
            _status, tree = await asked(world.scheduler, pod="p", namespace="default")
            assert (tree["verdict"], tree["node"]) == ("placed", "n")
            assert "waiting" not in tree

    asyncio.run(scenario())


def test_questions_are_answered_one_at_a_time_even_if_a_client_disconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(question: Question, cluster: ClusterCopy) -> Explanation:
        if not begun.is_set():
            begun.set()
            assert release.wait(60)
        return explain(question, cluster)

    monkeypatch.setattr("kuberth.explaining.page.explain", slow)

    async def scenario() -> None:
        async with running(make_node("n", cpu="1")) as world:
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            page = explain_page(world.scheduler)
            first = asyncio.create_task(asked(world.scheduler, page, pod="p"))
            assert await asyncio.to_thread(begun.wait, 60)
            first.cancel()
            rest = [asyncio.create_task(asked(world.scheduler, page, pod="p")) for _ in range(3)]
            done, _waiting = await asyncio.wait(rest, timeout=0.3)
            release.set()
            assert not done
            answers = await asyncio.gather(*rest)
            assert all(tree["verdict"] == "rejected" for _status, tree in answers)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("between", "seconds", "copies"),
    [
        pytest.param("p", 600.0, 1, id="kept"),
        pytest.param("p", 0.0, 3, id="dropped-after-a-while"),
        pytest.param("alien", 600.0, 2, id="dropped-after-an-error"),
    ],
)
def test_a_copy_of_the_cluster_serves_several_questions(
    between: str, seconds: float, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ClusterCopy] = []

    class Noted(ClusterCopy):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            made.append(self)

    monkeypatch.setattr("kuberth.explaining.page.ClusterCopy", Noted)
    monkeypatch.setattr("kuberth.explaining.page.KEPT_SECONDS", seconds)

    async def scenario() -> None:
        async with running(make_node("n", cpu="1"), make_pod("alien", scheduler="other")) as world:
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            page = explain_page(world.scheduler)
            for pod in ("p", between, "p"):
                status, _tree = await asked(world.scheduler, page, pod=pod)
                assert status == 200
            assert len(made) == copies

    asyncio.run(scenario())


class Later(Executor):
    """A worker that is given work and does none of it."""

    def __init__(self, *_size: object, **_names: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *_args: Any, **_more: Any) -> Future[Any]:
        return Future()


async def calls_on_the_loop(scheduler: Scheduler, pod: str) -> int:
    """How many Python calls the event loop makes for a question until the worker has it."""
    page, request = explain_page(scheduler), Request("GET", PATH, Query({"pod": [pod]}))
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    gc.disable()  # collecting garbage may call something, too
    sys.setprofile(count)
    try:
        body = page(request).body
        assert isinstance(body, AsyncIterator)
        steps = body.__anext__().__await__()
        next(steps)
    finally:
        sys.setprofile(None)
        gc.enable()
    with pytest.raises(asyncio.CancelledError):
        steps.throw(asyncio.CancelledError())
    return calls


@pytest.mark.parametrize("pod", ["gated-0", "placed-0", "unknown"])
def test_the_event_loop_looks_at_no_other_pod(pod: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberth.explaining.page.ThreadPoolExecutor", Later)
    monkeypatch.setattr(Store, "snapshot", lambda _store: pytest.fail("all objects are copied on the loop"))

    async def scenario(number: int) -> int:
        async with running(make_node("n", pods="1000")) as world:
            for index in range(number):
                world.api.put(make_pod(f"gated-{index}", gates=["g"]))
                world.api.put(make_pod(f"placed-{index}", node="n"))
            await world.in_queue(f"gated-{number - 1}", "gated")
            await world.until(lambda: world.scheduler.cluster.placed_count == number)
            return await calls_on_the_loop(world.scheduler, pod)

    # The first question of a process fills caches.
    _first, few, many = (asyncio.run(scenario(number)) for number in (1, 2, 200))
    assert few == many


def test_assumed_pods_count_where_they_are_assumed() -> None:
    async def scenario() -> None:
        async with running(make_node("n", cpu="2")) as world:
            world.api.put(make_pod("p", cpu="2", gates=["g"]))
            await world.in_queue("p", "gated")
            _status, before = await asked(world.scheduler, pod="p")
            other = world.api.put(make_pod("other", cpu="2", gates=["g"]))
            await world.in_queue("other", "gated")
            assumed = replace(other, spec=replace(other.spec, node_name="n"))
            world.scheduler.cluster.assume_pod(PodInfo(assumed))
            _status, after = await asked(world.scheduler, pod="p")
            assert [len(each.get("rejected", ())) for each in (before, after)] == [0, 1]

    asyncio.run(scenario())


def test_questions_without_an_answer() -> None:
    async def scenario() -> None:
        async with running(make_node("n")) as world:
            world.api.put(make_pod("web", gates=["g"]))
            await world.in_queue("web", "gated")
            status, tree = await asked(world.scheduler)
            assert (status, tree["reason"]) == (400, "BadRequest")
            status, tree = await asked(world.scheduler, pod="wbe")
            assert status == 404
            assert tree["message"] == "there is no pod wbe in namespace default; did you mean web?"
            world.api.put(make_pod("alien", scheduler="other"))
            await world.until(
                lambda: world.scheduler.stores.of(Pod).get("alien", namespace="default") is not None
            )
            status, tree = await asked(world.scheduler, pod="alien")
            assert (tree["kind"], tree["status"]) == ("Status", "Failure")
            assert "'other'" in tree["message"]

    asyncio.run(scenario())
