"""Arriving pods, and the objects created for them.

In: an `Arrival` of a trace. Out: a Pod with an annotation for its run time; for a gang also its PodGroup.
Pods with equal requests share their spec.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kuberth.api.core import Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.pod_resources import CPU, PODS, pod_requests
from kuberth.api.quantity import Quantity
from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert
from kuberth.errors import ConfigError, KuberthError
from kuberth.local.hollow.annotations import RUN_SECONDS

DEFAULT_TENANT: Final = "default"
MAX_SECONDS: Final = 2.0**31
"""The maximum of a duration in an annotation: 68 years."""


class Arrival(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a trace. Lists and mappings are written as in a pod's spec."""

    arrival: float
    """When the pod is created, in seconds after the start."""
    duration: float | None = None
    """How long it runs once it has a node; None: forever."""
    name: str = ""
    tenant: str = DEFAULT_TENANT
    """Its namespace."""
    priority: int = 0
    requests: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    affinity: dict[str, Any] = msgspec.field(default_factory=dict)
    spread: list[dict[str, Any]] = msgspec.field(default_factory=list)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    gang: str = ""
    gang_size: int = 0
    """How many members must have a node before one of them starts; 0: all in the trace."""
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """A whole pod spec, as recorded; the fields above override it."""


def problem_of(arrival: Arrival) -> tuple[str, str] | None:
    """The invalid field, and why it is invalid."""
    if not (math.isfinite(arrival.arrival) and 0 <= arrival.arrival < MAX_SECONDS):
        return "arrival", f"a time is zero or more seconds, got {arrival.arrival:g}"
    if arrival.duration is not None and not (
        math.isfinite(arrival.duration) and 0 <= arrival.duration < MAX_SECONDS
    ):
        return "duration", f"a duration is zero or more seconds, got {arrival.duration:g}"
    if arrival.gang_size < 0 or (arrival.gang_size and not arrival.gang):
        return "gang_size", "a gang's size is a positive number, of a gang that has a name"
    if not -(2**31) <= arrival.priority < 2**31:
        return "priority", f"a priority has 32 bits, got {arrival.priority}"
    bare = Arrival(arrival.arrival)
    for name in ("requests", "node_selector", "tolerations", "affinity", "spread", "labels", "spec"):
        given = getattr(arrival, name)
        if not given:
            continue
        try:
            asked = pod_requests(ArrivalPods().pod(msgspec.structs.replace(bare, **{name: given}), "p"))
        except KuberthError as error:
            return name, str(error)
        if any(quantity < Quantity(0) for quantity in asked.values()):
            return name, "negative amounts are not allowed"
    return None


class ArrivalPods:
    """Pods of one trace."""

    def __init__(self, *, scheduler_name: str = "default-scheduler") -> None:
        self._scheduler_name = scheduler_name
        self._templates: dict[bytes, Pod] = {}

    def pod(self, arrival: Arrival, name: str) -> Pod:
        key = msgspec.json.encode(
            msgspec.structs.replace(arrival, arrival=0.0, duration=None, name="", tenant="", gang_size=0)
        )
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._template(arrival)
        notes = {} if arrival.duration is None else {RUN_SECONDS: f"{arrival.duration:.9g}"}
        metadata = ObjectMeta(
            name=name, namespace=arrival.tenant, labels=template.metadata.labels, annotations=notes
        )
        return msgspec.structs.replace(template, metadata=metadata)

    def _template(self, arrival: Arrival) -> Pod:
        fields = {
            "priority": arrival.priority,
            "nodeSelector": arrival.node_selector,
            "tolerations": arrival.tolerations,
            "topologySpreadConstraints": arrival.spread,
            "affinity": arrival.affinity,
            "schedulingGroup": {"podGroupName": arrival.gang} if arrival.gang else None,
        }
        spec: dict[str, Any] = {
            "priority": 0,
            "containers": [_container(arrival.requests)],
            **arrival.spec,
            **{name: value for name, value in fields.items() if value},
            "schedulerName": self._scheduler_name,
            "restartPolicy": "Never",
        }
        if arrival.requests:
            spec["containers"] = [_container(arrival.requests)]
        spec.pop("nodeName", None)
        tree = {"metadata": {"labels": arrival.labels}, "spec": spec, "status": {"phase": "Pending"}}
        return convert(Pod, tree)


def _container(requests: Mapping[str, Any]) -> dict[str, Any]:
    # Extended resources cannot be overcommitted: an API server requires equal requests and limits.
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": dict(requests), "limits": limits}
    return {"name": "main", "image": "registry.k8s.io/pause:3.10.1", "resources": resources}


def pod_groups(arrivals: Iterable[Arrival]) -> dict[tuple[str, str], PodGroup]:
    """The gangs of a trace, by tenant and name."""
    members: dict[tuple[str, str], list[Arrival]] = {}
    for each in arrivals:
        if each.gang:
            members.setdefault((each.tenant, each.gang), []).append(each)
    groups = {}
    for (tenant, gang), pods in members.items():
        least = max(each.gang_size for each in pods) or len(pods)
        if least > len(pods):
            raise ConfigError(
                f"gang {gang} of {tenant} asks for {least} members, but {len(pods)} ever arrive"
            )
        priority = max(each.priority for each in pods)
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "priority": priority}
        tree = {"metadata": {"name": gang, "namespace": tenant}, "spec": spec}
        groups[tenant, gang] = convert(PodGroup, tree)
    return groups


def with_names(arrivals: Sequence[Arrival]) -> Sequence[tuple[str, Arrival]]:
    """Arrivals in order, each with a unique name; ConfigError if two with one name overlap."""
    ordered = sorted(enumerate(arrivals), key=lambda each: (each[1].arrival, each[0]))
    width = max(6, len(str(len(arrivals))))
    taken: dict[tuple[str, str], int] = {}
    result = []
    for number, arrival in ordered:
        name = arrival.name or f"pod-{number + 1:0{width}d}"
        if (arrival.tenant, name) in taken:
            first = taken[arrival.tenant, name] + 1
            raise ConfigError(f"entries {first} and {number + 1} are both pod {name} of {arrival.tenant}")
        taken[arrival.tenant, name] = number
        result.append((name, arrival))
    return result


def requests_of(pod: Pod) -> dict[str, float]:
    """The pod's requests (CPUs, bytes, devices), and its own place."""
    asked = {name: amount(name, quantity) for name, quantity in pod_requests(pod).items()}
    return {**{name: number for name, number in asked.items() if number}, PODS: 1.0}


def amount(resource: str, quantity: Quantity) -> float:
    """Amounts in the scheduler's units: thousandths of a CPU, whole units of everything else."""
    return quantity.milli_value() / 1000 if resource == CPU else float(quantity.value())
