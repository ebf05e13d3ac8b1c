"""Node ports of services. In: a service and all others. Out: its ports, numbered in place."""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.objects import Obj, key_of, name_of
from kuberth.local.apiserver.refusals import invalid
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.metadata_validation import invalid_value
from kuberth.local.apiserver.rules.write_context import WriteContext

_SERVICES: Final = ServedResource("", "v1", "Service", "services")
_RANGE: Final = range(30000, 32768)


def set_node_ports(service: Obj, old: Obj | None, context: WriteContext) -> None:
    """Assign a free node port to each port that needs one; existing numbers are kept."""
    spec = service["spec"]
    ports = spec.get("ports", ())
    if not _wants(spec):
        if old is not None and _wants(old["spec"]):
            for port in ports:
                port.pop("nodePort", None)
        return
    before = (
        {}
        if old is None
        else {_identity(port): port.get("nodePort") for port in old["spec"].get("ports", ())}
    )
    taken = {
        (port["nodePort"], port.get("protocol"))
        for other in context.store.latest_list("services")
        if key_of(other) != key_of(service)
        for port in other.get("spec", {}).get("ports", ())
        if port.get("nodePort")
    }
    for index, port in enumerate(ports):
        number = port.get("nodePort") or before.get(_identity(port)) or 0
        if number:
            _check(service, number, index, taken=(number, port.get("protocol")) in taken)
        else:
            number = next((each for each in _RANGE if (each, port.get("protocol")) not in taken), 0)
        if number:
            port["nodePort"] = number
            taken.add((number, port.get("protocol")))


def _wants(spec: Obj) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _identity(port: Obj) -> tuple[object, object]:
    return port.get("port"), port.get("protocol")


def _check(service: Obj, number: int, index: int, *, taken: bool) -> None:
    why = ""
    if number not in _RANGE:
        ends = f"{_RANGE.start}-{_RANGE.stop - 1}"
        why = f"provided port is not in the valid range. The range of valid ports is {ends}"
    elif taken:
        why = "provided port is already allocated"
    if why:
        cause = invalid_value(f"spec.ports[{index}].nodePort", number, why)
        raise invalid(_SERVICES, name_of(service), [cause])
