"""A bounded pool of keep-alive connections, first come, first served.

In: an `OutgoingRequest`. Out: its `HttpAnswer`, `UnreachableError` (nothing happened) or `AnswerLostError` (a
write was sent and may have happened). Each request has one deadline for waiting, connecting, sending and
reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from kuberth.client.connecting.connection import (
    AnswerTooLargeError,
    HttpAnswer,
    RequestConnection,
    end_connections,
)
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.connecting.failures import connect_failure, exchange_failure
from kuberth.client.connecting.sweeping import SWEEP_SECONDS, SweepTimer
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.identity.credentials import Credential
from kuberth.errors import UnreachableError

IDLE_SECONDS: Final = 90.0
"""Idle connections are closed after this time, earlier than servers close them."""


@dataclass(slots=True)
class OutgoingRequest:
    """A request, ready to be sent."""

    what: str
    """Its name in messages: "list pods", "bind pod default/web"."""
    data: bytes = field(repr=False)
    """The whole request; it contains credentials, so it is never printed."""
    repeatable: bool
    """Whether it may be sent twice: true for reads."""
    deadline: float
    """The loop's time by which the response must be complete."""
    cap: int
    """The maximum size of the body to accept."""


class PoolStats(NamedTuple):
    open: int
    idle: int
    waiting: int


class Pool:
    """Bounded keep-alive connections to one server."""

    def __init__(self, config: ClientConfig, dialer: Dialer, *, max_connections: int) -> None:
        self._config = config
        self._dialer = dialer
        self._max = max(1, max_connections)
        self._open = 0
        """Open connections and dials in progress, both limited."""
        self._idle: list[RequestConnection] = []
        # While a request waits here, no connection is idle: a released one goes to the first waiter.
        self._line: deque[asyncio.Future[RequestConnection | None]] = deque()
        self._all: set[RequestConnection] = set()
        # One timer for all, because most requests are answered long before their deadline.
        self._timer = SweepTimer(self._sweep)
        self._closed = False

    async def ask(self, request: OutgoingRequest, credential: Credential) -> HttpAnswer:
        generation = self._dialer.generation(credential)
        fresh = False
        while True:
            connection = self._take_idle(generation) if not fresh else None
            if connection is None:
                connection = await self._acquire(request, credential, fresh=fresh)
            reused = connection.exchanges > 0
            connection.deadline = request.deadline
            self._timer.no_later_than(request.deadline)
            try:
                answer = await connection.start(request.data, cap=request.cap)
            except asyncio.CancelledError:
                connection.abort()
                raise
            except (OSError, AnswerTooLargeError) as error:
                connection.abort()  # an invalid response leaves it open
                if reused and request.repeatable and not connection.answering and not fresh:
                    # The server closed the idle connection when the request was sent.
                    fresh = not isinstance(error, TimeoutError)
                    if fresh:
                        continue
                raise exchange_failure(
                    error,
                    self._config,
                    what=request.what,
                    repeatable=request.repeatable,
                    first=not connection.exchanges and not connection.answering,
                ) from error
            self._release(connection, generation)
            return answer

    def stats(self) -> PoolStats:
        return PoolStats(self._open, len(self._idle), sum(not turn.done() for turn in self._line))

    async def close(self) -> None:
        """Reject new requests, give running ones a moment, then close every connection."""
        self._closed = True
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                self._open += 1  # the slot that it assumes
                turn.set_result(None)
        connections = set(self._all)
        for connection in tuple(self._idle):
            connection.close()
        await end_connections(connections, grace=True)
        self._timer.stop()

    # Acquiring

    def _take_idle(self, generation: int) -> RequestConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.generation == generation:
                return connection
            connection.close()
        return None

    async def _acquire(
        self, request: OutgoingRequest, credential: Credential, *, fresh: bool
    ) -> RequestConnection:
        try:
            async with asyncio.timeout_at(request.deadline):
                connection = await self._next(fresh=fresh)
        except TimeoutError as error:
            problem = f"all {self._max} connections were busy until its deadline; the server is slow"
            raise UnreachableError(f"{request.what}: {problem}") from error
        if connection is not None:
            return connection
        try:
            async with asyncio.timeout_at(request.deadline):
                return await self._dial(credential)
        except TimeoutError as error:
            failure = connect_failure(error, self._config)
            raise UnreachableError(f"{request.what}: {failure}") from error
        except UnreachableError as error:
            raise UnreachableError(f"{request.what}: {error}") from error.__cause__

    async def _next(self, *, fresh: bool) -> RequestConnection | None:
        """A released connection, or None: the caller may open a new one in an already counted slot."""
        first = True
        while not self._closed:
            if self._open < self._max:
                self._open += 1
                return None
            if fresh and self._idle:
                # The other idle ones may be dead too: close one and open a new connection.
                self._idle.pop(0).close()
                continue
            turn: asyncio.Future[RequestConnection | None] = asyncio.get_running_loop().create_future()
            if first:
                self._line.append(turn)
            else:
                self._line.appendleft(turn)
            first = False
            try:
                handed = await turn
            except asyncio.CancelledError:
                self._pass_on(turn)
                raise
            if handed is None or handed.usable:
                return handed
        self._open += 1
        return None

    def _pass_on(self, turn: asyncio.Future[RequestConnection | None]) -> None:
        """Pass on the connection that a request got in the same turn in which it was cancelled."""
        if not turn.done() or turn.cancelled():
            return
        connection = turn.result()
        if connection is None:
            self._free_slot()
        elif connection.usable:
            self._release(connection, connection.generation)

    async def _dial(self, credential: Credential) -> RequestConnection:
        """Open a connection in an already counted slot."""
        try:
            if self._closed:
                raise UnreachableError("the client is closed")
            connection = await self._dialer.dial(credential, partial(RequestConnection, self._on_end))
        except BaseException:
            self._free_slot()
            raise
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        if not connection.usable:
            self._free_slot()
            raise UnreachableError("the server closed the connection at once")
        return connection

    def _release(self, connection: RequestConnection, generation: int) -> None:
        if not connection.usable:
            return
        if connection.generation != generation or self._closed:
            connection.close()
            return
        connection.deadline = 0.0
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _on_end(self, connection: RequestConnection) -> None:
        """Handle the end of a connection: its slot goes to the first waiter."""
        if connection in self._all:
            if connection in self._idle:
                self._idle.remove(connection)
            self._free_slot()

    def _free_slot(self) -> None:
        while self._line and not self._closed:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)  # the slot stays counted, for this one
                return
        self._open -= 1

    def _sweep(self, now: float) -> float | None:
        following = now + SWEEP_SECONDS
        for connection in tuple(self._all):
            if connection.deadline == 0.0:
                continue
            if connection.deadline <= now:
                connection.abort(TimeoutError("no response before the deadline"))
            else:
                following = min(following, connection.deadline)
        for connection in tuple(self._idle):
            if now - connection.idle_since >= IDLE_SECONDS:
                connection.close()
        return following if self._all else None
