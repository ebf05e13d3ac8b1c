"""Hollow DRA drivers publish the devices of hollow nodes, which a file (`kuberth up --devices`) lists.

In: the file (a YAML file of drivers with their pools and classes), nodes, and existing slices. Out:
DeviceClasses, and ResourceSlices that follow nodes and file. Errors name the file, the field and what is
expected there; the server checks names, limits and expressions. A pool is published again, under its next
generation, when its definition in the file changed, also since an earlier run. Manual changes of a slice stay
until then, so that a device can be tainted by hand; deleted slices are created again.

    drivers:
    - name: gpu.example.com
      classes: [{name: gpu}]
      pools:
      - nodes: {shape: gpu}
        devices: [{name: gpu, count: 4, attributes: {model: h200}, capacity: {memory: 141Gi}}]
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import force_setattr

from kuberth.api import quantity
from kuberth.clock import Clock
from kuberth.errors import ConfigError, QuantityError
from kuberth.local.apiserver.objects import Obj, annotation_of, labels_of, name_of
from kuberth.local.apiserver.rules.device_rules import LISTS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.ownership import owner_reference
from kuberth.local.hollow.shapes import HOLLOW
from kuberth.text.decoding import decode_tree
from kuberth.text.documents import read_file

_MAX_COUNT: Final = 4096
_MAX_DEVICES: Final = 128
_MAX_WITH_EXTRAS: Final = 64
"""The most devices in a slice with a taint, with counters, or with lists among the attributes."""
_MAX_COUNTER_SETS: Final = 8
_SHAPE_LABEL: Final = "node.kubernetes.io/instance-type"


class NodeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Selects nodes that have a pool each; all given conditions must hold."""

    name: str = "*"
    """A pattern, as of file names."""
    shape: str = ""
    labels: dict[str, str | int | float | bool] = {}

    def takes(self, node: Obj) -> bool:
        labels = labels_of(node)
        return (
            fnmatchcase(name_of(node), self.name)
            and (not self.shape or labels.get(_SHAPE_LABEL) == f"hollow.{self.shape}")
            and all(labels.get(key) == str(value) for key, value in self.labels.items())
        )


class _Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of the file that becomes a part of an object."""

    def tree(self) -> Obj:
        """The part of the object: the fields that are given."""
        tree: Obj = msgspec.to_builtins(self)
        return tree


class _Counters(_Written, frozen=True, kw_only=True):
    counters: dict[str, Any]

    def __post_init__(self) -> None:
        force_setattr(self, "counters", _amounts(self.counters, "counters"))


class CounterSetEntry(_Counters, frozen=True, kw_only=True):
    name: str


class ConsumedCounters(_Counters, frozen=True, kw_only=True, rename="camel"):
    counter_set: str


class DeviceEntry(_Written, frozen=True, kw_only=True, rename="camel"):
    """A device, or `count` devices that differ in the number after their name."""

    name: str
    count: Annotated[int, msgspec.Meta(ge=1, le=_MAX_COUNT)] | None = None
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    consumes_counters: list[ConsumedCounters] = []
    taints: Any = None
    allow_multiple_allocations: Any = None
    binds_to_node: Any = None
    binding_conditions: Any = None
    binding_failure_conditions: Any = None
    node_allocatable_resource_mappings: Any = None

    def __post_init__(self) -> None:
        attributes = {key: _attribute(value, f"attributes.{key}") for key, value in self.attributes.items()}
        force_setattr(self, "attributes", attributes)
        force_setattr(self, "capacity", _amounts(self.capacity, "capacity"))

    @property
    def has_extras(self) -> bool:
        lists = any(value.keys() & LISTS for value in self.attributes.values())
        return bool(self.taints or self.consumes_counters or lists)

    def trees(self) -> Iterator[Obj]:
        tree = self.tree()
        if tree.pop("count", None) is None:
            yield tree
        for number in range(self.count or 0):
            yield {**tree, "name": f"{self.name}-{number}"}


class PoolEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """Devices that are published together: once for each of some nodes, or once for all of them."""

    name: str = ""
    nodes: NodeChoice | None = None
    node_selector: Any = None
    all_nodes: bool | None = None
    """The nodes that have the pool, or that can use its devices, which are then attached to a network."""
    shared_counters: tuple[CounterSetEntry, ...] = ()
    devices: tuple[DeviceEntry, ...]

    def __post_init__(self) -> None:
        given = {"nodes": self.nodes, "nodeSelector": self.node_selector, "allNodes": self.all_nodes}
        places = [name for name, value in given.items() if value is not None]
        if len(places) > 1:
            raise ValueError(f"{' and '.join(places)} exclude each other; keep one of them")
        if self.all_nodes is False:
            raise ValueError("allNodes: expected true, or leave it out")
        if self.reach and not self.name:
            raise ValueError("name: expected text, because devices of a network have no node to name them by")
        if not self.devices:
            raise ValueError("devices: a pool has devices; write - name: gpu, or remove the pool")
        _expect_unique([tree["name"] for tree in self.trees], "devices")

    @property
    def reach(self) -> Obj:
        """The nodes that can use devices of a network; empty for devices of a node."""
        if self.node_selector is not None:
            return {"nodeSelector": self.node_selector}
        return {} if self.all_nodes is None else {"allNodes": True}

    def is_on(self, node: Obj) -> bool:
        return not self.reach and (self.nodes is None or self.nodes.takes(node))

    def name_on(self, node: str) -> str:
        """The pool's name on a node: by default that of the node, as drivers do it."""
        return f"{node}/{self.name}" if self.name else node

    @cached_property
    def trees(self) -> Sequence[Obj]:
        """The devices as in a slice."""
        return [tree for device in self.devices for tree in device.trees()]

    def slices(self) -> Iterator[Obj]:
        """The spec of each of its slices: counters apart from devices, as few slices as the limits allow."""
        counters = [each.tree() for each in self.shared_counters]
        for start in range(0, len(counters), _MAX_COUNTER_SETS):
            yield {"sharedCounters": counters[start : start + _MAX_COUNTER_SETS]}
        most = _MAX_WITH_EXTRAS if any(each.has_extras for each in self.devices) else _MAX_DEVICES
        for start in range(0, len(self.trees), most):
            yield {"devices": list(self.trees[start : start + most])}


class ClassEntry(_Written, frozen=True, kw_only=True, rename="camel"):
    name: str
    selectors: Any = None
    config: Any = None
    extended_resource_name: Any = None

    def device_class(self, driver: str) -> Obj:
        """The DeviceClass; one without selectors would have the devices of all drivers."""
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}], **self.tree()}
        metadata = {"name": spec.pop("name")}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    classes: tuple[ClassEntry, ...] = ()
    pools: tuple[PoolEntry, ...] = ()

    def __post_init__(self) -> None:
        _expect_unique([pool.name for pool in self.pools if pool.reach], "pools")

    def device_classes(self) -> Sequence[Obj]:
        return [each.device_class(self.name) for each in self.classes]

    def pools_on(self, node: Obj) -> dict[str, PoolEntry]:
        """The pools that a node has, by name; the first one that selects the node wins."""
        found: dict[str, PoolEntry] = {}
        for pool in self.pools:
            if pool.is_on(node):
                found.setdefault(pool.name_on(name_of(node)), pool)
        return found

    def network_pools(self) -> dict[str, PoolEntry]:
        return {pool.name: pool for pool in self.pools if pool.reach}


class _File(msgspec.Struct, frozen=True):
    drivers: tuple[Driver, ...] = ()

    def __post_init__(self) -> None:
        _expect_unique([driver.name for driver in self.drivers], "drivers")
        _expect_unique([each.name for driver in self.drivers for each in driver.classes], "classes")


def load_devices(source: Path | Mapping[str, Any]) -> Sequence[Driver]:
    """The drivers of a file, or of its content; raises ConfigError."""
    tree = read_file(source, "devices") if isinstance(source, Path) else source
    return decode_tree(tree, _File, source=str(source) if isinstance(source, Path) else "devices").drivers


def _attribute(value: Any, where: str) -> Obj:
    """An attribute as the API has it; a plain value is written in the field for its type."""
    if isinstance(value, Mapping):
        return dict(value)
    for type_, kind in ((bool, "bool"), (int, "int"), (str, "string")):
        if isinstance(value, type_):
            return {kind: value}
    raise ValueError(
        f"{where}: expected text, a whole number, true or false, or {{version: 1.2.3}}; got {value!r}"
    )


def _amounts(amounts: Mapping[str, Any], where: str) -> Obj:
    """Capacities as the API has them; a plain quantity becomes its value."""
    found = {}
    for key, value in amounts.items():
        tree = dict(value) if isinstance(value, Mapping) else {"value": value}
        amount = tree.get("value")
        if isinstance(amount, bool) or not isinstance(amount, int | float | str):
            raise ValueError(f"{where}.{key}: expected a quantity such as 80Gi, got {amount!r}")
        try:
            quantity.parse(str(amount))
        except QuantityError as error:
            raise ValueError(f"{where}.{key}: {error}") from error
        found[key] = {**tree, "value": str(amount)}
    return found


def _expect_unique(names: Sequence[str], what: str) -> None:
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"more than one of the {what} is called {', '.join(doubled)}")


SLICES: Final = "resourceslices.resource.k8s.io"
CLASSES: Final = "deviceclasses.resource.k8s.io"
_CONTENT: Final = "kuberth.dev/devices"
"""The annotation of a slice that was published here: which content its pool has."""
_BETWEEN: Final = "|"
"""Between driver and pool in the keys of pools; neither can have it in its name."""


class HollowDrivers(Controller):
    """Publishes what some drivers have until cancelled."""

    name = "drivers"

    def __init__(self, informers: Informers, drivers: Sequence[Driver], *, clock: Clock) -> None:
        self._drivers = {driver.name: driver for driver in drivers}
        super().__init__(informers, clock=clock)

    def set_up(self) -> None:
        self._queue = self.queue("pools", self._sync)
        self._nodes = self.watch("nodes", self._on_node)
        self._slices = self.watch(SLICES, self._on_slice, indexes={"published pool": _published})

    async def run(self) -> None:
        await self.wait_synced()
        for driver in self._drivers.values():
            for device_class in driver.device_classes():
                await self._informers.core.patch(
                    CLASSES,
                    name_of(device_class),
                    device_class,
                    content_type="application/apply-patch+yaml",
                    field_manager="kuberth-devices",
                    force=True,
                )
            for pool in driver.network_pools():
                self._queue.add(f"{driver.name}{_BETWEEN}{pool}")
        await super().run()

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        for driver in self._drivers.values():
            for node in (old, new):
                for pool in {} if node is None else driver.pools_on(node):
                    self._queue.add(f"{driver.name}{_BETWEEN}{pool}")

    def _on_slice(self, old: Obj | None, new: Obj | None) -> None:
        for key in _published(new or old or {}):
            self._queue.add(key)

    def _wanted(self, key: str) -> tuple[PoolEntry, Obj | None] | None:
        """The pool of a key as the file has it, and its node if it has one."""
        name, _, pool_name = key.partition(_BETWEEN)
        driver = self._drivers.get(name)
        if driver is None:
            return None
        node = self._nodes.get(pool_name.partition("/")[0])
        if node is not None and annotation_of(node, HOLLOW) == "true":
            pool = driver.pools_on(node).get(pool_name)
            if pool is not None and not self._nodes.is_terminating(node):
                return pool, node
        network = driver.network_pools().get(pool_name)
        return None if network is None else (network, None)

    async def _sync(self, key: str) -> None:
        present = sorted(self._slices.by("published pool", key), key=name_of)
        wanted = self._wanted(key)
        slices = [] if wanted is None else pool_slices(key.partition(_BETWEEN)[0], *wanted)
        kept = {name_of(slice_) for slice_ in slices}
        if [_mark(slice_) for slice_ in slices] != [_mark(slice_) for slice_ in present]:
            generation = max((each["spec"]["pool"].get("generation", 0) for each in present), default=0) + 1
            before = {name_of(slice_): slice_ for slice_ in present}
            for slice_ in slices:
                slice_["spec"]["pool"]["generation"] = generation
                await self._publish(slice_, before.get(name_of(slice_)))
        for slice_ in present:
            if name_of(slice_) not in kept and not self._slices.is_terminating(slice_):
                await self._slices.delete(slice_)

    async def _publish(self, slice_: Obj, old: Obj | None) -> None:
        if old is not None and old["spec"].get("nodeName") == slice_["spec"].get("nodeName"):
            version = {"resourceVersion": old["metadata"]["resourceVersion"]}
            await self._slices.update({**slice_, "metadata": {**slice_["metadata"], **version}})
            return
        if old is not None:  # a slice never moves to another node
            await self._slices.delete(old)
        await self._slices.create(slice_)


def pool_slices(driver: str, pool: PoolEntry, node: Obj | None) -> list[Obj]:
    """The slices of a pool, of generation 1."""
    name = pool.name if node is None else pool.name_on(name_of(node))
    parts = list(pool.slices())
    reach = pool.reach if node is None else {"nodeName": name_of(node)}
    metadata: Obj = {}
    if node is not None:
        metadata["ownerReferences"] = [owner_reference(node, "v1", "Node", controller=True)]
    content = msgspec.json.encode([reach, metadata, parts], order="deterministic")
    metadata["annotations"] = {_CONTENT: hashlib.sha256(content).hexdigest()[:16]}
    digits = len(str(len(parts) - 1))
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            # Devices are given out in the order of these names.
            "metadata": {"name": f"{name.replace('/', '-')}-{driver}-{number:0{digits}}", **metadata},
            "spec": {
                "driver": driver,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": len(parts)},
                **reach,
                **part,
            },
        }
        for number, part in enumerate(parts)
    ]


async def check_drivers(core: Core, drivers: Sequence[Driver], file: Path) -> None:
    """Raise ConfigError with the file and field of what the server would refuse."""
    for number, driver in enumerate(drivers):
        where = f"{file}: drivers[{number}]"
        for index, device_class in enumerate(driver.device_classes()):
            await _try(core, CLASSES, device_class, f"{where}.classes[{index}]")
        for index, pool in enumerate(driver.pools):
            node = None if pool.reach else {"metadata": {"name": "node-1", "uid": "none"}}
            for slice_ in pool_slices(driver.name, pool, node):
                slice_["metadata"]["name"] = "checked"
                await _try(core, SLICES, slice_, f"{where}.pools[{index}]")


async def _try(core: Core, resource: str, body: Obj, where: str) -> None:
    try:
        await core.create(resource, body, dry_run=True)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise ConfigError(f"{where}: {error}") from error


def _mark(slice_: Obj) -> tuple[str, str]:
    return name_of(slice_), annotation_of(slice_, _CONTENT)


def _published(slice_: Obj) -> tuple[str, ...]:
    """The key of the pool, if the slice was published here."""
    if not annotation_of(slice_, _CONTENT):
        return ()
    spec = slice_["spec"]
    return (f"{spec['driver']}{_BETWEEN}{spec['pool']['name']}",)
