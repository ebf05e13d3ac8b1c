"""Leader election on a Lease, as client-go does it: one replica schedules, the others wait.

In: an API with the lease, a clock and upstream's three durations. Out: `acquire` returns once this process
leads, `hold` renews until it cannot, `may_write` says at any moment whether a write is still safe,
and events record which replica leads.

A lease gives no fence. Whether it is free depends on how long its record has not changed on the local
clock, never by the times written in it, so clocks need not agree, only run at the same speed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kuberth.api.coordination import Lease, LeaseSpec
from kuberth.api.core import Event, EventSource
from kuberth.api.events import event_name
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import MicroTime
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock
from kuberth.config.types import LeaderElectionConfiguration
from kuberth.errors import AlreadyExistsError, ConfigError, KuberthError, LeadershipLost, NotFoundError
from kuberth.observe.metrics import LeaderElectionMetrics
from kuberth.outcomes.event_recorder import reference_to
from kuberth.text.timestamps import micro_moment, moment

logger = logging.getLogger(__name__)


JITTER_FACTOR: Final = 1.2
TOLERATED_EXPIRY_SECONDS: Final = 20.0
"""How long past its lease a leader still counts as healthy: it should have exited long before."""

_FAILURES: Final = (KuberthError, OSError, TimeoutError)


FLUSH_SECONDS: Final = 2.0
"""The maximum time that the exit of the process waits for the last event."""


def make_identity() -> str:
    """The host's name with a unique suffix, so that two processes on one host are two candidates."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """A candidate for a lease. Its owner awaits `acquire`, then `hold`, and finally `release`."""

    def __init__(
        self,
        api: Api,
        *,
        settings: LeaderElectionConfiguration,
        identity: str,
        clock: Clock,
        rng: random.Random | None = None,
        metrics: LeaderElectionMetrics | None = None,
        on_new_leader: Callable[[str], None] | None = None,
        on_event: Callable[[Lease, str], None] | None = None,
    ) -> None:
        """`on_new_leader` receives the leader's identity when it changes, "" if there is no leader.

        `on_event` receives the lease and a note for an Event with reason LeaderElection.
        """
        _check(settings, identity)
        self.identity = identity
        self._api = api
        self._clock = clock
        self._rng = random.Random() if rng is None else rng
        self._metrics = LeaderElectionMetrics() if metrics is None else metrics
        self._on_new_leader = on_new_leader
        self._on_event = on_event
        self._namespace = settings.resource_namespace
        self._name = settings.resource_name
        self._lease_seconds = settings.lease_duration.total_seconds()
        self._renew_seconds = settings.renew_deadline.total_seconds()
        self._retry_seconds = settings.retry_period.total_seconds()
        self._request_seconds = max(self._renew_seconds / 2, 1.0)
        # The last version of the lease from the API, and the content of its record.
        self._lease: Lease | None = None
        self._read: LeaseSpec | None = None
        self._observed = LeaseSpec()
        self._observed_ns = 0
        self._leading = False
        self._claimed = False
        """Whether a write was ever sent: it may have taken effect even if its response was lost."""
        self._renewed_ns = 0
        self._reported = ""
        self._metrics.master_status.set((self._name,), 0)

    # State for other components

    @property
    def leader(self) -> str:
        """The last known holder of the lease; "" if there is none."""
        return self._observed.holder_identity or ""

    def may_write(self) -> bool:
        """Whether this process is certainly the leader: check it before every write.

        The time counts from when the last successful renewal was sent, which is before another process can
        have seen it: the next leader waits the whole lease duration, and this ends at the renew deadline.
        """
        return self._leading and self._clock.now_ns() - self._renewed_ns < self._renew_seconds * NANOSECONDS

    def problem(self) -> str | None:
        """The problem for the health check `leaderElection`: a leader did not renew but still runs."""
        expired_seconds = (self._clock.now_ns() - self._observed_ns) / NANOSECONDS - self._lease_seconds
        if self._is_holder() and expired_seconds > TOLERATED_EXPIRY_SECONDS:
            return f"failed election to renew leadership on lease {self._name}"
        return None

    # Life cycle

    async def acquire(self) -> None:
        """Return when this process is the leader."""
        logger.info("waiting for the lease %s as %s", self, self.identity)
        while not await self._attempt():
            self._report()
            pause = self._retry_seconds * (1 + JITTER_FACTOR * self._rng.random())
            await asyncio.sleep(pause)
        self._report()
        self._metrics.master_status.set((self._name,), 1)
        self._record_event("became leader")
        logger.info("leading: acquired the lease %s", self)

    async def hold(self) -> None:
        """Renew the lease until it is lost or the renew deadline passes; then raise LeadershipLost."""
        while await self._renew_within_deadline():
            self._report()
            await asyncio.sleep(self._retry_seconds)
        self._report()
        self._stop_leading()
        if self.leader not in ("", self.identity):
            raise LeadershipLost(f"the lease {self} is held by {self.leader} now")
        raise LeadershipLost(f"the lease {self} could not be renewed for {self._renew_seconds:g} s")

    async def release(self) -> bool:
        """Release the lease, so that the next leader need not wait; False on failure.

        Everything that the lease protects must have ended before: from here on `may_write` is False.
        """
        self._stop_leading()
        if not self._claimed:
            return True
        try:
            async with asyncio.timeout(self._renew_seconds):
                lease = await self._api.get(Lease, self._name, namespace=self._namespace)
                if lease.spec.holder_identity != self.identity:
                    return True
                spec = msgspec.structs.replace(
                    self._new_record(self._clock.now_ns(), keeping=None),
                    holder_identity="",
                    lease_duration_seconds=1,
                    lease_transitions=lease.spec.lease_transitions or 0,
                )
                self._lease = await self._api.update(msgspec.structs.replace(lease, spec=spec))
        except _FAILURES as error:
            logger.warning("the lease %s could not be released and has to expire: %s", self, _text(error))
            return False
        self._observe(spec)
        logger.info("released the lease %s", self)
        return True

    # One attempt, with the steps of client-go

    async def _renew_within_deadline(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._renew_seconds
        try:
            async with asyncio.timeout_at(deadline):
                renewed = await self._attempt()
                tick = loop.time()
                # If another leader was seen, there is nothing left to renew.
                while not renewed and self._leading:
                    tick = max(tick + self._retry_seconds, loop.time())
                    await asyncio.sleep(tick - loop.time())
                    renewed = await self._attempt()
                return renewed
        except TimeoutError:
            return False

    async def _attempt(self) -> bool:
        """Acquire or renew the lease; True if this process holds it now."""
        now_ns = self._clock.now_ns()
        try:
            if self._is_holder() and self._is_valid(now_ns):
                try:
                    await self._write(self._new_record(now_ns, keeping=self._observed), now_ns)
                    return True
                except _FAILURES as error:
                    logger.debug("the lease %s changed or could not be written: %s", self, _text(error))
            try:
                async with asyncio.timeout(self._request_seconds):
                    lease = await self._api.get(Lease, self._name, namespace=self._namespace)
            except NotFoundError:
                metadata = ObjectMeta(name=self._name, namespace=self._namespace)
                lease = Lease(metadata=metadata, spec=self._new_record(now_ns, keeping=None))
                await self._send(self._api.create, lease, now_ns)
                return True
            return await self._take_over(lease, now_ns)
        except _FAILURES as error:
            logger.warning("the lease %s could not be acquired or renewed: %s", self, _text(error))
            return False

    async def _take_over(self, lease: Lease, now_ns: int) -> bool:
        """The slow path: read the record first, and write only if it is ours or expired."""
        self._lease = lease
        record = lease.spec
        if record != self._read:
            self._read = record
            self._observe(record)
        if record.holder_identity and self._is_valid(now_ns) and not self._is_holder():
            self._stop_leading()
            logger.debug("the lease %s is held by %s", self, record.holder_identity)
            return False
        if self._is_holder():
            wanted = self._new_record(now_ns, keeping=record)
            self._metrics.slowpath.inc((self._name,))
        else:
            wanted = msgspec.structs.replace(
                self._new_record(now_ns, keeping=None), lease_transitions=(record.lease_transitions or 0) + 1
            )
        await self._write(wanted, now_ns)
        return True

    def _new_record(self, now_ns: int, *, keeping: LeaseSpec | None) -> LeaseSpec:
        """Our record; a renewal keeps the acquire time and the number of transitions."""
        now = micro_moment(now_ns, MicroTime)
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self._lease_seconds),
            acquire_time=now if keeping is None else keeping.acquire_time,
            renew_time=now,
            lease_transitions=0 if keeping is None else keeping.lease_transitions or 0,
        )

    async def _write(self, spec: LeaseSpec, sent_ns: int) -> None:
        assert self._lease is not None, "a lease is read or created before it is updated"
        await self._send(self._api.update, msgspec.structs.replace(self._lease, spec=spec), sent_ns)

    async def _send(self, verb: Callable[[Lease], Awaitable[Lease]], lease: Lease, sent_ns: int) -> None:
        self._claimed = True
        async with asyncio.timeout(self._request_seconds):
            self._lease = await verb(lease)
        self._observe(lease.spec)
        # The time is taken when an attempt begins, so it is never later than when the request was sent.
        self._renewed_ns = sent_ns
        self._leading = True

    # Internal state

    def _observe(self, record: LeaseSpec) -> None:
        self._observed = record
        self._observed_ns = self._clock.now_ns()

    def _is_holder(self) -> bool:
        return self._observed.holder_identity == self.identity

    def _is_valid(self, now_ns: int) -> bool:
        return self._observed_ns + (self._observed.lease_duration_seconds or 0) * NANOSECONDS > now_ns

    def _stop_leading(self) -> None:
        if self._leading:
            self._leading = False
            self._metrics.master_status.set((self._name,), 0)
            self._record_event("stopped leading")

    def _report(self) -> None:
        if self.leader == self._reported:
            return
        self._reported = self.leader
        if self.leader != self.identity:
            logger.info("the lease %s is held by %s", self, self.leader or "no process")
        if self._on_new_leader is not None:
            self._on_new_leader(self.leader)

    def _record_event(self, what: str) -> None:
        if self._on_event is not None and self._lease is not None:
            self._on_event(self._lease, f"{self.identity} {what}")

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"


def _check(settings: LeaderElectionConfiguration, identity: str) -> None:
    """Reject settings with which two replicas could lead at once, or none at all."""
    lease, renew, retry = (
        duration.total_seconds()
        for duration in (settings.lease_duration, settings.renew_deadline, settings.retry_period)
    )
    if not lease > renew > JITTER_FACTOR * retry > 0:
        raise ConfigError(
            f"leader election with leaseDuration {lease:g} s, renewDeadline {renew:g} s and retryPeriod "
            f"{retry:g} s: leaseDuration must be longer than renewDeadline, and that longer than "
            f"{JITTER_FACTOR:g} times retryPeriod"
        )
    if not identity:
        raise ConfigError("leader election needs an identity that no other replica has")


def _text(error: BaseException) -> str:
    return str(error) or "no answer in time"


class ElectionEvents:
    """Writes the elector's events. `run` writes them, `flush` writes the rest at the end."""

    def __init__(self, api: Api, clock: Clock, *, component: str) -> None:
        """`component` is the source of the events: the scheduler name of the first profile."""
        self._api = api
        self._clock = clock
        self._component = component
        self._waiting: deque[Event] = deque()
        self._recorded = asyncio.Event()

    def record(self, lease: Lease, note: str) -> None:
        """Queue an event about the lease."""
        now_ns = self._clock.now_ns()
        now = moment(now_ns)
        metadata = lease.metadata
        event = Event(
            metadata=ObjectMeta(name=event_name(metadata.name, f"{now_ns:x}"), namespace=metadata.namespace),
            involved_object=reference_to(lease),
            reason="LeaderElection",
            message=note,
            source=EventSource(component=self._component),
            first_timestamp=now,
            last_timestamp=now,
            count=1,
            type="Normal",
            reporting_component=self._component,
        )
        self._waiting.append(event)
        self._recorded.set()

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            await self._recorded.wait()
            self._recorded.clear()
            await self._write_all()

    async def flush(self) -> None:
        """Write the events that `run` has left, with a time limit."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._write_all()
        except TimeoutError:
            logger.warning("events about the leader election are dropped: no response in time")

    async def _write_all(self) -> None:
        while self._waiting:
            event = self._waiting[0]
            try:
                await self._api.create(event)
            except AlreadyExistsError:
                pass  # `run` was cancelled before it was informed
            except Exception as error:
                logger.warning("the event %r could not be written: %s", event.message, error)
            self._waiting.popleft()
