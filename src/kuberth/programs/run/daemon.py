"""`kuberth run` as a program: client, leader election, serving and the scheduler under one roof.

In: settings from the command line. Out: an exit code: 0 after SIGTERM or SIGINT, 1 when the lease was
lost or the scheduler could not go on.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kuberth.api.core import Namespace, Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.fencing import FencedApi
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ApiError, LeadershipLost
from kuberth.framework.registry import Registry
from kuberth.observe.metrics import ClientMetrics, Family, LeaderElectionMetrics
from kuberth.programs.run.inspection import inspect
from kuberth.programs.run.leader_election import LeaderElector, make_identity
from kuberth.queue.interface import QueueFactory
from kuberth.serving import (
    CertificateFiles,
    DelegatedAccess,
    HealthCheck,
    SelfSigned,
    Server,
    scheduler_routes,
)
from kuberth.serving.metrics_pages import feature_families

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Where and how health and metrics are served."""

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
    """What the command line decided."""

    config: KubeSchedulerConfiguration
    registry: Registry
    queue: QueueFactory | None = None
    kubeconfig: str | None = None
    master: str | None = None
    max_unschedulable_seconds: float = 300.0
    grace_seconds: float = 25.0
    serving: ServingSettings | None = None
    """None: nothing is served."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """As given, for /flagz."""


async def run(settings: Settings) -> int:
    """Run until a signal or the loss of the lease."""
    connection = settings.config.client_connection
    client = load_client_config(
        kubeconfig=settings.kubeconfig or connection.kubeconfig or None, master=settings.master
    )
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        requests: dict[tuple[str, str], int] = {}

        async def connect(config: ClientConfig, *, qps: float = connection.qps) -> HttpApi:
            return await stack.enter_async_context(
                _closing(HttpApi(config, qps=qps, burst=connection.burst, clock=clock, requests=requests))
            )

        api = await connect(client)
        await _check_reachable(api)
        elector: LeaderElector | None = None
        election_metrics = LeaderElectionMetrics()
        client_metrics = ClientMetrics()
        if settings.config.leader_election.leader_elect:
            elector = LeaderElector(
                # Its own connection and no rate limit: renewing must not wait behind a thousand bindings.
                await connect(client, qps=-1),
                settings=settings.config.leader_election,
                identity=make_identity(),
                clock=clock,
                metrics=election_metrics,
            )
        scheduler = Scheduler(
            api if elector is None else FencedApi(api, elector.may_write),
            events_api=await connect(client),
            config=settings.config,
            registry=settings.registry,
            queue=settings.queue,
            clock=clock,
            max_unschedulable_seconds=settings.max_unschedulable_seconds,
        )
        life = _Life(scheduler, api, elector, settings.grace_seconds)
        if settings.serving is not None:
            # Their own connections: a flood of requests here must not use up the scheduler's rate.
            reviews = [
                await connect(load_client_config(kubeconfig=kubeconfig) if kubeconfig else client)
                for kubeconfig in (
                    settings.serving.authentication_kubeconfig,
                    settings.serving.authorization_kubeconfig,
                )
            ]
            access = DelegatedAccess(
                reviews[0],
                authorization_api=reviews[1],
                clock=clock,
                open_paths=settings.serving.open_paths,
            )

            def families() -> list[Family]:
                client_metrics.take_requests(requests, host=client.server)
                return [
                    *scheduler.metrics.families(),
                    *election_metrics.families(),
                    *client_metrics.families(),
                    *feature_families(scheduler.feature_gates),
                ]

            await stack.enter_async_context(_serve(settings, settings.serving, life, access, families))
        return await life.until_end()


@asynccontextmanager
async def _closing(api: HttpApi) -> AsyncIterator[HttpApi]:
    try:
        yield api
    finally:
        await api.close()


async def _check_reachable(api: HttpApi) -> None:
    """Fail at once, with one clear line, where the server, the CA or the credentials are wrong."""
    try:
        await api.get(Namespace, "kube-system")
    except ApiError as exc:
        # Any answer to this very question will do, also that it may not be asked.
        if exc.code not in (403, 404):
            raise


def _serve(
    settings: Settings,
    serving: ServingSettings,
    life: _Life,
    access: DelegatedAccess,
    families: Callable[[], Iterable[Family]],
) -> AbstractAsyncContextManager[Server]:
    scheduler = life.scheduler
    election = [HealthCheck("leaderElection", life.elector.problem)] if life.elector is not None else []
    routes = scheduler_routes(
        metrics=families,
        config=settings.config,
        flags=settings.flags,
        pods=lambda: tuple(scheduler.stores.of(Pod)) if life.leading else (),
        healthz=election,
        readyz=[
            *election,
            HealthCheck("shutdown", lambda: "the scheduler is ending" if life.ending else None),
            HealthCheck(
                "sched-handler-sync", lambda: None if scheduler.synced else "informers are not synced"
            ),
        ],
    )
    certificates: CertificateFiles | SelfSigned
    if serving.cert_file is not None and serving.key_file is not None:
        certificates = CertificateFiles(serving.cert_file, serving.key_file, client_ca=serving.client_ca_file)
    else:
        certificates = SelfSigned(serving.host, client_ca=serving.client_ca_file)
    return Server(routes, access=access, certificates=certificates, host=serving.host, port=serving.port)


class _Life:
    """The life of the process between start and exit."""

    def __init__(
        self, scheduler: Scheduler, api: HttpApi, elector: LeaderElector | None, grace_seconds: float
    ) -> None:
        self.scheduler = scheduler
        self.elector = elector
        self._api = api
        self._grace_seconds = grace_seconds
        self._leading = asyncio.Event()
        self._stop = asyncio.Event()
        self._lost = False

    @property
    def leading(self) -> bool:
        return self._leading.is_set()

    @property
    def ending(self) -> bool:
        return self._stop.is_set()

    async def until_end(self) -> int:
        with _on_signals({signal.SIGTERM: self._stop.set, signal.SIGINT: self._stop.set}):
            async with asyncio.TaskGroup() as tasks:
                scheduling = tasks.create_task(
                    self.scheduler.run(begin=self._leading.wait(), grace_seconds=self._grace_seconds),
                    name="scheduler",
                )
                leading = tasks.create_task(self._lead(), name="leader election")
                with _on_signals({signal.SIGUSR2: lambda: self._inspect(tasks)}):
                    await self._stop.wait()
                logger.info("ending")
                if self._lost:
                    # Nothing may be written any more, so there is nothing to finish either.
                    scheduling.cancel()
                else:
                    self.scheduler.stop()
                    await scheduling
                leading.cancel()
            if self.elector is not None and not self._lost:
                await self.elector.release()
        return 1 if self._lost else 0

    async def _lead(self) -> None:
        if self.elector is None:
            self._leading.set()
            return
        await self.elector.acquire()
        self._leading.set()
        try:
            await self.elector.hold()
        except LeadershipLost as exc:
            logger.error("%s; ending, so that no two schedulers bind the same pods", exc)
            self._lost = True
            self._stop.set()

    def _inspect(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(inspect(self.scheduler, self._api), name="inspection")


@contextmanager
def _on_signals(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
