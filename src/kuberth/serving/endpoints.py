"""Every path of kube-scheduler's secure port.

In: the content of the pages, as values or as functions that are called for each request. Out: routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kuberth.clock import Clock, SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.observe.metrics import HealthMetrics
from kuberth.observe.process import build_families, process_families
from kuberth.serving.health import HealthCheck, health_routes
from kuberth.serving.messages import Handler
from kuberth.serving.metrics_pages import (
    Families,
    Pods,
    families_page,
    resources_page,
    start_time_families,
)
from kuberth.serving.pages import configz_page, flagz_page, statusz_page


def scheduler_routes(
    *,
    metrics: Families,
    config: Callable[[], KubeSchedulerConfiguration],
    flags: Mapping[str, str] | None = None,
    pods: Pods = tuple,
    healthz: Sequence[HealthCheck] = (),
    livez: Sequence[HealthCheck] = (),
    readyz: Sequence[HealthCheck] = (),
    clock: Clock | None = None,
    cbor: bool = False,
    more: Mapping[str, Handler] | None = None,
) -> dict[str, Handler]:
    """Make the handlers by path.

    `metrics` returns the families of /metrics (those of the process are added), `pods` the pods of
    /metrics/resources. `cbor`: serve statusz and flagz as CBOR too (feature gate CBORServingAndStorage).
    `more` are pages that kube-scheduler does not have, by path. Upstream's checks are
    `leaderElection` at healthz and readyz, and `shutdown` and `sched-handler-sync` at readyz.
    """
    health = HealthMetrics()
    routes: dict[str, Handler] = {
        **health_routes("/healthz", healthz, health),
        **health_routes("/livez", livez, health),
        **health_routes("/readyz", readyz, health),
        "/metrics": families_page(lambda: [*metrics(), *build_families(), *process_families()]),
        "/metrics/resources": resources_page(pods),
        "/metrics/slis": families_page(lambda: [*health.families(), *start_time_families()]),
        "/configz": configz_page(config),
        "/flagz": flagz_page({} if flags is None else flags, cbor=cbor),
    }
    clock = SystemClock() if clock is None else clock
    routes["/statusz"] = statusz_page(list(routes), clock=clock, cbor=cbor)
    # After statusz, which lists only the paths that kube-scheduler's lists.
    return {**routes, **({} if more is None else more)}
