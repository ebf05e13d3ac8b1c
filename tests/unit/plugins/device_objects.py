"""Slices, claims and classes of devices, written short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.wire import convert

DRIVER = "gpu.example.com"


def make_class(name: str = "gpu", *, selectors: Sequence[str] = (), **spec: Any) -> DeviceClass:
    entries = [{"cel": {"expression": expression}} for expression in selectors]
    return convert(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": entries, **spec}})


def make_slice(
    node: str | None = "a",
    devices: int | Iterable[Mapping[str, Any]] = 2,
    *,
    name: str = "",
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    driver: str = DRIVER,
    **spec: Any,
) -> ResourceSlice:
    """`devices`: how many, or what they are."""
    entries = (
        [{"name": f"dev-{index}"} for index in range(devices)] if isinstance(devices, int) else [*devices]
    )
    where = {"allNodes": True} if node is None else {"nodeName": node}
    return convert(
        ResourceSlice,
        {
            "metadata": {"name": name or f"slice-{pool or node}"},
            "spec": {
                "driver": driver,
                "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": count},
                "devices": entries,
                **({} if spec.get("nodeSelector") or spec.get("perDeviceNodeSelection") else where),
                **spec,
            },
        },
    )


def exactly(name: str = "q", count: int = 1, *, of: str = "gpu", **request: Any) -> dict[str, Any]:
    return {
        "name": name,
        "exactly": {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **request},
    }


def all_devices(name: str = "q", *, of: str = "gpu", **request: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": of, "allocationMode": "All", **request}}


def first_of(name: str, *alternatives: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "firstAvailable": [
            {"name": alternative["name"], **alternative["exactly"]} for alternative in alternatives
        ],
    }


def make_claim(
    name: str = "claim",
    *requests: dict[str, Any],
    owner: str = "",
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **devices: Any,
) -> ResourceClaim:
    """`owner` is the UID of the pod that it was made for."""
    owners = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    return convert(
        ResourceClaim,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-of-{name}",
                "ownerReferences": owners,
                **(metadata or {}),
            },
            "spec": {"devices": {"requests": [*requests], **devices}},
            "status": dict(status or {}),
        },
    )


def given(*devices: str, node: str = "a", pool: str = "", driver: str = DRIVER) -> dict[str, Any]:
    """The status of a claim that has these devices of a node."""
    return {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "q", "driver": driver, "pool": pool or node, "device": device}
                    for device in devices
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                ]
            },
        }
    }
