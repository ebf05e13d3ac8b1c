"""Devices of a workload: the ResourceSlices of its drivers, and claims that are allocated in advance.

In: node names, claims, classes and slices. Out: ResourceSlices as scheduler_perf's drivers publish them, and
allocations on random nodes, found by the scheduler's own search.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kuberth.api.core import Node
from kuberth.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.wire import encode
from kuberth.bench.operations import CreateResourceDriver
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ConfigError
from kuberth.informers.store import Store, object_key
from kuberth.local.apiserver.objects import Obj
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.sites import Sites
from kuberth.plugins.devices.usage import DeviceUsage, takes_of
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, Demand
from kuberth.plugins.dynamic_resources.allocator.results import allocations
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch


def slices_of(operation: CreateResourceDriver, node_names: Iterable[str]) -> Iterator[Obj]:
    """One slice a node, for the nodes that the driver is on."""
    for name in node_names:
        if fnmatchcase(name, operation.nodes):
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": name},
                "spec": {
                    "driver": operation.driver_name,
                    "nodeName": name,
                    "pool": {"name": name, "generation": 0, "resourceSliceCount": 1},
                    "devices": [_device(number) for number in range(operation.max_claims_per_node)],
                },
            }


def _device(number: int) -> dict[str, Any]:
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


class DeviceWorld(NamedTuple):
    """What there is on the server."""

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice]
    classes: Sequence[DeviceClass]
    claims: Sequence[ResourceClaim]
    """All of them, for what they have taken."""


class Lottery:
    """Allocates devices of random nodes to claims."""

    def __init__(self, world: DeviceWorld, rng: random.Random) -> None:
        table, slices, classes = ClusterTable(), Store[ResourceSlice](), Store[DeviceClass]()
        for node in world.nodes:
            table.set_node(node)
        for slice_ in world.slices:
            slices.set(slice_)
        for class_ in world.classes:
            classes.set(class_)
        self._rng = rng
        self._table = table
        self._nodes = [node.metadata.name for node in world.nodes]
        self._classes = KnownClasses(classes)
        self._sites = Sites(slices, table)
        self._sites.refresh()
        self._usage = DeviceUsage()
        for claim in world.claims:
            if claim.status.allocation is not None:
                self._take(claim.status.allocation)
        self._demands: dict[bytes, Demand] = {}
        self._spent: set[tuple[bytes, int]] = set()
        """Demands and sites that have nothing left for them: nothing is given back here."""

    def draw(self, claim: ResourceClaim) -> AllocationResult:
        """ConfigError if no node has matching devices."""
        key = encode(claim.spec)
        demand = self._demands.get(key)
        if demand is None:
            demand = self._demands[key] = Demand([claim.spec], self._classes)
        for name in self._rng.sample(self._nodes, len(self._nodes)):
            row = self._table.row_of(name)
            assert row is not None
            site = self._sites.sites[int(self._sites.of_row[row])]
            if (key, site.index) in self._spent:
                continue
            try:
                found = DeviceSearch(demand, site, self._usage).run()
            except AllocationError as error:
                raise ConfigError(f"allocate claim: {error.message([claim])}") from error
            if found is None:
                self._spent.add((key, site.index))
                continue
            (allocation,) = allocations(demand, found, name)
            self._take(allocation)
            return allocation
        raise ConfigError(
            f"no node has devices for the claim {object_key(claim)}; are there drivers with enough of them?"
        )

    def _take(self, allocation: AllocationResult) -> None:
        for take in takes_of(allocation):
            self._usage.add(take)
