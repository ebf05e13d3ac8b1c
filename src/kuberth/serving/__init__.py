"""Health, metrics and configuration over HTTPS, as kube-scheduler serves them on its secure port.

Beside the scheduling cycle. In: requests of probes, Prometheus and people. Out: pages. The API server decides
who may read a page; only health needs no permission.

    access = DelegatedAccess(api, clock=clock)
    routes = scheduler_routes(metrics=..., config=..., readyz=[HealthCheck("sched-handler-sync", ...)])
    async with Server(routes, access=access, certificates=SelfSigned("10.0.0.7"), port=10259) as server:
        ...
"""
