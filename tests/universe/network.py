"""The way between one scheduler process and the API server, with its faults.

In: requests of a process, and the faults of the universe. Out: answers that come late, twice, wrong or not at
all; watches that lag, stall, repeat, end or are too old; and `seen`, the revision up to which each kind was
delivered to the process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar

from kuberth.api.coordination import Lease
from kuberth.client.protocol import Api, ObjectList, WatchEvent, WatchType
from kuberth.client.writes import Write
from kuberth.errors import (
    AnswerLostError,
    ApiError,
    ConflictError,
    KuberthError,
    TooManyRequestsError,
    UnreachableError,
)
from tests.universe.cluster import Cluster, Story, matcher, seen_as
from tests.universe.parts import Fault

T = TypeVar("T")

LOOK_SHARE: Final = 0.1
"""Of the events that are delivered, after how many what the schedulers keep is written down."""
LATENCY_SECONDS: Final = (0.0005, 0.03)
MAX_PAUSE_SECONDS: Final = 30.0


class Network(Api):
    """What one process sees of the cluster."""

    def __init__(
        self, cluster: Cluster, by: str, *, faults: list[Fault], seed: str, purpose: str = ""
    ) -> None:
        self.by = by
        self._purpose = purpose
        self.seen: dict[str, int] = {}
        """By kind."""
        self.dead = False
        self._cluster = cluster
        self._story = cluster.story
        self._faults = [fault for fault in faults if fault.concerns(by)]
        self._rng = random.Random(seed)

    # Requests

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        found: T = await self._request(
            f"get {kind.__name__} {name}", lambda: self._cluster.get(kind, name, namespace=namespace)
        )
        if isinstance(found, Lease):
            self._story.note("lease", by=self.by, holder=found.spec.holder_identity or "")
        return found

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        async def answer() -> ObjectList:
            if resource_version in ("", "0") and self._fault("paged lists") is not None:
                return await self._pages(kind, field_selector)
            stale = self._fault("stale lists") if resource_version == "0" else None
            if stale is None:
                return await self._cluster.list(
                    kind, resource_version=resource_version, field_selector=field_selector
                )
            version = max(1, self._cluster.version - self._rng.randrange(40))
            self._note_fault("stale list", f"{kind.__name__} at {version}")
            return self._list_at(kind, version, field_selector)

        listed: ObjectList = await self._request(f"list {kind.__name__}", answer)
        self.seen[kind.__name__] = int(listed.resource_version)
        return listed

    def _list_at(self, kind: type[Any], version: int, field_selector: str) -> ObjectList:
        matches = matcher(kind, field_selector)
        items = [seen_as(kind, obj) for obj in self._cluster.items_at(kind, version) if matches(obj)]
        return ObjectList(items, str(version))

    async def _pages(self, kind: type[Any], field_selector: str) -> ObjectList:
        """Page by page: all of them show the version of the first, while things change."""
        version = self._cluster.version
        self._note_fault("list in pages", f"{kind.__name__} at {version}")
        for _ in range(self._rng.randint(1, 4)):
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))
        return self._list_at(kind, version, field_selector)

    async def write(self, write: Write) -> Any:
        async def answer(*, late: bool = False) -> Any:
            return self._cluster.carry_out(write, by=self.by, sent=sent, late=late)

        sent = self._story.now
        return await self._request(str(write), answer, writes=True)

    async def _request(self, what: str, answer: Callable[..., Any], *, writes: bool = False) -> Any:
        self._expect_alive()
        fault = self._fault("requests", what.partition(" ")[0]) or self._fault(
            "lost connection", self._purpose
        )
        outcome = "" if fault is None else self._rng.choice(fault.outcomes)
        if outcome:
            self._note_fault(outcome, what)
        try:
            await self._travel(outcome)
        except asyncio.CancelledError:
            # The sender has died or waits no longer; the request may be on its way.
            if writes and self._rng.random() < 0.5:
                delay = self._rng.uniform(*LATENCY_SECONDS)
                asyncio.get_running_loop().call_later(delay, self._arrive_late, what, answer)
            raise
        self._refuse(outcome, what)
        result = await answer()
        if outcome == "twice" and writes:
            result = await answer()
        await asyncio.sleep(self._rng.uniform(*LATENCY_SECONDS))
        self._expect_alive()
        if outcome == "lost":
            raise AnswerLostError(f"{what}: no answer")
        return result

    async def _travel(self, outcome: str) -> None:
        seconds = self._rng.uniform(*LATENCY_SECONDS)
        if outcome == "hang":
            seconds += self._rng.uniform(1.0, 40.0)
        await asyncio.sleep(seconds)

    def _arrive_late(self, what: str, answer: Callable[..., Any]) -> None:
        self._note_fault("arrives late", what)
        work = answer(late=True)
        try:
            work.send(None)
        except (StopIteration, KuberthError):
            pass
        finally:
            work.close()

    def _refuse(self, outcome: str, what: str) -> None:
        match outcome:
            case "unreachable":
                raise UnreachableError(f"{what}: the connection was refused")
            case "dropped":
                raise AnswerLostError(f"{what}: no answer")
            case "conflict":
                raise ConflictError(f"{what}: the object has been modified")
            case "too many":
                raise TooManyRequestsError(f"{what}: too many requests", retry_after_seconds=1.0)
            case "internal":
                raise ApiError(f"{what}: internal error", code=500, reason="InternalError")
            case "unavailable":
                raise ApiError(f"{what}: unavailable", code=503, reason="ServiceUnavailable")

    def _expect_alive(self) -> None:
        if self.dead:
            raise UnreachableError("the process is dead")

    # Watches

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        name = kind.__name__
        await self._request(f"watch {name}", _no_answer)
        self._break(name)
        lag = self._rng.choice((0.0, 0.0, 0.02)) * self._rng.random()
        changes = self._cluster.watch(kind, resource_version=resource_version, field_selector=field_selector)
        async with aclosing(changes):  # type: ignore[type-var]  # it is an asynchronous generator
            arrived = -1.0
            async for event in changes:
                if self._story.now > arrived:
                    # What happens at one moment arrives at one moment.
                    await asyncio.sleep(lag)
                    arrived = self._story.now
                if (stall := self._fault("stalled watches", name)) is not None:
                    self._note_fault("watch stalls", name)
                    await asyncio.sleep(stall.end - self._story.now)
                if self._fault("ended watches", name) is not None and self._rng.random() < 0.5:
                    self._note_fault("watch ends", name)
                    return
                self._break(name)
                self._expect_alive()
                repeats = self._fault("repeated events", name) is not None
                if self._rng.random() < LOOK_SHARE:
                    # The scheduler will have dealt with the event by the next turn of the event loop.
                    asyncio.get_running_loop().call_soon(self._story.look)
                for _ in range(2 if repeats and event.type is not WatchType.BOOKMARK else 1):
                    self.seen[name] = max(self.seen.get(name, 0), int(event.resource_version))
                    yield event

    def _break(self, name: str) -> None:
        fault = self._fault("broken watches", name)
        if fault is None:
            return
        outcome = self._rng.choice(("gone", "internal", ""))
        if outcome:
            self._note_fault(f"watch {outcome}", name)
        if outcome == "gone":
            raise ApiError(f"watch {name}: too old resource version", code=410, reason="Expired")
        self._refuse(outcome, f"watch {name}")

    # Faults

    def _fault(self, kind: str, subject: str = "") -> Fault | None:
        """The fault of this kind that happens now, as often as it is to."""
        now = self._story.now
        for fault in self._faults:
            if fault.kind == kind and fault.start <= now < fault.end and fault.subject in ("", subject):
                return fault if self._rng.random() < fault.share else None
        return None

    def _note_fault(self, fault: str, what: str) -> None:
        self._story.note("fault", by=self.by, fault=fault, what=what)


class PostingNetwork(Network):
    """A network that also takes posts, as the HTTP client does."""

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        if self.dead or write.subresource != "binding" or self._rng.random() < 0.1:
            return None
        return asyncio.get_running_loop().create_task(self._post(write, check), name=str(write))

    async def _post(self, write: Write, check: Callable[[], None] | None) -> None:
        await asyncio.sleep(self._rng.uniform(*LATENCY_SECONDS))
        if (fault := self._fault("paused writes")) is not None:
            self._faults.remove(fault)
            pause(self._story, fault)
        if check is not None:
            check()
        await self.write(write)


async def _no_answer() -> None:
    return None


def pause(story: Story, fault: Fault) -> None:
    """Time passes and nothing runs, as if all processes were stopped and continued."""
    story.note("fault", by="", fault="pause", what=f"{fault.share * MAX_PAUSE_SECONDS:.1f} s")
    asyncio.get_running_loop()._jumping.now += fault.share * MAX_PAUSE_SECONDS  # type: ignore[attr-defined]  # virtual time
