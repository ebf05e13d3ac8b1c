"""Every kind that Kuberth reads or writes: its path in the API, and the type of its objects.

In: the kinds that Kuberth knows, and those that plugins register. Out: the row of a kind, by type, by name,
by group, version and kind, or by its name in cluster events; RBAC rules for it.
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
    """A kind of object, and the class into which its objects are decoded."""

    kind: str
    """The kind's name in JSON."""
    group: str
    """The kind's API group; "" for the core group."""
    version: str
    """The kind's version."""
    plural: str
    """The kind's name in paths and RBAC rules."""
    namespaced: bool
    """Whether its objects live in namespaces."""
    type: type[Any]
    """The class that its objects decode into."""
    registered: bool = False
    """Whether a plugin registered it: only the fields of its type are known."""

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
        """`plural.group`, the same for all versions of a kind."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def event_resource(self) -> str:
        """The kind's name in cluster events: `Node`, `storage.k8s.io/CSINode`, `widgets.v1.example.com`."""
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


def _rows(group: str, *types: type[Any], namespaced: bool = True, version: str = "v1") -> Iterator[KindInfo]:
    for type_ in types:
        singular = type_.__name__.lower()
        plural = re.sub("ys$", "ies", re.sub("sss$", "sses", f"{singular}s"))
        yield KindInfo(type_.__name__, group, version, plural, namespaced, type_)


_STORAGE: Final = "storage.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
# By kind. Two kinds have the name Event: the key "Event" is the one that the scheduler writes.
KINDS: dict[str, KindInfo] = {
    "CoreEvent" if row.type is core.Event else row.kind: row
    for row in (
        *_rows("", core.Pod, core.Binding),
        *_rows("", core.Node, core.Namespace, namespaced=False),
        *_rows("", core.Service, core.ReplicationController),
        *_rows("", core.PersistentVolume, namespaced=False),
        *_rows("", core.PersistentVolumeClaim, core.Event),
        *_rows("events.k8s.io", events.Event),
        *_rows("apps", apps.ReplicaSet, apps.StatefulSet),
        *_rows(_STORAGE, storage.StorageClass, storage.CSINode, storage.CSIDriver, namespaced=False),
        *_rows(_STORAGE, storage.CSIStorageCapacity),
        *_rows(_STORAGE, storage.VolumeAttachment, namespaced=False),
        *_rows("policy", policy.PodDisruptionBudget),
        *_rows(_SCHEDULING, scheduling.PriorityClass, namespaced=False),
        *_rows(_SCHEDULING, scheduling.PodGroup, scheduling.Workload, version="v1alpha2"),
        *_rows("authentication.k8s.io", authentication.TokenReview, namespaced=False),
        *_rows("authorization.k8s.io", authorization.SubjectAccessReview, namespaced=False),
        *_rows("coordination.k8s.io", coordination.Lease),
        *_rows(_RESOURCE, resource.ResourceClaim, resource.ResourceClaimTemplate),
        *_rows(_RESOURCE, resource.ResourceSlice, resource.DeviceClass, namespaced=False),
        *_rows(_RESOURCE, resource.DeviceTaintRule, namespaced=False, version="v1beta2"),
    )
}


class KindRegistry:
    """Finds kinds by type, path or name. If two kinds share a name, the name means the first one."""

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
                f"{name} is not a known kind of the API; register it first: "
                f'kuberth.api.register_kind({name}, group="example.com", version="v1", plural="...")'
            )
        return info

    def named(self, kind: str) -> KindInfo | None:
        """The row of a kind's name, such as `Pod`."""
        return self._by_name.get(kind)

    def find(self, group: str, version: str, kind: str) -> KindInfo | None:
        return self._by_gvk.get((group, version, kind))

    def of_event(self, resource: str) -> KindInfo | None:
        """Find the kind that a cluster event names: `Node`, `group/Kind` or `plural.version.group`."""
        return self._by_event.get(resource)

    def add(self, info: KindInfo) -> KindInfo:
        """Add a row. A path in the API has one type for all its users; TypeError for another one."""
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
        """Add another type for a known kind, for readers that need its objects in another form."""
        self._by_type[holder] = replace(self.of(of), type=holder)


def _same(present: KindInfo, given: KindInfo) -> bool:
    """Whether two registrations are the same, as when a module is loaded again."""
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
    """Register a custom resource, or any other kind that Kuberth does not know.

    `kind` is a struct (a `Wire` with `metadata: ObjectMeta` and a default for every field), or a name for
    which a type with the whole tree is created. Returns the type: plugins look up its objects with
    `handle.stores.of(type)` and register its events as `plural.version.group`.
    """
    name = kind if isinstance(kind, str) else kind.__name__
    for what, value, rule in (
        ("kind", name, _KIND),
        ("plural", plural, _LABEL),
        ("version", version, _LABEL),
        ("group", group, _GROUP),
    ):
        # Only kinds of Kubernetes itself have no group.
        if not rule.fullmatch(value) and not (what == "group" and not value):
            raise TypeError(f"register_kind: {value!r} is not a valid {what} in Kubernetes")
    if isinstance(kind, str):
        api_version = f"{group}/{version}" if group else version
        named = {"__module__": __name__, "__slots__": (), "api_version": api_version, "kind": name}
        kind = type(kind, (PlainObject,), named)
    else:
        _expect_struct(kind)
    info = KindInfo(name, group, version, plural, namespaced, kind, registered=True)
    return REGISTRY.add(info).type


def _expect_struct(kind: type[Any]) -> None:
    """Check that objects can be decoded if the server omits fields; a deletion may contain only a name."""
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
