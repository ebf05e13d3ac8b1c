"""/metrics, /metrics/slis and /metrics/resources.

In: metric families, and the pods of the cluster. Out: Prometheus text, in pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kuberth.api.core import Pod
from kuberth.api.pod_resources import (
    SIDECAR,
    is_pod_level_resource,
    parse_amounts,
    pod_requests,
    sum_containers,
)
from kuberth.api.pods import FINISHED
from kuberth.api.quantity import Quantity
from kuberth.config import FeatureGates
from kuberth.config.feature_gates import GATES, Stage
from kuberth.https.messages import Request, Response
from kuberth.observe import exposition
from kuberth.observe.metrics import BETA, STABLE, Family, Gauge
from kuberth.observe.process import process_families
from kuberth.serving.messages import Handler

REQUEST: Final = "request"
LIMIT: Final = "limit"
LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_HELP: Final = {
    REQUEST: "Resources requested by workloads on the cluster, broken down by pod. This shows the resource "
    "usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if "
    "any.",
    LIMIT: "Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage "
    "the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
}
_UNITS: Final = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}


Families = Callable[[], Iterable[Family]]
Pods = Callable[[], Iterable[Pod]]
PODS_PER_PIECE: Final = 500
_STAGES: Final = {Stage.ALPHA: "ALPHA", Stage.BETA: "BETA", Stage.GA: ""}


def pod_resource_family(pods: Iterable[Pod], *, which: str) -> Gauge:
    """The family of requests or of limits; `which` is REQUEST or LIMIT."""
    family = Gauge(f"kube_pod_resource_{which}", _HELP[which], LABELS, stability=STABLE)
    for pod in pods:
        spec = pod.spec
        if spec.node_name and pod.status.phase in FINISHED:
            continue
        amounts = pod_requests(pod, use_status=False) if which == REQUEST else pod_limits(pod)
        priority = "" if spec.priority is None else str(spec.priority)
        for resource, amount in amounts.items():
            if amount:
                labels = (
                    pod.metadata.namespace, pod.metadata.name, spec.node_name, spec.scheduler_name,
                    priority, resource, _unit(resource),
                )  # fmt: skip
                family.set(labels, approximate(amount))
    return family


def pod_limits(pod: Pod) -> Mapping[str, Quantity]:
    """Limits of all containers together; overhead is added only to limited resources."""
    spec = pod.spec
    total = sum_containers(
        (parse_amounts(each.resources.limits) for each in spec.containers),
        (
            (each.restart_policy == SIDECAR, parse_amounts(each.resources.limits))
            for each in spec.init_containers
        ),
    )
    if pod.spec.resources is not None:
        own = parse_amounts(pod.spec.resources.limits)
        total |= {name: amount for name, amount in own.items() if is_pod_level_resource(name)}
    for name, amount in parse_amounts(pod.spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def approximate(amount: Quantity) -> float:
    """A quantity as a float, rounded as upstream: digits first, then the power of ten."""
    return float(amount.mantissa) if not amount.exponent else amount.mantissa * float(f"1e{amount.exponent}")


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else _UNITS.get(resource, "")


def families_page(families: Families) -> Handler:
    def page(request: Request) -> Response:
        open_metrics = wants_open_metrics(request.headers.get("accept", ""))
        pieces = exposition.render(families(), open_metrics=open_metrics)
        content_type = exposition.OPEN_METRICS if open_metrics else exposition.TEXT
        return Response(_encoded(pieces), content_type=content_type)

    return page


def resources_page(pods: Pods) -> Handler:
    """Requests and limits of every pod; `pods` returns none in a replica that does not lead."""
    # A copy of the pods, because the store changes while the page is sent.
    return lambda _request: Response(_resources(list(pods())), content_type=exposition.TEXT)


def feature_families(gates: FeatureGates) -> list[Family]:
    """The metric that shows which feature gates are on, in upstream's format."""
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
