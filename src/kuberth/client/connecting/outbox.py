"""Writes whose answers nobody reads, sent together over a few connections.

In: posts, one by one. Out: to each poster's future whether it was done, or the error that says why not:
`UnreachableError` (nothing happened), `AnswerLostError` (nobody knows) or the server's refusal. Posts of one
turn of the loop go out in one piece, and while the server is busy with others, posts wait a moment for
company: a request alone costs a TLS record, two system calls and two wake-ups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kuberth.client.connecting.connection import HttpAnswer
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.connecting.failures import connect_failure, exchange_failure
from kuberth.client.connecting.lane import Lane, Post
from kuberth.client.connecting.pool import IDLE_SECONDS
from kuberth.client.connecting.sweeping import SWEEP_SECONDS, SweepTimer
from kuberth.client.identity.client_config import ClientConfig
from kuberth.errors import ApiError, UnreachableError

CAUTION_SECONDS: Final = 60.0
"""So long after a connection ended with posts in line behind another, each is sent alone: whoever stands
between may not understand several at once."""
_CLOSE_SECONDS: Final = 1.0


class Manners(NamedTuple):
    """How posts travel."""

    lanes: int = 16
    """Connections at most. A server answers the posts of one connection one after the other."""
    together: int = 8
    """Posts in one piece at most."""
    crowd: int = 2
    """With so many connections busy the server has enough to do that posts wait for company."""
    wait_seconds: float = 0.004
    """How long at most."""


class Outbox:
    """Implements `kuberth.client.connecting.lane.Harbour`."""

    def __init__(
        self,
        config: ClientConfig,
        dialer: Dialer,
        *,
        manners: Manners,
        cap: int,
        on_answer: Callable[[Post, HttpAnswer, int], None],
        on_loss: Callable[[Post, ApiError], None],
    ) -> None:
        """`on_answer` and `on_loss` are called for every post, once."""
        self._config = config
        self._dialer = dialer
        self._manners = manners
        self._cap = cap
        self.answered = on_answer
        self._on_loss = on_loss
        self._waiting: deque[Post] = deque()
        self._lanes: set[Lane] = set()
        self._idle: list[Lane] = []
        self._dial: asyncio.Task[None] | None = None
        self._flushing: asyncio.Handle | None = None
        self._flush_is_late = False
        """The flush that is planned waits for company."""
        # One timer for all, because most are answered long before their deadline.
        self._timer = SweepTimer(self._sweep)
        self._alone_until = 0.0
        self._closed = False

    def post(self, post: Post) -> None:
        """Send it, with others if there are any."""
        self._waiting.append(post)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)
        elif self._flush_is_late and len(self._waiting) >= self._manners.together:
            self._flushing.cancel()
            self._flush_is_late = False
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)
        self._timer.no_later_than(post.deadline)

    async def close(self) -> None:
        """Refuse what waits, give what is under way a moment, then end every connection."""
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._refuse_waiting("the client is closed")
        if self._dial is not None:
            self._dial.cancel()
            await asyncio.wait([self._dial])
        for lane in tuple(self._idle):
            lane.close()
        if lanes := [lane for lane in self._lanes if not lane.closed.done()]:
            ends = [lane.closed for lane in lanes]
            if any(lane.oldest is not None for lane in lanes):
                await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
            for lane in lanes:
                lane.abort()
            # Their transports have a last word to say to the loop.
            await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
        self._timer.stop()

    # Sending

    def _flush(self) -> None:
        self._flushing = None
        self._flush_is_late = False
        loop = asyncio.get_running_loop()
        manners, waiting = self._manners, self._waiting
        together = 1 if loop.time() < self._alone_until else manners.together
        while waiting:
            busy = len(self._lanes) - len(self._idle)
            if busy >= manners.crowd and len(waiting) < together:
                seconds = waiting[0].posted + manners.wait_seconds - loop.time()
                if seconds > 0:
                    self._flush_is_late = True
                    self._flushing = loop.call_later(seconds, self._flush)
                    return
            try:
                lane = self._free_lane(waiting[0])
            except ApiError as error:  # the client certificate of the moment cannot be used
                self._refuse(waiting.popleft(), str(error), error)
                continue
            if lane is None:
                return  # the next one that is free, or new, goes on
            posts = [post for post in self._taken(together) if self._may_be_sent(post)]
            if posts:
                lane.send(posts)
            else:
                self._idle.append(lane)

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

    def _free_lane(self, post: Post) -> Lane | None:
        generation = self._dialer.generation(post.credential)
        while self._idle:
            lane = self._idle.pop()
            if lane.generation == generation:
                return lane
            lane.close()
        if self._dial is None and len(self._lanes) < self._manners.lanes:
            # The task is ours: it ends with the dial, and `close` ends it.
            self._dial = asyncio.get_running_loop().create_task(
                self._open_lane(post), name=f"dial {self._config.server}"
            )
        return None

    async def _open_lane(self, post: Post) -> None:
        problem: BaseException | None = None
        try:
            async with asyncio.timeout_at(post.deadline):
                lane = await self._dialer.dial(post.credential, partial(Lane, self, cap=self._cap))
            if lane.usable and not self._closed:
                self._lanes.add(lane)
                self._idle.append(lane)
            else:
                lane.abort()
                problem = UnreachableError("the server closed the connection at once")
        except TimeoutError as error:
            problem = connect_failure(error, self._config)
        except ApiError as error:
            problem = error
        finally:
            self._dial = None
        if problem is not None and not self._lanes:
            self._refuse_waiting(str(problem), problem.__cause__)
        self._plan_flush()

    def _plan_flush(self) -> None:
        if self._waiting and self._flushing is None and not self._closed:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    # News from the lanes

    def is_free(self, lane: Lane) -> None:
        if self._closed:
            lane.close()
            return
        lane.idle_since = asyncio.get_running_loop().time()
        self._idle.append(lane)
        self._plan_flush()

    def ended(self, lane: Lane, unanswered: list[Post], error: BaseException) -> None:
        self._lanes.discard(lane)
        if lane in self._idle:
            self._idle.remove(lane)
        if len(unanswered) > 1 and not isinstance(error, TimeoutError):
            self._alone_until = asyncio.get_running_loop().time() + CAUTION_SECONDS
        first = not lane.exchanges and not lane.answering
        for post in unanswered:
            failure = exchange_failure(error, self._config, what=post.what, repeatable=False, first=first)
            failure.__cause__ = error
            self._on_loss(post, failure)
        self._plan_flush()

    def _sweep(self, now: float) -> float | None:
        following = now + SWEEP_SECONDS
        for lane in tuple(self._lanes):
            oldest = lane.oldest
            if oldest is None:
                if now - lane.idle_since >= IDLE_SECONDS:
                    lane.close()
            elif oldest.deadline <= now:
                lane.abort(TimeoutError("no answer before the deadline"))
            else:
                following = min(following, oldest.deadline)
        while self._waiting and self._waiting[0].deadline <= now:
            problem = f"all {len(self._lanes)} connections were busy until its deadline; the server is slow"
            self._refuse(self._waiting.popleft(), problem, None)
        if self._waiting:
            following = min(following, self._waiting[0].deadline)
        return following if self._lanes or self._waiting else None

    def _refuse_waiting(self, problem: str, cause: BaseException | None = None) -> None:
        while self._waiting:
            self._refuse(self._waiting.popleft(), problem, cause)

    def _refuse(self, post: Post, problem: str, cause: BaseException | None) -> None:
        failure = UnreachableError(f"{post.what}: {problem}")
        failure.__cause__ = cause
        self._on_loss(post, failure)
