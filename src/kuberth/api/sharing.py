"""Shares equal parts between pods: a cluster has many replicas, but few templates.

In: a decoded pod, and its last version. Out: the same pod, in which parts that are equal to those of the last
version or of other pods are replaced by the same objects. This halves the memory of a full cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from sys import intern
from typing import Any, Final

from msgspec.structs import force_setattr

from kuberth.api.meta import ObjectMeta
from kuberth.api.pods import Pod, PodCondition, PodSpec, PodStatus
from kuberth.api.wire import encode

MAX_KEPT: Final = 4096
"""The maximum number of distinct values of a field; beyond it, all are dropped and sharing starts again."""

MAX_BYTES: Final = 2**20
"""The maximum size of the encoded values of a field; a value larger than a sixteenth is not shared."""


class _Fields:
    """Reads several fields of a part of a pod at once."""

    __slots__ = ("names", "of")

    def __init__(self, *names: str) -> None:
        self.names = names
        self.of: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)


_METADATA: Final = _Fields("labels", "annotations", "owner_references")
_SPEC: Final = _Fields(
    "containers",
    "init_containers",
    "volumes",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
)
_STATUS: Final = _Fields("container_statuses", "init_container_statuses", "allocated_resources")
"""Fields of the status that are shared as a whole; `_METADATA` and `_SPEC` are those of the other parts."""
_METADATA_TEXTS: Final = _Fields("namespace", "generate_name")
_SPEC_TEXTS: Final = _Fields(
    "node_name",
    "scheduler_name",
    "priority_class_name",
    "restart_policy",
    "service_account_name",
    "preemption_policy",
)
_STATUS_TEXTS: Final = _Fields("phase", "qos_class", "host_ip")
_CONDITION_TEXTS: Final = _Fields("type", "status")
"""Texts that many pods have in common."""
_NO_CONDITION: Final = PodCondition()
_NO_POD: Final = Pod(metadata=ObjectMeta(), spec=PodSpec(), status=PodStatus())


class PodSharing:
    """Stores the parts of pods, and gives equal parts to further pods."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[bytes, Any]] = {
            field: {} for fields in (_METADATA, _SPEC, _STATUS) for field in fields.names
        }
        self._bytes = dict.fromkeys(self._kept, 0)

    def __call__(self, pod: Pod, old: Pod | None) -> None:
        """Replace parts of the pod by equal, shared ones; those of its last version come first."""
        last = _NO_POD if old is None else old
        # In a cluster in this process, unchanged parts are already the same objects.
        if pod.metadata is not last.metadata:
            _intern_texts(pod.metadata, last.metadata, _METADATA_TEXTS)
            self._share(pod.metadata, last.metadata, _METADATA)
        if pod.spec is not last.spec:
            _intern_texts(pod.spec, last.spec, _SPEC_TEXTS)
            self._share(pod.spec, last.spec, _SPEC)
        if pod.status is not last.status:
            _intern_texts(pod.status, last.status, _STATUS_TEXTS)
            if pod.status.conditions is not last.status.conditions:
                for condition in pod.status.conditions:
                    _intern_texts(condition, _NO_CONDITION, _CONDITION_TEXTS)
            self._share(pod.status, last.status, _STATUS)

    def _share(self, part: Any, old: Any, fields: _Fields) -> None:
        values, lasts = fields.of(part), fields.of(old)
        if all(map(is_, values, lasts)):
            return
        for field, value, last in zip(fields.names, values, lasts, strict=True):
            if value is last:
                continue
            # An empty value is equal to that of `_NO_POD`, so that all pods share one.
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


def _intern_texts(part: Any, old: Any, fields: _Fields) -> None:
    """Replace texts by the interned ones, unless the last version already has them."""
    texts = fields.of(part)
    if all(map(is_, texts, fields.of(old))):
        return
    for name, text in zip(fields.names, texts, strict=True):
        if text is not None and (shared := intern(text)) is not text:
            force_setattr(part, name, shared)
