"""How many writes wait for the server: single steps, and whole runs against a model of a server."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.client.adaptive_limit import CEILING, FLOOR, FREE_SECONDS, AdaptiveLimit
from tests.unit.client.server_model import FixedLimit, Limit, Model, ModelClock, Run, Server

Service = Callable[[float, random.Random], float]


def constant(seconds: float) -> Service:
    return lambda _now, _rng: seconds


def varying(seconds: float, sigma: float = 0.5) -> Service:
    """Log-normal, with this mean."""
    return lambda _now, rng: seconds * rng.lognormvariate(-sigma * sigma / 2, sigma)


def exponential(seconds: float) -> Service:
    return lambda _now, rng: rng.expovariate(1 / seconds)


def slots(number: int) -> Callable[[float], int]:
    return lambda _now: number


def adaptive(clock: ModelClock, refusals: Callable[[], int]) -> AdaptiveLimit:
    return AdaptiveLimit(clock, refusals=refusals)


def unlimited(clock: ModelClock, _refusals: Callable[[], int]) -> Limit:
    return FixedLimit(clock, 4000)


def run(
    server: Server,
    limit: Callable[[ModelClock, Callable[[], int]], Limit] = adaptive,
    *,
    seconds: float = 30.0,
) -> Run:
    return Model(server, limit).run(seconds)


# Whole runs


@pytest.mark.parametrize(
    "server, longest",
    [
        pytest.param(Server(exponential(0.02)), 0.22, id="16-slots-20ms-exponential"),
        pytest.param(Server(constant(0.005)), 0.22, id="16-slots-5ms"),
        pytest.param(Server(varying(0.003), slots=slots(2)), 0.23, id="2-slots-3ms"),
        pytest.param(Server(varying(0.1), slots=slots(4)), 0.45, id="4-slots-100ms"),
        pytest.param(Server(varying(0.5), slots=slots(100)), 1.0, id="100-slots-500ms"),
        pytest.param(Server(varying(0.03, 1.0), slots=slots(64)), 0.22, id="64-slots-30ms-heavy-tail"),
    ],
)
def test_a_busy_server_stays_busy_and_answers_soon(server: Server, longest: float) -> None:
    limited, free = run(server), run(server, unlimited)
    assert limited.throughput(10, 30) >= 0.97 * free.throughput(10, 30)
    assert limited.duration(10, 30) <= longest < free.duration(10, 30)
    assert limited.most_in_flight <= CEILING
    assert min(limited.limits(10, 30)) >= FLOOR


def test_after_a_stall_the_limit_is_soon_as_before() -> None:
    server = Server(exponential(0.02), stalls=((15.0, 17.0),))
    limited, free = run(server), run(server, unlimited)
    assert limited.throughput(10, 30) >= 0.97 * free.throughput(10, 30)
    assert limited.throughput(17.5, 22.5) >= 0.97 * free.throughput(17.5, 22.5)
    assert limited.duration(18, 30, quantile=0.99) <= 3 * FREE_SECONDS


def test_a_server_that_becomes_slower_and_faster_is_followed() -> None:
    def service(now: float, rng: random.Random) -> float:
        return varying(0.2 if 20 <= now < 40 else 0.02)(now, rng)

    limited, free = run(Server(service), seconds=60), run(Server(service), unlimited, seconds=60)
    assert limited.throughput(26, 40) >= 0.97 * free.throughput(26, 40)
    assert limited.duration(26, 40) <= 0.7
    assert limited.throughput(44, 60) >= 0.97 * free.throughput(44, 60)
    assert limited.duration(50, 60) <= 0.25


def test_a_server_that_loses_slots_gets_fewer_writes() -> None:
    server = Server(varying(0.02), slots=lambda now: 4 if 10 <= now < 20 else 32)
    limited, free = run(server), run(server, unlimited)
    for since in (1, 11, 21):
        assert limited.throughput(since, since + 9) >= 0.97 * free.throughput(since, since + 9)
        assert limited.duration(since, since + 9) <= 0.25


def test_a_server_that_refuses_when_its_queue_is_long_is_not_pushed_there() -> None:
    server = Server(varying(0.02), longest_queue=100)
    model = Model(server, adaptive)
    limited = model.run(30.0)
    assert limited.throughput(10, 30) >= 0.97 * run(server, unlimited).throughput(10, 30)
    assert model.refusals < 500  # of 16,000 answers; without a limit there are more refusals than answers


def test_refusals_that_come_before_answers_are_slow_halve_the_limit() -> None:
    server = Server(varying(0.02), longest_queue=30)
    fixed = run(server, lambda clock, _refusals: FixedLimit(clock, CEILING, 0.25))
    deaf = run(server, lambda clock, _refusals: AdaptiveLimit(clock))
    assert run(server).throughput(10, 30) > 1.5 * deaf.throughput(10, 30) > fixed.throughput(10, 30)


def test_a_shortest_duration_that_was_measured_too_long_is_corrected() -> None:
    """The server is slow while few pods come; it has recovered when many come at once."""

    def service(now: float, rng: random.Random) -> float:
        return varying(2.0 if now < 20 else 0.02)(now, rng)

    model = Model(Server(service), adaptive)
    limited = model.run(120.0)
    assert limited.duration(80, 120) <= 0.25


# Single steps


def answer(limit: AdaptiveLimit, clock: ModelClock, seconds: float, *, number: int = FLOOR) -> None:
    """That number of writes start together, and are answered together."""
    started = [limit.start() for _ in range(number)]
    limit.has_room()
    clock.seconds += seconds
    for started_ns in started:
        limit.end(started_ns, answered=True)


def test_without_load_the_limit_stays() -> None:
    clock = ModelClock()
    limit = AdaptiveLimit(clock)
    for _ in range(100):
        answer(limit, clock, 0.01, number=1)
    assert limit.limit == FLOOR


def test_an_instant_answer_is_fast() -> None:
    clock = ModelClock()
    limit = AdaptiveLimit(clock)
    answer(limit, clock, 0.0)
    assert limit.limit == FLOOR * 3 // 2


def test_room_returns_when_a_quarter_is_free() -> None:
    clock = ModelClock()
    limit = AdaptiveLimit(clock)
    started = [limit.start() for _ in range(FLOOR)]
    assert not limit.has_room()
    returned = [limit.end(started_ns, answered=False) for started_ns in started[: FLOOR // 4 + 1]]
    assert returned == [False] * (FLOOR // 4) + [True]
    assert limit.has_room()


@pytest.mark.parametrize(
    "seconds, limit_after",
    [pytest.param(0.001, 12, id="quick-failures-say-nothing"), pytest.param(30.0, 8, id="timeouts-do")],
)
def test_failures(seconds: float, limit_after: int) -> None:
    clock = ModelClock()
    limit = AdaptiveLimit(clock)
    answer(limit, clock, 0.01)
    assert limit.limit == 12
    started = [limit.start() for _ in range(12)]
    limit.has_room()
    clock.seconds += seconds
    for started_ns in started:
        limit.end(started_ns, answered=False)
    assert limit.limit == limit_after
    assert limit.in_flight == 0


@given(
    st.lists(st.tuples(st.integers(1, 600), st.floats(0, 100), st.booleans(), st.integers(0, 2)), max_size=60)
)
def test_the_limit_never_leaves_its_bounds(steps: list[tuple[int, float, bool, int]]) -> None:
    clock, refused = ModelClock(), 0
    limit = AdaptiveLimit(clock, refusals=lambda: refused)
    started: list[int] = []
    for number, seconds, answered, refusals in steps:
        refused += refusals
        started += [limit.start() for _ in range(number) if limit.has_room()]
        clock.seconds += seconds
        while started and len(started) > number // 2:
            limit.end(started.pop(0), answered=answered)
        assert FLOOR <= limit.limit <= CEILING
        assert limit.in_flight == len(started) <= CEILING
