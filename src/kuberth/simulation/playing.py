"""Plays those whom a scheduler works for: users who make pods, and kubelets that run them.

In: arrivals, and the pods of an API as they get nodes. Out: pods made in time; run as long as their
annotation says; ended, which frees their room; made again when they had to leave for others. Kubelets here
do what hollow ones do to a pod's life as far as a scheduler sees it, in few writes: it starts at once, and
what is told to stop stops at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from kuberth.api.core import Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.scheduling import PodGroup
from kuberth.client.protocol import Api, WatchEvent, WatchType
from kuberth.clock import Clock
from kuberth.errors import ConflictError, NotFoundError
from kuberth.local.hollow.annotations import RUN_SECONDS
from kuberth.simulation.arrivals import Arrival, ArrivalPods
from kuberth.text.timestamps import moment, timestamp


def started(pod: Pod, *, now_ns: int) -> Pod:
    """The pod as its kubelet reports that it runs."""
    status = msgspec.structs.replace(pod.status, phase="Running", start_time=moment(now_ns))
    return msgspec.structs.replace(pod, status=status)


Deed = Callable[[Pod], Awaitable[None]]


class Users:
    """Make the pods of a trace when their time comes."""

    def __init__(
        self,
        api: Api,
        arrivals: Sequence[tuple[str, Arrival]],
        groups: Mapping[tuple[str, str], PodGroup],
        *,
        maker: ArrivalPods,
        now: Callable[[], float],
        told: Callable[[int], None] = lambda _made: None,
    ) -> None:
        self._api = api
        self._arrivals = arrivals
        self._groups = dict(groups)
        self._maker = maker
        self._now = now
        self._told = told

    async def run(self) -> None:
        """Until the last one has come."""
        for number, (name, arrival) in enumerate(self._arrivals, 1):
            if (wait := arrival.arrival - self._now()) > 0:
                await asyncio.sleep(wait)
            if arrival.gang and (group := self._groups.pop((arrival.tenant, arrival.gang), None)):
                await self._api.create(group)
            await self._api.create(self._maker.pod(arrival, name))
            self._told(number)


class Kubelets:
    """Those of all nodes."""

    patience: float | None = None
    """Every pod ends or stays: there is an end."""

    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._ends: dict[str, asyncio.TimerHandle | None] = {}
        """When each pod on a node ends, by UID; None: not by itself."""
        self._timed = 0
        self._to_do: deque[tuple[Deed, Pod]] = deque()
        self._doing = False
        self._called = asyncio.Event()
        self._calmed = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether nothing will change by their doing."""
        return not (self._timed or self._to_do or self._doing)

    async def check(self) -> None:
        """They can play whatever there is."""

    async def calm(self) -> None:
        """Return when they are idle."""
        while not self.idle:
            self._calmed.clear()
            await self._calmed.wait()

    def rest(self) -> None:
        """End nothing any more."""
        for uid in list(self._ends):
            self._forget(uid)

    async def run(self) -> None:
        """Do what there is to do, one thing after the other, until cancelled."""
        while True:
            while self._to_do:
                deed, pod = self._to_do.popleft()
                self._doing = True
                try:
                    await deed(pod)
                except (NotFoundError, ConflictError):
                    pass  # somebody was faster to remove it
                finally:
                    self._doing = False
            if self.idle:
                self._calmed.set()
            self._called.clear()
            await self._called.wait()

    def note(self, event: WatchEvent) -> None:
        """A pod has changed."""
        pod: Pod = event.object
        if not pod.spec.node_name:
            return
        if event.type is WatchType.DELETED:
            self._forget(pod.metadata.uid)
        elif pod.metadata.deletion_timestamp is not None:
            if self._forget(pod.metadata.uid):
                self._do(self._stop, pod)
        elif pod.metadata.uid not in self._ends and pod.status.phase in ("", "Pending", "Running"):
            self._start(pod)

    def _start(self, pod: Pod) -> None:
        seconds = pod.metadata.annotations.get(RUN_SECONDS)
        timer = None
        if seconds is not None:
            timer = asyncio.get_running_loop().call_later(float(seconds), self._over, pod)
            self._timed += 1
        self._ends[pod.metadata.uid] = timer
        if pod.status.phase != "Running" or pod.status.start_time != moment(self._clock.now_ns()):
            self._do(self._begin, pod)

    def _over(self, pod: Pod) -> None:
        if self._forget(pod.metadata.uid):
            self._do(self._finish, pod)

    def _forget(self, uid: str) -> bool:
        """Whether the pod was running."""
        if uid not in self._ends:
            return False
        timer = self._ends.pop(uid)
        if timer is not None:
            timer.cancel()
            self._timed -= 1
        return True

    def _do(self, deed: Deed, pod: Pod) -> None:
        self._to_do.append((deed, pod))
        self._called.set()

    async def _begin(self, pod: Pod) -> None:
        await self._report(pod, "Running")

    async def _report(self, pod: Pod, phase: str) -> None:
        status: dict[str, Any] = {"phase": phase}
        if phase == "Running":
            status["startTime"] = timestamp(self._clock.now_ns())
        metadata = pod.metadata
        await self._api.patch(
            Pod,
            metadata.name,
            {"metadata": {"uid": metadata.uid}, "status": status},
            namespace=metadata.namespace,
            subresource="status",
        )

    async def _finish(self, pod: Pod) -> None:
        await self._report(pod, "Succeeded")
        await self._remove(pod)

    async def _stop(self, pod: Pod) -> None:
        """It had to leave before its end: its controller makes another."""
        await self._remove(pod)
        old = pod.metadata
        name, _, times = old.name.partition(".again-")
        metadata = ObjectMeta(
            name=f"{name}.again-{int(times or 0) + 1}",
            namespace=old.namespace,
            labels=old.labels,
            annotations=old.annotations,
        )
        await self._api.create(Pod(metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name="")))

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        await self._api.delete(
            Pod,
            metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            grace_period_seconds=0,
        )
