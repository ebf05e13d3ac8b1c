"""Device classes, and the extended resources that they back.

In: the store of DeviceClasses. Out: a class by its name, or by the name of an extended resource.
"""

from __future__ import annotations

from typing import Final

from kuberth.api.pod_resources import is_extended_resource
from kuberth.api.resource import DeviceClass
from kuberth.informers.store import Store

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the implicit extended resource of every class; followed by the class's name."""


def may_be_backed(resource: str) -> bool:
    """Whether an extended resource with this name could be backed by a device class."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_PREFIX)


class KnownClasses:
    """All device classes."""

    def __init__(self, store: Store[DeviceClass]) -> None:
        self.store = store
        self._changes = store.change_reader()
        self._by_resource: dict[str, DeviceClass] = {}

    def get(self, name: str) -> DeviceClass | None:
        return self.store.get(name)

    def behind(self, resource: str) -> DeviceClass | None:
        """The class that backs an extended resource; None if there is none."""
        if not self._changes.is_current:
            self._read_all()
        return self._by_resource.get(resource)

    @property
    def is_empty(self) -> bool:
        return len(self.store) == 0

    def _read_all(self) -> None:
        """If two classes name the same resource, the newer one counts, then the first by name."""
        self._changes.read()
        self._by_resource = {}
        oldest_first = sorted(self.store, key=lambda each: each.metadata.name.encode(), reverse=True)
        oldest_first.sort(key=_age)
        for each in oldest_first:
            if each.spec.extended_resource_name:
                self._by_resource[each.spec.extended_resource_name] = each
        for each in oldest_first:
            self._by_resource[f"{IMPLICIT_PREFIX}{each.metadata.name}"] = each


def _age(device_class: DeviceClass) -> float:
    created = device_class.metadata.creation_timestamp
    return float("-inf") if created is None else created.timestamp()
