"""Simulates a cluster with controllers, on the embedded API server.

In: manifests of Deployments, Jobs, budgets and the like. Out: the pods that controllers create for them, run
by hollow kubelets; for one seed always the same, including names and UIDs. Node leases are not simulated,
because nodes never fail here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import msgspec

from kuberth.api.core import Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.scheduling import PriorityClass
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.clock import Clock
from kuberth.errors import AlreadyExistsError, ConfigError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.annotations import RUN_SECONDS
from kuberth.local.hollow.controllers.node_lifecycle import NodeLifecycleController
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.kubelet import HollowKubelet, WorkingNode
from kuberth.local.hollow.running import CONTROLLERS, STORAGE_CLASS
from kuberth.local.hollow.working import keep_running
from kuberth.local.in_process import InProcessApi
from kuberth.local.manifests import Manifest
from kuberth.simulation.workloads import arrival_of

T = TypeVar("T")

QUIET_SECONDS: Final = 900.0
"""Longer than the longest retry interval of a controller or kubelet."""
_STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"


class ServedApi(InProcessApi):
    """The embedded server, with priority classes for pods that have a priority and no class."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._classes: set[int] = set()

    async def create(self, obj: T) -> T:
        if isinstance(obj, Pod) and obj.spec.priority is not None:
            name, priority = obj.spec.priority_class_name, obj.spec.priority
            if not name and priority:
                name = f"priority-{priority}".replace("--", "-minus-")
                await self._make_class(name, priority)
            spec = msgspec.structs.replace(obj.spec, priority=None, priority_class_name=name)
            created: T = await super().create(msgspec.structs.replace(obj, spec=spec))
            return created
        return await super().create(obj)

    async def _make_class(self, name: str, value: int) -> None:
        if value not in self._classes:
            self._classes.add(value)
            with suppress(AlreadyExistsError):
                await super().create(PriorityClass(metadata=ObjectMeta(name=name), value=value))


class ManagedCluster:
    """Controllers, kubelets, and the users who create the managed objects."""

    patience: float | None = 86_400.0
    """Cron jobs and restarting containers never end."""

    def __init__(self, core: Core, manifests: Sequence[Manifest], *, clock: Clock) -> None:
        self.api = ServedApi(core)
        self._core = core
        self._manifests = sorted(manifests, key=arrival_of)
        self._informers = Informers(core)
        self._nodes = self._informers.of("nodes")
        self._kubelet = HollowKubelet(self._informers, working_node=self._node, clock=clock)
        self._controllers = {
            name: kind(self._informers, clock=clock)
            for name, kind in CONTROLLERS.items()
            if name != NodeLifecycleController.name
        }
        self._changed = asyncio.get_running_loop().time()
        self._noted = asyncio.Event()
        self._ending: set[str] = set()
        """UIDs of pods that run and will end."""
        self._to_create = len(manifests)

    @property
    def idle(self) -> bool:
        """Whether they have nothing left to do."""
        quiet = asyncio.get_running_loop().time() - self._changed >= QUIET_SECONDS
        return quiet and not self._ending and not self._to_create

    async def wait_idle(self) -> None:
        """Return when they are idle."""
        while not self.idle:
            self._noted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._noted.wait()

    def evict(self, pod: Pod) -> None:
        """Never called: nodes do not change with controllers."""

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        self._changed = asyncio.get_running_loop().time()
        self._noted.set()
        running = event.type is not WatchType.DELETED and pod.status.phase == "Running"
        if running and RUN_SECONDS in pod.metadata.annotations:
            self._ending.add(pod.metadata.uid)
        else:
            self._ending.discard(pod.metadata.uid)

    async def run(self) -> None:
        """Run until cancelled; ConfigError for objects that the server would reject."""
        for manifest in self._manifests:
            await self._create(manifest, dry_run=True)
        if not (await self._core.list(_STORAGE_CLASSES))["items"]:
            await self._core.create(_STORAGE_CLASSES, STORAGE_CLASS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_running("informers", self._informers.run), name="informers")
            await self._informers.wait_synced()
            tasks.create_task(keep_running("kubelet", self._kubelet.run), name="kubelet")
            for name, controller in self._controllers.items():
                keeping = keep_running(f"controller {name}", controller.run)
                tasks.create_task(keeping, name=f"controller {name}")
            await self._create_all()

    async def _create_all(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for manifest in self._manifests:
            if (wait := began + arrival_of(manifest) - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._create(manifest)
            self._to_create -= 1
            self._changed = loop.time()

    async def _create(self, manifest: Manifest, *, dry_run: bool = False) -> None:
        tree = manifest.tree
        row = self._core.resources.by_kind(str(tree["apiVersion"]), str(tree["kind"]))
        if row is None:
            raise ConfigError(f"{manifest}: the API server has no such kind")
        metadata = {name: value for name, value in tree["metadata"].items() if name not in _SERVER_FIELDS}
        body = {**tree, "metadata": metadata}
        try:
            await self._core.create(row, body, namespace=namespace_of(manifest), dry_run=dry_run)
        except StatusError as error:
            raise ConfigError(f"{manifest}: {error}") from error

    def _node(self, name: str) -> WorkingNode | None:
        node: Obj | None = self._nodes.get(name)
        if node is None:
            return None
        addresses = node.get("status", {}).get("addresses") or ()
        own = next((str(each.get("address", "")) for each in addresses), "")
        return WorkingNode(node, own, ready=True)


_SERVER_FIELDS: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""Fields that `kubectl get -o yaml` prints and that may not be set on creation."""


def namespace_of(manifest: Manifest) -> str:
    return str(manifest.tree["metadata"].get("namespace") or "default")


@asynccontextmanager
async def served(
    manifests: Sequence[Manifest], *, clock: Clock, gates: Mapping[str, bool], seed: int
) -> AsyncIterator[ManagedCluster]:
    """An empty cluster of the embedded API server, in memory."""
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=clock, feature_gates=gates, rng=random.Random(f"identities {seed}"))
        yield ManagedCluster(core, manifests, clock=clock)
    finally:
        await store.close()
