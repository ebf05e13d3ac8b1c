"""Pods share what they have in common: replicas of a template are many, their templates few.

In: a pod as it was decoded, and its last version. Out: the same pod, equal in every part, whose parts are the
very objects that its last version or other pods have where they are equal. It halves the memory of a full
cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any, Final

from msgspec.structs import force_setattr

from kuberth.api.meta import ObjectMeta
from kuberth.api.pods import Pod, PodSpec, PodStatus
from kuberth.api.wire import encode

MAX_KEPT: Final = 4096
"""Different values of one field that are remembered; with more, all are forgotten and sharing begins anew."""

MAX_BYTES: Final = 2**20
"""Of the values of one field, encoded; a value that alone would take a sixteenth of it is not shared."""

_METADATA: Final = ("labels", "annotations", "owner_references")
_SPEC: Final = (
    "containers",
    "init_containers",
    "volumes",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
)
_STATUS: Final = ("container_statuses", "init_container_statuses", "allocated_resources")
"""For each part of a pod the fields that are shared as a whole."""
_NO_POD: Final = Pod(metadata=ObjectMeta(), spec=PodSpec(), status=PodStatus())


class PodSharing:
    """Remembers the parts of the pods it has seen."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[bytes, Any]] = {
            field: {} for fields in (_METADATA, _SPEC, _STATUS) for field in fields
        }
        self._bytes = dict.fromkeys(self._kept, 0)

    def __call__(self, pod: Pod, old: Pod | None) -> None:
        """Give the pod shared parts, those of its last version first; all of them equal to what it had."""
        _give_texts(pod)
        if old is not None:
            self._share(pod.metadata, old.metadata, _METADATA)
            self._share(pod.spec, old.spec, _SPEC)
            self._share(pod.status, old.status, _STATUS)
        else:
            self._share(pod.metadata, _NO_POD.metadata, _METADATA)
            self._share(pod.spec, _NO_POD.spec, _SPEC)
            self._share(pod.status, _NO_POD.status, _STATUS)

    def _share(self, part: Any, old: Any, fields: Sequence[str]) -> None:
        for field in fields:
            value, last = getattr(part, field), getattr(old, field)
            if value is last:
                continue
            # An empty value is equal to that of no pod, so that all share one.
            if value == last:
                force_setattr(part, field, last)
            elif value:
                force_setattr(part, field, self._shared(field, value))

    def _shared(self, field: str, value: Any) -> Any:
        kept = self._kept[field]
        key = encode(value)
        found = kept.get(key)
        if found is not None:
            return found
        if len(key) > MAX_BYTES // 16:
            return value
        if len(kept) >= MAX_KEPT or self._bytes[field] + len(key) > MAX_BYTES:
            kept.clear()
            self._bytes[field] = 0
        self._bytes[field] += len(key)
        kept[key] = value
        return value


def _give_texts(pod: Pod) -> None:
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    force_setattr(metadata, "namespace", intern(metadata.namespace))
    force_setattr(metadata, "generate_name", intern(metadata.generate_name))
    force_setattr(spec, "node_name", intern(spec.node_name))
    force_setattr(spec, "scheduler_name", intern(spec.scheduler_name))
    force_setattr(spec, "priority_class_name", intern(spec.priority_class_name))
    force_setattr(spec, "restart_policy", intern(spec.restart_policy))
    force_setattr(spec, "service_account_name", intern(spec.service_account_name))
    if spec.preemption_policy is not None:
        force_setattr(spec, "preemption_policy", intern(spec.preemption_policy))
    force_setattr(status, "phase", intern(status.phase))
    force_setattr(status, "qos_class", intern(status.qos_class))
    force_setattr(status, "host_ip", intern(status.host_ip))
    for condition in status.conditions:
        force_setattr(condition, "type", intern(condition.type))
        force_setattr(condition, "status", intern(condition.status))
