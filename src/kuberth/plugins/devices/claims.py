"""Resource claims with the scheduler's own writes applied, and those that it is about to write.

In: the store of ResourceClaims, claims returned by writes, and pending allocations. Out: the latest known
version of every claim, and which of them have changed since the last read.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kuberth.api.resource import ResourceClaim
from kuberth.clock import NANOSECONDS, Clock
from kuberth.informers.store import Store, is_older, object_key

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler made for a pod's extended resources."""
UNSEEN_SECONDS: Final = 120
"""How long a claim that the scheduler created is assumed to exist before an informer has seen it."""


class KnownClaims:
    """All claims. Versions returned by writes override older ones of informers, if they are numbers."""

    def __init__(self, store: Store[ResourceClaim], clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._assumed: dict[str, ResourceClaim] = {}
        self._unseen_until_ns: dict[str, int] = {}
        """Assumed claims that no informer has seen yet."""
        self.in_flight: dict[str, ResourceClaim] = {}
        """By UID: claims whose allocation is decided, but not written yet."""
        self._sharers: Counter[str] = Counter()
        """By UID: how many pods share the pending allocation."""
        self._touched: set[str] = set()
        self._changed_pending: set[str] = set()
        self._changes = store.change_reader()

    def get(self, name: str, *, namespace: str) -> ResourceClaim | None:
        return self.get_by_key(f"{namespace}/{name}")

    def get_by_key(self, key: str) -> ResourceClaim | None:
        """The claim as last written, or else as stored."""
        stored = self.store.get_by_key(key)
        assumed = self._assumed.get(key) if self._assumed else None
        if assumed is None:
            return stored
        if stored is None:
            if self._clock.now_ns() < self._unseen_until_ns.get(key, 0):
                return assumed
        elif stored.metadata.uid == assumed.metadata.uid and is_older(stored, assumed):
            # It was seen before: if it is missing now, it was deleted.
            self._unseen_until_ns.pop(key, None)
            return assumed
        self._drop(key)
        return stored

    def keys(self) -> frozenset[str]:
        """Keys of all claims, including those that no informer has seen yet."""
        return self.store.keys() | self._assumed.keys()

    def assume(self, claim: ResourceClaim) -> None:
        """Store the version that a write returned."""
        key = object_key(claim)
        stored = self.store.get_by_key(key)
        if stored is not None and not (stored.metadata.uid == claim.metadata.uid and is_older(stored, claim)):
            return
        self._assumed[key] = claim
        if stored is None:
            self._unseen_until_ns[key] = self._clock.now_ns() + UNSEEN_SECONDS * NANOSECONDS
        self._touched.add(key)

    def forget(self, claim: ResourceClaim) -> None:
        """Drop the assumed version: the claim is gone, or the result of the last write is unknown."""
        self._drop(object_key(claim))

    def add_pending(self, claim: ResourceClaim) -> None:
        """Add a pending allocation: its devices are in use from now on."""
        self.in_flight[claim.metadata.uid] = claim
        self._sharers[claim.metadata.uid] = 1
        self._changed_pending.add(claim.metadata.uid)

    def share_pending(self, uid: str) -> None:
        """Add another pod that shares a pending allocation."""
        self._sharers[uid] += 1

    def release_pending(self, uid: str) -> None:
        """Remove a pod from a pending allocation, which is dropped with its last pod."""
        self._sharers[uid] -= 1
        if self._sharers[uid] <= 0:
            self.end_pending(uid)

    def end_pending(self, uid: str) -> None:
        """Remove a pending allocation that was written, or will not be."""
        self._sharers.pop(uid, None)
        if self.in_flight.pop(uid, None) is not None:
            self._changed_pending.add(uid)

    def take_changes(self) -> tuple[set[str] | frozenset[str] | None, set[str]]:
        """Keys of claims, and UIDs of pending allocations, that have changed since the last call.

        None for the keys: all may have changed.
        """
        changed = self._changes.read()
        for key in [key for key in self._unseen_until_ns if key not in self._touched]:
            self.get_by_key(key)  # records expired claims
        touched, self._touched = self._touched, set()
        changed_pending, self._changed_pending = self._changed_pending, set()
        if changed is not None and touched:
            changed = changed | touched
        return changed, changed_pending

    def _drop(self, key: str) -> None:
        self._unseen_until_ns.pop(key, None)
        if self._assumed.pop(key, None) is not None:
            self._touched.add(key)
