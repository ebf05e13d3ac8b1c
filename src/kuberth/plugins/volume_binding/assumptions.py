"""Objects with the scheduler's own writes applied, before the API confirms them.

In: changed claims and volumes of pods that are about to be bound. Out: the changed version instead of the
stored one, as long as the stored one is the version that the change is based on.
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

from kuberth.api.volumes import PersistentVolume, PersistentVolumeClaim
from kuberth.changes import Changes
from kuberth.errors import KuberthError
from kuberth.informers.store import Store, Stores, object_key

T = TypeVar("T")

_TIDY_AT: Final = 256


class OutOfSyncError(KuberthError):
    """An object changed before a pod could use it; the pod has to be scheduled again."""


class Assumptions(Generic[T]):
    """Assumed objects of one kind over their store."""

    def __init__(self, store: Store[T]) -> None:
        self.store = store
        self._assumed: dict[str, T] = {}
        self.changes: Changes[str] = Changes()
        """Keys of the objects that were assumed or restored; the store reports its own changes."""

    def get(self, key: str) -> T | None:
        """The assumed object, or else the stored one."""
        stored = self.store.get_by_key(key)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if stored is None or _version(stored) != _version(assumed):
            del self._assumed[key]
            return stored
        return assumed

    def assume(self, obj: T) -> None:
        """Assume a changed version; raises `OutOfSyncError` if it is not based on the stored one."""
        key = object_key(obj)
        stored = self.store.get_by_key(key)
        if stored is None:
            raise OutOfSyncError(f'"{key}" does not exist any more')
        if _version(stored) != _version(obj):
            raise OutOfSyncError(
                f'"{key}" is out of sync (stored: {_version(stored)}, assume: {_version(obj)})'
            )
        self._assumed[key] = obj
        self.changes.note(key)
        if len(self._assumed) > _TIDY_AT:
            for other in list(self._assumed):
                self.get(other)

    def restore(self, obj: T) -> None:
        """Drop the assumption, unless it is about another version now."""
        key = object_key(obj)
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) == _version(obj):
            del self._assumed[key]
            self.changes.note(key)


class AssumedVolumes(NamedTuple):
    """Assumed claims and volumes, shared by the plugins of all profiles."""

    claims: Assumptions[PersistentVolumeClaim]
    volumes: Assumptions[PersistentVolume]

    @classmethod
    def over(cls, stores: Stores) -> AssumedVolumes:
        return cls(Assumptions(stores.of(PersistentVolumeClaim)), Assumptions(stores.of(PersistentVolume)))


def _version(obj: Any) -> str:
    return str(obj.metadata.resource_version)
