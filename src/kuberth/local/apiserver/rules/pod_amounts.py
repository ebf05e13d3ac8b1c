"""The requests or limits of a whole pod, for quotas and limit ranges. In: a spec. Out: quantities."""

from __future__ import annotations

from typing import Final

from kuberth.api.quantity import Quantity, parse
from kuberth.local.apiserver.objects import Obj

Amounts = dict[str, Quantity]

_POD_LEVEL: Final = ("cpu", "memory")


def pod_amounts(spec: Obj, field: str) -> Amounts:
    """The sum of `requests` or `limits`: containers together or init containers in turn, whichever is more.

    Init containers that restart (sidecars) stay, so they count beside all that follow. What the pod itself
    asks for goes before what its containers do. Overhead comes on top, of limits only where there are some.
    """
    total: Amounts = {}
    for container in spec.get("containers", ()):
        total = added(total, _of(container, field))
    sidecars: Amounts = {}
    first: Amounts = {}
    for container in spec.get("initContainers", ()):
        own = _of(container, field)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, own)
            own = sidecars
        else:
            own = added(sidecars, own)
        first = _larger(first, own)
    total = _larger(added(total, sidecars), first)
    for name, quantity in _of(spec, field).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            total[name] = quantity
    overhead = {name: parse(text) for name, text in spec.get("overhead", {}).items()}
    if field == "limits":
        overhead = {name: quantity for name, quantity in overhead.items() if name in total}
    return added(total, overhead)


def added(left: Amounts, right: Amounts) -> Amounts:
    return {**left, **{name: left[name] + more if name in left else more for name, more in right.items()}}


def _larger(left: Amounts, right: Amounts) -> Amounts:
    return {**left, **{name: max(left[name], more) if name in left else more for name, more in right.items()}}


def _of(holder: Obj, field: str) -> Amounts:
    return {name: parse(text) for name, text in (holder.get("resources") or {}).get(field, {}).items()}
