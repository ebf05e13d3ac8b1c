"""HTTPS as both servers of the project speak it: one listener, certificates, a request and its answer.

It knows nothing of Kubernetes. `serving` answers the scheduler's probes and metrics over it, and
`local.apiserver.http` the whole API.
"""
