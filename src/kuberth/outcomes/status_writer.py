"""Writes pod conditions and nominations in the background.

In: the outcome of a cycle. Out: patches of the pod's status, in order for one pod and concurrent for
different pods, limited by how fast the API server answers. Changes that arrive while a patch is in flight or
waits are merged into the next one. A failed patch is logged, and the next attempt writes again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from kuberth.api.core import Pod, PodCondition
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import to_builtins
from kuberth.client.adaptive_limit import AdaptiveLimit
from kuberth.client.protocol import Api
from kuberth.client.writes import Verb, Write
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ConflictError, KuberthError, NotFoundError
from kuberth.framework.handle import Spawner
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.text.timestamps import moment

logger = logging.getLogger(__name__)

REWORDINGS_PER_SECOND: Final = 20
"""How many conditions per second are written, over all pods, if only the message has changed."""
MAX_REWORDINGS: Final = 200
"""How many of these are written at once after a pause."""
MAX_WRITTEN: Final = 4096
"""For how many pods the written status is remembered until the watch delivers it."""
PATCH: Final = "pod_status_patch"
"""What kube-scheduler calls this kind of write in its metrics."""


@dataclass(slots=True)
class _Change:
    """The status to write for one pod."""

    conditions: dict[str, PodCondition] = field(default_factory=dict)
    """Conditions by type."""
    nomination: str | None = None
    """The nomination; None leaves it unchanged, "" clears it."""
    version: str = ""
    """The version of the pod for which the change was decided."""

    def __bool__(self) -> bool:
        return bool(self.conditions) or self.nomination is not None

    def add(self, newer: _Change) -> None:
        self.conditions |= newer.conditions
        if newer.nomination is not None:
            self.nomination = newer.nomination
        self.version = newer.version

    def patch(self) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        if self.conditions:
            patch["conditions"] = [to_builtins(condition) for condition in self.conditions.values()]
        if self.nomination is not None:
            patch["nominatedNodeName"] = self.nomination or None
        return patch


class PodStatusWriter:
    """Implements `kuberth.outcomes.failure_handling.StatusWriter`."""

    def __init__(
        self, api: Api, spawn: Spawner, clock: Clock, *, metrics: SchedulerMetrics, limit: AdaptiveLimit
    ) -> None:
        """`limit`: limits the number of concurrent patches."""
        self._metrics = metrics
        self._limit = limit
        self._api = api
        self._spawn = spawn
        self._clock = clock
        self._under_way: dict[str, list[_Change]] = {}
        """By the pod's UID: the change being written, and the one that waits for it, if any."""
        self._waiting: dict[str, ObjectMeta] = {}
        """By the pod's UID: pods whose first change waits for the limit, the oldest first."""
        self._rewordings = float(MAX_REWORDINGS)
        self._rewordings_at_ns = clock.now_ns()
        self._ended: dict[str, asyncio.Event] = {}
        """By the pod's UID: set if its binding waits for the change."""
        self._written: OrderedDict[str, _Change] = OrderedDict()
        """By UID: what was written on top of the pod's known version. The watch may be late, and repeated
        patches would delay it further."""

    def write(self, pod: Pod, *, condition: PodCondition | None, nomination: str | None) -> bool:
        metadata = pod.metadata
        under_way = self._under_way.get(metadata.uid)
        conditions, nominated = _expected_status(self._as_written(pod), under_way or ())
        old = None if condition is None else conditions.get(condition.type)
        is_known = condition is None or (old is not None and _is_same_condition(old, condition))
        is_nominated = nomination in (None, nominated)
        if is_known and is_nominated:
            return under_way is None  # if an earlier change fails, the next attempt writes again
        is_a_request = under_way is None or (len(under_way) == 1 and metadata.uid not in self._waiting)
        only_rewords = is_nominated and _is_reworded(old, condition)
        if is_a_request and only_rewords and not self._may_reword():
            return False
        # While an earlier change is in flight, which may fail, this one contains everything.
        change = _Change(version=metadata.resource_version)
        if condition is not None and not (is_known and under_way is None):
            change.conditions[condition.type] = self._with_transition_time(condition, old)
        if under_way or not is_nominated:
            change.nomination = nomination
        if under_way is None:
            self._under_way[metadata.uid] = [change]
            if self._waiting or not self._limit.has_room():
                self._waiting[metadata.uid] = metadata
            else:
                self._start(metadata)
        elif len(under_way) == 1 and metadata.uid not in self._waiting:
            under_way.append(change)
        else:
            under_way[-1].add(change)
        return False

    def _as_written(self, pod: Pod) -> Pod:
        """The pod with everything that was written, if no newer version is known."""
        metadata, status = pod.metadata, pod.status
        written = self._written.get(metadata.uid)
        if written is None:
            return pod
        if written.version != metadata.resource_version:
            del self._written[metadata.uid]
            return pod
        conditions, nomination = _expected_status(pod, (written,))
        status = replace(status, conditions=tuple(conditions.values()), nominated_node_name=nomination)
        return replace(pod, status=status)

    def _record_written(self, uid: str, change: _Change) -> None:
        before = self._written.pop(uid, None)
        if before is not None and before.version == change.version:
            before.add(change)
            change = before
        if change.version:
            self._written[uid] = change
        if len(self._written) > MAX_WRITTEN:
            self._written.popitem(last=False)

    def _may_reword(self) -> bool:
        """Whether a condition may be written now if only its message has changed.

        On a full cluster, every placed pod changes the message of all pending pods; if this returns False,
        the next attempt tries again.
        """
        now_ns = self._clock.now_ns()
        earned = (now_ns - self._rewordings_at_ns) * REWORDINGS_PER_SECOND / NANOSECONDS
        self._rewordings = min(self._rewordings + earned, MAX_REWORDINGS)
        self._rewordings_at_ns = now_ns
        if self._rewordings < 1:
            return False
        self._rewordings -= 1
        return True

    def _start(self, metadata: ObjectMeta) -> None:
        started_ns = self._limit.start()
        try:
            self._spawn(
                self._write_all(metadata, started_ns), name=f"status of {metadata.namespace}/{metadata.name}"
            )
        except KuberthError:
            self._limit.end(started_ns, answered=False)
            del self._under_way[metadata.uid]
            raise

    def is_writing(self, uid: str) -> bool:
        return uid in self._under_way

    async def finish(self, uid: str) -> None:
        self._written.pop(uid, None)
        # A patch after the binding would report a bound pod as unschedulable.
        if self._waiting.pop(uid, None) is not None:
            del self._under_way[uid]  # it has not been sent
        under_way = self._under_way.get(uid)
        if under_way is not None:
            del under_way[1:]
            await self._ended.setdefault(uid, asyncio.Event()).wait()

    def _with_transition_time(self, condition: PodCondition, old: PodCondition | None) -> PodCondition:
        since = moment(self._clock.now_ns())
        if old is not None and old.status == condition.status:
            since = old.last_transition_time or since
        return replace(condition, last_transition_time=since)

    async def _write_all(self, metadata: ObjectMeta, started_ns: int) -> None:
        under_way = self._under_way[metadata.uid]
        try:
            while under_way:
                change = under_way[0]
                if await self._patch(metadata, change.patch()):
                    self._record_written(metadata.uid, change)
                del under_way[0]
        finally:
            del self._under_way[metadata.uid]
            if (ended := self._ended.pop(metadata.uid, None)) is not None:
                ended.set()
            has_room = self._limit.end(started_ns, answered=True)
        while has_room and self._waiting and self._limit.has_room():
            self._start(self._waiting.pop(next(iter(self._waiting))))

    async def _patch(self, metadata: ObjectMeta, patch: dict[str, Any]) -> bool:
        """Write the change; whether it was written."""
        self._metrics.pending_async_api_calls.inc((PATCH,))
        started, result = time.perf_counter(), "success"
        try:
            body = {"metadata": {"uid": metadata.uid}, "status": patch}
            namespace = metadata.namespace
            await self._api.write(
                Write(Verb.PATCH, Pod, metadata.name, namespace, "status", body, wants_answer=False)
            )
            return True
        except (NotFoundError, ConflictError):  # deleted, or recreated under the same name
            logger.debug("pod %s/%s is gone; its status is not written", metadata.namespace, metadata.name)
        except Exception:  # the waiting change must be written even if this one failed
            result = "error"
            logger.exception(
                "the status of pod %s/%s could not be written", metadata.namespace, metadata.name
            )
        finally:
            self._metrics.pending_async_api_calls.inc((PATCH,), -1)
            self._metrics.async_api_calls.inc((PATCH, result))
            self._metrics.async_api_call_duration.observe((PATCH, result), time.perf_counter() - started)
        return False


def _expected_status(pod: Pod, before: Sequence[_Change]) -> tuple[dict[str, PodCondition], str]:
    """The pod's conditions by type and its nomination, once all earlier changes are written."""
    conditions, nomination = (
        {each.type: each for each in pod.status.conditions},
        pod.status.nominated_node_name,
    )
    for earlier in before:
        conditions |= earlier.conditions
        nomination = nomination if earlier.nomination is None else earlier.nomination
    return conditions, nomination


def _is_reworded(old: PodCondition | None, new: PodCondition | None) -> bool:
    """Whether a condition differs at most in its message."""
    return new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason))


def _is_same_condition(old: PodCondition, new: PodCondition) -> bool:
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)
