"""DefaultBinder: binds a pod through the API's binding subresource."""

from __future__ import annotations

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import BindPlugin
from kuberth.framework.handle import Handle


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._api = handle.api

    async def bind(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        metadata = pod.metadata
        await self._api.bind(
            Binding(
                metadata=ObjectMeta(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
                target=ObjectReference(kind="Node", name=node_name),
            )
        )
