"""The rules of volumes and devices, for the judge: can the pod have what it claims on this node?

In: plain JSON trees of the claims and of what serves them. Out: yes or no. Nothing here is imported from the
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.universe.trees import State, Tree, annotation, meets_terms, namespace, quantity

BOUND: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
WAITS: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ONE_POD: Final = "ReadWriteOncePod"

Device = tuple[str, str, str]
"""Driver, pool and name."""


# Volumes


def claim_keys(pod: Tree) -> list[str]:
    return [
        f"{namespace(pod)}/{volume['persistentVolumeClaim']['claimName']}"
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]


def is_bound(claim: Tree) -> bool:
    return bool(claim["spec"].get("volumeName") and annotation(claim, BOUND))


def volumes_fit(pod: Tree, node: Tree, state: State) -> bool:
    keys = claim_keys(pod)
    if not keys:
        return True
    claims = state.others("PersistentVolumeClaim")
    return (
        all(key in claims and _reaches(claims[key], node, state) for key in keys)
        and _is_alone(pod, state)
        and _can_attach(pod, node, state)
    )


def volume_reaches(volume: Tree, node: Tree) -> bool:
    return meets_terms(volume["spec"].get("nodeAffinity", {}).get("required"), node)


def _reaches(claim: Tree, node: Tree, state: State) -> bool:
    volumes = state.others("PersistentVolume")
    if is_bound(claim):
        volume = volumes.get(claim["spec"]["volumeName"])
        return volume is not None and volume_reaches(volume, node)
    storage_class = state.others("StorageClass").get(claim["spec"]["storageClassName"])
    if storage_class is None or storage_class["volumeBindingMode"] != WAITS:
        return False
    if claim["spec"].get("volumeName"):
        return False
    selected = annotation(claim, SELECTED_NODE)
    if selected and selected != node["metadata"]["name"]:
        return False
    if any(_suits(volume, claim) and volume_reaches(volume, node) for volume in volumes.values()):
        return True
    return bool(storage_class["provisioner"] != NO_PROVISIONER)


def _suits(volume: Tree, claim: Tree) -> bool:
    reference = volume["spec"].get("claimRef")
    if reference is not None and reference.get("uid") != claim["metadata"]["uid"]:
        return False
    wanted = claim["spec"]["resources"]["requests"]["storage"]
    return bool(
        volume["spec"].get("storageClassName") == claim["spec"]["storageClassName"]
        and quantity(volume["spec"]["capacity"]["storage"]) >= quantity(wanted)
        and set(claim["spec"]["accessModes"]) <= set(volume["spec"]["accessModes"])
    )


def _is_alone(pod: Tree, state: State) -> bool:
    """A claim for one pod is used by no other."""
    claims = state.others("PersistentVolumeClaim")
    exclusive = {key for key in claim_keys(pod) if ONE_POD in claims[key]["spec"]["accessModes"]}
    return not any(exclusive & set(claim_keys(other)) for other, _node in state.placed)


def is_used_twice(pod: Tree, state: State) -> bool:
    """Whether several pods use a claim of this pod that is for one pod: one was on a node that was gone."""
    claims = state.others("PersistentVolumeClaim")
    return any(
        key in claims
        and ONE_POD in claims[key]["spec"]["accessModes"]
        and sum(key in claim_keys(other) for other, _node in state.placed) > 1
        for key in claim_keys(pod)
    )


def _can_attach(pod: Tree, node: Tree, state: State) -> bool:
    """Each claim of a driver is one volume; a node attaches a limited number."""
    name = node["metadata"]["name"]
    limits = state.others("CSINode").get(name)
    drivers = () if limits is None else limits["spec"].get("drivers", ())
    for driver in drivers:
        most = driver.get("allocatable", {}).get("count")
        if most is None:
            continue
        attached = {key for other in state.on(name) for key in _attached(other, driver["name"], state)}
        new = set(_attached(pod, driver["name"], state)) - attached
        if new and len(attached) + len(new) > most:
            return False
    return True


def _attached(pod: Tree, driver: str, state: State) -> Iterator[str]:
    for key in claim_keys(pod):
        claim = state.others("PersistentVolumeClaim").get(key)
        if claim is not None and _driver(claim, state) == driver:
            yield key


def _driver(claim: Tree, state: State) -> str:
    volume = state.others("PersistentVolume").get(claim["spec"].get("volumeName", ""))
    if volume is not None:
        return str(volume["spec"].get("csi", {}).get("driver", ""))
    storage_class = state.others("StorageClass").get(claim["spec"]["storageClassName"])
    return "" if storage_class is None else str(storage_class["provisioner"])


# Devices


def device_claim_keys(pod: Tree) -> list[str] | None:
    """The pod's claims; None while one has no name yet."""
    names = {
        each["name"]: each.get("resourceClaimName")
        for each in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    found = []
    for each in pod["spec"].get("resourceClaims", ()):
        name = each.get("resourceClaimName") or names.get(each["name"])
        if name is None:
            return None
        found.append(f"{namespace(pod)}/{name}")
    return found


def allocated(claim: Tree) -> set[Device]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return {(each["driver"], each["pool"], each["device"]) for each in results}


def is_allocated(claim: Tree) -> bool:
    return "allocation" in claim.get("status", {})


def offered(slices: dict[str, Tree]) -> dict[Device, str]:
    """The healthy devices of the newest generation of each pool, and their nodes."""
    newest: dict[tuple[str, str], int] = {}
    for each in slices.values():
        pool = (each["spec"]["driver"], each["spec"]["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), each["spec"]["pool"]["generation"])
    return {
        (*pool, device["name"]): each["spec"]["nodeName"]
        for each in slices.values()
        for pool in [(each["spec"]["driver"], each["spec"]["pool"]["name"])]
        if each["spec"]["pool"]["generation"] == newest[pool]
        for device in each["spec"].get("devices", ())
        if device["attributes"]["healthy"]["bool"]
    }


def devices_fit(pod: Tree, node: Tree, state: State) -> bool:
    """Devices of universes are alike, so that their number decides."""
    if not pod["spec"].get("resourceClaims"):
        return True
    claims, keys = state.others("ResourceClaim"), device_claim_keys(pod)
    if keys is None or not all(key in claims for key in keys):
        return False
    name = node["metadata"]["name"]
    open_claims = set()
    for key in keys:
        if is_allocated(claims[key]):
            if not meets_terms(claims[key]["status"]["allocation"].get("nodeSelector"), node):
                return False
        else:
            open_claims.add(key)
    if not open_claims:
        return True
    taken = {device for claim in claims.values() for device in allocated(claim)}
    here = offered(dict(state.others("ResourceSlice")))
    free = sum(1 for device, where in here.items() if where == name and device not in taken)
    changed = max(
        (
            int(each["metadata"].get("resourceVersion", 0))
            for each in state.others("ResourceSlice").values()
            if each["spec"]["nodeName"] == name
        ),
        default=0,
    )
    for other in state.on(name):
        # What the process gave to others is written in their claims before they are bound: a bound pod whose
        # claim has no devices gave them back. Devices of slices that are others now may be none of those that
        # count here.
        since = state.own.get(other["metadata"]["uid"])
        is_bound = bool(other["spec"].get("nodeName"))
        if since is not None and not is_bound and (since >= changed or state.cautious):
            open_claims |= {
                key
                for key in device_claim_keys(other) or ()
                if key in claims and not is_allocated(claims[key])
                # As upstream, devices that a claim had and loses while its pod is bound are free.
                if state.cautious or key not in state.settled.get(other["metadata"]["uid"], ())
            }
    return sum(_count(claims[key]) for key in open_claims) <= free


def _count(claim: Tree) -> int:
    return sum(each["exactly"]["count"] for each in claim["spec"]["devices"]["requests"])
