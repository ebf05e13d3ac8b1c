"""/metrics, /metrics/slis and /metrics/resources.

In: metric families, and the pods of the cluster. Out: Prometheus text, in pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from kuberth.api.core import Pod
from kuberth.config import FeatureGates
from kuberth.config.feature_gates import GATES, Stage
from kuberth.https.messages import Request, Response
from kuberth.observe import exposition
from kuberth.observe.metrics import BETA, STABLE, Family, Gauge
from kuberth.observe.process import process_families
from kuberth.serving.messages import Handler
from kuberth.serving.resource_metrics import pod_resource_family

Families = Callable[[], Iterable[Family]]
Pods = Callable[[], Iterable[Pod]]

PODS_PER_PIECE: Final = 500
_STAGES: Final = {Stage.ALPHA: "ALPHA", Stage.BETA: "BETA", Stage.GA: ""}


def families_page(families: Families) -> Handler:
    return partial(_families_page, families)


def resources_page(pods: Pods) -> Handler:
    """Requests and limits of every pod; `pods` returns none in a replica that does not lead."""
    return partial(_resources_page, pods)


def feature_families(gates: FeatureGates) -> list[Family]:
    """Which feature gates are on, in upstream's format."""
    family = Gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        stability=BETA,
    )
    for name, enabled in gates.items():
        family.set((name, _STAGES[GATES[name].stage]), int(enabled))
    return [family]


def start_time_families() -> list[Family]:
    """When the process started, with the stability that upstream states at /metrics/slis."""
    started = [family for family in process_families() if "start_time" in family.name]
    for family in started:
        family.stability = STABLE
    return started


def wants_open_metrics(accept: str) -> bool:
    """Whether the client accepts OpenMetrics and no plain text.

    kube-scheduler serves only the older text format, in which a bound is le="1"; OpenMetrics has le="1.0",
    another label. Prometheus accepts both, and its queries must find the labels that they find at
    kube-scheduler.
    """
    offers = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return "application/openmetrics-text" in offers and not {"text/plain", "text/*", "*/*"} & set(offers)


def _families_page(families: Families, request: Request) -> Response:
    open_metrics = wants_open_metrics(request.headers.get("accept", ""))
    pieces = exposition.render(families(), open_metrics=open_metrics)
    return Response(
        _encoded(pieces), content_type=exposition.OPEN_METRICS if open_metrics else exposition.TEXT
    )


def _resources_page(pods: Pods, request: Request) -> Response:
    # A copy, because the store changes while the page is sent.
    return Response(_resources(list(pods())), content_type=exposition.TEXT)


async def _resources(pods: Sequence[Pod]) -> AsyncIterator[bytes]:
    """The text of both families, one after the other; the head of each is sent once."""
    for which in ("limit", "request"):
        is_first = True
        for start in range(0, len(pods), PODS_PER_PIECE):
            family = pod_resource_family(pods[start : start + PODS_PER_PIECE], which=which)
            text = "".join(exposition.render([family]))
            if not is_first:
                text = text.split("\n", 2)[-1]
            is_first = is_first and not text
            yield text.encode()


async def _encoded(pieces: Iterator[str]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece.encode()
