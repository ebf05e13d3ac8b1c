"""A local cluster: a small version of everything in Kubernetes except the scheduler.

An API server for kubectl (`apiserver`), simulated nodes and controllers (`hollow`), and access to the server
without HTTP for the scheduler (`in_process`). It uses the scheduler's client protocol and API types; the
scheduler does not depend on it.
"""
