"""HTTPS as both servers of the project speak it: one listener, certificates, a request and its answer.

It knows nothing of Kubernetes' kinds. `serving` answers the scheduler's probes and metrics over it, and
`local.apiserver.http` the whole API: each is a `HttpService` behind a `Listener`.

    socket → listener → crowd (is there room?) → connection (TLS, HTTP) → application → the service
"""
