"""The requests or limits of a whole pod, for quotas and limit ranges. In: a spec. Out: quantities."""

from __future__ import annotations

from kuberth.api.pod_resources import (
    SIDECAR,
    add_amounts,
    is_pod_level_resource,
    parse_amounts,
    sum_containers,
)
from kuberth.api.quantity import Quantity
from kuberth.local.apiserver.objects import Obj

Amounts = dict[str, Quantity]


def pod_amounts(spec: Obj, field: str) -> Amounts:
    """The sum of `requests` or `limits` of the containers.

    What the pod itself asks for replaces what its containers do. Overhead comes on top, of limits only where
    there are some.
    """
    total = sum_containers(
        (_of(each, field) for each in spec.get("containers", ())),
        ((each.get("restartPolicy") == SIDECAR, _of(each, field)) for each in spec.get("initContainers", ())),
    )
    total |= {name: amount for name, amount in _of(spec, field).items() if is_pod_level_resource(name)}
    overhead = parse_amounts(spec.get("overhead", {}))
    if field == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def added(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    add_amounts(total, right)
    return total


def _of(holder: Obj, field: str) -> Amounts:
    return parse_amounts((holder.get("resources") or {}).get(field, {}))
