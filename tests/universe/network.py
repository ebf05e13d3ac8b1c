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

from kuberth.api.kinds import REGISTRY
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
from tests.universe.cluster import Cluster
from tests.universe.drawing import Fault

T = TypeVar("T")

LATENCY_SECONDS: Final = (0.0005, 0.03)
ENDED: Final = ("Succeeded", "Failed")


class Network(Api):
    """What one process sees of the cluster."""

    def __init__(self, cluster: Cluster, by: str, *, faults: list[Fault], seed: str) -> None:
        self.by = by
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
        return found

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        async def answer() -> ObjectList:
            stale = self._fault("stale lists") if resource_version == "0" else None
            if stale is None:
                return await self._cluster.list(
                    kind, resource_version=resource_version, field_selector=field_selector
                )
            version = max(1, self._cluster.version - self._rng.randrange(40))
            items = [
                obj
                for obj in self._cluster.items_at(kind, version)
                if not field_selector or obj.status.phase not in ENDED
            ]
            self._note_fault("stale list", f"{kind.__name__} at {version}")
            return ObjectList(items, str(version))

        listed: ObjectList = await self._request(f"list {kind.__name__}", answer)
        self.seen[REGISTRY.of(kind).kind] = int(listed.resource_version)
        return listed

    async def write(self, write: Write) -> Any:
        async def answer(*, late: bool = False) -> Any:
            return self._cluster.carry_out(write, by=self.by, sent=sent, late=late)

        sent = self._story.now
        return await self._request(str(write), answer, writes=True)

    async def _request(self, what: str, answer: Callable[..., Any], *, writes: bool = False) -> Any:
        self._expect_alive()
        fault = self._fault("requests")
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
        name = REGISTRY.of(kind).kind
        await self._request(f"watch {name}", _no_answer)
        self._break(name)
        lag = self._rng.uniform(0.0, 0.02)
        changes = self._cluster.watch(kind, resource_version=resource_version, field_selector=field_selector)
        async with aclosing(changes):  # type: ignore[type-var]  # it is an asynchronous generator
            async for event in changes:
                await asyncio.sleep(lag)
                if (stall := self._fault("stalled watches", name)) is not None:
                    self._note_fault("watch stalls", name)
                    await asyncio.sleep(stall.end - self._story.now)
                if self._fault("ended watches", name) is not None and self._rng.random() < 0.5:
                    self._note_fault("watch ends", name)
                    return
                self._break(name)
                self._expect_alive()
                repeats = self._fault("repeated events", name) is not None
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
        if check is not None:
            check()
        await self.write(write)


async def _no_answer() -> None:
    return None
