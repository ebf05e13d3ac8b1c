"""Objects that every cluster has from the start: namespaces, priority classes, the Service `kubernetes`.

In: nothing. Out: objects to create. Each namespace also gets its default service account.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kuberth.local.apiserver.objects import Obj

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
UNDELETABLE: Final = ("default", "kube-system", "kube-public")
SYSTEM_PRIORITIES: Final = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if "
        "necessary.",
    ),
}
API_SERVICE: Final = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    },
}
"""The Service of the API server. It has no selector: `hollow.publishing` writes its endpoints."""


def default_account(namespace: str) -> Obj:
    return {
        "kind": "ServiceAccount",
        "apiVersion": "v1",
        "metadata": {"name": "default", "namespace": namespace},
    }


def objects() -> Iterator[tuple[str, Obj]]:
    """Resource ids and objects."""
    for name in NAMESPACES:
        yield "namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    for name, (value, description) in SYSTEM_PRIORITIES.items():
        yield (
            "priorityclasses.scheduling.k8s.io",
            {
                "kind": "PriorityClass",
                "apiVersion": "scheduling.k8s.io/v1",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            },
        )
    yield "services", API_SERVICE
