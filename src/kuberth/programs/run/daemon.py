"""Runs `kuberth run`: client, leader election, serving and the scheduler.

In: settings from the command line. Out: an exit code: 0 after SIGTERM or SIGINT, 1 if the lease was lost or
the scheduler could not continue. If the API server is not available yet, it waits.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kuberth.api.coordination import Lease
from kuberth.api.core import Namespace, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.connecting.outbox import Batching
from kuberth.client.fencing import FencedApi
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.client.protocol import Api
from kuberth.clock import SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ApiError, LeadershipLost, UnauthorizedError
from kuberth.explaining.page import PATH as EXPLAIN_PATH
from kuberth.explaining.page import explain_page
from kuberth.framework.registry import Registry
from kuberth.https.certificates import CertificateFiles, SelfSigned
from kuberth.observe.metrics import ClientMetrics, Family, LeaderElectionMetrics
from kuberth.overview import Overview, overview_pages
from kuberth.programs.memory import find_allocator, release_memory
from kuberth.programs.reloading import Reloading, Rules, RuleSource
from kuberth.programs.run.inspection import inspect
from kuberth.programs.run.leader_election import ElectionEvents, LeaderElector, make_identity
from kuberth.programs.run.watchdog import EX_FAILURE, Watchdog, on_signals
from kuberth.queue.interface import QueueFactory
from kuberth.scheduling.checking import CHECK_EVERY
from kuberth.serving.access import DelegatedAccess
from kuberth.serving.endpoints import scheduler_routes
from kuberth.serving.health import PING, HealthCheck
from kuberth.serving.messages import Handler
from kuberth.serving.metrics_pages import feature_families
from kuberth.serving.server import Server

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 5.0
"""The minimum time between two attempts to reach the API server; a random time of up to the same length is
added."""
BINDINGS: Final = Batching()
EVENTS: Final = Batching(max_connections=8, max_batch=16, busy_connections=1, max_wait_seconds=0.02)
"""Events may be late, so they wait longer to be batched."""
MAX_REFUSALS: Final = 4
"""After this number of consecutive rejections, credentials are considered wrong."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """The address, certificates and access rules of health and metrics."""

    host: str
    port: int
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    open_paths: frozenset[str] = frozenset(("/healthz", "/readyz", "/livez"))
    authentication_kubeconfig: str | None = None
    authorization_kubeconfig: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings from the command line."""

    config: KubeSchedulerConfiguration
    registry: Registry
    queue: QueueFactory | None = None
    kubeconfig: str | None = None
    master: str | None = None
    max_unschedulable_seconds: float = 300.0
    check_plans_every: int = CHECK_EVERY
    """One cycle in this number is evaluated a second time without plans; 0: none."""
    grace_seconds: float = 25.0
    serving: ServingSettings | None = None
    """The address of health and metrics; None if neither is served."""
    page: bool = False
    """Whether the page is served too."""
    rules: Callable[[], Rules] | None = None
    """Reads configuration and plugins."""
    rule_sources: Sequence[RuleSource] = ()
    """The sources of the rules, which may change while the scheduler runs."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The flags with their values, for /flagz."""


async def run(settings: Settings) -> int:
    """Run until a signal or the loss of the lease."""
    connection = settings.config.client_connection
    client = load_client_config(
        kubeconfig=settings.kubeconfig or connection.kubeconfig or None, master=settings.master
    )
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        client_metrics = ClientMetrics()

        async def connect(
            config: ClientConfig, *, qps: float = connection.qps, batching: Batching = BINDINGS
        ) -> HttpApi:
            api = HttpApi(
                config,
                qps=qps,
                burst=connection.burst,
                batching=batching,
                clock=clock,
                metrics=client_metrics,
            )
            return await stack.enter_async_context(api)

        api = await connect(client)
        events_api = await connect(client, batching=EVENTS)
        elector: LeaderElector | None = None
        election_events: ElectionEvents | None = None
        election_metrics = LeaderElectionMetrics()
        if settings.config.leader_election.leader_elect:
            election_events = ElectionEvents(
                events_api, clock, component=settings.config.profiles[0].scheduler_name
            )
            elector = LeaderElector(
                # Its own connection and no rate limit: renewing must not wait behind a thousand bindings.
                await connect(client, qps=-1),
                settings=settings.config.leader_election,
                identity=make_identity(),
                clock=clock,
                metrics=election_metrics,
                on_event=election_events.record,
            )
        scheduler = Scheduler(
            api if elector is None else FencedApi(api, elector.may_write),
            events_api=events_api,
            config=settings.config,
            registry=settings.registry,
            queue=settings.queue,
            clock=clock,
            max_unschedulable_seconds=settings.max_unschedulable_seconds,
            check_plans_every=settings.check_plans_every,
        )
        overview: Overview | None = None
        if settings.page:
            overview = Overview(
                scheduler,
                clock=clock,
                program="run",
                cluster=client.server,
                writable=False,
                always_records=True,
            )
        process = SchedulerProcess(
            scheduler,
            api,
            elector,
            grace_seconds=settings.grace_seconds,
            election_events=election_events,
            reloading=_reloading(settings, scheduler),
            overview=overview,
        )
        if settings.serving is not None:
            # Their own connections: a flood of requests here must not use up the scheduler's rate.
            reviews = [
                await connect(load_client_config(kubeconfig=kubeconfig) if kubeconfig else client)
                for kubeconfig in (
                    settings.serving.authentication_kubeconfig,
                    settings.serving.authorization_kubeconfig,
                )
            ]
            more: dict[str, Handler] = {EXPLAIN_PATH: explain_page(scheduler)}
            open_paths = settings.serving.open_paths
            if overview is not None:
                routes, without_data = overview_pages(overview)
                more |= routes
                open_paths |= without_data
            access = DelegatedAccess(
                reviews[0], authorization_api=reviews[1], clock=clock, open_paths=open_paths
            )

            def families() -> list[Family]:
                return [
                    *scheduler.metrics.families(),
                    *election_metrics.families(),
                    *client_metrics.families(),
                    *feature_families(scheduler.feature_gates),
                ]

            await stack.enter_async_context(
                _serve(settings, settings.serving, process, access, families, more)
            )
        return await process.until_end()


def _reloading(settings: Settings, scheduler: Scheduler) -> Reloading | None:
    rules = settings.rules
    if rules is None or not settings.rule_sources:
        return None

    async def read() -> Rules:
        return rules()

    election = settings.config.leader_election
    lease = Lease(metadata=ObjectMeta(name=election.resource_name, namespace=election.resource_namespace))
    return Reloading(scheduler, read, sources=settings.rule_sources, regarding=lambda: lease)


def _serve(
    settings: Settings,
    serving: ServingSettings,
    process: SchedulerProcess,
    access: DelegatedAccess,
    families: Callable[[], Iterable[Family]],
    more: Mapping[str, Handler],
) -> AbstractAsyncContextManager[Server]:
    scheduler = process.scheduler
    loop = HealthCheck("scheduling-loop", process.problem)
    election = [HealthCheck("leaderElection", process.elector.problem)] if process.elector is not None else []
    routes = scheduler_routes(
        metrics=families,
        config=lambda: scheduler.config,
        flags=settings.flags,
        pods=lambda: tuple(scheduler.stores.of(Pod)) if process.leading else (),
        healthz=[*(election or [PING]), loop],
        livez=[PING, loop],
        readyz=[
            *election,
            loop,
            HealthCheck("shutdown", lambda: "the scheduler is ending" if process.ending else None),
            HealthCheck(
                "sched-handler-sync", lambda: None if scheduler.synced else "informers are not synced"
            ),
        ],
        cbor=scheduler.feature_gates.enabled("CBORServingAndStorage"),
        more=more,
    )
    certificates: CertificateFiles | SelfSigned
    if serving.cert_file is not None and serving.key_file is not None:
        certificates = CertificateFiles(serving.cert_file, serving.key_file, client_ca=serving.client_ca_file)
    else:
        certificates = SelfSigned(serving.host, client_ca=serving.client_ca_file)
    return Server(routes, access=access, certificates=certificates, host=serving.host, port=serving.port)


@dataclass(eq=False)
class SchedulerProcess:
    """The process between startup and exit."""

    scheduler: Scheduler
    api: Api
    elector: LeaderElector | None
    grace_seconds: float
    election_events: ElectionEvents | None = None
    reloading: Reloading | None = None
    overview: Overview | None = None

    def __post_init__(self) -> None:
        self._watchdog = Watchdog()
        self._reached = asyncio.Event()
        self._leading = asyncio.Event()
        self._stop = asyncio.Event()
        self._lost = False
        self._broken = False

    @property
    def leading(self) -> bool:
        return self._leading.is_set()

    @property
    def ending(self) -> bool:
        return self._stop.is_set()

    def problem(self) -> str | None:
        """The problem reported by the health check `scheduling-loop`; None if there is none."""
        return "the scheduling loop ended unexpectedly" if self._broken else self._watchdog.problem()

    async def until_end(self) -> int:
        with self._watchdog.watching(on_signal=self._stop.set):
            async with asyncio.TaskGroup() as tasks:
                scheduling = tasks.create_task(self._schedule(), name="scheduler")
                rest = [
                    tasks.create_task(self._lead(), name="leader election"),
                    tasks.create_task(self._watch_loop(), name="watch over the scheduling loop"),
                    tasks.create_task(release_memory(find_allocator()), name="free memory"),
                ]
                if self.election_events is not None:
                    rest.append(tasks.create_task(self.election_events.run(), name="leader election events"))
                if self.reloading is not None:
                    rest.append(tasks.create_task(self.reloading.run(), name="configuration"))
                if self.overview is not None:
                    rest.append(tasks.create_task(self.overview.run(), name="overview"))
                with (
                    on_signals(lambda: self._inspect(tasks), signal.SIGUSR2),
                    on_signals(self._request_reload, signal.SIGHUP),
                ):
                    await self._stop.wait()
                logger.info("shutting down")
                self.scheduler.stop()
                if self._lost or not self._reached.is_set():
                    # Nothing may be written any more, or nothing was started: there is nothing to finish.
                    scheduling.cancel()
                await asyncio.wait([scheduling])
                for task in rest:
                    task.cancel()
            if self.elector is not None and not self._lost:
                await self.elector.release()
            if self.election_events is not None:
                await self.election_events.flush()
        return EX_FAILURE if self._lost or self._broken else 0

    async def _schedule(self) -> None:
        await reach(self.api)
        self._reached.set()
        await self.scheduler.run(begin=self._leading.wait(), grace_seconds=self.grace_seconds)

    async def _lead(self) -> None:
        await self._reached.wait()
        if self.elector is None:
            self._leading.set()
            return
        await self.elector.acquire()
        self._leading.set()
        try:
            await self.elector.hold()
        except LeadershipLost as exc:
            logger.error(
                "Leaderelection lost: %s; exiting, so that no two schedulers bind the same pods", exc
            )
            self._lost = True
            self._stop.set()

    async def _watch_loop(self) -> None:
        await self.scheduler.loop.ended.wait()
        if not self.ending:
            logger.error("the scheduling loop ended unexpectedly; exiting, so that it can be restarted")
            self._broken = True
            self._stop.set()

    def _request_reload(self) -> None:
        if self.reloading is None:
            logger.warning("SIGHUP: nothing to reload: neither --config nor --reload was given")
        else:
            self.reloading.request()

    def _inspect(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(inspect(self.scheduler, self.api), name="inspection")


async def reach(api: Api, *, rng: random.Random | None = None) -> None:
    """Return when the API server responds; raise errors that waiting cannot fix.

    If a server is down or failing, wait for it, as kube-scheduler does. A wrong certificate needs another
    file, and rejected credentials need new ones, unless the server is just starting and does not know them
    yet.
    """
    rng = random.Random() if rng is None else rng
    refusals = 0
    seconds = FIRST_PAUSE_SECONDS
    while True:
        try:
            await api.get(Namespace, "kube-system")
            return
        except ApiError as exc:
            # Any response is sufficient, even that this request is forbidden.
            if exc.code in (403, 404):
                return
            refusals = refusals + 1 if isinstance(exc, UnauthorizedError) else 0
            if refusals >= MAX_REFUSALS or _rejects_certificate(exc):
                raise
            logger.error("the API server is not reachable yet, retrying: %s", exc)
        await asyncio.sleep(seconds * (1 + rng.random()))
        seconds = min(2 * seconds, LONGEST_PAUSE_SECONDS)


def _rejects_certificate(error: BaseException) -> bool:
    """Whether the server's certificate was the reason."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
