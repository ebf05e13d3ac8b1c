"""The cluster around a scheduler where controllers have work: the embedded API server, and who lives on it.

In: manifests of Deployments, Jobs, budgets and the like. Out: the pods that controllers make of them, run by
hollow kubelets; the same for the same seed, names and UIDs included. Leases are not played: no node falls
silent here, so nobody watches over them.
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
from kuberth.local.hollow.kubelet import HollowKubelet, PlayedNode
from kuberth.local.hollow.running import CONTROLLERS, STORAGE_CLASS
from kuberth.local.hollow.working import keep_running
from kuberth.local.in_process import InProcessApi
from kuberth.local.manifests import Manifest
from kuberth.simulation.workloads import arrival_of

T = TypeVar("T")

QUIET_SECONDS: Final = 900.0
"""Longer than the longest time that a controller or a kubelet lets pass before it tries again."""
_STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"


class ServedApi(InProcessApi):
    """The embedded server, which computes a pod's priority and lets nobody else say it."""

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


class Managed:
    """Controllers and kubelets, and the users who make what controllers work for."""

    patience: float | None = 86_400.0
    """A cron job never ends, nor does a container that is started again and again."""

    def __init__(self, core: Core, manifests: Sequence[Manifest], *, clock: Clock) -> None:
        self.api = ServedApi(core)
        self._core = core
        self._manifests = sorted(manifests, key=arrival_of)
        self._informers = Informers(core)
        self._nodes = self._informers.of("nodes")
        self._kubelet = HollowKubelet(self._informers, played=self._played, clock=clock)
        self._controllers = {
            name: factory(self._informers, clock=clock)
            for name, factory in CONTROLLERS.items()
            if name != NodeLifecycleController.name
        }
        self._changed = asyncio.get_running_loop().time()
        self._noted = asyncio.Event()
        self._ending: set[str] = set()
        """UIDs of pods that run and will end."""
        self._coming = len(manifests)

    async def check(self) -> None:
        """ConfigError for what the server would refuse."""
        for manifest in self._manifests:
            await self._make(manifest, dry_run=True)

    @property
    def idle(self) -> bool:
        """Whether nothing will change by their doing."""
        quiet = asyncio.get_running_loop().time() - self._changed >= QUIET_SECONDS
        return quiet and not self._ending and not self._coming

    async def calm(self) -> None:
        """Return when they are idle."""
        while not self.idle:
            self._noted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._noted.wait()

    def rest(self) -> None:
        """Nothing is left to end: what is timed goes with its task."""

    def note(self, event: WatchEvent) -> None:
        """A pod has changed."""
        pod: Pod = event.object
        self._changed = asyncio.get_running_loop().time()
        self._noted.set()
        running = event.type is not WatchType.DELETED and pod.status.phase == "Running"
        if running and RUN_SECONDS in pod.metadata.annotations:
            self._ending.add(pod.metadata.uid)
        else:
            self._ending.discard(pod.metadata.uid)

    async def run(self) -> None:
        """Until cancelled."""
        if not (await self._core.list(_STORAGE_CLASSES))["items"]:
            await self._core.create(_STORAGE_CLASSES, STORAGE_CLASS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_running("informers", self._informers.run), name="informers")
            await self._informers.wait_synced()
            tasks.create_task(keep_running("kubelet", self._kubelet.run), name="kubelet")
            for name, controller in self._controllers.items():
                keeping = keep_running(f"controller {name}", controller.run)
                tasks.create_task(keeping, name=f"controller {name}")
            await self._arrive()

    async def _arrive(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for manifest in self._manifests:
            if (wait := began + arrival_of(manifest) - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._make(manifest)
            self._coming -= 1
            self._changed = loop.time()

    async def _make(self, manifest: Manifest, *, dry_run: bool = False) -> None:
        tree = manifest.tree
        row = self._core.resources.by_kind(str(tree["apiVersion"]), str(tree["kind"]))
        if row is None:
            raise ConfigError(f"{manifest}: the server knows no such kind")
        metadata = {name: value for name, value in tree["metadata"].items() if name not in _SERVERS}
        body = {**tree, "metadata": metadata}
        try:
            await self._core.create(row, body, namespace=namespace_of(manifest), dry_run=dry_run)
        except StatusError as error:
            raise ConfigError(f"{manifest}: {error}") from error

    def _played(self, name: str) -> PlayedNode | None:
        node: Obj | None = self._nodes.get(name)
        if node is None:
            return None
        addresses = node.get("status", {}).get("addresses") or ()
        own = next((str(each.get("address", "")) for each in addresses), "")
        return PlayedNode(node, own, ready=True)


_SERVERS: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""What `kubectl get -o yaml` prints, and nobody may create."""


def namespace_of(manifest: Manifest) -> str:
    return str(manifest.tree["metadata"].get("namespace") or "default")


@asynccontextmanager
async def served(
    manifests: Sequence[Manifest], *, clock: Clock, gates: Mapping[str, bool], seed: int
) -> AsyncIterator[Managed]:
    """An empty cluster of the embedded API server, in memory."""
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=clock, feature_gates=gates, rng=random.Random(f"identities {seed}"))
        yield Managed(core, manifests, clock=clock)
    finally:
        await store.close()
