"""Endpoints and EndpointSlices: the pods of a Service.

In: services with a selector, and pods. Out: for each service, slices of at most a hundred pods, and the
legacy Endpoints object. There is no routing; controllers and tests read them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from kuberth.local.apiserver.objects import Obj, by_age, key_of, labels_of, name_of, namespace_of, selector_of
from kuberth.local.hollow.controlling import Controller, by_namespace
from kuberth.local.hollow.ownership import reference_to
from kuberth.local.hollow.pod_states import is_finished, is_ready, node_of
from kuberth.local.hollow.working import coalesce_seconds

_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_ENDPOINTS_MANAGER: Final = "endpoint-controller"
_PER_SLICE: Final = 100
_MOST_ADDRESSES: Final = 1000
"""Most addresses of an Endpoints object, as upstream."""
_COALESCE_SECONDS: Final = 0.25

Port = tuple[str, int, str]
"""Name, number and protocol."""


class EndpointsController(Controller):
    name = "endpointslice"

    def set_up(self) -> None:
        self._queue = self.queue(self.name, self._sync)
        indexes = {"namespace": by_namespace}
        self._services = self.watch("services", self._queue.add_changed, indexes=indexes)
        self._pods = self.watch("pods", indexes=indexes)
        self._pods.add_handler(self._on_pod)
        self._slices = self.watch(
            "endpointslices.discovery.k8s.io", self._on_slice, indexes={_SERVICE_LABEL: _service_keys}
        )
        self._endpoints = self.watch("endpoints")

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        pods = [pod for pod in (old, new) if pod is not None]
        namespace = namespace_of(pods[-1])
        for service in self._services.by("namespace", namespace):
            selector = _selector(service)
            if selector and any(selector.items() <= labels_of(pod).items() for pod in pods):
                if len(pods) == 2 and old is not new and _shown(pods[0]) == _shown(pods[1]):
                    return
                seconds = coalesce_seconds(self._pods.count("namespace", namespace))
                self._queue.add_after(key_of(service), max(seconds, _COALESCE_SECONDS))

    def _on_slice(self, old: Obj | None, new: Obj | None) -> None:
        """Queue the service of a deleted slice, so that the slice is created again."""
        if new is None and old is not None:
            for key in _service_keys(old):
                self._queue.add_after(key, _COALESCE_SECONDS)

    async def _sync(self, key: str) -> None:
        service = self._services.get(key)
        if service is None or self._services.is_terminating(service):
            # The slices are deleted with their owner; the Endpoints object has none.
            found = self._endpoints.get(key)
            if found is not None and _ENDPOINTS_MANAGED_BY in labels_of(found):
                await self._endpoints.delete(found)
            return
        selector = _selector(service)
        if not selector:
            return
        matching = selector_of({"matchLabels": selector})
        pods = [
            pod
            for pod in self._pods.by("namespace", namespace_of(service))
            if matching.matches(labels_of(pod)) and _has_address(pod) and not is_finished(pod)
        ]
        # The newest last, so that a new pod changes only the last slice.
        pods.sort(key=by_age)
        by_ports: dict[tuple[Port, ...], list[Obj]] = {}
        for pod in pods:
            by_ports.setdefault(tuple(_ports(service, pod)), []).append(pod)
        await self._write_slices(service, by_ports)
        await self._write_endpoints(service, by_ports)

    async def _write_slices(self, service: Obj, by_ports: dict[tuple[Port, ...], list[Obj]]) -> None:
        wanted = [
            _slice(service, ports, [self._endpoint(service, pod) for pod in pods[at : at + _PER_SLICE]])
            for ports, pods in by_ports.items()
            for at in range(0, len(pods), _PER_SLICE)
        ] or [_slice(service, (), [])]
        present = [
            each
            for each in self._slices.by(_SERVICE_LABEL, key_of(service))
            if labels_of(each).get(_MANAGED_BY) == _MANAGER and not self._slices.is_terminating(each)
        ]
        present.sort(key=by_age)
        for index, body in enumerate(wanted):
            if index >= len(present):
                await self._slices.create(body)
                continue
            old = present[index]
            new = {**old, **{field: body[field] for field in ("endpoints", "ports")}}
            new["metadata"] = {**old["metadata"], "labels": body["metadata"]["labels"]}
            if new != {"endpoints": [], "ports": [], **old}:
                await self._slices.update(new)
        for extra in present[len(wanted) :]:
            await self._slices.delete(extra)

    def _endpoint(self, service: Obj, pod: Obj) -> Obj:
        leaving = self._pods.is_terminating(pod)
        serving = is_ready(pod)
        ready = serving and not leaving
        if service["spec"].get("publishNotReadyAddresses"):
            ready = True
        return {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": ready, "serving": serving, "terminating": leaving},
            **({"nodeName": node_of(pod)} if node_of(pod) else {}),
            "targetRef": _reference(pod),
        }

    async def _write_endpoints(self, service: Obj, by_ports: dict[tuple[Port, ...], list[Obj]]) -> None:
        subsets, left = [], _MOST_ADDRESSES
        for ports, pods in by_ports.items():
            subset: Obj = {}
            for pod in [pod for pod in pods if not self._pods.is_terminating(pod)][:left]:
                ready = is_ready(pod) or service["spec"].get("publishNotReadyAddresses")
                field = "addresses" if ready else "notReadyAddresses"
                address = {"ip": pod["status"]["podIP"], "targetRef": _reference(pod)}
                if node_of(pod):
                    address["nodeName"] = node_of(pod)
                subset.setdefault(field, []).append(address)
                left -= 1
            if subset and ports:
                subset["ports"] = [_written(port) for port in ports]
            if subset:
                subsets.append(subset)
        labels = {**labels_of(service), _ENDPOINTS_MANAGED_BY: _ENDPOINTS_MANAGER}
        old = self._endpoints.get(key_of(service))
        if old is None:
            metadata = {"name": name_of(service), "namespace": namespace_of(service), "labels": labels}
            body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            await self._endpoints.create_if_absent(body)
            return
        new = {**old, "metadata": {**old["metadata"], "labels": labels}, "subsets": subsets}
        if new != {"subsets": [], **old}:
            await self._endpoints.update(new)


def _selector(service: Obj) -> dict[str, str]:
    spec = service.get("spec", {})
    selector: dict[str, str] = spec.get("selector") or {}
    return {} if spec.get("type") == "ExternalName" else selector


def _has_address(pod: Obj) -> bool:
    """Whether the pod has an IPv4 address; any client can write a pod's status."""
    try:
        ipaddress.IPv4Address(pod.get("status", {}).get("podIP", ""))
    except ValueError:
        return False
    return True


def _shown(pod: Obj) -> tuple[object, ...]:
    """The fields of a pod that endpoints show."""
    leaving = "deletionTimestamp" in pod["metadata"]
    ip = pod.get("status", {}).get("podIP")
    return labels_of(pod), ip, is_ready(pod), is_finished(pod), leaving, node_of(pod)


def _service_keys(endpoint_slice: Obj) -> Iterable[str]:
    name = labels_of(endpoint_slice).get(_SERVICE_LABEL)
    return (f"{namespace_of(endpoint_slice)}/{name}",) if name else ()


def _ports(service: Obj, pod: Obj) -> Iterable[Port]:
    """The service's ports as the pod has them; a name that the pod does not know is left out."""
    for port in service["spec"].get("ports", ()):
        target, protocol = port.get("targetPort", port.get("port")), port.get("protocol", "TCP")
        if isinstance(target, str):
            target = next(
                (
                    each.get("containerPort")
                    for container in pod["spec"].get("containers", ())
                    for each in container.get("ports", ())
                    if each.get("name") == target and each.get("protocol", "TCP") == protocol
                ),
                None,
            )
        if target:
            yield port.get("name", ""), target, protocol


def _written(port: Port, *, empty_name: bool = False) -> Obj:
    name, number, protocol = port
    return {**({"name": name} if name or empty_name else {}), "port": number, "protocol": protocol}


def _reference(pod: Obj) -> Obj:
    return {
        "kind": "Pod",
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "uid": pod["metadata"]["uid"],
    }


def _slice(service: Obj, ports: Sequence[Port], endpoints: list[Obj]) -> Obj:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name_of(service)}-",
            "namespace": namespace_of(service),
            "labels": {**labels_of(service), _SERVICE_LABEL: name_of(service), _MANAGED_BY: _MANAGER},
            "ownerReferences": [reference_to(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [_written(port, empty_name=True) for port in ports],
    }
