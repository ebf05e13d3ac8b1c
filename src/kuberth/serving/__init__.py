"""Health, metrics and configuration over HTTPS, as kube-scheduler serves them on its secure port.

Beside the scheduling cycle. In: requests of probes, Prometheus and people. Out: pages. The API server decides
who may read a page; only health needs no permission.

    access = DelegatedAccess(api, clock=clock)
    routes = scheduler_routes(metrics=..., config=..., readyz=[HealthCheck("sched-handler-sync", ...)])
    async with Server(routes, access=access, certificates=SelfSigned("10.0.0.7"), port=10259) as server:
        ...
"""

from __future__ import annotations

from kuberth.https.certificates import CertificateFiles, Certificates, SelfSigned
from kuberth.https.connection_limit import Limits
from kuberth.serving.access import DelegatedAccess
from kuberth.serving.endpoints import scheduler_routes
from kuberth.serving.health import HealthCheck
from kuberth.serving.server import Server

__all__ = [
    "CertificateFiles",
    "Certificates",
    "DelegatedAccess",
    "HealthCheck",
    "Limits",
    "SelfSigned",
    "Server",
    "scheduler_routes",
]
