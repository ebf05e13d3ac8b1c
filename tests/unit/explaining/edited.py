"""The cluster after edits, as objects."""

from __future__ import annotations

from typing import Any

from kuberth.api.core import Node, Pod
from kuberth.api.resource import ResourceClaim
from kuberth.explaining.edits import EditedCluster, released_claims
from kuberth.informers.store import object_key


def applied(edited: EditedCluster, objects: list[Any]) -> tuple[Pod, list[Any]]:
    """The pod and all objects of its cluster after the changes."""
    kept = [
        obj
        for obj in objects
        if not (isinstance(obj, Node) and obj.metadata.name in edited.nodes)
        and not (isinstance(obj, Pod) and object_key(obj) in edited.gone)
    ]
    claims = [obj for obj in kept if isinstance(obj, ResourceClaim)]
    after = {object_key(old): new for old, new in released_claims(claims, edited.gone)}
    kept = [after.get(object_key(obj), obj) if isinstance(obj, ResourceClaim) else obj for obj in kept]
    return edited.pod, [*kept, *edited.nodes.values()]
