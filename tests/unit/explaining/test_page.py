"""The page of a running scheduler: its queue, its rules, its cluster as it stands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.page import PATH, explain_page
from kuberth.https.messages import Query, Request, Response
from kuberth.serving.messages import Handler
from kuberth.testing import make_node, make_pod, running


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
            await world.in_room("p", "unschedulable")
            status, tree = await asked(world.scheduler, pod="p")
            before = world.pod("p")
            assert (status, tree["verdict"]) == (200, "rejected")
            waiting = tree["waiting"]
            assert (waiting["room"], waiting["attempts"]) == ("unschedulable", 1)
            assert waiting["rejectedBy"] == ["NodeResourcesFit"]
            assert waiting["since"] < waiting["nextAttempt"]
            assert tree["proposals"]
            assert world.pod("p") == before  # nothing is stored on the pod

    asyncio.run(scenario())


def test_a_gated_pod() -> None:
    async def scenario() -> None:
        async with running(make_node("n")) as world:
            world.api.put(make_pod("p", gates=["g"]))
            await world.in_room("p", "gated")
            _status, tree = await asked(world.scheduler, pod="p")
            assert (tree["verdict"], tree["waiting"]["room"]) == ("gated", "gated")
            assert "nextAttempt" not in tree["waiting"]

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


def test_questions_are_answered_one_at_a_time_also_if_somebody_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(question: Question) -> Explanation:
        if not begun.is_set():
            begun.set()
            assert release.wait(60)
        return explain(question)

    monkeypatch.setattr("kuberth.explaining.page.explain", slow)

    async def scenario() -> None:
        async with running(make_node("n", cpu="1")) as world:
            world.api.put(make_pod("p", cpu="2"))
            await world.in_room("p", "unschedulable")
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


def test_questions_without_an_answer() -> None:
    async def scenario() -> None:
        async with running(make_node("n")) as world:
            world.api.put(make_pod("web", gates=["g"]))
            await world.in_room("web", "gated")
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
