"""A server in memory, hollow nodes, controllers, and a binder in the scheduler's place; on virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.devices import Driver
from kuberth.local.hollow.publishing import ServerIdentity
from kuberth.local.hollow.running import HollowCluster

T = TypeVar("T")

IDS = {
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "ControllerRevision": "controllerrevisions.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "ReplicationController": "replicationcontrollers",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "Endpoints": "endpoints",
    "EndpointSlice": "endpointslices.discovery.k8s.io",
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
    "ResourceQuota": "resourcequotas",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses.storage.k8s.io",
    "CustomResourceDefinition": "customresourcedefinitions.apiextensions.k8s.io",
    "DeviceClass": "deviceclasses.resource.k8s.io",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "ResourceClaimTemplate": "resourceclaimtemplates.resource.k8s.io",
    "ResourceSlice": "resourceslices.resource.k8s.io",
    "PodGroup": "podgroups.scheduling.k8s.io",
    "Lease": "leases.coordination.k8s.io",
    "Event": "events",
}
CLUSTER_SCOPED = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "CustomResourceDefinition",
    "DeviceClass",
    "ResourceSlice",
}
MERGE = "application/merge-patch+json"


def virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test's body on virtual time, which ends after an hour of it."""
    return run_in_virtual_time(main, limit_seconds=3600.0)


class World:
    def __init__(self, core: Core) -> None:
        self.core = core

    async def create(self, body: Obj) -> Obj:
        """Create the object, in the namespace default if it names none and needs one."""
        namespace = namespace_of(body) or ("" if body["kind"] in CLUSTER_SCOPED else "default")
        return await self.core.create(IDS[body["kind"]], body, namespace=namespace)

    async def get(self, kind: str, name: str, *, namespace: str = "default") -> Obj:
        return await self.core.get(IDS[kind], name, namespace=namespace)

    async def there(self, kind: str, name: str, *, namespace: str = "default") -> bool:
        try:
            await self.get(kind, name, namespace=namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def all(self, kind: str, *, namespace: str = "", labels: str = "") -> list[Obj]:
        listing = await self.core.list(IDS[kind], namespace=namespace, label_selector=labels)
        items: list[Obj] = listing["items"]
        return items

    async def patch(
        self, kind: str, name: str, patch: Obj, *, namespace: str = "default", sub: str = ""
    ) -> Obj:
        patched, _ = await self.core.patch(
            IDS[kind], name, patch, content_type=MERGE, namespace=namespace, subresource=sub
        )
        return patched

    async def delete(self, kind: str, name: str, *, namespace: str = "default", **options: Any) -> None:
        await self.core.delete(IDS[kind], name, namespace=namespace, options=options)

    async def until(
        self, predicate: Callable[[], Coroutine[Any, Any, bool]], *, seconds: float = 60.0
    ) -> None:
        """Let virtual time pass until something is so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await predicate():
            assert loop.time() < deadline, f"not within {seconds} virtual seconds"
            await asyncio.sleep(0.01)

    async def status(self, kind: str, name: str, *, seconds: float = 60.0, **wanted: Any) -> Obj:
        """Wait until fields of an object's status have these values; 0 is also no value."""
        found: Obj = {}

        async def reached() -> bool:
            nonlocal found
            found = await self.get(kind, name)
            status = found.get("status", {})
            # As kubectl does: a status of an older spec says nothing.
            if status.get("observedGeneration", 1 << 60) < found["metadata"].get("generation", 0):
                return False
            return all((status.get(field) or 0) == value for field, value in wanted.items())

        try:
            await self.until(reached, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{kind} {name} is at {found.get('status')}, not {wanted}") from None
        return found

    async def condition(self, kind: str, name: str, type_: str, *, seconds: float = 60.0) -> Obj:
        """Wait until a condition is True."""
        found: list[Obj] = []

        async def reached() -> bool:
            obj = await self.get(kind, name)
            conditions: Iterable[Obj] = obj.get("status", {}).get("conditions", ())
            found[:] = [one for one in conditions if one["type"] == type_ and one["status"] == "True"]
            return bool(found)

        await self.until(reached, seconds=seconds)
        return found[0]

    async def gone(self, kind: str, name: str, *, namespace: str = "default", seconds: float = 60.0) -> None:
        async def reached() -> bool:
            return not await self.there(kind, name, namespace=namespace)

        await self.until(reached, seconds=seconds)

    async def quiet(self, *, seconds: float = 2.0) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def playing(
    core: Core | None = None,
    *,
    gates: Mapping[str, bool] | None = None,
    nodes: int = 3,
    controllers: Collection[str] | None = None,
    shapes: Any = None,
    binder: bool = True,
    server: ServerIdentity | None = None,
    drivers: Sequence[Driver] | None = None,
) -> AsyncIterator[World]:
    """A whole hollow cluster until the block ends."""
    store: RevisionStore | None = None
    faults = _Faults()
    logging.getLogger("kuberth.local.hollow").addHandler(faults)
    clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
    if core is None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=clock, feature_gates=gates)
    hollow = HollowCluster(
        core,
        clock=clock,
        nodes=nodes,
        shapes=shapes,
        controllers=controllers,
        server=server,
        drivers=drivers,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(hollow.run(), name="hollow")
        binding = tasks.create_task(bind_all(core), name="binder") if binder else None
        await hollow.ready.wait()
        try:
            yield World(core)
        finally:
            hollow.stop()
            if binding is not None:
                binding.cancel()
            await running
    logging.getLogger("kuberth.local.hollow").removeHandler(faults)
    assert not faults.messages
    if store is not None:
        await store.close()


class _Faults(logging.Handler):
    """What no controller may ever log: that it raised something other than a refusal of the server."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


async def bind_all(core: Core) -> None:
    """Binds every pending pod to some node, one after the other; nodes without a kubelet take no pods."""
    turn = 0
    async for type_, pod in core.watch("pods"):
        if type_ == "DELETED" or pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
            continue
        nodes = [
            name_of(node)
            for node in (await core.list("nodes"))["items"]
            if (node.get("status") or {}).get("nodeInfo", {}).get("kubeletVersion")
        ]
        if not nodes:
            continue
        turn += 1
        node = wanted_node(pod) or nodes[turn % len(nodes)]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await core.create(
                "pods", body, namespace=namespace_of(pod), name=name_of(pod), subresource="binding"
            )
        except StatusError as error:
            # Bound or gone before this event was read.
            if error.code not in (404, 409):
                raise


def wanted_node(pod: Obj) -> str:
    """The one node that a daemon's pod may go to."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    fields = [
        field for term in required.get("nodeSelectorTerms", ()) for field in term.get("matchFields", ())
    ]
    return str(fields[0]["values"][0]) if fields else ""
