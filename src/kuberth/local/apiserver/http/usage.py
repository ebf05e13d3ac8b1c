"""metrics.k8s.io, for `kubectl top`: what nodes and pods use.

In: running pods. Out: NodeMetrics and PodMetrics. Hollow pods run nothing, so they use what they requested:
exactly that, always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from kuberth.api import quantity
from kuberth.clock import Clock
from kuberth.errors import QuantityError
from kuberth.https.messages import Query
from kuberth.local.apiserver.http.routing import Target
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import not_found
from kuberth.local.apiserver.verbs.core import Core
from kuberth.text.timestamps import stamp

GROUP: Final = "metrics.k8s.io"
_VERBS: Final = ("get", "list")
NODES: Final = ServedResource(GROUP, "v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=_VERBS)
PODS: Final = ServedResource(GROUP, "v1beta1", "PodMetrics", "pods", verbs=_VERBS)
USAGES: Final = (NODES, PODS)

_WINDOW: Final = "30s"

Amounts = Counter[str]


class Usages:
    def __init__(self, core: Core, *, clock: Clock) -> None:
        self._core = core
        self._clock = clock

    async def answer(self, target: Target, query: Query) -> Obj:
        """The usage of one object, or the list of usages that the selectors choose."""
        make = self._nodes if target.row is NODES else self._pods
        if target.name:
            found = [await self._core.get(target.row.plural, target.name, namespace=target.namespace)]
            usages = await make(found)
            if not usages:  # a pod that does not run
                raise not_found(target.row, target.name)
            return usages[0]
        objects = await self._core.list(
            target.row.plural,
            namespace=target.namespace,
            label_selector=query.text("labelSelector"),
            field_selector=query.text("fieldSelector"),
        )
        return {
            "kind": target.row.list_kind,
            "apiVersion": target.row.api_version,
            "metadata": {},
            "items": await make(objects["items"]),
        }

    async def _pods(self, pods: Iterable[Obj]) -> list[Obj]:
        return [
            {
                **self._head(PODS, pod),
                "containers": [
                    {"name": container["name"], "usage": _usage(_requests(container))}
                    for container in _containers(pod)
                ],
            }
            for pod in pods
            if _runs(pod)
        ]

    async def _nodes(self, nodes: Iterable[Obj]) -> list[Obj]:
        totals: dict[str, Amounts] = {}
        for pod in (await self._core.list("pods"))["items"]:
            if _runs(pod):
                total = totals.setdefault(pod["spec"]["nodeName"], Counter())
                for container in _containers(pod):
                    total.update(_requests(container))
        return [
            {**self._head(NODES, node), "usage": _usage(totals.get(node["metadata"]["name"], Counter()))}
            for node in nodes
        ]

    def _head(self, row: ServedResource, obj: Obj) -> Obj:
        now = stamp(self._clock)
        kept = {
            key: obj["metadata"][key] for key in ("name", "namespace", "labels") if obj["metadata"].get(key)
        }
        return {
            "kind": row.kind,
            "apiVersion": row.api_version,
            "metadata": {**kept, "creationTimestamp": now},
            "timestamp": now,
            "window": _WINDOW,
        }


def _runs(pod: Obj) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and bool(pod["spec"].get("nodeName"))


def _containers(pod: Obj) -> list[Obj]:
    """The containers that run at the same time, sidecars included."""
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return [*sidecars, *spec["containers"]]


def _requests(container: Obj) -> Amounts:
    """CPU in thousandths and memory in bytes."""
    requests: Any = (container.get("resources") or {}).get("requests") or {}
    return Counter(
        cpu=_number(quantity.milli_value, requests.get("cpu", 0)),
        memory=_number(quantity.value, requests.get("memory", 0)),
    )


def _number(read: Any, amount: Any) -> int:
    try:
        return max(0, int(read(amount)))
    except QuantityError:
        return 0


def _usage(amounts: Amounts) -> Obj:
    return {"cpu": f"{amounts['cpu']}m", "memory": f"{amounts['memory'] // 1024}Ki"}
