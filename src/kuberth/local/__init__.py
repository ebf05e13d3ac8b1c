"""The cluster on one machine: everything of Kubernetes but the scheduler, small.

An API server that kubectl talks to (`apiserver`), nodes and controllers that play the rest of Kubernetes
(`hollow`), and the server as the scheduler sees it without HTTP between them (`in_process`). It uses the
scheduler's client protocol and API types; nothing of the scheduler knows that it exists.
"""
