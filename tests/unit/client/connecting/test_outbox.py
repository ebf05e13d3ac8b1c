"""Posts under stress, through the client that sends them: real sockets, real TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.events import Event
from kuberth.api.meta import ObjectMeta
from kuberth.api.rendering import binding_json
from kuberth.client.connecting.outbox import CAUTION_SECONDS, Batching
from kuberth.client.connecting.pool import IDLE_SECONDS
from kuberth.client.fencing import FencedApi
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.writes import Verb, Write
from kuberth.errors import (
    AnswerLostError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnreachableError,
)
from tests.unit.client.connecting.test_pool import hang, with_api, with_virtual_time
from tests.unit.client.https_server import Asked, Reply, Server, counted, run, serve, until

CREATED = {"kind": "Status", "status": "Success", "code": 201}


async def created(_asked: Asked, reply: Reply) -> None:
    await reply.send(CREATED, status=201)


def post_nowait(api: HttpApi, name: str = "p") -> asyncio.Future[None] | None:
    body = binding_json(namespace="d", name=name, uid="u", node_name="n")
    what = f"bind pod d/{name} to node n"
    return api.post_nowait(Write(Verb.CREATE, Pod, name, "d", "binding", body, description=what))


def post(api: HttpApi, name: str = "p") -> asyncio.Future[None]:
    future = post_nowait(api, name)
    assert future is not None
    return future


def bind(api: HttpApi) -> Awaitable[None]:
    binding = Binding(
        metadata=ObjectMeta(name="p", namespace="d", uid="u"), target=ObjectReference(kind="Node", name="n")
    )
    return api.bind(binding)


async def failure(work: Awaitable[None]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await work
    return caught.value


# Sending


def test_a_post_asks_what_bind_asks() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await bind(api)
        await post(api)
        by_bind, by_post = server.asked
        assert (by_post.method, by_post.target) == (by_bind.method, by_bind.target)
        assert by_post.headers == by_bind.headers
        assert by_post.body == by_bind.body

    with_api(created, test)


def test_an_object_is_posted_to_where_its_kind_lives() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        future = api.post_nowait(Write(Verb.CREATE, Event, "e", "d", body=b"{}"))
        assert future is not None
        await future
        assert server.asked[0].target == "/apis/events.k8s.io/v1/namespaces/d/events"

    with_api(created, test)


def test_posts_of_one_turn_travel_together() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await asyncio.gather(*(post(api, f"p{number}") for number in range(8)))
        assert server.connections == 1
        assert [asked.json()["metadata"]["name"] for asked in server.asked] == [
            f"p{each}" for each in range(8)
        ]

    with_api(created, test, batching=Batching(max_batch=8))


def test_no_more_connections_than_allowed_and_no_more_posts_in_one_piece() -> None:
    gate = asyncio.Event()

    async def handler(_asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(CREATED, status=201)

    async def test(api: HttpApi, server: Server) -> None:
        futures = [post(api, f"p{number}") for number in range(12)]
        await until(lambda: len(server.asked) >= 2)
        gate.set()
        await asyncio.gather(*futures)
        assert server.connections == 2
        assert len(server.asked) == 12

    with_api(handler, test, batching=Batching(max_connections=2, max_batch=3))


def test_while_the_server_is_busy_posts_wait_for_company_but_not_for_long() -> None:
    gate = asyncio.Event()

    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/first/binding"):
            await gate.wait()
        await reply.send(CREATED, status=201)

    async def test(api: HttpApi, server: Server) -> None:
        first = post(api, "first")
        await until(lambda: server.asked)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await post(api, "alone")
        assert loop.time() - begun >= 5
        begun = loop.time()
        await asyncio.gather(*(post(api, f"p{number}") for number in range(3)))
        assert loop.time() - begun < 5
        gate.set()
        await first

    with_virtual_time(handler, test, batching=Batching(busy_connections=1, max_batch=3, max_wait_seconds=5))


def test_a_connection_that_is_not_used_for_long_is_closed() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await post(api)
        await asyncio.sleep(IDLE_SECONDS + 61)
        assert not server.writers
        await post(api)
        assert server.connections == 2

    with_virtual_time(created, test)


def test_a_rate_limit_sends_the_poster_the_long_way() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await asyncio.gather(post(api), post(api))
        assert post_nowait(api) is None
        assert len(server.asked) == 2

    with_api(created, test, qps=0.001, burst=2)


def test_what_is_given_up_before_it_was_sent_is_not_written() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await post(api, "first")
        given_up, kept = post(api, "given-up"), post(api, "kept")
        given_up.cancel()
        await kept
        assert [asked.json()["metadata"]["name"] for asked in server.asked] == ["first", "kept"]

    with_api(created, test)


def test_what_must_not_be_sent_any_more_is_not() -> None:
    """A leader that was stopped for long, between posting and sending."""

    async def test(api: HttpApi, server: Server) -> None:
        leads = True
        fenced = FencedApi(api, lambda: leads)
        first = fenced.post_nowait(Write(Verb.CREATE, Pod, "first", "d", body=b"{}"))
        assert first is not None
        await first
        late = fenced.post_nowait(Write(Verb.CREATE, Pod, "late", "d", body=b"{}"))
        other = post(api, "other")
        assert late is not None
        leads = False
        error = await failure(late)
        assert str(error) == "not written: this scheduler is not the leader any more"
        await other
        assert len(server.asked) == 2
        assert fenced.post_nowait(Write(Verb.CREATE, Pod, "later", "d", body=b"{}")) is None

    with_api(created, test)


def test_a_request_given_up_after_sending_disturbs_no_other() -> None:
    gate = asyncio.Event()

    async def handler(_asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(CREATED, status=201)

    async def test(api: HttpApi, server: Server) -> None:
        given_up, kept = post(api, "given-up"), post(api, "kept")
        await until(lambda: server.asked)
        given_up.cancel()
        gate.set()
        await kept
        assert server.connections == 1

    with_api(handler, test)


# Refusals


@pytest.mark.parametrize(
    "code, reason, error",
    [
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (403, "Forbidden", ForbiddenError),
        (500, "InternalError", ApiError),
        (429, "TooManyRequests", TooManyRequestsError),
    ],
)
def test_a_refused_post_raises_the_same_error_as_bind(code: int, reason: str, error: type[ApiError]) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(code, reason=reason, message='pods "p" cannot be bound')

    async def test(api: HttpApi, server: Server) -> None:
        ours, theirs = await failure(post(api)), await failure(bind(api))
        assert type(ours) is type(theirs) is error
        assert (str(ours), ours.code, ours.reason) == (str(theirs), theirs.code, theirs.reason)
        assert counted(api) == {("POST", str(code)): 2}

    with_api(handler, test)


def test_a_refusal_concerns_its_own_post_alone() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/p1/binding"):
            await reply.status(409, reason="Conflict", message="bound already")
        else:
            await reply.send(CREATED, status=201)

    async def test(api: HttpApi, server: Server) -> None:
        answers = await asyncio.gather(
            *(post(api, f"p{number}") for number in range(3)), return_exceptions=True
        )
        assert [type(each) for each in answers] == [type(None), ConflictError, type(None)]

    with_api(handler, test)


def test_what_the_server_wants_asked_later_is_asked_later() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await post(api)
        assert len(server.asked) == 3
        assert server.asked[0].body == server.asked[2].body
        assert asyncio.get_running_loop().time() >= 14
        assert counted(api) == {("POST", "429"): 2, ("POST", "201"): 1}
        assert api.refused_posts == 1

    async def handler(asked: Asked, reply: Reply) -> None:
        if len(seen) < 2:
            seen.append(asked)
            await reply.status(429, message="later", headers={"Retry-After": "7"})
        else:
            await reply.send(CREATED, status=201)

    seen: list[Asked] = []
    with_virtual_time(handler, test)


def test_a_wait_beyond_the_deadline_is_not_waited_for() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(503, message="later", headers={"Retry-After": "60"})

    async def test(api: HttpApi, server: Server) -> None:
        error = await failure(post(api))
        assert error.code == 503
        assert len(server.asked) == 1

    with_virtual_time(handler, test)


def test_refused_credentials_are_renewed_once(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")

    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.header("authorization") == "Bearer new":
            await reply.send(CREATED, status=201)
        else:
            token.write_text("new", encoding="utf-8")
            await reply.status(401, message="who?")

    async def main() -> None:
        async with serve(handler) as server:
            api = HttpApi(server.config(token=None, token_file=str(token)))
            try:
                await post(api)
                assert [asked.header("authorization") for asked in server.asked] == [
                    "Bearer old",
                    "Bearer new",
                ]
            finally:
                await api.close()

    run(main)


# Losses


def test_a_lost_connection_leaves_open_what_happened_and_sends_nothing_twice() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/p0/binding"):
            await reply.send(CREATED, status=201)
        else:
            reply.cut()

    async def test(api: HttpApi, server: Server) -> None:
        answers = await asyncio.gather(
            *(post(api, f"p{number}") for number in range(4)), return_exceptions=True
        )
        assert [type(each) for each in answers] == [type(None), *3 * [AnswerLostError]]
        assert "bind pod d/p1 to node n: the connection" in str(answers[1])
        assert "it may have taken effect; read the object to find out" in str(answers[1])
        names = [asked.json()["metadata"]["name"] for asked in server.asked]
        assert len(set(names)) == len(names)
        assert counted(api) == {("POST", "201"): 1, ("POST", "<error>"): 3}

    with_api(handler, test)


def test_after_a_loss_of_several_each_goes_alone_for_a_while() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/cut/binding"):
            reply.cut()
        else:
            await reply.send(CREATED, status=201, headers={"Connection": "close"})

    async def test(api: HttpApi, server: Server) -> None:
        lost = await asyncio.gather(post(api, "cut"), post(api, "behind"), return_exceptions=True)
        assert [type(each) for each in lost] == 2 * [AnswerLostError]
        # This server ends the connection after every answer: nothing may stand behind another.
        await asyncio.gather(*(post(api, f"p{number}") for number in range(3)))
        await asyncio.sleep(CAUTION_SECONDS + 1)
        again = await asyncio.gather(post(api, "x"), post(api, "y"), return_exceptions=True)
        assert [type(each) for each in again] == [type(None), AnswerLostError]

    with_virtual_time(handler, test)


def test_no_answer_before_the_deadline() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        error = await failure(post(api))
        assert isinstance(error, AnswerLostError)
        assert "did not answer before the deadline" in str(error)
        assert asyncio.get_running_loop().time() >= 30

    with_virtual_time(hang, test)


def test_waiting_for_a_connection_counts_too() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        sent = post(api, "sent")
        await until(lambda: server.asked)
        waiting = post(api, "waiting")
        lost, refused = await asyncio.gather(sent, waiting, return_exceptions=True)
        assert isinstance(lost, AnswerLostError)
        # The first one's end made room, but at its own deadline.
        assert isinstance(refused, UnreachableError)
        assert "busy until its deadline" in str(refused)
        assert len(server.asked) == 1

    with_virtual_time(hang, test, batching=Batching(max_connections=1, busy_connections=9))


def test_a_server_that_is_not_there() -> None:
    async def main() -> None:
        api = HttpApi(ClientConfig(server="https://127.0.0.1:1", source="the test's kubeconfig"))
        ours, theirs = await failure(post(api)), await failure(bind(api))
        assert isinstance(ours, UnreachableError)
        assert str(ours) == str(theirs)
        await api.close()

    run(main)


def test_closing_refuses_what_waits_and_gives_what_is_under_way_a_moment() -> None:
    gate = asyncio.Event()

    async def handler(_asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(CREATED, status=201)

    async def test(api: HttpApi, server: Server) -> None:
        sent = post(api, "sent")
        await until(lambda: server.asked)
        waiting = post(api, "waiting")
        closing = asyncio.ensure_future(api.close())
        error = await failure(waiting)
        assert "the client is closed" in str(error)
        gate.set()
        await sent
        await closing
        assert post_nowait(api) is None

    with_api(handler, test, batching=Batching(max_connections=1, busy_connections=9))


@pytest.mark.parametrize("then", [0, 1, 2], ids=["dialing", "sent", "asked-later"])
def test_closing_leaves_nothing_behind(then: int) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        if then == 2:
            await reply.status(429, message="later", headers={"Retry-After": "7"})
        else:
            await reply.hang()

    async def test(api: HttpApi, server: Server) -> None:
        future = post(api)
        if then:
            await until(lambda: server.asked)
        await asyncio.sleep(then / 10)
        await api.close()
        await asyncio.wait([future], timeout=5)
        assert future.cancelled() or isinstance(future.exception(), ApiError)

    with_virtual_time(handler, test)
