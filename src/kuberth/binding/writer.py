"""Writes to the API that no cycle waits for: pod conditions, nominations and events.

In: what a cycle decided. Out: patches and events, each in a task of its own; a write that fails is
logged, and the next attempt writes again.
"""

from __future__ import annotations

import datetime
import logging
from itertools import count
from typing import Any

from kuberth.api.core import ObjectReference, Pod, PodCondition
from kuberth.api.events import Event
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import MicroTime, to_builtins
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.framework.handle import Spawner

logger = logging.getLogger(__name__)


class PodStatusWriter:
    """Implements `kuberth.scheduling.failure.StatusWriter`."""

    def __init__(self, api: Api, spawn: Spawner, clock: Clock) -> None:
        self._api = api
        self._spawn = spawn
        self._clock = clock

    def write(self, pod: Pod, *, condition: PodCondition | None, nomination: str | None) -> None:
        patch: dict[str, Any] = {}
        if condition is not None and (changed := self._changed(pod, condition)) is not None:
            patch["conditions"] = [to_builtins(changed)]
        if nomination is not None and nomination != pod.status.nominated_node_name:
            patch["nominatedNodeName"] = nomination or None
        if patch:
            self._spawn(
                self._patch(pod, patch), name=f"status of {pod.metadata.namespace}/{pod.metadata.name}"
            )

    def _changed(self, pod: Pod, condition: PodCondition) -> PodCondition | None:
        """The condition to write, or None if the pod has it already."""
        old = next((each for each in pod.status.conditions if each.type == condition.type), None)
        now = _time(self._clock.now_ns())
        since = now
        if old is not None and old.status == condition.status:
            since = old.last_transition_time or now
            if (old.reason, old.message) == (condition.reason, condition.message):
                return None
        return PodCondition(
            type=condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            observed_generation=condition.observed_generation,
            last_transition_time=since,
        )

    async def _patch(self, pod: Pod, patch: dict[str, Any]) -> None:
        metadata = pod.metadata
        try:
            await self._api.patch(
                Pod,
                metadata.name,
                {"metadata": {"uid": metadata.uid}, "status": patch},
                namespace=metadata.namespace,
                subresource="status",
            )
        except (NotFoundError, ConflictError):  # deleted, perhaps made again under the same name
            logger.debug("pod %s/%s is gone, its status is not written", metadata.namespace, metadata.name)
        except ApiError:
            logger.exception(
                "the status of pod %s/%s could not be written", metadata.namespace, metadata.name
            )


class ApiEventRecorder:
    """Implements `kuberth.framework.handle.EventRecorder`."""

    def __init__(self, api: Api, spawn: Spawner, clock: Clock, *, controller: str) -> None:
        self._api = api
        self._spawn = spawn
        self._clock = clock
        self._controller = controller
        self._numbers = count(1)

    def record(
        self,
        regarding: Pod,
        *,
        reason: str,
        action: str,
        note: str,
        warning: bool = False,
        related: Any = None,
    ) -> None:
        metadata = regarding.metadata
        now_ns = self._clock.now_ns()
        event = Event(
            metadata=ObjectMeta(
                name=f"{metadata.name}.{now_ns:x}.{next(self._numbers):x}", namespace=metadata.namespace
            ),
            event_time=_micro_time(now_ns),
            reporting_controller=self._controller,
            reporting_instance=self._controller,
            reason=reason,
            action=action,
            note=note,
            type="Warning" if warning else "Normal",
            regarding=_reference(regarding),
            related=None if related is None else _reference(related),
        )
        self._spawn(self._create(event), name=f"event {reason} of {metadata.namespace}/{metadata.name}")

    async def _create(self, event: Event) -> None:
        try:
            await self._api.create(event)
        except ApiError:
            logger.exception(
                "event %s/%s could not be written", event.metadata.namespace, event.metadata.name
            )


def _reference(obj: Any) -> ObjectReference:
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _time(now_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(now_ns // NANOSECONDS, datetime.UTC)


def _micro_time(now_ns: int) -> MicroTime:
    return MicroTime.fromtimestamp(now_ns / NANOSECONDS, datetime.UTC)
