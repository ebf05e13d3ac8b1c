"""Executes a preemption: patches and deletes the victims, and clears nominations of lower-priority pods.

In: the node chosen for a pod, and its victims. Out: API calls in a separate task (KEP-4832). Until it has
ended, the pod must not be tried again: `gates` returns True.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.api.core import Pod, PodCondition
from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import to_builtins
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.framework.handle import Handle, PodEvent
from kuberth.informers.store import object_key
from kuberth.plugins.default_preemption.candidates import Candidate
from kuberth.text.timestamps import moment

logger = logging.getLogger(__name__)

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
AT_ONCE: Final = 16
"""The number of concurrent evictions; limited so that other writers get connections."""
MIN_VICTIMS_TO_CLEAN_UP: Final = 64
"""Up to this number of victims, checking which of them are gone is not worth the time."""


class PreemptorIdentity(NamedTuple):
    """The preemptor: a pod, or a whole pod group."""

    uid: str
    key: str
    """`namespace/name`."""
    priority: int
    kind: str
    """Its kind in events and conditions: pod, or podgroup."""
    obj: Pod | PodGroup
    pods: Mapping[str, Pod]
    """The pods to retry, by namespace/name."""
    scheduler_name: str

    @classmethod
    def pod(cls, info: PodInfo) -> PreemptorIdentity:
        pod = info.pod
        return cls(info.uid, info.key, info.priority, "pod", pod, {info.key: pod}, pod.spec.scheduler_name)

    @classmethod
    def group(cls, group: PodGroup, pods: Sequence[PodInfo]) -> PreemptorIdentity:
        """A pod group as the preemptor, with its pods that are being scheduled; at least one."""
        return cls(
            group.metadata.uid,
            object_key(group),
            group.spec.priority or 0,
            "podgroup",
            group,
            {info.key: info.pod for info in pods},
            pods[0].pod.spec.scheduler_name,
        )


@dataclass(slots=True, eq=False)
class _Running:
    """A preemption in progress."""

    last_victim: PodInfo | None = None
    """The last victim to evict; None while there are others."""
    gated: bool = False
    """Whether the preemptor was ready but gated because of this preemption."""


class Evictions:
    """Evicts victims for preemptors; several preemptions may be in progress at once."""

    def __init__(self, handle: Handle, *, plugin: str, asynchronous: bool) -> None:
        self._handle = handle
        self._plugin = plugin
        self._asynchronous = asynchronous
        self._pods = handle.stores.of(Pod)
        self._running: dict[str, _Running] = {}
        self._victims: dict[str, PodInfo] = {}
        """Victims by UID, from the decision on; those that the informers no longer know are dropped later."""
        self._next_clean_up = MIN_VICTIMS_TO_CLEAN_UP
        self._places = asyncio.Semaphore(AT_ONCE)

    def is_leaving(self, info: PodInfo) -> bool:
        """Whether a placed pod is being removed by a preemption.

        Upstream only reads the pod's status. If deletions are immediate, a pod could then preempt a second
        time before the deletion of its first victims is seen.
        """
        is_victim = info.uid in self._victims and self._stored(info) is not None
        return is_victim or _is_terminating_by_preemption(info.pod)

    def gates(self, preemptor: Pod | PodGroup) -> bool:
        """Whether a preemption for this pod or pod group is still in progress."""
        running = self._running.get(preemptor.metadata.uid)
        if running is None:
            return False
        # The event of the last victim's deletion may arrive before the response to the delete request. It may
        # be the last event that requeues the preemptor, so the gate must be open by then.
        last = None if running.last_victim is None else self._stored(running.last_victim)
        running.gated = running.last_victim is None or (last is not None and not _is_terminating(last))
        return running.gated

    def _stored(self, victim: PodInfo) -> Pod | None:
        """The last known version of a victim; None if it is gone."""
        stored = self._pods.get_by_key(victim.key)
        return stored if stored is not None and stored.metadata.uid == victim.uid else None

    def start(self, preemptor: PodInfo, candidate: Candidate) -> None:
        """Preempt for a pod on the candidate's node."""
        identity = PreemptorIdentity.pod(preemptor)
        self.start_for(identity, candidate.victims.pods, node_name=candidate.node_name)

    def start_for(
        self, preemptor: PreemptorIdentity, all_victims: Sequence[PodInfo], *, node_name: str
    ) -> None:
        """Start to evict the victims that are not being evicted already."""
        victims = [info for info in all_victims if not _is_terminating(info.pod)]
        if self._asynchronous and not victims:
            return
        self._handle.metrics.preemption_victims.observe((), len(all_victims))
        running = self._running[preemptor.uid] = _Running()
        if len(self._victims) >= self._next_clean_up:
            self._victims = {uid: info for uid, info in self._victims.items() if self._stored(info)}
            self._next_clean_up = 2 * len(self._victims) + MIN_VICTIMS_TO_CLEAN_UP
        self._victims.update((info.uid, info) for info in victims)
        self._handle.spawn(
            self._execute(preemptor, victims, node_name=node_name, running=running),
            name=f"preemption for {preemptor.key}",
        )

    async def _execute(
        self, preemptor: PreemptorIdentity, victims: Sequence[PodInfo], *, node_name: str, running: _Running
    ) -> None:
        way = self._evict_concurrently if self._asynchronous else self._evict_in_order
        started, succeeded = time.perf_counter(), False
        try:
            succeeded = await way(preemptor, victims, node_name=node_name, running=running)
        except Exception:
            what = f"{preemptor.kind} {preemptor.key}"
            logger.exception("preemption for %s on node %s failed", what, node_name)
        finally:
            result = ("success" if succeeded else "error",)
            self._handle.metrics.preemption_goroutines_execution.inc(result)
            self._handle.metrics.preemption_goroutines_duration.observe(result, time.perf_counter() - started)
            for info in victims:
                if not succeeded or self._stored(info) is None:
                    self._victims.pop(info.uid, None)
            # Once its last victim is gone, the pod may already have started another preemption.
            if self._running.get(preemptor.uid) is running:
                del self._running[preemptor.uid]
        # A deletion requeues the pod, so it is only activated if no deletion may follow: after a failure, or
        # if it was gated at the last one.
        # The informers do not report that a victim leaves its node if its binding was in flight: the API
        # rejects the binding.
        placed = [stored for info in victims if (stored := self._stored(info)) and stored.spec.node_name]
        if not succeeded or (running.gated and not placed):
            self._handle.activator.activate(preemptor.pods)

    async def _evict_concurrently(
        self, preemptor: PreemptorIdentity, victims: Sequence[PodInfo], *, node_name: str, running: _Running
    ) -> bool:
        """Evict all victims but one concurrently, then the last one; the first failure ends it."""
        cleared = await self._clear_lower_nominations(preemptor, node_name)
        async with asyncio.TaskGroup() as group:
            for info in victims[:-1]:
                group.create_task(self._evict(info, preemptor, node_name=node_name), name=f"evict {info.key}")
        running.last_victim = victims[-1]
        await self._evict(victims[-1], preemptor, node_name=node_name)
        return cleared

    async def _evict_in_order(
        self, preemptor: PreemptorIdentity, victims: Sequence[PodInfo], *, node_name: str, running: _Running
    ) -> bool:
        """The way without SchedulerAsyncPreemption. The cycle cannot wait for it, but the pod does."""
        for index, info in enumerate(victims, start=1):
            running.last_victim = info if index == len(victims) else None
            await self._evict(info, preemptor, node_name=node_name)
        await self._clear_lower_nominations(preemptor, node_name)
        return True

    async def _evict(self, victim: PodInfo, preemptor: PreemptorIdentity, *, node_name: str) -> None:
        note = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node_name}"
        async with self._places:
            waiting = self._handle.waiting_pods.get(victim.uid)
            if waiting is not None and waiting.preempt(self._plugin, "preempted"):
                # It is not bound yet: it leaves the node without being deleted, and is requeued.
                self._victims.pop(victim.uid, None)
                note += " (in kube-scheduler memory)."
            elif not await self._delete(victim.pod, preemptor):
                logger.info("victim %s of %s %s is gone already", victim.key, preemptor.kind, preemptor.key)
                return
        event = PodEvent(victim.pod, "Preempted", "Preempting", note, related=preemptor.obj)
        self._handle.recorder.record(event)

    async def _delete(self, victim: Pod, preemptor: PreemptorIdentity) -> bool:
        """Write the reason to the victim's status, then delete it. False if it no longer exists."""
        metadata = victim.metadata
        condition = self._condition(victim, preemptor)
        try:
            if condition is not None:
                await self._patch_status(victim, {"conditions": [to_builtins(condition)]})
            await self._handle.api.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFoundError:
            return False
        except ConflictError:
            if await self._is_replaced(victim):
                return False
            raise
        return True

    async def _is_replaced(self, victim: Pod) -> bool:
        """Whether another pod has the victim's name now."""
        metadata = victim.metadata
        try:
            current = await self._handle.api.get(Pod, metadata.name, namespace=metadata.namespace)
        except NotFoundError:
            return True
        return current.metadata.uid != metadata.uid

    def _condition(self, victim: Pod, preemptor: PreemptorIdentity) -> PodCondition | None:
        """The condition with the reason for the deletion; None if the status has it already."""
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {preemptor.kind}"
        since = moment(self._handle.clock.now_ns())
        old = _disruption_target(victim)
        if old is not None and old.status == "True":
            if (old.reason, old.message) == (PREEMPTION_BY_SCHEDULER, message):
                return None
            since = old.last_transition_time or since
        return PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=message,
            observed_generation=victim.metadata.generation,
            last_transition_time=since,
        )

    async def _clear_lower_nominations(self, preemptor: PreemptorIdentity, node_name: str) -> bool:
        """Clear the nominations of lower-priority pods for the node. False on failure."""
        cleared = True
        for info in self._handle.nominator.nominated_on(node_name):
            if info.priority >= preemptor.priority or not info.pod.status.nominated_node_name:
                continue
            try:
                await self._patch_status(info.pod, {"nominatedNodeName": None})
            except ApiError:
                logger.exception("the nomination of pod %s for %s could not be cleared", info.key, node_name)
                cleared = False
        return cleared

    async def _patch_status(self, pod: Pod, patch: dict[str, object]) -> None:
        metadata = pod.metadata
        await self._handle.api.patch(
            Pod,
            metadata.name,
            {"metadata": {"uid": metadata.uid}, "status": patch},
            namespace=metadata.namespace,
            subresource="status",
        )


def _disruption_target(pod: Pod) -> PodCondition | None:
    """The condition that announces a disruption of a pod."""
    return next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)


def _is_terminating_by_preemption(pod: Pod) -> bool:
    condition = _disruption_target(pod) if _is_terminating(pod) else None
    return (
        condition is not None and condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
    )


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
