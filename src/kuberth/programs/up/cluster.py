"""Runs a whole cluster in one process: API server, hollow nodes, controllers and the scheduler.

In: settings from `kuberth up`. Out: a cluster for kubectl, stored in one SQLite file, until it is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import Clock, SystemClock
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.errors import ConfigError, KuberthError, PortTakenError
from kuberth.explaining.page import PATH as EXPLAIN_PATH
from kuberth.explaining.page import explain_page
from kuberth.framework.registry import Registry
from kuberth.https.listener import AddressFlags, LoopbackListener
from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig_tree
from kuberth.local.apiserver.http.server import LIMITS, HttpServer, Page
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.devices import check_drivers, load_devices
from kuberth.local.hollow.publishing import ServerIdentity
from kuberth.local.hollow.running import CONTROLLERS, HollowCluster
from kuberth.local.hollow.shapes import load_shapes
from kuberth.local.in_process import InProcessApi
from kuberth.local.manifests import Manifest
from kuberth.overview import PAGE_PATH, Overview, overview_pages
from kuberth.programs.reloading import Reloading, Rules, RuleSource
from kuberth.programs.up.kubeconfig_files import merge_into, temporary_kubeconfig
from kuberth.programs.up.node_counts import resolve_node_count
from kuberth.programs.up.own_configuration import OwnConfiguration
from kuberth.programs.up.summary import Observer, Summary
from kuberth.queue.interface import QueueFactory
from kuberth.serving.endpoints import scheduler_routes
from kuberth.serving.metrics_pages import feature_families
from kuberth.text.timestamps import stamp

logger = logging.getLogger(__name__)


DATABASE = "cluster.sqlite"
KUBECONFIG = "kubeconfig"
PAGE_PORT: Final = 6480
_PAGE_FLAGS: Final = AddressFlags("--page-port", "--page-port")


_STARTUP_FILES: Final = ("pki", "pki/*", "cluster.sqlite*", "kubeconfig")
"""Files that are read at startup; other files in the folder are ignored."""
_ADVICE: Final = "choose another folder with --data, or keep nothing with --memory"


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The port of the page in plain HTTP, for browsers on this machine."""

    port: int = PAGE_PORT
    or_any: bool = True
    """Whether a free port is used if this one is in use."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of `kuberth up`."""

    nodes: int | None = None
    """The number of nodes; None: the existing ones, or five in a new cluster."""
    remove_nodes: bool = False
    """Whether nodes beyond that number are removed."""
    shapes: Path | None = None
    devices: Path | None = None
    """Devices that drivers publish; None: existing ones stay unchanged."""
    data: Path | None = None
    """The folder that stores the cluster; None: in memory only."""
    host: str = "127.0.0.1"
    port: int = 6443
    kubeconfig_out: Path | None = None
    manifests: Sequence[Manifest] = ()
    config: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    queue: QueueFactory | None = None
    with_scheduler: bool = True
    without: frozenset[str] = frozenset()
    """The names of disabled controllers."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    rules: Callable[[str | None], Rules] | None = None
    """Reads the scheduler's rules, from the text of the cluster's own configuration if there is one."""
    rule_sources: Sequence[RuleSource] = ()
    """Other sources of the rules: files and modules that may change."""
    page: PageSettings | None = None
    """The port of the page; None: it is not served."""


@dataclass(slots=True, eq=False)
class EmbeddedCluster:
    core: Core
    url: str
    kubeconfig_path: Path
    scheduler: Scheduler | None
    page_link: str | None = None
    """The address of the page with its token, which gives admin rights."""
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        waiting_pods = None if self.scheduler is None else self.scheduler.waiting_pods
        self.observer = Observer(self.core, waiting_pods=waiting_pods)

    async def summary(self) -> Summary:
        return await self.observer.summarize()


@asynccontextmanager
async def running_cluster(
    settings: ClusterSettings, *, progress: Callable[[str], None] = logger.info
) -> AsyncIterator[EmbeddedCluster]:
    """All components, started in order and stopped in reverse."""
    clock = SystemClock()
    controllers = _enabled_controllers(settings.without)
    load_shapes(settings.shapes, count=0)  # errors are reported before anything is created
    drivers = None if settings.devices is None else load_devices(settings.devices)
    async with AsyncExitStack() as stack:
        with _file_errors(settings):
            store = await RevisionStore.open(_database(settings.data))
            stack.push_async_callback(store.close)
            credentials = _credentials(settings)
        core = Core(store, clock=clock, feature_gates=settings.feature_gates)
        scheduler = _make_scheduler(settings, core, clock) if settings.with_scheduler else None
        pages, open_pages = {} if scheduler is None else _scheduler_pages(scheduler), frozenset[str]()
        overview: Overview | None = None
        if scheduler is not None and settings.page is not None:
            overview = Overview(scheduler, clock=clock, program="up", cluster="kuberth", writable=True)
            routes, open_pages = overview_pages(overview)
            pages |= routes
        server = await stack.enter_async_context(
            HttpServer(
                core,
                host=settings.host,
                port=settings.port,
                credentials=credentials,
                clock=clock,
                pages=pages,
                open_pages=open_pages,
            )
        )
        with _file_errors(settings):
            kubeconfig_path = stack.enter_context(
                _kubeconfig_file(settings, kubeconfig_tree(server.url, credentials))
            )
        progress(f"API server on {server.url}")
        page_link: str | None = None
        if overview is not None and settings.page is not None:
            page = await _serve_page(stack, settings.page, server, report=progress)
            await stack.enter_async_context(_background(overview.run(), name="overview"))
            page_link = f"{page.url}{PAGE_PATH}/#token={credentials.token}"
        count = await resolve_node_count(
            core,
            nodes=settings.nodes,
            shapes=settings.shapes,
            remove=settings.remove_nodes,
            now=stamp(clock),
            report=progress,
        )
        if settings.devices is not None and drivers is not None:
            await check_drivers(core, drivers, settings.devices)
        hollow = HollowCluster(
            core,
            clock=clock,
            nodes=count,
            shapes=settings.shapes,
            controllers=controllers,
            server=ServerIdentity(settings.host, server.port, credentials.ca_certificate.decode()),
            drivers=drivers,
        )
        await stack.enter_async_context(_background(hollow.run(), name="hollow cluster", stop=hollow.stop))
        if scheduler is not None:
            await stack.enter_async_context(_scheduling(scheduler))
            if settings.rules is not None:
                reloading = await _reloading(settings, settings.rules, scheduler, core, report=progress)
                await stack.enter_async_context(_background(reloading.run(), name="configuration"))
        await hollow.ready.wait()
        progress("hollow nodes and controllers are ready")
        for manifest in settings.manifests:
            await apply(core, manifest)
        if settings.manifests:
            progress(f"{len(settings.manifests)} objects applied")
        yield EmbeddedCluster(core, server.url, kubeconfig_path, scheduler, page_link=page_link)


async def _reloading(
    settings: ClusterSettings,
    rules: Callable[[str | None], Rules],
    scheduler: Scheduler,
    core: Core,
    *,
    report: Callable[[str], None],
) -> Reloading:
    """Apply the cluster's own configuration, if it has one; the result watches it and the other sources."""
    own = OwnConfiguration(core)

    async def read() -> Rules:
        return rules(await own.text())

    sources = [own.source, *settings.rule_sources]
    reloading = Reloading(scheduler, read, sources=sources, regarding=own.reference, report=report)
    if await own.source.state() is not None:
        await reloading.reload(because=own.source.name)
    return reloading


async def _serve_page(
    stack: AsyncExitStack, settings: PageSettings, server: HttpServer, *, report: Callable[[str], None]
) -> LoopbackListener:
    """Serve everything that the API server serves on a loopback port without a certificate."""

    def listener_on(port: int) -> LoopbackListener:
        return LoopbackListener(server.service, port=port, flags=_PAGE_FLAGS, limits=LIMITS)

    try:
        return await stack.enter_async_context(listener_on(settings.port))
    except PortTakenError:
        if not settings.or_any:
            raise
    listener = await stack.enter_async_context(listener_on(0))
    report(f"port {settings.port} is taken, so the page is on port {listener.port}")
    return listener


def _database(data: Path | None) -> Path | None:
    if data is None:
        return None
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    expect_owned(data)
    return data / DATABASE


def _credentials(settings: ClusterSettings) -> ClusterCredentials:
    names = (settings.host,)
    try:
        if settings.data is None:
            return ClusterCredentials.in_memory(names=names)
        return ClusterCredentials.in_directory(settings.data / "pki", names=names)
    except ValueError as error:  # no certificate can contain it
        raise ConfigError(f"--host {settings.host}: expected a host name or an address: {error}") from error


@contextmanager
def _kubeconfig_file(settings: ClusterSettings, tree: Obj) -> Iterator[Path]:
    if settings.kubeconfig_out is None and settings.data is None:
        with temporary_kubeconfig(tree) as path:
            yield path
    else:
        path = settings.kubeconfig_out or (settings.data or Path()) / KUBECONFIG
        merge_into(path, tree)
        yield path


@contextmanager
def _file_errors(settings: ClusterSettings) -> Iterator[None]:
    """Raise OS errors about files as ConfigErrors with the file's name and what to do."""
    try:
        yield
    except OSError as error:
        where = error.filename or settings.data or settings.kubeconfig_out
        raise ConfigError(
            f"{where}: {error.strerror or error}; choose other places with --data and --kubeconfig-out, "
            "or keep nothing with --memory"
        ) from error


def _make_scheduler(settings: ClusterSettings, core: Core, clock: Clock) -> Scheduler:
    return Scheduler(
        InProcessApi(core),
        config=settings.config,
        registry=settings.registry,
        queue=settings.queue,
        feature_gates=FeatureGates(settings.feature_gates),
        clock=clock,
    )


def _scheduler_pages(scheduler: Scheduler) -> dict[str, Page]:
    """The scheduler's metrics and explanations, under the same paths as on a scheduler's own port."""
    routes = scheduler_routes(
        metrics=lambda: [*scheduler.metrics.families(), *feature_families(scheduler.feature_gates)],
        config=lambda: scheduler.config,
        pods=lambda: tuple(scheduler.stores.of(Pod)),
        more={EXPLAIN_PATH: explain_page(scheduler)},
    )
    served = ("/metrics", "/metrics/resources", EXPLAIN_PATH)
    return {path: page for path, page in routes.items() if path in served}


def _enabled_controllers(without: frozenset[str]) -> set[str]:
    if unknown := without - CONTROLLERS.keys():
        raise ConfigError(
            f"there is no controller {', '.join(sorted(unknown))}; known are {', '.join(CONTROLLERS)}"
        )
    return set(CONTROLLERS) - without


@asynccontextmanager
async def _background(
    work: Coroutine[Any, Any, None], *, name: str, stop: Callable[[], object] | None = None
) -> AsyncIterator[None]:
    """Run a task beside the block; `stop` ends it, or else it is cancelled."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=name)
        try:
            yield
        finally:
            (stop or task.cancel)()


@asynccontextmanager
async def _scheduling(scheduler: Scheduler) -> AsyncIterator[None]:
    """Run the scheduler beside the block; stop everything if it ends unexpectedly."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_run(scheduler), name="scheduler")
        watching = tasks.create_task(_watch_loop(scheduler), name="watch over the scheduling loop")
        try:
            await scheduler.wait_synced()
            yield
        except Exception as error:
            # Not in the task group, which would cancel the scheduler in the middle of its bindings.
            failure = error
        finally:
            watching.cancel()
            scheduler.stop()
    if failure is not None:
        raise failure


async def _run(scheduler: Scheduler) -> None:
    try:
        await scheduler.run(grace_seconds=5.0)
    except KuberthError:
        raise  # it reports the problem itself
    except Exception as error:
        logger.error("the scheduler failed", exc_info=error)
        raise KuberthError("the scheduler failed, so the cluster stops; see the log above") from error


async def _watch_loop(scheduler: Scheduler) -> None:
    await scheduler.loop.ended.wait()
    raise KuberthError("the scheduling loop ended unexpectedly, so the cluster stops; see the log above")


async def apply(core: Core, manifest: Manifest) -> None:
    """Create an object, or merge it into the existing one, as `kubectl apply` does."""
    tree = manifest.tree
    row = core.resources.by_kind(str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
    if row is None:
        raise ConfigError(
            f"{manifest}: the server has no kind {tree.get('kind')} in {tree.get('apiVersion')}; "
            "is it spelled right, or is its definition missing?"
        )
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ConfigError(f"{manifest}: it needs metadata.name")
    namespace = metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        raise ConfigError(f"{manifest}: metadata.namespace must be a string")
    try:
        await core.patch(
            row,
            metadata["name"],
            tree,
            content_type="application/apply-patch+yaml",
            namespace=namespace if row.namespaced else "",
            field_manager="kuberth-up",
            force=True,
        )
    except StatusError as error:
        raise ConfigError(f"{manifest}: {error}") from error


def expect_owned(folder: Path) -> None:
    """Raise ConfigError unless the folder and its files belong to this user and only they can write them."""
    for path in _startup_files(folder):
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"{path} belongs to another user (UID {found.st_uid}), who could read or change the cluster; "
                f"{_ADVICE}"
            )
        if found.st_mode & stat.S_IWOTH:
            raise ConfigError(
                f"{path} can be written by every user of this machine; run `chmod o-w {path}` if it has only "
                f"your files, or {_ADVICE}"
            )


def _startup_files(folder: Path) -> Iterator[Path]:
    yield folder
    for pattern in _STARTUP_FILES:
        yield from (path for path in sorted(folder.glob(pattern)) if path.exists())
