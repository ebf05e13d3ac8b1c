"""The scheduling.k8s.io group (v1): priority classes."""

from __future__ import annotations

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import Wire, always


class PriorityClass(Wire):
    api_version: str = always("scheduling.k8s.io/v1")
    kind: str = always("PriorityClass")
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
