"""Starts and stops hollow nodes and controllers together.

In: a `Core`, the number of nodes, the controllers. Out: a cluster in which a Deployment creates pods, bound
pods run, and deleted objects are removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kuberth.clock import Clock
from kuberth.errors import ConfigError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.controllers.clean_up import (
    ExpiredEventsController,
    OrphanedPodsController,
    QuotaController,
)
from kuberth.local.hollow.controllers.cron_job import CronJobController
from kuberth.local.hollow.controllers.daemon_set import DaemonSetController
from kuberth.local.hollow.controllers.deployment import DeploymentController
from kuberth.local.hollow.controllers.disruption import DisruptionController
from kuberth.local.hollow.controllers.endpoints import EndpointsController
from kuberth.local.hollow.controllers.garbage import GarbageController
from kuberth.local.hollow.controllers.job import JobController
from kuberth.local.hollow.controllers.namespaces import NamespaceController
from kuberth.local.hollow.controllers.node_lifecycle import NodeLifecycleController
from kuberth.local.hollow.controllers.replica_set import ReplicaSetController, ReplicationControllerController
from kuberth.local.hollow.controllers.resource_claims import ResourceClaimController
from kuberth.local.hollow.controllers.stateful_set import StatefulSetController
from kuberth.local.hollow.controllers.taint_eviction import (
    DeviceTaintEvictionController,
    TaintEvictionController,
)
from kuberth.local.hollow.controllers.volumes import PROVISIONER, VolumeController
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.devices import Driver, HollowDrivers
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.nodes import HollowNodes
from kuberth.local.hollow.publishing import Publisher, ServerIdentity
from kuberth.local.hollow.working import keep_running

_CONTROLLERS: Final[Sequence[type[Controller]]] = (
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    EndpointsController,
    DisruptionController,
    NamespaceController,
    GarbageController,
    VolumeController,
    ResourceClaimController,
    OrphanedPodsController,
    ExpiredEventsController,
    QuotaController,
    NodeLifecycleController,
    TaintEvictionController,
    DeviceTaintEvictionController,
)
CONTROLLERS: Final[Mapping[str, type[Controller]]] = {kind.name: kind for kind in _CONTROLLERS}
"""Controllers by their names in kube-controller-manager's `--controllers`. The controller of events has no
name there, since etcd expires events."""

STORAGE_CLASS: Final = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "hollow", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The default storage class; created only if the cluster has none."""


class HollowCluster:
    """Hollow nodes and controllers over one core. Create it, then `await run()`; `stop()` ends it."""

    def __init__(
        self,
        core: Core,
        *,
        clock: Clock,
        nodes: int = 0,
        shapes: Path | Sequence[Mapping[str, Any]] | None = None,
        controllers: Collection[str] | None = None,
        server: ServerIdentity | None = None,
        drivers: Sequence[Driver] | None = None,
    ) -> None:
        """`controllers` are the names of those to run; None runs all. ConfigError for unknown names.

        `server` is the address and CA for pods, if the core is served. `drivers` publish devices; with None,
        those of an earlier run stay unchanged.
        """
        chosen = CONTROLLERS.keys() if controllers is None else set(controllers)
        if unknown := set(chosen) - CONTROLLERS.keys():
            names = ", ".join(sorted(unknown))
            raise ConfigError(f"there is no controller {names}; known are {', '.join(CONTROLLERS)}")
        self.ready = asyncio.Event()
        """Set when the nodes are registered and every controller has synced."""
        self._core = core
        self._has_volumes = VolumeController.name in chosen
        self._informers = Informers(core)
        self._nodes = HollowNodes(self._informers, count=nodes, shapes=shapes, clock=clock)
        self._controllers: dict[str, Controller] = {
            name: kind(self._informers, clock=clock) for name, kind in CONTROLLERS.items() if name in chosen
        }
        if server is not None:
            self._controllers[Publisher.name] = Publisher(self._informers, server, clock=clock)
        if drivers is not None:
            self._controllers[HollowDrivers.name] = HollowDrivers(self._informers, drivers, clock=clock)
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Run until `stop`."""
        if self._has_volumes:
            await self._make_storage_class()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(keep_running("informers", self._informers.run), name="hollow-informers"),
                tasks.create_task(self._nodes.run(), name="hollow-nodes"),
            ]
            for name, controller in self._controllers.items():
                keeping = keep_running(f"controller {name}", controller.run)
                running.append(tasks.create_task(keeping, name=f"hollow-{name}"))
            ready = tasks.create_task(self._become_ready(), name="hollow-ready")
            await self._stopped.wait()
            for task in (ready, *running):
                task.cancel()

    def stop(self) -> None:
        self._stopped.set()

    async def _become_ready(self) -> None:
        await self._nodes.registered.wait()
        await self._informers.wait_synced()
        self.ready.set()

    async def _make_storage_class(self) -> None:
        resource = "storageclasses.storage.k8s.io"
        if not (await self._core.list(resource))["items"]:
            await self._core.create(resource, STORAGE_CLASS)
