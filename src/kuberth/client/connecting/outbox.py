"""Sends writes in batches over a few pipelined connections.

In: posts, one by one. Out: every post's future ends, without a result or with an error: `UnreachableError`
(nothing happened), `AnswerLostError` (the write may have happened) or the server's error. Posts of one turn
of the loop are sent together. While the server is busy, posts wait a moment to be batched, because a separate
request costs a TLS record, two system calls and two wake-ups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kuberth.client.connecting.connection import HttpAnswer, end_connections
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.connecting.failures import connect_failure, exchange_failure
from kuberth.client.connecting.pipeline import Pipeline, Post
from kuberth.client.connecting.pool import IDLE_SECONDS
from kuberth.client.connecting.sweeping import SWEEP_SECONDS, SweepTimer
from kuberth.client.identity.client_config import ClientConfig
from kuberth.errors import ApiError, UnreachableError

CAUTION_SECONDS: Final = 60.0
"""How long posts are sent one by one after a connection ended with several unanswered posts, since a proxy
may not support pipelining."""


class Batching(NamedTuple):
    """How many posts share a connection and a batch."""

    max_connections: int = 16
    """A server answers the posts of one connection one after the other."""
    max_batch: int = 8
    """The maximum number of posts sent together."""
    busy_connections: int = 2
    """From this number of busy connections on, posts wait to be batched: the server is busy."""
    max_wait_seconds: float = 0.004
    """How long a post waits to be batched."""


class Outbox:
    """Implements `kuberth.client.connecting.pipeline.PipelineOwner`."""

    def __init__(
        self,
        config: ClientConfig,
        dialer: Dialer,
        *,
        batching: Batching,
        cap: int,
        on_answer: Callable[[Post, HttpAnswer, int], None],
        on_loss: Callable[[Post, ApiError], None],
    ) -> None:
        """Create an outbox that calls `on_answer` or `on_loss` once for every post."""
        self._config = config
        self._dialer = dialer
        self._batching = batching
        self._cap = cap
        self.answered = on_answer
        self._on_loss = on_loss
        self._waiting: deque[Post] = deque()
        self._pipelines: set[Pipeline] = set()
        self._idle: list[Pipeline] = []
        self._dial: asyncio.Task[None] | None = None
        self._flushing: asyncio.Handle | None = None
        self._flush_is_late = False
        """Whether the scheduled flush waits for more posts."""
        # One timer for all, because most posts are answered long before their deadline.
        self._timer = SweepTimer(self._sweep)
        self._alone_until = 0.0
        self._closed = False

    def post(self, post: Post) -> None:
        """Send the post with the next batch."""
        self._waiting.append(post)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)
        elif self._flush_is_late and len(self._waiting) >= self._batching.max_batch:
            self._flushing.cancel()
            self._flush_is_late = False
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)
        self._timer.no_later_than(post.deadline)

    async def close(self) -> None:
        """Reject waiting posts, give in-flight ones a moment, then close every connection."""
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._refuse_waiting("the client is closed")
        if self._dial is not None:
            self._dial.cancel()
            await asyncio.wait([self._dial])
        for pipeline in tuple(self._idle):
            pipeline.close()
        pipelines = [pipeline for pipeline in self._pipelines if not pipeline.closed.done()]
        await end_connections(pipelines, grace=any(pipeline.oldest is not None for pipeline in pipelines))
        self._timer.stop()

    # Sending

    def _flush(self) -> None:
        self._flushing = None
        self._flush_is_late = False
        loop = asyncio.get_running_loop()
        batching, waiting = self._batching, self._waiting
        batch = 1 if loop.time() < self._alone_until else batching.max_batch
        while waiting:
            busy = len(self._pipelines) - len(self._idle)
            if busy >= batching.busy_connections and len(waiting) < batch:
                seconds = waiting[0].posted + batching.max_wait_seconds - loop.time()
                if seconds > 0:
                    self._flush_is_late = True
                    self._flushing = loop.call_later(seconds, self._flush)
                    return
            try:
                pipeline = self._free_pipeline(waiting[0])
            except ApiError as error:  # the current client certificate is not usable
                self._refuse(waiting.popleft(), str(error), error)
                continue
            if pipeline is None:
                return  # the next free connection, or a new one, continues
            posts = [post for post in self._taken(batch) if self._may_be_sent(post)]
            if posts:
                pipeline.send(posts)
            else:
                self._idle.append(pipeline)

    def _may_be_sent(self, post: Post) -> bool:
        if post.future.done():
            return False  # given up
        if post.check is not None:
            try:
                post.check()
            except ApiError as error:
                self._on_loss(post, error)
                return False
        return True

    def _taken(self, number: int) -> list[Post]:
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(number, len(waiting)))]

    def _free_pipeline(self, post: Post) -> Pipeline | None:
        generation = self._dialer.generation(post.credential)
        while self._idle:
            pipeline = self._idle.pop()
            if pipeline.generation == generation:
                return pipeline
            pipeline.close()
        if self._dial is None and len(self._pipelines) < self._batching.max_connections:
            # We own the task: it ends with the dial, and `close` ends it.
            self._dial = asyncio.get_running_loop().create_task(
                self._open_pipeline(post), name=f"dial {self._config.server}"
            )
        return None

    async def _open_pipeline(self, post: Post) -> None:
        problem: BaseException | None = None
        try:
            async with asyncio.timeout_at(post.deadline):
                pipeline = await self._dialer.dial(post.credential, partial(Pipeline, self, cap=self._cap))
            if pipeline.usable and not self._closed:
                self._pipelines.add(pipeline)
                self._idle.append(pipeline)
            else:
                pipeline.abort()
                problem = UnreachableError("the server closed the connection at once")
        except TimeoutError as error:
            problem = connect_failure(error, self._config)
        except ApiError as error:
            problem = error
        finally:
            self._dial = None
        if problem is not None and not self._pipelines:
            self._refuse_waiting(str(problem), problem.__cause__)
        self._plan_flush()

    def _plan_flush(self) -> None:
        if self._waiting and self._flushing is None and not self._closed:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    # Called by the pipelines

    def is_free(self, pipeline: Pipeline) -> None:
        if self._closed:
            pipeline.close()
            return
        pipeline.idle_since = asyncio.get_running_loop().time()
        self._idle.append(pipeline)
        self._plan_flush()

    def ended(self, pipeline: Pipeline, unanswered: list[Post], error: BaseException) -> None:
        self._pipelines.discard(pipeline)
        if pipeline in self._idle:
            self._idle.remove(pipeline)
        if len(unanswered) > 1 and not isinstance(error, TimeoutError):
            self._alone_until = asyncio.get_running_loop().time() + CAUTION_SECONDS
        first = not pipeline.exchanges and not pipeline.answering
        for post in unanswered:
            failure = exchange_failure(error, self._config, what=post.what, repeatable=False, first=first)
            failure.__cause__ = error
            self._on_loss(post, failure)
        self._plan_flush()

    def _sweep(self, now: float) -> float | None:
        following = now + SWEEP_SECONDS
        for pipeline in tuple(self._pipelines):
            oldest = pipeline.oldest
            if oldest is None:
                if now - pipeline.idle_since >= IDLE_SECONDS:
                    pipeline.close()
            elif oldest.deadline <= now:
                pipeline.abort(TimeoutError("no response before the deadline"))
            else:
                following = min(following, oldest.deadline)
        while self._waiting and self._waiting[0].deadline <= now:
            problem = (
                f"all {len(self._pipelines)} connections were busy until its deadline; the server is slow"
            )
            self._refuse(self._waiting.popleft(), problem, None)
        if self._waiting:
            following = min(following, self._waiting[0].deadline)
        return following if self._pipelines or self._waiting else None

    def _refuse_waiting(self, problem: str, cause: BaseException | None = None) -> None:
        while self._waiting:
            self._refuse(self._waiting.popleft(), problem, cause)

    def _refuse(self, post: Post, problem: str, cause: BaseException | None) -> None:
        failure = UnreachableError(f"{post.what}: {problem}")
        failure.__cause__ = cause
        self._on_loss(post, failure)
