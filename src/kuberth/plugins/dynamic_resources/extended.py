"""Extended resources that are backed by a device class: the claim that the scheduler creates for them.

In: a pod with such resources, and which of them a node offers itself. Out: a claim with a request for every
container that needs devices, and the mapping of containers to requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kuberth.api.core import Container, ContainerExtendedResourceRequest, Pod
from kuberth.api.meta import ObjectMeta, OwnerReference
from kuberth.api.quantity import parse
from kuberth.api.resource import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim
from kuberth.plugins.devices.claims import EXTENDED_RESOURCE_CLAIM
from kuberth.plugins.devices.classes import KnownClasses, may_be_backed
from kuberth.plugins.dynamic_resources.allocator.demand import EXACT_COUNT

IN_MEMORY_NAME: Final = "<extended-resources>"
"""The name of the claim before it is written; no claim in the API can have it."""

Mappings = Sequence[ContainerExtendedResourceRequest]


def backed_resources(scalars: Mapping[str, int], classes: KnownClasses) -> Mapping[str, int]:
    """The resources of a pod that could be backed by devices; empty if none has a class."""
    if not scalars or classes.is_empty:
        return {}
    wanted = {name: amount for name, amount in scalars.items() if amount and may_be_backed(name)}
    return wanted if any(classes.behind(name) is not None for name in wanted) else {}


def special_claim(pod: Pod) -> ResourceClaim:
    """A claim for the pod's extended resources, without requests: these differ by node."""
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            namespace=pod.metadata.namespace,
            uid=str(uuid.uuid4()),
            generate_name=f"{pod.metadata.name}-extended-resources-",
            owner_references=(
                OwnerReference(
                    api_version="v1",
                    kind="Pod",
                    name=pod.metadata.name,
                    uid=pod.metadata.uid,
                    controller=True,
                ),
            ),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def with_requests(claim: ResourceClaim, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    return replace(claim, spec=replace(claim.spec, devices=DeviceClaim(requests=tuple(requests))))


def requests_for(
    pod: Pod, resources: Iterable[str], classes: KnownClasses
) -> tuple[Sequence[DeviceRequest], Mappings]:
    """Requests for these resources, and the mapping of containers to them."""
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    before = {place for place, container in enumerate(pod.spec.init_containers) if not _is_sidecar(container)}
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources, key=str.encode):
        device_class = classes.behind(resource)
        if device_class is None:
            continue
        found, mapped = _of_resource(containers, before, resource, device_class.metadata.name)
        requests += found
        mappings += mapped
    requests.sort(key=lambda request: request.name.encode())
    return requests, mappings


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _of_resource(
    containers: Sequence[Container], before: Collection[int], resource: str, class_name: str
) -> tuple[Sequence[DeviceRequest], Sequence[ContainerExtendedResourceRequest]]:
    """Containers that end before others start reuse the devices of those, and one request covers the rest."""
    lasting: list[DeviceRequest | None] = [None] * len(containers)
    lasting_mappings: list[ContainerExtendedResourceRequest] = []
    for place, container in enumerate(containers):
        if place not in before:
            lasting[place], mapped = _of_container(place, container, resource, class_name, ())
            lasting_mappings += mapped
    largest: DeviceRequest | None = None
    names: set[str] = set()
    passing_mappings: list[ContainerExtendedResourceRequest] = []
    for place in sorted(before):
        request, mapped = _of_container(
            place, containers[place], resource, class_name, [each for each in lasting[place:] if each]
        )
        passing_mappings += mapped
        if request is not None:
            names.add(request.name)
            if largest is None or _count(largest) < _count(request):
                largest = request
    if largest is not None:
        passing_mappings = [
            replace(mapping, request_name=largest.name) if mapping.request_name in names else mapping
            for mapping in passing_mappings
        ]
    requests = [each for each in (largest, *lasting) if each is not None]
    return requests, [*lasting_mappings, *passing_mappings]


def _of_container(
    place: int,
    container: Container,
    resource: str,
    class_name: str,
    reusable: Sequence[DeviceRequest],
) -> tuple[DeviceRequest | None, Sequence[ContainerExtendedResourceRequest]]:
    asked = container.resources.requests
    if resource not in asked:
        return None, []
    quantity = parse(asked[resource])
    # For upstream, "1000m" is not an integer because of its notation.
    amount = 0 if quantity.big or quantity.exponent < 0 else quantity.value()
    if amount == 0:
        return None, []

    def mapping(request_name: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=resource, request_name=request_name
        )

    mappings = []
    there = 0
    for request in reusable:
        there += _count(request)
        mappings.append(mapping(request.name))
        if there >= amount:
            return None, mappings
    number = sorted(asked, key=str.encode).index(resource)
    name = f"container-{place}-request-{number}"
    exactly = ExactDeviceRequest(
        device_class_name=class_name, allocation_mode=EXACT_COUNT, count=amount - there
    )
    return DeviceRequest(name=name, exactly=exactly), [*mappings, mapping(name)]


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count
