"""The controllers of a universe: the volume controller with a provisioner, and that of device claims.

In: claims and pods of the cluster. Out: volumes for claims, both bound to each other; device claims from
templates, and what pods that are gone leave reserved. They look at the cluster every now and then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kuberth.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.resource import ResourceClaim, ResourceClaimTemplate
from kuberth.api.storage import StorageClass
from kuberth.api.wire import convert, to_builtins
from kuberth.errors import NotFoundError
from kuberth.informers.store import object_key
from tests.universe.claims import BOUND, SELECTED_NODE, is_bound
from tests.universe.cluster import Cluster
from tests.universe.parts import HOST, ZONE, Tree

LOOK_SECONDS: Final = (0.02, 1.5)
ENDED: Final = ("Succeeded", "Failed")


class Controllers:
    """All controllers of a universe."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._made = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(*LOOK_SECONDS))
            for claim in self._cluster.all(PersistentVolumeClaim):
                self._sync_claim(to_builtins(claim))
            if self._cluster.all(ResourceClaimTemplate):
                self._sync_devices()
            await self._cluster.next_change()

    # Volumes

    def _sync_claim(self, claim: Tree) -> None:
        if is_bound(claim):
            return
        uid = claim["metadata"]["uid"]
        for volume in self._cluster.all(PersistentVolume):
            reference = volume.spec.claim_ref
            if reference is not None and reference.uid == uid:
                self._bind(claim, volume.metadata.name)
                return
        with suppress(NotFoundError):
            storage_class = self._cluster.read(StorageClass, claim["spec"]["storageClassName"])
            if storage_class.volume_binding_mode == "Immediate":
                nodes = self._cluster.all(Node)
                if nodes:
                    self._provision(claim, self._rng.choice(nodes))
            elif selected := claim["metadata"].get("annotations", {}).get(SELECTED_NODE):
                self._provision_at(claim, selected)

    def _provision_at(self, claim: Tree, selected: str) -> None:
        try:
            node = self._cluster.read(Node, selected)
        except NotFoundError:
            node = None
        if node is None or self._rng.random() < 0.1:
            # The volume cannot be made there: the scheduler chooses again.
            del claim["metadata"]["annotations"][SELECTED_NODE]
            self._cluster.replace(convert(PersistentVolumeClaim, claim))
        else:
            self._provision(claim, node)

    def _provision(self, claim: Tree, node: Node) -> None:
        key = ZONE if ZONE in node.metadata.labels else HOST
        expression = {"key": key, "operator": "In", "values": [node.metadata.labels.get(key, "")]}
        metadata = claim["metadata"]
        name = f"pvc-{metadata['uid']}"
        reference = {part: metadata[part] for part in ("name", "namespace", "uid")}
        tree = {
            "metadata": {"name": name},
            "spec": {
                "capacity": claim["spec"]["resources"]["requests"],
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"]["storageClassName"],
                "claimRef": {"kind": "PersistentVolumeClaim", **reference},
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
            "status": {"phase": "Bound"},
        }
        self._cluster.put(convert(PersistentVolume, tree))
        self._bind(claim, name)

    def _bind(self, claim: Tree, volume: str) -> None:
        claim["metadata"].setdefault("annotations", {})[BOUND] = "yes"
        claim["spec"]["volumeName"] = volume
        claim["status"] = {"phase": "Bound"}
        self._cluster.replace(convert(PersistentVolumeClaim, claim))

    # Devices

    def _sync_devices(self) -> None:
        pods = {pod.metadata.uid: pod for pod in self._cluster.all(Pod) if not _is_done(pod)}
        for pod in pods.values():
            if pod.spec.resource_claims and not pod.status.resource_claim_statuses:
                self._make_claims(to_builtins(pod))
        for claim in self._cluster.all(ResourceClaim):
            self._sync_device_claim(to_builtins(claim), lambda uid: uid in pods)

    def _make_claims(self, pod: Tree) -> None:
        made = []
        templates = {object_key(each): each for each in self._cluster.all(ResourceClaimTemplate)}
        metadata = pod["metadata"]
        for each in pod["spec"]["resourceClaims"]:
            if "resourceClaimTemplateName" not in each:
                continue
            key = f"{metadata['namespace']}/{each['resourceClaimTemplateName']}"
            template = templates.get(key)
            if template is None:
                continue
            self._made += 1
            owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
            owner |= {part: metadata[part] for part in ("name", "uid")}
            name = f"{metadata['name']}-{each['name']}-{self._made}"
            tree = {
                "metadata": {"name": name, "namespace": metadata["namespace"], "ownerReferences": [owner]},
                "spec": to_builtins(template.spec.spec),
            }
            self._cluster.put(convert(ResourceClaim, tree))
            made.append({"name": each["name"], "resourceClaimName": name})
        if made:
            pod.setdefault("status", {})["resourceClaimStatuses"] = made
            self._cluster.replace(convert(Pod, pod))

    def _sync_device_claim(self, claim: Tree, lives: Callable[[str], bool]) -> None:
        metadata, status = claim["metadata"], claim.get("status", {})
        key = f"{metadata['namespace']}/{metadata['name']}"
        owners = metadata.get("ownerReferences", ())
        unowned = owners and not any(lives(owner["uid"]) for owner in owners)
        if unowned and "allocation" not in status:
            self._cluster.remove(ResourceClaim, key)
            return
        users: list[Any] = status.get("reservedFor", [])
        left = [user for user in users if lives(user["uid"])]
        if len(left) == len(users) and not unowned:
            return
        status["reservedFor"] = left
        if not left:
            status.pop("allocation", None)
            metadata.pop("finalizers", None)
        self._cluster.replace(convert(ResourceClaim, claim))


def _is_done(pod: Pod) -> bool:
    """Whether none of its containers runs or ever will."""
    marked = pod.metadata.deletion_timestamp is not None
    return pod.status.phase in ENDED or (marked and not pod.spec.node_name)
