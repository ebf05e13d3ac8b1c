"""A pipelined connection's bytes, without a socket: whatever arrives, in whatever pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.client.connecting.connection import AnswerTooLargeError, BrokenAnswerError, HttpAnswer
from kuberth.client.connecting.pipeline import Pipeline, Post
from kuberth.client.identity.credentials import ANONYMOUS
from tests.unit.client.connecting.test_connection import Wire

T = TypeVar("T")


def answer(status: int, body: bytes = b"", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


class Watched:
    """Implements `PipelineOwner`: records the calls."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, HttpAnswer, int]] = []
        self.free = 0
        self.lost: list[str] = []
        self.errors: list[BaseException] = []

    def answered(self, post: Post, answer: HttpAnswer, size: int) -> None:
        self.answers.append((post.what, answer, size))

    def is_free(self, pipeline: Pipeline) -> None:
        self.free += 1

    def ended(self, pipeline: Pipeline, unanswered: list[Post], error: BaseException) -> None:
        self.lost += [post.what for post in unanswered]
        self.errors.append(error)


def with_pipeline(script: Callable[[Pipeline, Watched, Wire], T], *, posts: int, cap: int = 1000) -> T:
    async def main() -> T:
        owner, wire = Watched(), Wire()
        pipeline = Pipeline(owner, cap=cap)
        pipeline.connection_made(wire)
        loop = asyncio.get_running_loop()
        pipeline.send(
            [
                Post(
                    f"p{number}",
                    b"POST / HTTP/1.1\r\n\r\n",
                    body=b"",
                    credential=ANONYMOUS,
                    posted=0.0,
                    deadline=1.0,
                    future=loop.create_future(),
                    context=None,
                )
                for number in range(posts)
            ]
        )
        return script(pipeline, owner, wire)

    return asyncio.run(main())


def fed(data: list[bytes], *, posts: int, cap: int = 1000) -> Watched:
    """The calls that the owner gets when these pieces arrive and the connection then ends."""

    def script(pipeline: Pipeline, owner: Watched, wire: Wire) -> Watched:
        for piece in data:
            if not wire.ended:
                pipeline.data_received(piece)
        pipeline.eof_received()
        pipeline.connection_lost(None)
        return owner

    return with_pipeline(script, posts=posts, cap=cap)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[first:second] for first, second in pairwise(places) if first < second]


STATUSES = st.sampled_from([200, 201, 204, 404, 409, 500])


@given(
    st.lists(st.tuples(STATUSES, st.binary(max_size=40)), min_size=1, max_size=6), st.lists(st.integers(0))
)
def test_answers_come_in_order_however_they_are_cut(
    answers: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    answers = [(status, b"" if status == 204 else body) for status, body in answers]
    stream = b"".join(answer(status, body, "X-Other: 1\r\n") for status, body in answers)
    owner = fed(split(stream, cuts), posts=len(answers))
    assert [(what, found.status, size) for what, found, size in owner.answers] == [
        (f"p{number}", status, len(body)) for number, (status, body) in enumerate(answers)
    ]
    assert owner.lost == []
    for (_, found, _), (status, body) in zip(owner.answers, answers, strict=True):
        assert found.body == (body if status >= 300 else b"")


@given(st.binary(max_size=200), st.lists(st.integers(0)))
def test_every_post_ends_once_whatever_arrives(garbage: bytes, cuts: list[int]) -> None:
    owner = fed(split(answer(201) + garbage, cuts), posts=3)
    assert [what for what, _, _ in owner.answers] + owner.lost == ["p0", "p1", "p2"]


def test_a_refusals_headers_are_known_in_lower_case() -> None:
    owner = fed([answer(429, b"slow down", "RETRY-After: 7\r\n")], posts=1)
    ((_, found, _),) = owner.answers
    assert (found.headers[b"retry-after"], found.body) == (b"7", b"slow down")


def test_an_answer_in_chunks_counts_and_the_next_one_follows() -> None:
    owner = fed([CHUNKED + answer(409)], posts=2)
    assert [(found.status, size) for _, found, size in owner.answers] == [(201, 5), (409, 0)]


def test_a_word_before_the_answer_is_no_answer() -> None:
    owner = fed([b"HTTP/1.1 100 Continue\r\n\r\n" + answer(201)], posts=1)
    assert [found.status for _, found, _ in owner.answers] == [201]


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    owner = fed([b"HTTP/1.1 500 X\r\n\r\nbroken"], posts=1)
    assert [(found.status, found.body) for _, found, _ in owner.answers] == [(500, b"broken")]


def test_headers_cut_off_are_no_answer() -> None:
    owner = fed([b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\n"], posts=1)
    assert (owner.answers, owner.lost) == ([], ["p0"])


def test_what_follows_the_last_answer_of_a_connection_is_lost() -> None:
    owner = fed([answer(201, b"", "Connection: close\r\n")], posts=3)
    assert [what for what, _, _ in owner.answers] == ["p0"]
    assert owner.lost == ["p1", "p2"]


@pytest.mark.parametrize(
    "data, error",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", BrokenAnswerError, id="no-http"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 80_000,
            AnswerTooLargeError,
            id="too-large",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, AnswerTooLargeError, id="endless-headers"
        ),
    ],
)
def test_what_is_no_answer_ends_the_connection(data: bytes, error: type[Exception]) -> None:
    owner = fed([data], posts=2)
    assert owner.lost == ["p0", "p1"]
    assert isinstance(owner.errors[0], error)


def test_an_unexpected_response_ends_the_connection() -> None:
    def script(pipeline: Pipeline, owner: Watched, wire: Wire) -> None:
        pipeline.data_received(answer(201))
        assert (owner.free, wire.ended) == (1, False)
        pipeline.data_received(answer(201))
        assert wire.ended
        assert len(owner.answers) == 1

    with_pipeline(script, posts=1)


@pytest.mark.parametrize("second", [answer(201), answer(201, b"x")[:-1], b"H"], ids=["whole", "cut", "begun"])
def test_a_second_answer_to_a_post_is_never_taken_for_the_next_ones(second: bytes) -> None:
    def script(pipeline: Pipeline, owner: Watched, wire: Wire) -> None:
        pipeline.data_received(answer(201) + second)
        assert wire.ended
        assert (len(owner.answers), owner.free) == (1, 0)

    with_pipeline(script, posts=1)


def test_it_is_free_when_everything_was_answered() -> None:
    def script(pipeline: Pipeline, owner: Watched, wire: Wire) -> None:
        pipeline.data_received(answer(201))
        assert owner.free == 0
        assert pipeline.oldest is not None
        pipeline.data_received(answer(201))
        assert owner.free == 1
        assert pipeline.oldest is None

    with_pipeline(script, posts=2)
