"""Pod conditions and nominations, written without any cycle waiting for it.

In: what a cycle decided. Out: patches of the pod's status, each in a task of its own; one that fails is
logged, and the next attempt writes again.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from kuberth.api.core import Pod, PodCondition
from kuberth.api.wire import to_builtins
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.framework.handle import Spawner
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.text.timestamps import moment

logger = logging.getLogger(__name__)

PATCH: Final = "pod_status_patch"
"""What kube-scheduler calls this kind of write in its metrics."""


class PodStatusWriter:
    """Implements `kuberth.outcomes.failure_handling.StatusWriter`."""

    def __init__(self, api: Api, spawn: Spawner, clock: Clock, *, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
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
        now = moment(self._clock.now_ns())
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
        self._metrics.pending_async_api_calls.inc((PATCH,))
        started, result = time.perf_counter(), "success"
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
            result = "error"
            logger.exception(
                "the status of pod %s/%s could not be written", metadata.namespace, metadata.name
            )
        finally:
            self._metrics.pending_async_api_calls.inc((PATCH,), -1)
            self._metrics.async_api_calls.inc((PATCH, result))
            self._metrics.async_api_call_duration.observe((PATCH, result), time.perf_counter() - started)
