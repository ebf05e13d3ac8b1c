"""A whole cluster in one process: API server, hollow nodes, controllers and the scheduler.

In: settings from `kuberth up`. Out: a cluster that kubectl talks to, kept in one SQLite file, until it is
told to end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry
from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig
from kuberth.local.apiserver.http.server import HttpServer
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.publishing import ServerIdentity
from kuberth.local.hollow.running import CONTROLLERS, HollowCluster
from kuberth.local.in_process import InProcessApi
from kuberth.queue.interface import QueueFactory

logger = logging.getLogger(__name__)

DATABASE = "cluster.sqlite"
KUBECONFIG = "kubeconfig"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What `kuberth up` decided."""

    nodes: int = 5
    shapes: Path | None = None
    data: Path | None = None
    """Where the cluster is kept; None: in memory, gone at the end."""
    host: str = "127.0.0.1"
    port: int = 6443
    kubeconfig_out: Path | None = None
    manifests: Sequence[Obj] = ()
    config: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    queue: QueueFactory | None = None
    with_scheduler: bool = True
    without: frozenset[str] = frozenset()
    """Controllers that are turned off, by name."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """How the cluster stands."""

    nodes: int
    pods: Mapping[str, int]
    """By phase; pending pods by whether they are gated or waiting."""
    reasons: Mapping[str, int]
    """Why pods wait."""


class EmbeddedCluster:
    """A running cluster."""

    def __init__(self, core: Core, url: str, kubeconfig_path: Path, scheduler: Scheduler | None) -> None:
        self.core = core
        self.url = url
        self.kubeconfig_path = kubeconfig_path
        self.scheduler = scheduler

    async def summary(self) -> Summary:
        nodes = await self.core.list("nodes")
        pods = await self.core.list("pods")
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for pod in pods["items"]:
            spec, status = pod.get("spec", {}), pod.get("status", {})
            phase = status.get("phase", "Pending")
            if phase == "Pending" and not spec.get("nodeName"):
                phase = "SchedulingGated" if spec.get("schedulingGates") else "Waiting"
                if reason := self._why_waiting(pod):
                    reasons[reason] += 1
            phases[phase] += 1
        return Summary(len(nodes["items"]), dict(phases), dict(reasons))

    def _why_waiting(self, pod: Obj) -> str:
        """What keeps a pod without a node from having one; "" if nothing is known."""
        held = None if self.scheduler is None else self.scheduler.waiting_pods.get(pod["metadata"]["uid"])
        if held is not None:
            return f"Permit: waiting for {', '.join(held.pending_plugins)}"
        status = pod.get("status", {})
        for condition in status.get("conditions", ()):
            if condition.get("type") == "PodScheduled" and condition.get("message"):
                return str(condition["message"])
        return "PreBind: placed, not bound yet" if status.get("nominatedNodeName") else ""


@asynccontextmanager
async def running_cluster(
    settings: ClusterSettings, *, progress: Callable[[str], None] = logger.info
) -> AsyncIterator[EmbeddedCluster]:
    """Everything started, in order, and ended in reverse."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        if settings.data is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kuberth-")))
        else:
            folder = settings.data
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = await RevisionStore.open(None if settings.data is None else folder / DATABASE)
        stack.push_async_callback(store.close)
        core = Core(store, clock=clock, feature_gates=settings.feature_gates)
        credentials = ClusterCredentials.in_directory(folder / "pki", names=(settings.host,))
        server = await stack.enter_async_context(
            HttpServer(core, host=settings.host, port=settings.port, credentials=credentials, clock=clock)
        )
        kubeconfig_path = settings.kubeconfig_out or folder / KUBECONFIG
        _write_privately(kubeconfig_path, kubeconfig(server.url, credentials))
        progress(f"API server on {server.url}")
        hollow = HollowCluster(
            core,
            clock=clock,
            nodes=settings.nodes,
            shapes=settings.shapes,
            controllers=_chosen(settings.without),
            server=ServerIdentity(settings.host, server.port, credentials.ca_certificate.decode()),
        )
        await stack.enter_async_context(_playing(hollow))
        scheduler: Scheduler | None = None
        if settings.with_scheduler:
            scheduler = Scheduler(
                InProcessApi(core),
                config=settings.config,
                registry=settings.registry,
                queue=settings.queue,
                clock=clock,
            )
            await stack.enter_async_context(_scheduling(scheduler))
        await hollow.ready.wait()
        progress("hollow nodes and controllers are ready")
        for manifest in settings.manifests:
            await apply(core, manifest)
        if settings.manifests:
            progress(f"{len(settings.manifests)} objects applied")
        yield EmbeddedCluster(core, server.url, kubeconfig_path, scheduler)


def _chosen(without: frozenset[str]) -> set[str]:
    if unknown := without - CONTROLLERS.keys():
        raise ConfigError(
            f"there is no controller {', '.join(sorted(unknown))}; known are {', '.join(CONTROLLERS)}"
        )
    return set(CONTROLLERS) - without


@asynccontextmanager
async def _playing(hollow: HollowCluster) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hollow.run(), name="hollow cluster")
        try:
            yield
        finally:
            hollow.stop()


@asynccontextmanager
async def _scheduling(scheduler: Scheduler) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(grace_seconds=5.0), name="scheduler")
        try:
            await scheduler.wait_synced()
            yield
        finally:
            scheduler.stop()


async def apply(core: Core, manifest: Obj) -> None:
    """Create an object, or merge it into the one of its name, as `kubectl apply` does."""
    row = core.resources.by_kind(str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")))
    metadata = manifest.get("metadata") or {}
    if row is None:
        raise ConfigError(
            f"{manifest.get('kind')} {metadata.get('name')}: the server knows no kind {manifest.get('kind')} "
            f"in {manifest.get('apiVersion')}; is it spelled right, or is its definition missing?"
        )
    await core.patch(
        row,
        metadata.get("name", ""),
        manifest,
        content_type="application/apply-patch+yaml",
        namespace=(metadata.get("namespace") or "default") if row.namespaced else "",
        field_manager="kuberth-up",
        force=True,
    )


def _write_privately(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    path.chmod(0o600)
