from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.coordination import Lease, LeaseSpec
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import MicroTime, encode
from kuberth.client.writes import Write
from kuberth.clock import NANOSECONDS, LoopClock
from kuberth.config.types import LeaderElectionConfiguration
from kuberth.errors import ApiError, ConfigError, ConflictError, LeadershipLost, NotFoundError
from kuberth.observe.metrics import LeaderElectionMetrics
from kuberth.programs.run.leader_election import LeaderElector, make_identity
from kuberth.testing import MemoryApi, run_in_virtual_time

T = TypeVar("T")

SETTINGS = LeaderElectionConfiguration()
KEY = "kube-system/kube-scheduler"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EPOCH_NS = int(NOON.timestamp()) * NANOSECONDS


class FaultyApi(MemoryApi):
    """The verbs a lease needs, through `fault`: it may wait or raise, before or after the real thing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.before: Callable[[str], Awaitable[None]] | None = None
        self.after: Callable[[str], Awaitable[None]] | None = None

    async def _through(self, verb: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self.calls.append(verb)
        if self.before is not None:
            await self.before(verb)
        answer = await call()
        if self.after is not None:
            await self.after(verb)
        return answer

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return await self._through("get", lambda: MemoryApi.get(self, kind, name, namespace=namespace))

    async def write(self, write: Write) -> Any:
        return await self._through(write.verb, lambda: MemoryApi.write(self, write))

    @property
    def lease(self) -> Lease:
        return self.read(Lease, KEY)

    def edit(self, **spec: Any) -> None:
        self.change(
            Lease,
            KEY,
            lambda lease: msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, **spec)),
        )


async def refuse(verb: str) -> None:
    raise ApiError("the server is down", code=503)


async def never_answer(verb: str) -> None:
    await asyncio.Event().wait()


@dataclass
class Candidate:
    """An elector with everything it reports."""

    elector: LeaderElector
    metrics: LeaderElectionMetrics
    leaders: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


def candidate(api: MemoryApi, name: str, *, skew_seconds: float = 0.0, seed: int = 1) -> Candidate:
    clock = LoopClock(asyncio.get_running_loop(), epoch_ns=EPOCH_NS + round(skew_seconds * NANOSECONDS))
    metrics = LeaderElectionMetrics()
    leaders: list[str] = []
    events: list[str] = []
    elector = LeaderElector(
        api,
        settings=SETTINGS,
        identity=name,
        clock=clock,
        rng=random.Random(seed),
        metrics=metrics,
        on_new_leader=leaders.append,
        on_event=lambda lease, note: events.append(f"{lease.metadata.name}: {note}"),
    )
    return Candidate(elector, metrics, leaders, events)


def held_by(name: str, *, seconds: int = 15, transitions: int = 3) -> Lease:
    return Lease(
        metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system", labels={"kept": "yes"}),
        spec=LeaseSpec(
            holder_identity=name,
            lease_duration_seconds=seconds,
            acquire_time=MicroTime(2026, 1, 1, tzinfo=UTC),
            renew_time=MicroTime(2026, 1, 1, tzinfo=UTC),
            lease_transitions=transitions,
        ),
    )


def now() -> float:
    return asyncio.get_running_loop().time()


async def stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_in_virtual_time(test, limit_seconds=3600)

    run.__name__ = test.__name__
    return run


# Taking the lease


@in_virtual_time
async def test_the_first_candidate_creates_the_lease_at_once() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    assert not me.elector.may_write()
    await me.elector.acquire()
    assert now() == 0
    assert me.elector.may_write()
    assert (me.leaders, me.events) == (["a"], ["kube-scheduler: a became leader"])
    assert me.metrics.master_status.values == {("kube-scheduler",): 1}
    noon = MicroTime(2026, 1, 1, 12, tzinfo=UTC)
    assert api.lease.spec == LeaseSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time=noon,
        renew_time=noon,
        lease_transitions=0,
    )
    assert b'"renewTime":"2026-01-01T12:00:00.000000Z"' in encode(api.lease)


@in_virtual_time
async def test_a_held_lease_is_taken_when_its_record_stood_still_for_its_own_duration() -> None:
    """What counts is the record's duration and when it was last seen to change, not the times in it."""
    api = FaultyApi()
    api.put(held_by("gone", seconds=40))
    me = candidate(api, "a")
    await me.elector.acquire()
    assert 40 <= now() <= 40 + 2 * 2.2
    assert me.leaders == ["gone", "a"]
    spec = api.lease.spec
    assert (spec.holder_identity, spec.lease_transitions, spec.lease_duration_seconds) == ("a", 4, 15)
    assert spec.acquire_time == spec.renew_time == NOON + timedelta(seconds=now())
    assert api.lease.metadata.labels == {"kept": "yes"}


@in_virtual_time
async def test_retries_are_two_to_four_seconds_apart() -> None:
    api = FaultyApi()
    api.put(held_by("other", seconds=600))
    at: list[float] = []

    async def note(verb: str) -> None:
        at.append(now())

    api.before = note
    task = asyncio.ensure_future(candidate(api, "a").elector.acquire())
    await asyncio.sleep(500)
    await stop(task)
    gaps = [after - before for before, after in itertools.pairwise(at)]
    assert min(gaps) >= 2
    assert max(gaps) <= 2 * 2.2 + 1e-6
    assert max(gaps) - min(gaps) > 1.5, "they are spread"


@in_virtual_time
async def test_a_released_lease_is_free_at_once() -> None:
    api = FaultyApi()
    api.put(held_by("", seconds=600))
    await candidate(api, "a").elector.acquire()
    assert now() == 0
    assert api.lease.spec.lease_transitions == 4


@in_virtual_time
async def test_a_renewing_leader_is_never_replaced() -> None:
    api = FaultyApi()
    leader, waiting = candidate(api, "a"), candidate(api, "b", skew_seconds=7200)
    await leader.elector.acquire()
    tasks = [asyncio.ensure_future(leader.elector.hold()), asyncio.ensure_future(waiting.elector.acquire())]
    for _ in range(600):
        await asyncio.sleep(1)
        assert leader.elector.may_write()
        assert not waiting.elector.may_write()
    assert waiting.leaders == ["a"]
    assert api.lease.spec.lease_transitions == 0
    assert api.lease.spec.acquire_time == NOON
    for task in tasks:
        await stop(task)


@in_virtual_time
async def test_the_api_failing_only_delays() -> None:
    api = FaultyApi()
    api.before = refuse
    me = candidate(api, "a")
    task = asyncio.ensure_future(me.elector.acquire())
    await asyncio.sleep(60)
    assert not me.elector.may_write()
    api.before = None
    await task
    assert me.elector.may_write()
    assert now() <= 60 + 4.4


@in_virtual_time
async def test_an_api_that_never_answers_is_asked_again_after_half_the_renew_deadline() -> None:
    api = FaultyApi()
    api.before = never_answer
    task = asyncio.ensure_future(candidate(api, "a").elector.acquire())
    await asyncio.sleep(30)
    await stop(task)
    assert 3 <= len(api.calls) <= 5


@in_virtual_time
async def test_of_two_that_create_at_the_same_moment_one_leads() -> None:
    api = FaultyApi()

    async def slow(verb: str) -> None:
        await asyncio.sleep(0.5)

    api.before = slow
    pair = [candidate(api, "a", seed=1), candidate(api, "b", seed=2)]
    tasks = [asyncio.ensure_future(each.elector.acquire()) for each in pair]
    await asyncio.sleep(5)
    assert [each.elector.may_write() for each in pair].count(True) == 1
    for task in tasks:
        await stop(task)


# Keeping it


@in_virtual_time
async def test_renewals_are_single_updates_every_retry_period() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    api.calls.clear()
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(19)
    assert api.calls == ["update"] * 10
    assert api.lease.spec.renew_time == NOON + timedelta(seconds=18)
    assert api.lease.spec.acquire_time == NOON
    assert me.metrics.slowpath.values == {}
    await stop(task)
    assert me.elector.may_write(), "stopping is not losing: what is under way may end"


@in_virtual_time
async def test_no_write_after_the_deadline_and_the_end_soon_after() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(5)  # the last renewal was at 4 s
    api.before = refuse
    await asyncio.sleep(9 - 0.001)
    assert me.elector.may_write()
    await asyncio.sleep(0.001)
    assert not me.elector.may_write()
    with pytest.raises(LeadershipLost, match="kube-system/kube-scheduler could not be renewed for 10 s"):
        await task
    assert now() == pytest.approx(4 + 2 + 10)
    assert me.metrics.master_status.values == {("kube-scheduler",): 0}
    assert me.events[-1] == "kube-scheduler: a stopped leading"
    assert not me.elector.may_write()


@in_virtual_time
async def test_the_deadline_cuts_a_request_that_hangs() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    api.before = never_answer
    with pytest.raises(LeadershipLost):
        await me.elector.hold()
    assert now() == pytest.approx(10)


@in_virtual_time
async def test_a_short_outage_costs_nothing() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    task = asyncio.ensure_future(me.elector.hold())
    for outage in range(20):
        await asyncio.sleep(7 + outage % 3)
        api.before = refuse
        await asyncio.sleep(5)
        assert me.elector.may_write()
        api.before = None
    assert not task.done()
    assert me.leaders == ["a"]
    await stop(task)


@in_virtual_time
async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    """Its answer may be long under way while others already count the lease's time."""
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()

    async def slow(verb: str) -> None:
        await asyncio.sleep(4.5)

    api.after = slow
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(4.6)
    api.before = refuse
    await asyncio.sleep(5.3)
    assert me.elector.may_write()
    await asyncio.sleep(0.2)
    assert not me.elector.may_write(), "10 s after the renewal of second 0, not of second 4.5"
    await stop(task)


@in_virtual_time
async def test_a_renewal_whose_answer_was_lost_is_found_by_reading() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    api.calls.clear()

    async def lose_first(verb: str) -> None:
        api.after = None
        raise ApiError("connection reset")

    api.after = lose_first
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(3)
    assert api.calls == ["update", "get", "update", "update"]
    assert me.metrics.slowpath.values == {("kube-scheduler",): 1}
    assert me.elector.may_write()
    await stop(task)


@in_virtual_time
async def test_another_holder_ends_leading_at_once() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(5)
    api.edit(holder_identity="thief")
    with pytest.raises(LeadershipLost, match="held by thief now"):
        await task
    assert now() == pytest.approx(6)
    assert not me.elector.may_write()
    assert me.leaders == ["a", "thief"]


@in_virtual_time
async def test_a_deleted_lease_is_made_again() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    task = asyncio.ensure_future(me.elector.hold())
    await asyncio.sleep(5)
    api.remove(Lease, KEY)
    await asyncio.sleep(2)
    assert api.lease.spec.holder_identity == "a"
    assert me.elector.may_write()
    await stop(task)


@in_virtual_time
async def test_a_process_that_was_stopped_for_a_while_does_not_write() -> None:
    """The clock jumps over the deadline between two looks at it."""

    class Jumping(LoopClock):
        jump_ns = 0

        def now_ns(self) -> int:
            return super().now_ns() + self.jump_ns

    api = FaultyApi()
    clock = Jumping(asyncio.get_running_loop(), epoch_ns=EPOCH_NS)
    elector = LeaderElector(api, settings=SETTINGS, identity="a", clock=clock)
    await elector.acquire()
    task = asyncio.ensure_future(elector.hold())
    await asyncio.sleep(5)
    assert elector.may_write()
    clock.jump_ns = 60 * NANOSECONDS
    assert not elector.may_write()
    await asyncio.sleep(1.5)
    assert elector.may_write(), "the lease was still ours and was renewed"
    clock.jump_ns += 60 * NANOSECONDS
    api.edit(holder_identity="b")
    with pytest.raises(LeadershipLost):
        await task
    assert not elector.may_write()


@in_virtual_time
async def test_health_is_bad_only_for_a_leader_that_should_have_ended() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    assert me.elector.problem() is None
    await me.elector.acquire()
    await asyncio.sleep(35)
    assert me.elector.problem() is None
    await asyncio.sleep(0.1)
    assert me.elector.problem() == "failed election to renew leadership on lease kube-scheduler"


# Giving it up


@in_virtual_time
async def test_release_lets_the_next_one_lead_without_waiting() -> None:
    api = FaultyApi()
    me, heir = candidate(api, "a"), candidate(api, "b")
    await me.elector.acquire()
    waiting = asyncio.ensure_future(heir.elector.acquire())
    await asyncio.sleep(1)
    assert await me.elector.release()
    assert not me.elector.may_write()
    spec = api.lease.spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 0)
    await waiting
    assert now() <= 1 + 4.4
    assert api.lease.spec.lease_transitions == 1
    assert me.events == ["kube-scheduler: a became leader", "kube-scheduler: a stopped leading"]


@in_virtual_time
async def test_release_does_not_take_the_lease_from_the_next_leader() -> None:
    api = FaultyApi()
    me = candidate(api, "a")
    await me.elector.acquire()
    api.edit(holder_identity="b")
    assert await me.elector.release()
    assert api.lease.spec.holder_identity == "b"


@in_virtual_time
async def test_release_of_a_lease_never_held_sends_no_request() -> None:
    api = FaultyApi()
    assert await candidate(api, "a").elector.release()
    assert api.calls == []


@in_virtual_time
async def test_release_gives_back_a_lease_whose_taking_was_cut_short() -> None:
    api = FaultyApi()
    api.after = never_answer
    me = candidate(api, "a")
    task = asyncio.ensure_future(me.elector.acquire())
    await asyncio.sleep(1)
    await stop(task)
    assert api.lease.spec.holder_identity == "a"
    api.after = None
    assert await me.elector.release()
    assert api.lease.spec.holder_identity == ""


@pytest.mark.parametrize("fault", (refuse, never_answer), ids=("refused", "unanswered"))
def test_a_release_that_fails_says_so(fault: Callable[[str], Awaitable[None]]) -> None:
    async def main() -> None:
        api = FaultyApi()
        me = candidate(api, "a")
        await me.elector.acquire()
        api.before = fault
        assert not await me.elector.release()
        assert now() <= 10
        assert not me.elector.may_write()

    run_in_virtual_time(main, limit_seconds=60)


# Never two, and soon another


@in_virtual_time
async def test_the_next_one_leads_within_the_lease_and_a_retry_of_a_killed_leader() -> None:
    api = FaultyApi()
    leader, heir = candidate(api, "a"), candidate(api, "b")
    await leader.elector.acquire()
    holding = asyncio.ensure_future(leader.elector.hold())
    waiting = asyncio.ensure_future(heir.elector.acquire())
    await asyncio.sleep(61)  # the last renewal was at 60 s
    await stop(holding)
    while not heir.elector.may_write():
        await asyncio.sleep(0.01)
        assert not (leader.elector.may_write() and heir.elector.may_write())
    assert 60 + 15 <= now() <= 60 + 15 + 2 * 4.4
    await waiting
    assert heir.leaders == ["a", "b"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 4), trouble=st.floats(0, 0.6))
def test_never_two_leaders_at_the_same_moment(seed: int, replicas: int, trouble: float) -> None:
    """Requests are slow, refused before or after they took effect, or hang; leaders come and go."""

    async def main() -> None:
        rng = random.Random(seed)
        api = FaultyApi()

        async def misfortune(verb: str) -> None:
            check()
            await asyncio.sleep(rng.expovariate(20))
            if rng.random() < trouble:
                fate = rng.randrange(4)
                if fate == 0:
                    await asyncio.sleep(rng.uniform(0, 20))
                elif fate == 1:
                    raise ConflictError("another candidate was faster")
                elif fate == 2:
                    raise NotFoundError("a stale cache")
                else:
                    raise ApiError("connection reset")

        api.before = api.after = misfortune
        electors = [
            candidate(api, f"replica-{number}", skew_seconds=rng.uniform(-1e6, 1e6), seed=number).elector
            for number in range(replicas)
        ]

        def check() -> None:
            writing = [elector.identity for elector in electors if elector.may_write()]
            assert len(writing) <= 1, f"{writing} at {now():.1f} s"

        async def live(elector: LeaderElector) -> None:
            while True:
                await elector.acquire()
                hold = asyncio.ensure_future(elector.hold())
                done, _ = await asyncio.wait([hold], timeout=rng.expovariate(1 / 60))
                if not done:
                    await stop(hold)
                    await asyncio.sleep(rng.uniform(0, 20))  # killed, or slow to end
                    if rng.random() < 0.5:
                        await elector.release()
                else:
                    hold.exception()

        tasks = [asyncio.ensure_future(live(elector)) for elector in electors]
        try:
            for _ in range(1500):
                await asyncio.sleep(0.2)
                check()
                for task in tasks:
                    assert not task.done(), task.exception()
        finally:
            for task in tasks:
                await stop(task)

    run_in_virtual_time(main, limit_seconds=3600)


# Settings


@pytest.mark.parametrize(
    "lease, renew, retry",
    [(10, 10, 2), (15, 2.4, 2), (15, 10, 0), (0, 0, 0)],
    ids=("lease not longer", "no second try", "no pause", "nothing"),
)
def test_settings_that_cannot_work_are_refused(lease: float, renew: float, retry: float) -> None:
    unusable = LeaderElectionConfiguration(
        lease_duration=timedelta(seconds=lease),
        renew_deadline=timedelta(seconds=renew),
        retry_period=timedelta(seconds=retry),
    )

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        with pytest.raises(ConfigError, match="leaseDuration"):
            LeaderElector(MemoryApi(), settings=unusable, identity="a", clock=clock)
        with pytest.raises(ConfigError, match="identity"):
            LeaderElector(MemoryApi(), settings=SETTINGS, identity="", clock=clock)

    run_in_virtual_time(main)


def test_identities_are_unique() -> None:
    one, other = make_identity(), make_identity()
    assert one != other
    assert one.partition("_")[0] == other.partition("_")[0] != ""
