"""Every kind Kuberth reads or writes, as data: where it lives in the API and which type holds it.

In: the kinds that Kuberth knows, and those that plugins register. Out: a kind's row, by its type, its
name, its group, version and kind, or the name that cluster events have for it; RBAC rules for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, overload

import msgspec

from kuberth.api import (
    apps,
    authentication,
    authorization,
    coordination,
    core,
    events,
    policy,
    resource,
    scheduling,
    storage,
)
from kuberth.api.meta import ObjectMeta
from kuberth.api.plain import PlainObject
from kuberth.api.wire import Wire

T = TypeVar("T", bound=Wire)

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One kind: `kind` is its name on the wire, `type` what it decodes into."""

    kind: str
    """Its name on the wire."""
    group: str
    """Its API group; "" for the core group."""
    version: str
    """Its version."""
    plural: str
    """Its name in paths and RBAC rules."""
    namespaced: bool
    """Whether its objects live in namespaces."""
    type: type[Any]
    """What its objects decode into."""
    registered: bool = False
    """Whether it was registered from outside: its type says all that is known of its fields."""

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The API path of the group and version: `/api/v1` or `/apis/<group>/<version>`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def resource_id(self) -> str:
        """`plural.group`: what all versions of a kind share."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def event_resource(self) -> str:
        """What cluster events call it: `Node`, `storage.k8s.io/CSINode`, `widgets.v1.example.com`."""
        if self.registered:
            return self.full_resource
        return f"{self.group}/{self.kind}" if self.group else self.kind

    @property
    def full_resource(self) -> str:
        """`plural.version.group`."""
        return f"{self.plural}.{self.version}.{self.group}"

    def rbac_rule(self, *verbs: str, subresource: str = "") -> str:
        """The rule of a ClusterRole that allows these verbs."""
        name = f"{self.plural}/{subresource}" if subresource else self.plural
        allowed = ", ".join(f'"{verb}"' for verb in verbs)
        return f'apiGroups: ["{self.group}"], resources: ["{name}"], verbs: [{allowed}]'


def _row(type_: type[Any], group: str, plural: str, *, namespaced: bool, version: str = "v1") -> KindInfo:
    return KindInfo(type_.__name__, group, version, plural, namespaced, type_)


# Keyed by kind. Two kinds share the name Event: the key "Event" is the one the scheduler writes.
KINDS: dict[str, KindInfo] = {
    "Pod": _row(core.Pod, "", "pods", namespaced=True),
    "Binding": _row(core.Binding, "", "bindings", namespaced=True),
    "Node": _row(core.Node, "", "nodes", namespaced=False),
    "Namespace": _row(core.Namespace, "", "namespaces", namespaced=False),
    "Service": _row(core.Service, "", "services", namespaced=True),
    "ReplicationController": _row(core.ReplicationController, "", "replicationcontrollers", namespaced=True),
    "PersistentVolume": _row(core.PersistentVolume, "", "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": _row(core.PersistentVolumeClaim, "", "persistentvolumeclaims", namespaced=True),
    "CoreEvent": _row(core.Event, "", "events", namespaced=True),
    "Event": _row(events.Event, "events.k8s.io", "events", namespaced=True),
    "ReplicaSet": _row(apps.ReplicaSet, "apps", "replicasets", namespaced=True),
    "StatefulSet": _row(apps.StatefulSet, "apps", "statefulsets", namespaced=True),
    "StorageClass": _row(storage.StorageClass, "storage.k8s.io", "storageclasses", namespaced=False),
    "CSINode": _row(storage.CSINode, "storage.k8s.io", "csinodes", namespaced=False),
    "CSIDriver": _row(storage.CSIDriver, "storage.k8s.io", "csidrivers", namespaced=False),
    "CSIStorageCapacity": _row(
        storage.CSIStorageCapacity, "storage.k8s.io", "csistoragecapacities", namespaced=True
    ),
    "VolumeAttachment": _row(
        storage.VolumeAttachment, "storage.k8s.io", "volumeattachments", namespaced=False
    ),
    "PodDisruptionBudget": _row(
        policy.PodDisruptionBudget, "policy", "poddisruptionbudgets", namespaced=True
    ),
    "PriorityClass": _row(scheduling.PriorityClass, "scheduling.k8s.io", "priorityclasses", namespaced=False),
    "PodGroup": _row(
        scheduling.PodGroup, "scheduling.k8s.io", "podgroups", namespaced=True, version="v1alpha2"
    ),
    "Workload": _row(
        scheduling.Workload, "scheduling.k8s.io", "workloads", namespaced=True, version="v1alpha2"
    ),
    "TokenReview": _row(
        authentication.TokenReview, "authentication.k8s.io", "tokenreviews", namespaced=False
    ),
    "SubjectAccessReview": _row(
        authorization.SubjectAccessReview, "authorization.k8s.io", "subjectaccessreviews", namespaced=False
    ),
    "Lease": _row(coordination.Lease, "coordination.k8s.io", "leases", namespaced=True),
    "ResourceClaim": _row(resource.ResourceClaim, "resource.k8s.io", "resourceclaims", namespaced=True),
    "ResourceClaimTemplate": _row(
        resource.ResourceClaimTemplate, "resource.k8s.io", "resourceclaimtemplates", namespaced=True
    ),
    "ResourceSlice": _row(resource.ResourceSlice, "resource.k8s.io", "resourceslices", namespaced=False),
    "DeviceClass": _row(resource.DeviceClass, "resource.k8s.io", "deviceclasses", namespaced=False),
    "DeviceTaintRule": _row(
        resource.DeviceTaintRule, "resource.k8s.io", "devicetaintrules", namespaced=False, version="v1beta2"
    ),
}


class KindRegistry:
    """All kinds, found by what is at hand. The first of two kinds that share a name is the one it means."""

    def __init__(self, rows: Iterable[KindInfo] = ()) -> None:
        self._by_type: dict[type, KindInfo] = {}
        self._by_place: dict[tuple[str, str, str], KindInfo] = {}
        self._by_gvk: dict[tuple[str, str, str], KindInfo] = {}
        self._by_name: dict[str, KindInfo] = {}
        self._by_event: dict[str, KindInfo] = {}
        for row in rows:
            self.add(row)

    def __iter__(self) -> Iterator[KindInfo]:
        return iter(tuple(self._by_place.values()))

    def of(self, kind: type[Any]) -> KindInfo:
        """The row of a type; TypeError if it has none."""
        info = self._by_type.get(kind)
        if info is None:
            name = getattr(kind, "__name__", repr(kind))
            raise TypeError(
                f"{name} is no kind of the API that is known here; register it first: "
                f'kuberth.api.register_kind({name}, group="example.com", version="v1", plural="...")'
            )
        return info

    def named(self, kind: str) -> KindInfo | None:
        """The row of a kind's name, such as `Pod`."""
        return self._by_name.get(kind)

    def find(self, group: str, version: str, kind: str) -> KindInfo | None:
        return self._by_gvk.get((group, version, kind))

    def of_event(self, resource: str) -> KindInfo | None:
        """The row of a cluster event's resource: `Node`, `group/Kind` or `plural.version.group`."""
        return self._by_event.get(resource)

    def add(self, info: KindInfo) -> KindInfo:
        """Add a row. A place in the API has one type, shared by all users of it; TypeError otherwise."""
        place = (info.group, info.version, info.plural)
        present = self._by_place.get(place)
        if present is not None and not _same(present, info):
            raise TypeError(
                f"{info.full_resource} is already known as {present.kind} "
                f"({'' if present.namespaced else 'not '}namespaced), held by "
                f"{present.type.__module__}.{present.type.__qualname__}; use that type"
            )
        if present is not None and issubclass(present.type, PlainObject):
            return present
        if (other := self._by_type.get(info.type)) is not None and other != info:
            raise TypeError(f"{info.type.__qualname__} already holds {other.full_resource}")
        self._by_type[info.type] = self._by_place[place] = info
        self._by_gvk[info.group, info.version, info.kind] = info
        if self._by_name.get(info.kind) in (None, present):
            self._by_name[info.kind] = info
        named = f"{info.group}/{info.kind}" if info.group else info.kind
        for name in (named, info.full_resource):
            if self._by_event.get(name) in (None, present):
                self._by_event[name] = info
        return info

    def add_holder(self, holder: type[Any], *, of: type[Any]) -> None:
        """Another type for a kind that is known, for readers of its objects in another form."""
        self._by_type[holder] = replace(self.of(of), type=holder)


def _same(present: KindInfo, given: KindInfo) -> bool:
    """Whether a second registration says what the first did; a module that was loaded again may say so."""
    if (present.kind, present.namespaced) != (given.kind, given.namespaced):
        return False
    if issubclass(present.type, PlainObject) and issubclass(given.type, PlainObject):
        return True
    return (present.type.__module__, present.type.__qualname__) == (
        given.type.__module__,
        given.type.__qualname__,
    )


REGISTRY: Final = KindRegistry(KINDS[name] for name in sorted(KINDS, key=lambda name: name == "CoreEvent"))


@overload
def register_kind(
    kind: str, *, group: str, version: str, plural: str, namespaced: bool = True
) -> type[PlainObject]: ...


@overload
def register_kind(
    kind: type[T], *, group: str, version: str, plural: str, namespaced: bool = True
) -> type[T]: ...


def register_kind(
    kind: str | type[Any], *, group: str, version: str, plural: str, namespaced: bool = True
) -> type[Any]:
    """Make a kind known: a custom resource, or any other that Kuberth has no row for.

    `kind` is a struct (a `Wire` with `metadata: ObjectMeta` and a default for every field), or a name for
    which a type that keeps the whole tree is made. Returns the type: plugins look its objects up with
    `handle.stores.of(type)` and register events of it as `plural.version.group`.
    """
    name = kind if isinstance(kind, str) else kind.__name__
    for what, value, rule in (
        ("kind", name, _KIND),
        ("plural", plural, _LABEL),
        ("version", version, _LABEL),
        ("group", group, _GROUP),
    ):
        # Kinds without a group are Kubernetes' own.
        if not rule.fullmatch(value) and not (what == "group" and not value):
            raise TypeError(f"register_kind: {value!r} is no {what} that Kubernetes would take")
    if isinstance(kind, str):
        api_version = f"{group}/{version}" if group else version
        named = {"__module__": __name__, "__slots__": (), "api_version": api_version, "kind": name}
        kind = type(kind, (PlainObject,), named)
    else:
        _expect_struct(kind)
    info = KindInfo(name, group, version, plural, namespaced, kind, registered=True)
    return REGISTRY.add(info).type


def _expect_struct(kind: type[Any]) -> None:
    """Objects are read with whatever the server left out, and a deletion may bring no more than a name."""
    if not issubclass(kind, Wire):
        raise TypeError(f"register_kind: {kind.__name__} is neither a name nor a kuberth.api.Wire struct")
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    if "metadata" not in fields or fields["metadata"].type is not ObjectMeta:
        raise TypeError(f"register_kind: {kind.__name__} needs the field `metadata: ObjectMeta`")
    missing = [name for name, field in fields.items() if field.required]
    if missing:
        raise TypeError(
            f"register_kind: {kind.__name__} needs a default for {', '.join(missing)}: "
            "the server may leave out any field"
        )
