"""The HTTPS server of this project: a listener, certificates, requests and responses.

It is independent of Kubernetes' kinds. `serving` serves the scheduler's probes and metrics with it, and
`local.apiserver.http` the API: each is a `HttpService` behind a `Listener`.

    socket → listener → connection limit → connection (TLS, HTTP) → application → the service
"""
