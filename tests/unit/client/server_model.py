"""A model of a scheduler that always has pods and of a server with parallel slots, on virtual time."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kuberth.clock import NANOSECONDS

PLACING_SECONDS = 0.0003
"""Of one pod, by the scheduler."""
RETRY_SECONDS = 1.0
"""A server that is too busy asks for this pause."""


class Limit(Protocol):
    """What the model asks."""

    @property
    def limit(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    def has_room(self) -> bool: ...
    def start(self) -> int: ...
    def end(self, started_ns: int, *, answered: bool) -> bool: ...


class ModelClock:
    """Moved by the model."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ns(self) -> int:
        return round(self.seconds * NANOSECONDS)


class FixedLimit:
    """For comparison: any number, and capacity returns when so few are left."""

    def __init__(self, clock: ModelClock, limit: int, resumed_at: float = 0.75) -> None:
        self._clock = clock
        self.limit = limit
        self.in_flight = 0
        self._resumed = limit * resumed_at
        self._is_crowded = False

    def has_room(self) -> bool:
        self._is_crowded = self.in_flight >= (self._resumed if self._is_crowded else self.limit)
        return not self._is_crowded

    def start(self) -> int:
        self.in_flight += 1
        return self._clock.now_ns()

    def end(self, _started_ns: int, *, answered: bool) -> bool:
        self.in_flight -= 1
        return self._is_crowded and self.in_flight < self._resumed


@dataclass(frozen=True, slots=True)
class Server:
    """Serves in order of arrival, with `slots` at a time."""

    service: Callable[[float, random.Random], float]
    """Seconds of one request that begins at this time."""
    slots: Callable[[float], int] = lambda _now: 16
    stalls: Sequence[tuple[float, float]] = ()
    """From and until: nothing ends meanwhile."""
    longest_queue: float = float("inf")
    """With more waiting, requests are refused for now."""


@dataclass(slots=True)
class Run:
    """What happened: for every answer when it came, how long it took, and the limit then."""

    answers: list[tuple[float, float, int]] = field(default_factory=list)
    most_in_flight: int = 0

    def throughput(self, since: float, until: float) -> float:
        """Answers a second."""
        return sum(since < at <= until for at, *_ in self.answers) / (until - since)

    def duration(self, since: float, until: float, *, quantile: float = 0.5) -> float:
        """Seconds of an answer."""
        took = sorted(took for at, took, _ in self.answers if since < at <= until)
        return took[int(quantile * (len(took) - 1))]

    def limits(self, since: float, until: float) -> list[int]:
        return [limit for at, _, limit in self.answers if since < at <= until]


@dataclass(slots=True)
class Model:
    """Runs one server and one scheduler."""

    server: Server
    limit: Callable[[ModelClock, Callable[[], int]], Limit]
    has_pods: Callable[[float], bool] = lambda _now: True
    clock: ModelClock = field(default_factory=ModelClock)
    refusals: int = 0

    def run(self, seconds: float = 60.0, *, seed: int = 1) -> Run:
        server, clock, rng, run = self.server, self.clock, random.Random(seed), Run()
        limit = self.limit(clock, lambda: self.refusals)
        numbers = count()
        pending: list[tuple[float, int, Callable[[], None]]] = []
        waiting: deque[int] = deque()
        busy = 0
        places = True

        def at(moment: float, call: Callable[[], None]) -> None:
            heapq.heappush(pending, (moment, next(numbers), call))

        def place() -> None:
            nonlocal places
            if not self.has_pods(clock.seconds):
                at(clock.seconds + 0.1, place)
            elif limit.has_room():
                send(limit.start())
                run.most_in_flight = max(run.most_in_flight, limit.in_flight)
                at(clock.seconds + PLACING_SECONDS, place)
            else:
                places = False

        def send(started_ns: int) -> None:
            if len(waiting) >= server.longest_queue:
                self.refusals += 1
                at(clock.seconds + RETRY_SECONDS * rng.uniform(1, 1.2), lambda: send(started_ns))
            else:
                waiting.append(started_ns)
                serve()

        def serve() -> None:
            nonlocal busy
            while waiting and busy < server.slots(clock.seconds):
                started_ns = waiting.popleft()
                busy += 1
                ends = clock.seconds + server.service(clock.seconds, rng)
                for begin, end in server.stalls:
                    if clock.seconds < end and ends >= begin:
                        ends = end
                at(ends, lambda started_ns=started_ns: answer(started_ns))  # type: ignore[misc]  # a default binds it

        def answer(started_ns: int) -> None:
            nonlocal busy, places
            busy -= 1
            has_room = limit.end(started_ns, answered=True)
            run.answers.append((clock.seconds, clock.seconds - started_ns / NANOSECONDS, limit.limit))
            serve()
            if has_room and not places:
                places = True
                at(clock.seconds, place)

        at(0.0, place)
        while pending:
            moment, _, call = heapq.heappop(pending)
            if moment > seconds:
                break
            clock.seconds = moment
            call()
        return run
