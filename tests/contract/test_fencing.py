from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kuberth.api.core import Binding, Node, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.client.fencing import FencedApi
from kuberth.client.protocol import Api
from kuberth.client.writes import Verb, Write
from kuberth.errors import ApiError
from kuberth.testing import MemoryApi, make_node, make_pod, run_in_virtual_time

BINDING = Binding(metadata=ObjectMeta(namespace="default", name="p"), target=ObjectReference(name="n1"))

POST = Write(Verb.CREATE, Pod, "p", body=b"{}")

WRITES: dict[str, Callable[[Api], Awaitable[object]]] = {
    "create": lambda api: api.create(make_node("n2")),
    "update": lambda api: api.update(make_node("n1")),
    "patch": lambda api: api.patch(Node, "n1", {"spec": {"unschedulable": True}}),
    "bind": lambda api: api.bind(BINDING),
    "delete": lambda api: api.delete(Node, "n1"),
}


def fenced(*, may_write: bool) -> tuple[FencedApi, MemoryApi]:
    api = MemoryApi()
    api.put(make_node("n1"))
    api.put(make_pod("p"))
    return FencedApi(api, lambda: may_write), api


@pytest.mark.parametrize("write", WRITES)
def test_only_the_leader_writes(write: str) -> None:
    api, _ = fenced(may_write=True)
    asyncio.run(_await(WRITES[write](api)))
    api, memory = fenced(may_write=False)
    before = memory.all(Node), memory.all(Pod)
    with pytest.raises(ApiError, match="not the leader any more"):
        run_in_virtual_time(lambda: _await(WRITES[write](api)))
    assert (memory.all(Node), memory.all(Pod)) == before


def test_a_refusal_takes_time_so_that_a_caller_that_tries_again_does_not_spin() -> None:
    api, _ = fenced(may_write=False)

    async def tries_in_ten_seconds() -> int:
        loop, tries = asyncio.get_running_loop(), 0
        while loop.time() < 10 and tries < 1000:
            with pytest.raises(ApiError):
                await WRITES["delete"](api)
            tries += 1
        return tries

    assert run_in_virtual_time(tries_in_ten_seconds) == 10


def test_everyone_reads() -> None:
    api, memory = fenced(may_write=False)

    async def main() -> None:
        assert (await api.get(Node, "n1")).metadata.name == "n1"
        listed = await api.list(Node)
        assert len(listed.items) == 1
        memory.put(make_node("n2"))
        async for event in api.watch(Node, resource_version=listed.resource_version):
            assert event.object.metadata.name == "n2"
            break

    asyncio.run(main())


class Outbox(MemoryApi):
    """Takes posts and sends none by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.checks: list[Callable[[], None]] = []

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        assert check is not None
        self.checks.append(check)
        return asyncio.get_running_loop().create_future()


def refuse() -> None:
    raise ApiError("not wanted any more")


@pytest.mark.parametrize(
    "leads, check, problem",
    [
        pytest.param(True, None, None, id="leads-and-has-no-check"),
        pytest.param(True, lambda: None, None, id="leads-and-is-wanted"),
        pytest.param(True, refuse, "not wanted any more", id="leads-and-is-not-wanted"),
        pytest.param(False, None, "not the leader any more", id="does-not-lead-and-has-no-check"),
        pytest.param(False, lambda: None, "not the leader any more", id="does-not-lead-and-is-wanted"),
        pytest.param(False, refuse, "not the leader any more", id="neither"),
    ],
)
def test_a_post_is_sent_if_this_process_leads_and_the_callers_check_allows_it(
    leads: bool, check: Callable[[], None] | None, problem: str | None
) -> None:
    async def main() -> None:
        outbox, may_write = Outbox(), True
        assert FencedApi(outbox, lambda: may_write).post_nowait(POST, check=check) is not None
        may_write = leads
        [asked_before_sending] = outbox.checks
        if problem is None:
            asked_before_sending()
        else:
            with pytest.raises(ApiError, match=problem):
                asked_before_sending()

    asyncio.run(main())


class Refused(Outbox):
    """Had posts refused."""

    refused_posts = 3


@pytest.mark.parametrize("outbox, number", [(Refused, 3), (Outbox, 0)], ids=["counts", "does-not-count"])
def test_refused_posts_are_those_of_the_other_api(outbox: type[Outbox], number: int) -> None:
    assert FencedApi(outbox(), lambda: True).refused_posts == number


async def _await(work: Awaitable[object]) -> None:
    await work
