"""Records the pods of a real cluster as a trace, read-only.

In: the pods of an API while recording. Out: arrivals with whole pod specs. A pod's duration is from when it
got a node until it ended or was deleted; a running pod has none. Pods that existed at the start are not
recorded: a snapshot contains them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kuberth.api.core import Pod
from kuberth.api.pods import FINISHED
from kuberth.client.protocol import Api, WatchType
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.workloads import as_arrival


@dataclass(slots=True)
class _Seen:
    pod: Pod
    at: float
    started: float | None = None
    ended: float | None = None


class Recording:
    """The pods recorded while `follow` ran; times are relative to its start."""

    def __init__(self, api: Api, *, now: Callable[[], float]) -> None:
        self._api = api
        self._now = now
        self._began = now()
        self._seen: dict[str, _Seen] = {}

    async def follow(self) -> None:
        """Record until cancelled, or until the watch ends and cannot be continued."""
        version = (await self._api.list(Pod)).resource_version
        self._began = self._now()
        while True:
            async for event in self._api.watch(Pod, resource_version=version):
                version = event.resource_version
                if event.object is not None:
                    self._record(event.type, event.object)

    def _record(self, type_: WatchType, pod: Pod) -> None:
        now = self._now() - self._began
        seen = self._seen.get(pod.metadata.uid)
        if seen is None:
            if type_ is not WatchType.ADDED:
                return
            seen = self._seen[pod.metadata.uid] = _Seen(pod, now)
        if pod.spec.node_name and seen.started is None:
            seen.started = now
        if seen.ended is None and (type_ is WatchType.DELETED or pod.status.phase in FINISHED):
            seen.ended = now

    def arrivals(self) -> list[Arrival]:
        found = []
        names: dict[tuple[str, str], int] = {}
        for seen in self._seen.values():
            duration = None
            if seen.ended is not None:
                duration = round(seen.ended - (seen.at if seen.started is None else seen.started), 6)
            pod = seen.pod
            key = pod.metadata.namespace, pod.metadata.name
            names[key] = names.get(key, 0) + 1
            arrival = as_arrival(pod, where="/".join(key), at=round(seen.at, 6), duration=duration)
            if names[key] > 1:  # recreated under the same name
                arrival = msgspec.structs.replace(arrival, name=f"{arrival.name}.{names[key]}")
            found.append(arrival)
        return found
