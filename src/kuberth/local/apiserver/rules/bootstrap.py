"""What every cluster has from the start. In: nothing. Out: namespaces and priority classes to create."""

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
