"""Runs `kuberth shadow`: client, shadow, metrics, and shutdown.

In: settings from the command line, and callbacks. Out: a report, after a signal, a time, or a number of pods.
Nothing is written: plugins get an API for dry runs, and the real one is only read.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from kuberth.assembly.profiles import derive_with, effective_gates
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.client.protocol import Api
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ConfigError, KuberthError
from kuberth.evaluation import Evaluator
from kuberth.framework.registry import Registry
from kuberth.https.certificates import SelfSigned
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.messages import Request, Response
from kuberth.observe.metrics import Counter, Histogram, MetricSet, exponential_buckets
from kuberth.observe.process import build_families, process_families
from kuberth.programs.run.daemon import reach
from kuberth.programs.run.watchdog import on_signals
from kuberth.programs.shadow.decisions import ShadowDecision, ShadowReport
from kuberth.programs.shadow.shadow import SETTLE_SECONDS, Shadow
from kuberth.serving.metrics_pages import families_page
from kuberth.serving.page_service import PageService
from kuberth.serving.server import LIMITS

_FLAGS: Final = AddressFlags("--metrics-address", "--metrics-port")
_REQUEST_SECONDS: Final = 30.0


QUIET_SECONDS: Final = 30.0
"""After this time without a pod of the shadowed scheduler, a message reports it."""


class ShadowMetrics(MetricSet):
    """Families of the shadow's decisions."""

    decisions = Counter(
        "kuberth_shadow_decisions_total",
        "Decisions of the real scheduler, by how the shadow's compares and what explains a difference.",
        ("agreement", "explained_by"),
    )
    waited = Histogram(
        "kuberth_shadow_pod_waited_seconds",
        "From the first sight of a pod to the real scheduler's binding of it.",
        buckets=exponential_buckets(0.01, 2, 16),
    )
    took = Histogram(
        "kuberth_shadow_decision_duration_seconds",
        "How long the shadow's own decision took.",
        buckets=exponential_buckets(0.001, 2, 15),
    )
    attempts = Counter(
        "kuberth_shadow_attempts_total", "Attempts for pods that were placed, by scheduler.", ("scheduler",)
    )

    def record(self, decision: ShadowDecision) -> None:
        explanation = decision.explanation
        cause = "" if explanation is None else str(explanation.cause)
        self.decisions.inc((str(decision.agreement), cause))
        self.took.observe((), decision.own_seconds)
        if decision.node:
            self.attempts.inc(("real",), decision.attempts)
            self.attempts.inc(("shadow",), decision.own_attempts)
            if decision.waited_seconds is not None:
                self.waited.observe((), decision.waited_seconds)


def metrics_server(metrics: ShadowMetrics, *, host: str, port: int) -> Listener:
    """Serves /metrics over HTTPS while it is entered; `port` 0 picks a free one."""
    page = families_page(lambda: [*metrics.families(), *build_families(), *process_families()])
    service = PageService({"/metrics": page}, access=_OpenAccess(), request_seconds=_REQUEST_SECONDS)
    return Listener(service, certificates=SelfSigned(host), host=host, port=port, flags=_FLAGS, limits=LIMITS)


class _OpenAccess:
    """Lets every client read the metrics; implements `kuberth.serving.access.Access`."""

    def is_open(self, path: str) -> bool:
        return True

    async def refusal(self, request: Request) -> Response | None:
        return None


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """The settings from the command line."""

    config: KubeSchedulerConfiguration
    registry: Registry
    scheduler_name: str = "default-scheduler"
    kubeconfig: str | None = None
    context: str | None = None
    for_seconds: float | None = None
    """Stop after this time; None: never."""
    pods: int | None = None
    """Stop after this number of placed pods; None: never."""
    settle_seconds: float = SETTLE_SECONDS
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """The port of the metrics; None: metrics are not served."""


class ShadowRun:
    """A run over one API; `on_decision` receives every decision, `on_message` messages about the run."""

    def __init__(
        self,
        settings: ShadowSettings,
        api: Api,
        *,
        on_decision: Callable[[ShadowDecision], None],
        on_message: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._on_decision, self._on_message = on_decision, on_message
        self.report = ShadowReport()
        self.metrics = ShadowMetrics()
        config = settings.config
        self._evaluator = Evaluator(
            config=config, registry=settings.registry, profile=profile_for(config, settings.scheduler_name)
        )
        self.shadow = Shadow(
            api,
            self._evaluator,
            derive=derive_with(effective_gates(config, None)),
            scheduler_name=settings.scheduler_name,
            on_decision=self._record,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            settle_seconds=settings.settle_seconds,
        )

    async def until_end(self) -> ShadowReport:
        if self._settings.for_seconds is not None:
            asyncio.get_running_loop().call_later(self._settings.for_seconds, self.shadow.stop)
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report_state(), name="state")
            await self.shadow.run()
            reporting.cancel()
        return self.report

    def _record(self, decision: ShadowDecision) -> None:
        wanted = self._settings.pods
        if wanted is not None and self.report.placed >= wanted:
            return
        self.report.record(decision)
        self.metrics.record(decision)
        self._on_decision(decision)
        if wanted is not None and self.report.placed >= wanted:
            self.shadow.stop()

    async def _report_state(self) -> None:
        """Report the start, and if no pod of the scheduler is seen."""
        name, shadow = self._settings.scheduler_name, self.shadow
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await shadow.synced.wait()
        except TimeoutError:
            self._on_message(f"not everything could be listed within {QUIET_SECONDS:g} s; still trying")
            await shadow.synced.wait()
        cluster = self._evaluator.cluster
        self._on_message(
            f"following {cluster.node_count} nodes and {cluster.placed_count} placed pods; deciding beside "
            f"scheduler {name!r} with profile {self._evaluator.runner.profile.scheduler_name!r}"
        )
        await asyncio.sleep(QUIET_SECONDS)
        if not shadow.schedulers[name]:
            seen = shadow.schedulers.most_common()
            others = ", ".join(f"{other} ({number})" for other, number in seen if number)
            self._on_message(
                f"no pod of scheduler {name!r} was seen within {QUIET_SECONDS:g} s; the pods here are of: "
                f"{others or 'none, there are no pods'}. Choose with --scheduler-name, or wait"
            )


def profile_for(config: KubeSchedulerConfiguration, scheduler_name: str) -> str:
    """The profile for this scheduler: the one with its name, or the only one."""
    names = [profile.scheduler_name for profile in config.profiles]
    if scheduler_name in names:
        return scheduler_name
    if len(names) == 1:
        return names[0]
    raise ConfigError(
        f"the configuration has no profile for scheduler {scheduler_name!r}, but several others: "
        f"{', '.join(names)}; name one of them {scheduler_name!r}"
    )


async def run_shadow(
    settings: ShadowSettings,
    *,
    on_decision: Callable[[ShadowDecision], None],
    on_message: Callable[[str], None],
) -> ShadowReport:
    """Run beside the cluster's scheduler until SIGINT, SIGTERM, or the limits of the settings."""
    connection = settings.config.client_connection
    client = load_client_config(
        kubeconfig=settings.kubeconfig or connection.kubeconfig or None, context=settings.context
    )
    async with AsyncExitStack() as stack:
        api = HttpApi(client)
        stack.push_async_callback(api.close)
        run = ShadowRun(settings, api, on_decision=on_decision, on_message=on_message)
        reaching = asyncio.ensure_future(reach(api))

        def stop() -> None:
            reaching.cancel()
            run.shadow.stop()

        stack.enter_context(on_signals(stop, signal.SIGINT, signal.SIGTERM))
        if settings.metrics_port is not None:
            server = metrics_server(run.metrics, host=settings.metrics_host, port=settings.metrics_port)
            await stack.enter_async_context(server)
            on_message(f"metrics on https://{server.host}:{server.port}/metrics")
        try:
            await asyncio.wait_for(reaching, settings.for_seconds)
        except TimeoutError as error:
            raise KuberthError(f"the API server did not answer within {settings.for_seconds:g} s") from error
        except asyncio.CancelledError:
            if not reaching.cancelled() or not run.shadow.stopped.is_set():
                raise
            return run.report
        return await run.until_end()
