"""The coordination.k8s.io group (v1): leases, for leader election and node heartbeats."""

from __future__ import annotations

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import MicroTime, Wire, always


class LeaseSpec(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Wire):
    api_version: str = always("coordination.k8s.io/v1")
    kind: str = always("Lease")
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
