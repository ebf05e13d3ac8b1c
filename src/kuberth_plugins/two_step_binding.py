"""TwoStepBinding: a driver prepares a node for a pod before the pod is bound to it (KEP-4247's story).

In: pods with the annotation `plugins.kuberth.io/prepare`, and NodePreparations. Out: Reserve creates a
preparation and returns Pending; when the driver reports Ready, the pod is retried without a backoff and bound
to that node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kuberth.api import PlainObject, Pod, register_kind
from kuberth.cluster.nodes import Nodes
from kuberth.framework import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    EventWithHint,
    Handle,
    Hint,
    Inputs,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Status,
)

ANNOTATION: Final = "plugins.kuberth.io/prepare"
"""The requested preparation; its meaning is up to the driver."""


def node_preparation_kind() -> type[PlainObject]:
    """A driver's work on a node for a pod. It has the pod's name, and is deleted with the pod."""
    return register_kind(
        "NodePreparation", group="plugins.kuberth.io", version="v1alpha1", plural="nodepreparations"
    )


class TwoStepBinding(PreFilterPlugin, ReservePlugin, EnqueueExtensions):
    """The first cycle of a pod chooses the node, the second one binds the pod to it."""

    name = "TwoStepBinding"
    inputs = Inputs(
        {"metadata.namespace", "metadata.name", "metadata.uid"},
        pre_filter=DependsOn.ANYTHING,
        only_with={"metadata.annotations"},
    )

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle
        self._kind = node_preparation_kind()
        self._preparations = handle.stores.of(self._kind)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        if ANNOTATION not in pod.metadata.annotations:
            return SKIP
        found = self._preparation(pod)
        node_name = _spec(found).get("nodeName", "")
        if found is None or self._handle.cluster.node_named(node_name) is None:
            return None  # any node is feasible; Reserve requests a preparation there
        if _phase(found) == "Failed":
            return Status.unresolvable(f"the preparation of node {node_name} failed; delete it to try again")
        return PreFilterResult(frozenset({node_name}))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if ANNOTATION not in pod.metadata.annotations:
            return None
        found = self._preparation(pod)
        if found is None or _spec(found).get("nodeName") != node_name:
            self._handle.spawn(self._request(pod, node_name), name=f"preparation for {pod.metadata.name}")
        elif _phase(found) == "Ready":
            return None
        return Status.pending(f"node {node_name} is being prepared")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Does nothing: a preparation outlives the cycle that requested it."""

    def _preparation(self, pod: Pod) -> PlainObject | None:
        """The preparation for this pod; one of an earlier pod with its name does not count."""
        found = self._preparations.get(pod.metadata.name, namespace=pod.metadata.namespace)
        return found if _spec(found).get("podUID") == pod.metadata.uid else None

    async def _request(self, pod: Pod, node_name: str) -> None:
        metadata = pod.metadata
        if self._preparations.get(metadata.name, namespace=metadata.namespace) is not None:
            await self._handle.api.delete(self._kind, metadata.name, namespace=metadata.namespace)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid}
        await self._handle.api.create(
            self._kind(
                {
                    "metadata": {
                        "name": metadata.name,
                        "namespace": metadata.namespace,
                        "ownerReferences": [owner],
                    },
                    "spec": {
                        "nodeName": node_name,
                        "podUID": metadata.uid,
                        "prepare": metadata.annotations[ANNOTATION],
                    },
                }
            )
        )

    def events_to_register(self) -> Iterable[EventWithHint]:
        event = ClusterEvent("nodepreparations.v1alpha1.plugins.kuberth.io", Action.ALL)
        return [EventWithHint(event, self._after_change)]

    def _after_change(self, pod: Pod, old: object, new: object) -> Hint:
        """A preparation that ended, or was deleted, helps its pod."""
        changed = new if isinstance(new, PlainObject) else old
        is_own = isinstance(changed, PlainObject) and _spec(changed).get("podUID") == pod.metadata.uid
        is_over = new is None or _phase(changed) in ("Ready", "Failed")
        return Hint.QUEUE if is_own and is_over else Hint.SKIP


def _spec(preparation: PlainObject | None) -> dict[str, Any]:
    return {} if preparation is None else dict(preparation.get("spec", {}))


def _phase(preparation: object) -> str:
    return str(preparation.get("status", {}).get("phase", "")) if isinstance(preparation, PlainObject) else ""
