"""Counts of a replica set's pods, updated as pods change.

In: an owner, and the keys of pods that changed. Out: how many pods it has, and how many are ready and
available. Only pods that changed are looked at, so that five thousand replicas that become ready one by one
are not counted five thousand times.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.hollow.informing import Informer
from kuberth.local.hollow.ownership import Claim
from kuberth.local.hollow.pod_states import is_finished, seconds_to_available
from kuberth.local.selecting import labels_of, selector_of


class _Standing(NamedTuple):
    """What a pod that has not finished counts as."""

    active: bool
    """False: it is terminating."""
    labelled: bool
    """It has all labels of the template."""
    ready: bool
    available: bool


class Counts(NamedTuple):
    active: int
    terminating: int
    labelled: int
    ready: int
    available: int


class Replicas:
    """The counts of one owner; all pods are counted again when its selector or template changes."""

    def __init__(self, pods: Informer, *, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._asked: tuple[object, ...] = ()
        """What the standings were judged by."""
        self._changed: set[str] = set()
        """Keys of pods to look at."""
        self._standings: dict[str, _Standing] = {}
        self._counts: Counter[_Standing] = Counter()
        self._maturing: dict[str, float] = {}
        """Ready pods that are not available yet, and the seconds they lacked when last looked at."""

    def note(self, key: str) -> None:
        """Count this pod again at the next look."""
        self._changed.add(key)

    async def look(self, claim: Claim) -> Counts:
        """Count the pods that changed; matching orphans are adopted and other pods released."""
        spec = claim.owner["spec"]
        labels, seconds = labels_of(spec.get("template", {})), spec.get("minReadySeconds", 0)
        asked = claim.matching, claim.owner_leaves, labels, seconds
        if asked != self._asked:
            self._asked = asked
            self._changed.update(self._standings, map(key_of, claim.candidates()))
        self._changed.update(self._maturing)
        wanted = selector_of({"matchLabels": labels})
        while self._changed:
            key = self._changed.pop()
            try:
                pod = self._pods.get(key)
                mine = None if pod is None else await claim.settle(pod)
            except BaseException:
                self._changed.add(key)
                raise
            self._forget(key)
            if mine is not None and not is_finished(mine):
                self._count(key, mine, labelled=wanted.matches(labels_of(mine)), min_ready_seconds=seconds)
        return self._sums()

    def active(self) -> list[Obj]:
        """The pods that count, as they are known here."""
        keys = (key for key, standing in self._standings.items() if standing.active)
        return [pod for key in keys if (pod := self._pods.get(key)) is not None]

    @property
    def seconds_to_next(self) -> float | None:
        """When the next ready pod will have been ready for long enough."""
        return min(self._maturing.values(), default=None)

    def _count(self, key: str, pod: Obj, *, labelled: bool, min_ready_seconds: int) -> None:
        active = not self._pods.is_leaving(pod)
        left = seconds_to_available(pod, min_ready_seconds=min_ready_seconds, clock=self._clock)
        if active and left:
            self._maturing[key] = left
        standing = _Standing(active, labelled, ready=left is not None, available=left == 0)
        self._standings[key] = standing
        self._counts[standing] += 1

    def _forget(self, key: str) -> None:
        self._maturing.pop(key, None)
        standing = self._standings.pop(key, None)
        if standing is not None:
            self._counts[standing] -= 1

    def _sums(self) -> Counts:
        active = [(standing, count) for standing, count in self._counts.items() if standing.active]
        number = sum(count for _, count in active)
        return Counts(
            active=number,
            terminating=len(self._standings) - number,
            labelled=sum(count for standing, count in active if standing.labelled),
            ready=sum(count for standing, count in active if standing.ready),
            available=sum(count for standing, count in active if standing.available),
        )
