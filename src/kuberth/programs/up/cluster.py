"""A whole cluster in one process: API server, hollow nodes, controllers and the scheduler.

In: settings from `kuberth up`. Out: a cluster that kubectl talks to, kept in one SQLite file, until it is
told to end.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry
from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig
from kuberth.local.apiserver.http.server import HttpServer
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.publishing import ServerIdentity
from kuberth.local.hollow.running import CONTROLLERS, HollowCluster
from kuberth.local.in_process import InProcessApi
from kuberth.queue.interface import QueueFactory

logger = logging.getLogger(__name__)

DATABASE = "cluster.sqlite"
EVENT_SECONDS = 3600
SWEEP_SECONDS = 60.0
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
            phase = pod.get("status", {}).get("phase", "Pending")
            if phase == "Pending" and not pod["spec"].get("nodeName"):
                phase = "SchedulingGated" if pod["spec"].get("schedulingGates") else "Waiting"
                for condition in pod.get("status", {}).get("conditions", ()):
                    if condition["type"] == "PodScheduled" and condition.get("message"):
                        reasons[condition["message"]] += 1
            phases[phase] += 1
        return Summary(len(nodes["items"]), dict(phases), dict(reasons))


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
        await stack.enter_async_context(_playing(hollow, core, clock))
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
async def _playing(hollow: HollowCluster, core: Core, clock: Clock) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hollow.run(), name="hollow cluster")
        sweeping = tasks.create_task(_sweep_events(core, clock), name="event sweeper")
        try:
            yield
        finally:
            sweeping.cancel()
            hollow.stop()


async def _sweep_events(core: Core, clock: Clock) -> None:
    """Events are news: they are kept for an hour, as etcd keeps them, so that they do not pile up."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await expire_events(core, older_than=clock.now_ns() // NANOSECONDS - EVENT_SECONDS)


async def expire_events(core: Core, *, older_than: float) -> None:
    """Delete events that last happened before `older_than`, in seconds since the epoch."""
    for event in (await core.list("events"))["items"]:
        if _last_seen(event) < older_than:
            with suppress(StatusError):  # gone already
                await core.delete("events", name_of(event), namespace=namespace_of(event))


def _last_seen(event: Obj) -> float:
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    moment = moment or event["metadata"]["creationTimestamp"]
    return datetime.datetime.fromisoformat(moment).timestamp()


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
