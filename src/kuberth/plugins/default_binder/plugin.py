"""DefaultBinder: binds a pod through the API's binding subresource."""

from __future__ import annotations

from typing import Final

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.errors import AnswerLostError, ConflictError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import BindPlugin
from kuberth.framework.handle import Handle

TRIES: Final = 3


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._api = handle.api

    async def bind(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        """Bind; when the answer is lost, the pod itself tells whether it was bound."""
        metadata = pod.metadata
        binding = Binding(
            metadata=ObjectMeta(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )
        for tries_left in reversed(range(TRIES)):
            try:
                await self._api.bind(binding)
            except AnswerLostError:
                if await self._is_bound(pod, node_name):
                    return
                if not tries_left:
                    raise
            else:
                return

    async def _is_bound(self, pod: Pod, node_name: str) -> bool:
        metadata = pod.metadata
        present = await self._api.get(Pod, metadata.name, namespace=metadata.namespace)
        if present.metadata.uid != metadata.uid:
            raise ConflictError(f"pod {metadata.namespace}/{metadata.name} was deleted and made again")
        if present.spec.node_name not in ("", node_name):
            key = f"{metadata.namespace}/{metadata.name}"
            raise ConflictError(f"pod {key} was bound to {present.spec.node_name} by someone else")
        return present.spec.node_name == node_name
