"""Creates and changes the objects of a workload, concurrently.

In: operations. Out: objects on the API server. Templates and names are computed before the first request, so
that they do not compete with the measured phase.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kuberth.api.core import Node
from kuberth.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.wire import encode, to_builtins
from kuberth.bench import operations
from kuberth.bench.cases import TestCase
from kuberth.bench.objects import OWN_CLASSES, NodeMaker, PodMaker, Tree, admitted
from kuberth.bench.operations import CreateResourceDriver
from kuberth.bench.servers import STRICT, BenchServer, RemoteServer, find_kind, list_typed
from kuberth.bench.templating import Template
from kuberth.errors import ConfigError
from kuberth.evaluation import Evaluator
from kuberth.informers.store import object_key
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.sites import Sites
from kuberth.plugins.devices.usage import DeviceUsage, allocated_devices
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, Demand
from kuberth.plugins.dynamic_resources.allocator.results import allocations
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch

PODS: Final = "pods"
_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_CLAIM: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
WORKERS: Final = 30
"""Requests under way at once; scheduler_perf has as many."""
PATIENCE_SECONDS: Final = 20
"""How long `createAny` retries."""
T = TypeVar("T")


def slices_of(operation: CreateResourceDriver, node_names: Iterable[str]) -> Iterator[Obj]:
    """The slices of a driver, one for each node that the driver is on."""
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


class RandomAllocation:
    """Allocates devices of random nodes to claims.

    The arguments are all such objects on the server; the devices of allocated claims are in use.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        claims: Iterable[ResourceClaim],
        *,
        rng: random.Random,
    ) -> None:
        evaluator = Evaluator([*nodes, *slices, *classes])
        self._rng = rng
        self._table = evaluator.cluster
        self._nodes = [node.metadata.name for node in nodes]
        self._classes = KnownClasses(evaluator.stores.of(DeviceClass))
        self._sites = Sites(evaluator.stores.of(ResourceSlice), evaluator.cluster)
        self._sites.refresh()
        self._usage = DeviceUsage()
        for claim in claims:
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
        for take in allocated_devices(allocation):
            self._usage.add(take)


class AnyObject(NamedTuple):
    """An object of a template of any kind."""

    row: ServedResource
    name: str
    body: Obj


class Maker:
    """Makes the objects for a run of a workload."""

    def __init__(self, server: BenchServer, case: TestCase, *, admits_pods: bool) -> None:
        self._server = server
        self._case = case
        self._rng = random.Random(0)  # the same in every run
        self._admits = admits_pods
        self._classes: set[str] = set()
        """The priority classes that exist."""

    # Nodes and namespaces

    async def nodes(
        self, operation: operations.CreateNodes, number: int, advance: Callable[[], None]
    ) -> None:
        maker = NodeMaker(operation, self._case, number, self._rng)

        async def create(made: tuple[Tree, Tree | None]) -> None:
            node, csi_node = made
            await self._server.create("nodes", node)
            if csi_node is not None:
                await self._server.create("csinodes.storage.k8s.io", csi_node)
            advance()

        await _run_concurrently((maker.make(index) for index in range(operation.count)), create)

    async def namespaces(self, operation: operations.CreateNamespaces) -> list[str]:
        """Create namespaces and return their names; existing ones are unchanged."""
        template: Mapping[str, Any] = {}
        if operation.namespace_template_path:
            template = Template.read(self._case.path(operation.namespace_template_path)).tree(0, 1)
        names = [f"{operation.prefix}-{index}" for index in range(operation.count)]

        await _run_concurrently(names, partial(self.namespace, template=template))
        return names

    async def namespace(self, name: str, template: Mapping[str, Any] | None = None) -> None:
        template = template or {}
        metadata = {**template.get("metadata", {}), "name": name}
        body = {**template, "apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        try:
            await self._server.create("namespaces", body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    # Pods

    async def prepared_pods(self, operation: operations.CreatePods, namespace: str) -> PreparedPods:
        """Prepare the pods of an operation: everything but their creation."""
        maker = PodMaker(operation, self._case, namespace, admits=self._admits)
        bodies = [maker.pod(index) for index in range(operation.count)]
        for body in bodies:
            await self._make_priority_class(body)
        return PreparedPods(self._server, maker, namespace, bodies)

    async def _make_priority_class(self, pod: Tree) -> None:
        """Create the class of an admitted pod."""
        spec = pod.get("spec") or {}
        name = spec.get("priorityClassName") or ""
        if name.startswith(OWN_CLASSES) and "priority" in spec and name not in self._classes:
            self._classes.add(name)
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            body = {**head, "metadata": {"name": name}, "value": spec["priority"]}
            await self._server.create("priorityclasses.scheduling.k8s.io", body)

    # Objects of any kind

    async def any_objects(
        self, path: str, namespace: str, count: int, *, expect_scope: bool = True
    ) -> list[AnyObject]:
        """The objects of a template. `expect_scope`: ConfigError unless a namespace is given where needed."""
        template, made = Template.read(self._case.path(path)), []
        for index in range(count):
            tree = template.tree(index, count)
            api_version, kind = tree.get("apiVersion"), tree.get("kind")
            if not isinstance(api_version, str) or not isinstance(kind, str):
                raise ConfigError(f"template {path}: an object needs apiVersion and kind")
            if (api_version, kind) == ("v1", "Pod") and self._admits:
                tree = admitted(tree)
                await self._make_priority_class(tree)
            row = await find_kind(self._server, api_version, kind)
            if expect_scope and row.namespaced != bool(namespace):
                scope, hint = ("in", "name a") if row.namespaced else ("not in", "remove the")
                raise ConfigError(f"template {path}: a {kind} is {scope} a namespace; {hint} namespace")
            made.append(AnyObject(row, tree.get("metadata", {}).get("name", ""), dict(tree)))
        return made

    async def create_any(self, operation: operations.CreateAny) -> None:
        namespace = operation.namespace
        for made in await self.any_objects(operation.template_path, namespace, operation.count):
            create = partial(self._server.create, made.row, made.body, field_validation=STRICT)
            # A definition that was just created may not be served yet; a wrong object stays wrong.
            await _retry(
                partial(create, namespace=namespace),
                pauses=repeat(1.0, PATIENCE_SECONDS),
                is_temporary=lambda code: code not in (400, 409, 422),
            )

    async def update_any(self, operation: operations.UpdateAny) -> None:
        made = await self.any_objects(operation.template_path, operation.namespace, operation.count)
        async for each in paced(made, operation.update_per_second):
            for subresource in ("/".join(operation.subresources), "status"):
                await self._server.update(
                    each.row, each.name, each.body, namespace=operation.namespace, subresource=subresource
                )

    # Devices

    async def driver(self, operation: operations.CreateResourceDriver) -> None:
        names = [node["metadata"]["name"] for node in (await self._server.list("nodes"))["items"]]

        await self._create_all("resourceslices.resource.k8s.io", slices_of(operation, names))

    async def claims(self, operation: operations.CreateResourceClaims) -> None:
        template = Template.read(self._case.path(operation.template_path))
        bodies = ({**template.tree(index, operation.count), **_CLAIM} for index in range(operation.count))
        await self._create_all(_DEVICE_CLAIMS, bodies, namespace=operation.namespace)

    async def _create_all(self, resource: str, bodies: Iterable[Obj], *, namespace: str = "") -> None:
        async def create(body: Obj) -> None:
            await self._server.create(resource, body, namespace=namespace)

        await _run_concurrently(bodies, create)

    async def allocate(self, operation: operations.AllocResourceClaims) -> None:
        """Give devices to all claims that have none, one after the other."""
        listed = partial(list_typed, self._server)
        claims = await listed(ResourceClaim)
        random_allocation = RandomAllocation(
            await listed(Node), await listed(ResourceSlice), await listed(DeviceClass), claims, rng=self._rng
        )
        allocated = (
            replace(claim, status=replace(claim.status, allocation=random_allocation.draw(claim)))
            for claim in claims
            if claim.status.allocation is None and operation.namespace in ("", claim.metadata.namespace)
        )

        async def write(claim: ResourceClaim) -> None:
            name, namespace = claim.metadata.name, claim.metadata.namespace
            await self._server.update(
                _DEVICE_CLAIMS, name, to_builtins(claim), namespace=namespace, subresource="status"
            )

        await _run_concurrently(allocated, write)


class PreparedPods:
    """Pods that are ready to be created, repeatedly if they have no volumes."""

    def __init__(self, server: BenchServer, maker: PodMaker, namespace: str, bodies: list[Obj]) -> None:
        self._server = server
        self._maker = maker
        self._namespace = namespace
        self._bodies = bodies
        self._encoded = [encode(body) for body in bodies] if isinstance(server, RemoteServer) else []
        """Over HTTP: encoded before anything is measured."""

    async def create(self, advance: Callable[[], None] = lambda: None) -> None:
        async def create(index: int) -> None:
            if self._maker.has_volumes:
                await self._create_volume(index)
            await _retry(
                partial(self._create_pod, index),
                pauses=(0.2, 0.5, 1.0, 2.0),
                is_temporary=lambda code: code in (429, 503),
            )
            advance()

        await _run_concurrently(range(len(self._bodies)), create)

    async def _create_pod(self, index: int) -> None:
        body = self._bodies[index]
        if isinstance(self._server, RemoteServer):
            metadata = body["metadata"]
            name = metadata.get("name") or metadata.get("generateName", "")  # for messages only
            await self._server.post_pod(name, self._encoded[index], namespace=self._namespace)
        else:
            await self._server.create(PODS, body, namespace=self._namespace)

    async def _create_volume(self, index: int) -> None:
        claim, volume = self._maker.volume(index)
        for resource, body, namespace in ((_CLAIMS, claim, self._namespace), (_VOLUMES, volume, "")):
            await self._server.create(resource, body, namespace=namespace)
            await self._server.update(
                resource, body["metadata"]["name"], body, namespace=namespace, subresource="status"
            )


async def paced(items: Iterable[T], per_second: int) -> AsyncIterator[T]:
    """The items at this rate per second; all at once if it is 0."""
    loop = asyncio.get_running_loop()
    at = loop.time()
    for item in items:
        if per_second:
            at += 1 / per_second
            await asyncio.sleep(max(at - loop.time(), 0))
        yield item


async def _run_concurrently(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Process the items concurrently, up to `WORKERS` at a time; the first failure cancels the others."""
    left: Iterator[T] = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)
            # Without network I/O nothing suspends: let other tasks run.
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for number in range(WORKERS):
            tasks.create_task(worker(), name=f"maker {number}")


async def _retry(
    ask: Callable[[], Awaitable[object]], *, pauses: Iterable[float], is_temporary: Callable[[int], bool]
) -> None:
    """Ask again after each pause (seconds), as long as the server refuses with a temporary status code."""
    for pause in (*pauses, None):
        try:
            await ask()
            return
        except StatusError as error:
            if pause is None or not is_temporary(error.code):
                raise
            await asyncio.sleep(pause)
