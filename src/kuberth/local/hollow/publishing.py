"""Publishes the API server's address and CA, as pods in a real cluster find them.

In: the server's address and CA certificate. Out: a ConfigMap kube-root-ca.crt in every namespace, and the
endpoints of the Service `kubernetes`. Without a server (everything in one process) nothing is published.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informer, Informers

CA_CONFIG_MAP: Final = "kube-root-ca.crt"
_SERVICE: Final = {"name": "kubernetes", "namespace": "default"}
_DESCRIPTION: Final = "The CA certificate by which the API server of this cluster can be recognised."


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    host: str
    port: int
    ca_certificate: str


class Publisher(Controller):
    name = "root-ca-certificate-publisher"

    def __init__(self, informers: Informers, identity: ServerIdentity, *, clock: Clock) -> None:
        self._identity = identity
        super().__init__(informers, clock=clock)

    def set_up(self) -> None:
        self._queue = self.queue_of("namespaces", self._sync)
        self.watch("namespaces", self._queue.add_changed)
        self._config_maps = self.watch("configmaps", self._on_config_map)
        self._endpoints = self.watch("endpoints")
        self._slices = self.watch("endpointslices.discovery.k8s.io")

    async def run(self) -> None:
        await self.wait_synced()
        await self._publish_server()
        await super().run()

    def _on_config_map(self, old: Obj | None, new: Obj | None) -> None:
        found = new or old or {}
        if name_of(found) == CA_CONFIG_MAP:
            self._queue.add(namespace_of(found))

    async def _sync(self, namespace: Obj) -> None:
        if "deletionTimestamp" in namespace["metadata"]:
            return
        metadata = {
            "name": CA_CONFIG_MAP,
            "namespace": name_of(namespace),
            "annotations": {"kubernetes.io/description": _DESCRIPTION},
        }
        data = {"ca.crt": self._identity.ca_certificate}
        await _put(
            self._config_maps,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
            ("data",),
        )

    async def _publish_server(self) -> None:
        host, port = self._identity.host, self._identity.port
        try:
            kind = f"IPv{ipaddress.ip_address(host).version}"
        except ValueError:
            return  # endpoints are addresses, not names
        await _put(
            self._endpoints,
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": _SERVICE,
                "subsets": [{"addresses": [{"ip": host}], "ports": [_port(port)]}],
            },
            ("subsets",),
        )
        await _put(
            self._slices,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**_SERVICE, "labels": {"kubernetes.io/service-name": "kubernetes"}},
                "addressType": kind,
                "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
                "ports": [_port(port)],
            },
            ("endpoints", "ports"),
        )


def _port(number: int) -> Obj:
    return {"name": "https", "port": number, "protocol": "TCP"}


async def _put(objects: Informer, body: Obj, fields: tuple[str, ...]) -> None:
    """Make an object, or give the one that is there these fields."""
    present = objects.get(f"{namespace_of(body)}/{name_of(body)}")
    if present is None:
        await objects.create_if_absent(body)
    elif any(present.get(field) != body[field] for field in fields):
        await objects.update({**present, **{field: body[field] for field in fields}})
