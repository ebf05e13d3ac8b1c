"""Reads the devices of hollow nodes: the file of `kuberth up --devices`.

In: a YAML file of drivers with their pools and classes. Out: `Driver` values, whose pools say what
a node has; errors name the file, the field and what is expected there. What the server itself checks
(names, limits, expressions) is left to it.

    drivers:
    - name: gpu.example.com
      classes: [{name: gpu}]
      pools:
      - nodes: {shape: gpu}
        devices: [{name: gpu, count: 4, attributes: {model: h200}, capacity: {memory: 141Gi}}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from kuberth.api import quantity
from kuberth.errors import ConfigError, QuantityError
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.selecting import labels_of
from kuberth.text.documents import read_file

_MOST_COUNT: Final = 4096
_MOST_DEVICES: Final = 128
_MOST_WITH_EXTRAS: Final = 64
"""The most devices in a slice with a taint, with counters, or with lists among the attributes."""
_MOST_COUNTER_SETS: Final = 8
_SHAPE_LABEL: Final = "node.kubernetes.io/instance-type"
_LISTS: Final = {"bools", "ints", "strings", "versions"}

DRIVER_FIELDS: Final = ("name", "classes", "pools")
POOL_FIELDS: Final = ("name", "nodes", "nodeSelector", "allNodes", "sharedCounters", "devices")
_NODE_FIELDS: Final = ("name", "shape", "labels")
_CLASS_FIELDS: Final = ("name", "selectors", "config", "extendedResourceName")
DEVICE_FIELDS: Final = (
    "name",
    "count",
    "attributes",
    "capacity",
    "consumesCounters",
    "taints",
    "allowMultipleAllocations",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "nodeAllocatableResourceMappings",
)


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Selects nodes that have a pool each; all given conditions must hold."""

    name: str = "*"
    """A pattern, as of file names."""
    shape: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def takes(self, node: Obj) -> bool:
        labels = labels_of(node)
        return (
            fnmatchcase(name_of(node), self.name)
            and (not self.shape or labels.get(_SHAPE_LABEL) == f"hollow.{self.shape}")
            and all(labels.get(key) == value for key, value in self.labels.items())
        )


@dataclass(frozen=True, slots=True)
class PlayedPool:
    """Devices that are published together: once for each of some nodes, or once for all of them."""

    where: str
    """The field of the file that defines it."""
    name: str
    nodes: NodeChoice | None
    """The nodes of the devices; None: the devices are attached to a network. `reach` says which nodes can use
    them."""
    reach: Mapping[str, Any]
    devices: Sequence[Obj]
    counters: Sequence[Obj]

    def name_on(self, node: str) -> str:
        """The pool's name on a node: by default that of the node, as drivers do it."""
        return f"{node}/{self.name}" if self.name else node

    def slices(self) -> Iterator[Obj]:
        """The spec of each of its slices: counters apart from devices, as few slices as the limits allow."""
        for start in range(0, len(self.counters), _MOST_COUNTER_SETS):
            yield {"sharedCounters": list(self.counters[start : start + _MOST_COUNTER_SETS])}
        most = _MOST_WITH_EXTRAS if any(map(_has_extras, self.devices)) else _MOST_DEVICES
        for start in range(0, len(self.devices), most):
            yield {"devices": list(self.devices[start : start + most])}


@dataclass(frozen=True, slots=True)
class Driver:
    name: str
    pools: Sequence[PlayedPool]
    classes: Sequence[tuple[str, Obj]]
    """DeviceClass objects, each with the field of the file that defines it."""

    def pools_on(self, node: Obj) -> dict[str, PlayedPool]:
        """The pools that a node has, by name; the first one that selects the node wins."""
        found: dict[str, PlayedPool] = {}
        for pool in self.pools:
            if pool.nodes is not None and pool.nodes.takes(node):
                found.setdefault(pool.name_on(name_of(node)), pool)
        return found

    def network_pools(self) -> dict[str, PlayedPool]:
        return {pool.name: pool for pool in self.pools if pool.nodes is None}


def load_devices(source: Path | Mapping[str, Any]) -> list[Driver]:
    """The drivers of a file, or of its content; raises ConfigError."""
    where, tree = (source, read_file(source, "devices")) if isinstance(source, Path) else ("devices", source)
    try:
        return _drivers(tree)
    except _FieldError as error:
        raise ConfigError(f"{where}: {error}") from error


class _FieldError(Exception):
    """A problem of a field, and what to write instead."""


def _drivers(tree: Any) -> list[Driver]:
    top = _mapping(tree, "", known=("drivers",))
    drivers = []
    for where, entry in _entries(top.get("drivers"), "drivers"):
        given = _mapping(entry, where, known=DRIVER_FIELDS)
        name = _text(given, "name", where)
        pools = [_pool(each, at) for at, each in _entries(given.get("pools"), f"{where}.pools")]
        _expect_unique([pool.name for pool in pools if pool.nodes is None], f"{where}.pools", "pools")
        classes = [
            (at, _device_class(each, at, name))
            for at, each in _entries(given.get("classes"), f"{where}.classes")
        ]
        drivers.append(Driver(name, pools, classes))
    _expect_unique([driver.name for driver in drivers], "drivers", "drivers")
    every = [name_of(each) for driver in drivers for _, each in driver.classes]
    _expect_unique(every, "drivers", "classes")
    return drivers


def _pool(entry: Any, where: str) -> PlayedPool:
    given = _mapping(entry, where, known=POOL_FIELDS)
    places = [name for name in ("nodes", "nodeSelector", "allNodes") if name in given]
    if len(places) > 1:
        raise _FieldError(f"{where}: {' and '.join(places)} exclude each other; keep one of them")
    network = bool(places) and places != ["nodes"]
    if given.get("allNodes", True) is not True:
        raise _FieldError(f"{where}.allNodes: expected true, or leave it out")
    name = _text(given, "name", where) if network or "name" in given else ""
    devices = [
        device
        for at, each in _entries(given.get("devices"), f"{where}.devices")
        for device in _devices(each, at)
    ]
    _expect_unique([device["name"] for device in devices], f"{where}.devices", "devices")
    counters = [
        _with_counters(_mapping(each, at, known=("name", "counters")), at)
        for at, each in _entries(given.get("sharedCounters"), f"{where}.sharedCounters")
    ]
    if not devices:
        raise _FieldError(f"{where}.devices: a pool has devices; write - name: gpu, or remove the pool")
    return PlayedPool(
        where,
        name,
        nodes=None if network else _choice(given.get("nodes", {}), f"{where}.nodes"),
        reach={places[0]: given[places[0]]} if network else {},
        devices=devices,
        counters=counters,
    )


def _choice(entry: Any, where: str) -> NodeChoice:
    given = _mapping(entry, where, known=_NODE_FIELDS)
    labels = _mapping(given.get("labels", {}), f"{where}.labels")
    return NodeChoice(
        name=_text(given, "name", where) if "name" in given else "*",
        shape=_text(given, "shape", where) if "shape" in given else "",
        labels={key: str(value) for key, value in labels.items()},
    )


def _devices(entry: Any, where: str) -> Iterator[Obj]:
    """The device of an entry, or `count` devices that differ in the number after their name."""
    given = dict(_mapping(entry, where, known=DEVICE_FIELDS))
    name, count = _text(given, "name", where), given.pop("count", None)
    if "attributes" in given:
        attributes = _mapping(given["attributes"], f"{where}.attributes")
        given["attributes"] = {
            key: _attribute(value, f"{where}.attributes.{key}") for key, value in attributes.items()
        }
    if "capacity" in given:
        capacity = _mapping(given["capacity"], f"{where}.capacity")
        given["capacity"] = {
            key: _amount(value, f"{where}.capacity.{key}") for key, value in capacity.items()
        }
    if "consumesCounters" in given:
        given["consumesCounters"] = [
            _with_counters(_mapping(each, at, known=("counterSet", "counters")), at)
            for at, each in _entries(given["consumesCounters"], f"{where}.consumesCounters")
        ]
    if count is None:
        yield given
        return
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= _MOST_COUNT:
        raise _FieldError(
            f"{where}.count: expected a number of devices from 1 to {_MOST_COUNT}, got {count!r}"
        )
    for number in range(count):
        yield {**given, "name": f"{name}-{number}"}


def _attribute(value: Any, where: str) -> Obj:
    """An attribute as the API has it; a plain value is written in the field for its type."""
    if isinstance(value, Mapping):
        return dict(value)
    for type_, kind in ((bool, "bool"), (int, "int"), (str, "string")):
        if isinstance(value, type_):
            return {kind: value}
    raise _FieldError(
        f"{where}: expected text, a whole number, true or false, or {{version: 1.2.3}}; got {value!r}"
    )


def _amount(value: Any, where: str) -> Obj:
    """A capacity as the API has it; a plain quantity becomes its value."""
    tree = dict(value) if isinstance(value, Mapping) else {"value": value}
    amount = tree.get("value")
    if isinstance(amount, bool) or not isinstance(amount, int | float | str):
        raise _FieldError(f"{where}: expected a quantity such as 80Gi, got {amount!r}")
    try:
        quantity.parse(str(amount))
    except QuantityError as error:
        raise _FieldError(f"{where}: {error}") from error
    return {**tree, "value": str(amount)}


def _with_counters(given: Obj, where: str) -> Obj:
    counters = _mapping(given.get("counters"), f"{where}.counters")
    amounts = {key: _amount(value, f"{where}.counters.{key}") for key, value in counters.items()}
    return {**given, "counters": amounts}


def _device_class(entry: Any, where: str, driver: str) -> Obj:
    given = dict(_mapping(entry, where, known=_CLASS_FIELDS))
    name = _text(given, "name", where)
    del given["name"]
    # A class without selectors would have the devices of all drivers.
    given.setdefault("selectors", [{"cel": {"expression": f'device.driver == "{driver}"'}}])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": given,
    }


def _has_extras(device: Obj) -> bool:
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(_LISTS & value.keys() for value in device.get("attributes", {}).values())
    )


def _mapping(tree: Any, where: str, *, known: Sequence[str] = ()) -> Obj:
    at = f"{where}: " if where else ""
    if not isinstance(tree, Mapping):
        wanted = f"a mapping with {', '.join(known)}" if known else "a mapping"
        raise _FieldError(f"{at}expected {wanted}, got {tree!r:.80}")
    if known and (unknown := [str(key) for key in tree if key not in known]):
        raise _FieldError(f"{at}unknown field {', '.join(unknown)}; known are {', '.join(known)}")
    return {str(key): value for key, value in tree.items()}


def _entries(tree: Any, where: str) -> Iterator[tuple[str, Any]]:
    if tree is None:
        return
    if not isinstance(tree, Sequence) or isinstance(tree, str):
        raise _FieldError(f"{where}: expected a list, got {tree!r:.80}")
    for index, entry in enumerate(tree):
        yield f"{where}[{index}]", entry


def _text(given: Obj, name: str, where: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        got = "nothing" if value is None else repr(value)
        raise _FieldError(f"{where}.{name}: expected text, got {got}")
    return value


def _expect_unique(names: Sequence[str], where: str, what: str) -> None:
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise _FieldError(f"{where}: more than one of the {what} is called {', '.join(doubled)}")
