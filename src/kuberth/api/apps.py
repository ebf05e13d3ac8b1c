"""The apps group (v1): the controllers whose selectors default topology spreading looks up."""

from __future__ import annotations

from kuberth.api.meta import LabelSelector, ObjectMeta
from kuberth.api.wire import Wire, always


class ReplicaSetSpec(Wire):
    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(Wire):
    api_version: str = always("apps/v1")
    kind: str = always("ReplicaSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Wire):
    replicas: int | None = None
    selector: LabelSelector | None = None
    service_name: str = ""


class StatefulSet(Wire):
    api_version: str = always("apps/v1")
    kind: str = always("StatefulSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
