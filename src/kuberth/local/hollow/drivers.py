"""Hollow DRA drivers: they publish the devices of hollow nodes.

In: the drivers of a file (`devices`), nodes, and the slices that are there. Out: DeviceClasses, and
ResourceSlices that follow nodes and file. A pool is published again, under its next generation, when its
definition in the file changed, also since an earlier run. Manual changes of a slice stay until then, so that
a device can be tainted by hand; deleted slices are created again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kuberth.clock import Clock
from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.devices import Driver, PlayedPool
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.shapes import HOLLOW

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

    def _wanted(self, key: str) -> tuple[PlayedPool, Obj | None] | None:
        """The pool of a key as the file has it, and its node if it has one."""
        name, _, pool_name = key.partition(_BETWEEN)
        driver = self._drivers.get(name)
        if driver is None:
            return None
        node = self._nodes.get(pool_name.partition("/")[0])
        if node is not None and (node["metadata"].get("annotations") or {}).get(HOLLOW) == "true":
            pool = driver.pools_on(node).get(pool_name)
            if pool is not None and not self._nodes.is_leaving(node):
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
            if name_of(slice_) not in kept and not self._slices.is_leaving(slice_):
                await self._slices.delete(slice_)

    async def _publish(self, slice_: Obj, old: Obj | None) -> None:
        if old is not None and old["spec"].get("nodeName") == slice_["spec"].get("nodeName"):
            version = {"resourceVersion": old["metadata"]["resourceVersion"]}
            await self._slices.update({**slice_, "metadata": {**slice_["metadata"], **version}})
            return
        if old is not None:  # a slice never moves to another node
            await self._slices.delete(old)
        await self._slices.create(slice_)


def pool_slices(driver: str, pool: PlayedPool, node: Obj | None) -> list[Obj]:
    """The slices of a pool, of generation 1."""
    name = pool.name if node is None else pool.name_on(name_of(node))
    parts = list(pool.slices())
    reach = pool.reach if node is None else {"nodeName": name_of(node)}
    metadata: Obj = {}
    if node is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": name_of(node),
                "uid": node["metadata"]["uid"],
                "controller": True,
            }
        ]
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


def _mark(slice_: Obj) -> tuple[str, str | None]:
    return name_of(slice_), (slice_["metadata"].get("annotations") or {}).get(_CONTENT)


def _published(slice_: Obj) -> tuple[str, ...]:
    """The key of the pool, if the slice was published here."""
    if _mark(slice_)[1] is None:
        return ()
    spec = slice_["spec"]
    return (f"{spec['driver']}{_BETWEEN}{spec['pool']['name']}",)
