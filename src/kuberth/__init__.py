"""Kuberth finds every pod its berth: the Kubernetes scheduler in Python.

The packages read like a pod's way: `api` and `client` bring it in, `intake` sorts it into the `queue`
or the `cluster` table, `scheduling` decides over the table with the `framework`'s `plugins`, and
`binding` writes the result to the API.
"""

__version__ = "0.2.0"

KUBERNETES_VERSION = "1.36"
"""The Kubernetes version whose scheduler Kuberth matches."""
