"""DefaultBinder: binds a pod through the API's binding subresource."""

from __future__ import annotations

import asyncio
from typing import Final

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.rendering import binding_json
from kuberth.client.writes import Verb, Write
from kuberth.errors import AnswerLostError, ConflictError
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import BindPlugin
from kuberth.framework.handle import Handle

TRIES: Final = 3
_SENT: Final = StateKey[bool]("DefaultBinder")
"""The mark of a posted binding: if its response is lost, the pod may be bound already."""


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._api = handle.api

    def bind_nowait(self, state: CycleState, pod: Pod, node_name: str) -> asyncio.Future[None] | None:
        """Post the binding, if the API supports posts."""
        metadata = pod.metadata
        namespace, name = metadata.namespace, metadata.name
        sent = self._api.post_nowait(
            Write(
                Verb.CREATE,
                Pod,
                name,
                namespace,
                "binding",
                binding_json(namespace=namespace, name=name, uid=metadata.uid, node_name=node_name),
                description=f"bind pod {namespace}/{name} to node {node_name}",
            )
        )
        if sent is not None:
            state.write(_SENT, True)
        return sent

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Bind the pod; if the response is lost, read the pod to see whether it was bound."""
        if state.get(_SENT) and await self._is_bound(pod, node_name):
            return
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
            raise ConflictError(f"pod {metadata.namespace}/{metadata.name} was deleted and recreated")
        if present.spec.node_name not in ("", node_name):
            key = f"{metadata.namespace}/{metadata.name}"
            raise ConflictError(f"pod {key} was bound to {present.spec.node_name} by another client")
        return present.spec.node_name == node_name
