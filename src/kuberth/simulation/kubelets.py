"""Simulates users, who create pods, and kubelets, which run them.

In: arrivals, and the pods of an API as they get nodes. Out: pods created at their arrival time, run as long
as their annotation says, ended, and recreated after a preemption. The scheduler sees the same as from hollow
kubelets, with fewer writes: pods start and stop at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
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
    """The pod with the status that its kubelet reports when it runs."""
    status = msgspec.structs.replace(pod.status, phase="Running", start_time=moment(now_ns))
    return msgspec.structs.replace(pod, status=status)


Action = Callable[[Pod], Awaitable[None]]


async def create_arrivals(
    api: Api,
    arrivals: Sequence[tuple[str, Arrival]],
    groups: Mapping[tuple[str, str], PodGroup],
    *,
    maker: ArrivalPods,
    now: Callable[[], float],
    on_arrival: Callable[[int], None],
) -> None:
    """Create the pods of a trace at their arrival time, as users do; groups before their first pod."""
    missing = dict(groups)
    for number, (name, arrival) in enumerate(arrivals, 1):
        if (wait := arrival.arrival - now()) > 0:
            await asyncio.sleep(wait)
        if arrival.gang and (group := missing.pop((arrival.tenant, arrival.gang), None)):
            await api.create(group)
        await api.create(maker.pod(arrival, name))
        on_arrival(number)


class Kubelets:
    """The kubelets of all nodes."""

    patience: float | None = None
    """No limit: every pod ends or runs forever."""

    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._ends: dict[str, asyncio.TimerHandle | None] = {}
        """The timer that ends each pod on a node, by UID; None if it runs forever."""
        self._timed = 0
        self._pending: deque[tuple[Action, Pod]] = deque()
        self._busy = False
        self._wake = asyncio.Event()
        self._idle_again = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether they have nothing left to do."""
        return not (self._timed or self._pending or self._busy)

    async def wait_idle(self) -> None:
        """Return when they are idle."""
        while not self.idle:
            self._idle_again.clear()
            await self._idle_again.wait()

    async def run(self) -> None:
        """Execute pending actions one after the other, until cancelled; then no timer ends a pod any more."""
        try:
            while True:
                while self._pending:
                    await self._execute(*self._pending.popleft())
                if self.idle:
                    self._idle_again.set()
                self._wake.clear()
                await self._wake.wait()
        finally:
            for uid in list(self._ends):
                self._forget(uid)

    async def _execute(self, action: Action, pod: Pod) -> None:
        self._busy = True
        try:
            await action(pod)
        except (NotFoundError, ConflictError):
            pass  # it was removed meanwhile
        finally:
            self._busy = False

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        if not pod.spec.node_name:
            return
        if event.type is WatchType.DELETED:
            self._forget(pod.metadata.uid)
        elif pod.metadata.deletion_timestamp is not None:
            if self._forget(pod.metadata.uid):
                self._schedule(self._stop, pod)
        elif pod.metadata.uid not in self._ends and pod.status.phase in ("", "Pending", "Running"):
            self._start(pod)

    def evict(self, pod: Pod) -> None:
        """Handle a removed node: remove the pod and create another, as its controller would."""
        if self._forget(pod.metadata.uid):
            self._schedule(self._stop, pod)

    def _start(self, pod: Pod) -> None:
        seconds = pod.metadata.annotations.get(RUN_SECONDS)
        timer = None
        if seconds is not None:
            timer = asyncio.get_running_loop().call_later(float(seconds), self._end, pod)
            self._timed += 1
        self._ends[pod.metadata.uid] = timer
        if pod.status.phase != "Running" or pod.status.start_time != moment(self._clock.now_ns()):
            self._schedule(partial(self._report, phase="Running"), pod)

    def _end(self, pod: Pod) -> None:
        if self._forget(pod.metadata.uid):
            self._schedule(self._finish, pod)

    def _forget(self, uid: str) -> bool:
        """Whether the pod was running."""
        if uid not in self._ends:
            return False
        timer = self._ends.pop(uid)
        if timer is not None:
            timer.cancel()
            self._timed -= 1
        return True

    def _schedule(self, action: Action, pod: Pod) -> None:
        self._pending.append((action, pod))
        self._wake.set()

    async def _report(self, pod: Pod, *, phase: str) -> None:
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
        await self._report(pod, phase="Succeeded")
        await self._remove(pod)

    async def _stop(self, pod: Pod) -> None:
        """Remove a preempted or evicted pod and create another, as its controller would."""
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
