"""One connection's bytes, without a socket: whatever arrives, in whatever pieces."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kuberth.client.connecting.connection import Connection, HttpAnswer, RequestConnection
from kuberth.client.connecting.pipeline import Pipeline, Post
from kuberth.errors import ApiError

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


class Wire(asyncio.Transport):
    """Takes what is written and forgets it; says when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended


def exchange(
    pieces: list[bytes], *, cap: int = 1000
) -> tuple[HttpAnswer | BaseException | None, RequestConnection, Wire]:
    """Feed pieces to a connection that waits for an answer, then end it."""

    async def main() -> tuple[HttpAnswer | BaseException | None, RequestConnection, Wire]:
        connection, wire = RequestConnection(lambda _: None), Wire()
        connection.connection_made(wire)
        future = connection.start(b"GET / HTTP/1.1\r\n\r\n", cap=cap)
        for piece in pieces:
            if not wire.ended:
                connection.data_received(piece)
        if future.done():
            return future.exception() or future.result(), connection, wire
        connection.connection_lost(None)
        return future.exception(), connection, wire

    return asyncio.run(main())


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places) if a < b]


@given(st.sampled_from((GOOD, CHUNKED)), st.lists(st.integers(0, 100), max_size=6))
def test_an_answer_does_not_depend_on_how_it_arrives(data: bytes, cuts: list[int]) -> None:
    found, connection, _ = exchange(split(data, cuts))
    assert isinstance(found, HttpAnswer)
    assert (found.status, found.body) == (200 if data is GOOD else 201, b"hello")
    assert connection.usable


@given(
    st.one_of(
        st.binary(max_size=300),
        # A good answer with a few bytes changed goes further in than noise does.
        st.builds(
            lambda data, place, noise: data[:place] + noise + data[place + len(noise) :],
            st.sampled_from((GOOD, CHUNKED)),
            st.integers(0, 90),
            st.binary(max_size=6),
        ),
    ),
    st.lists(st.integers(0, 100), max_size=4),
)
@example(GOOD + GOOD, [])
@example(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2\r\nConnection: upgrade\r\n\r\nPRI", [])
def test_whatever_arrives_ends_in_an_answer_or_an_error(data: bytes, cuts: list[int]) -> None:
    found, connection, wire = exchange(split(data, cuts))
    assert isinstance(found, HttpAnswer | OSError | ApiError)
    if not isinstance(found, HttpAnswer):
        assert not connection.usable
    assert connection.usable or wire.ended or not isinstance(found, HttpAnswer)


@given(st.integers(0, 20))
def test_never_more_than_the_cap(cap: int) -> None:
    for data in (GOOD, CHUNKED):
        found, _, wire = exchange([data], cap=cap)
        assert isinstance(found, HttpAnswer) is (cap >= 5)
        assert wire.ended is (cap < 5)


class Owner:
    """Of a pipeline; forgets it."""

    def is_free(self, pipeline: Pipeline) -> None: ...

    def answered(self, post: Post, answer: HttpAnswer, size: int) -> None: ...

    def ended(self, pipeline: Pipeline, unanswered: list[Post], error: BaseException) -> None: ...


def watching() -> RequestConnection:
    connection = RequestConnection(lambda _: None)
    connection.connection_made(Wire())
    connection.start(b"GET / HTTP/1.1\r\n\r\n", cap=1000, stream=True)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n")
    return connection


def pipelined() -> Pipeline:
    connection = Pipeline(Owner(), cap=1000)
    connection.connection_made(Wire())
    return connection


@pytest.mark.parametrize("connect", [watching, pipelined])
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")], ids=["closed", "reset"])
def test_a_connection_that_is_lost_is_freed_without_a_garbage_collection(
    connect: Callable[[], Connection], error: Exception | None
) -> None:
    async def main() -> weakref.ref[Connection]:
        connection = connect()
        connection.connection_lost(error)
        return weakref.ref(connection)

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()
