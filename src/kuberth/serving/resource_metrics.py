"""Requests and limits of pods as metrics: one series per pod and resource.

In: pods. Out: kube_pod_resource_request and kube_pod_resource_limit, computed as the scheduler computes them.
Finished pods have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kuberth.api.core import Pod
from kuberth.api.pod_resources import is_pod_level_resource, pod_requests
from kuberth.api.quantity import Quantity, parse
from kuberth.api.references import ResourceList
from kuberth.observe.metrics import STABLE, Gauge

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
_DONE: Final = ("Succeeded", "Failed")


def pod_resource_family(pods: Iterable[Pod], *, which: str) -> Gauge:
    """The family of requests or of limits; `which` is REQUEST or LIMIT."""
    family = Gauge(f"kube_pod_resource_{which}", _HELP[which], LABELS, stability=STABLE)
    for pod in pods:
        spec = pod.spec
        if spec.node_name and pod.status.phase in _DONE:
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
    total: dict[str, Quantity] = {}
    for container in pod.spec.containers:
        _add(total, _parsed(container.resources.limits))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.spec.init_containers:
        limits = _parsed(container.resources.limits)
        if container.restart_policy == "Always":
            _add(total, limits)
            _add(sidecars, limits)
            during = sidecars
        else:
            during = limits
            _add(during, sidecars)
        for name, amount in during.items():
            peak[name] = max(peak.get(name, amount), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, amount), amount)
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.limits)
        total |= {name: amount for name, amount in own.items() if is_pod_level_resource(name)}
    for name, amount in _parsed(pod.spec.overhead).items():
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


def _parsed(resources: ResourceList) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in resources.items()}


def _add(total: dict[str, Quantity], amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount
