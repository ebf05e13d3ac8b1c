"""Watches a cluster, read-only, and decides each pod when its real scheduler does.

In: an API, of which only list and watch are used, and an evaluator. Out: a decision for every binding and
every rejection of the shadowed scheduler's pods. The table lags slightly behind the watch, so that a decision
uses the table from just before it, and can consider the changes right after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.events import Event
from kuberth.api.pod_resources import pod_priority
from kuberth.api.pods import FINISHED, UNFINISHED, PodCondition
from kuberth.assembly.following import Following
from kuberth.client.protocol import Api
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import KuberthError
from kuberth.evaluation import Evaluator
from kuberth.framework.object_changes import node_changes
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Store, object_key
from kuberth.programs.shadow.comparing import Alteration, ShadowComparison, ShadowEvaluator, Surroundings
from kuberth.programs.shadow.decisions import Agreement, ShadowDecision

SETTLE_SECONDS: Final = 2.0
"""Changes within this number of seconds before and after a decision count as simultaneous."""
MAX_AROUND: Final = 2000
"""The maximum number of changes before, or after, a decision that are considered."""
FAILED_SCHEDULING: Final = "reason=FailedScheduling"


class _Arrival(NamedTuple):
    at: float
    kind: type[Any]
    old: Any
    new: Any
    coming: Alteration | None = None
    """The pod that this change places or removes; earlier decisions may look ahead to it."""


@dataclass(slots=True, eq=False)
class _Pending:
    """The state of a pending pod, as far as it was seen."""

    number: int
    """The pod's number in order of arrival."""
    since: float | None
    """When it was first seen without gates; None: it was there before."""
    rejections: int = 0
    """Rejections by the real scheduler that the pod's conditions have shown."""
    own_attempts: int = 0


class _Change(NamedTuple):
    """The inverse of a change of the table."""

    at: float
    inverse: Alteration
    place: _QueuePlace | None = None


_QueuePlace = tuple[int, int]
"""The queue order of a pod that was never rejected: by priority, then by number."""


class Shadow:
    """Runs until it is cancelled or `stop()` is called; `on_decision` receives every decision."""

    def __init__(
        self,
        api: Api,
        evaluator: Evaluator,
        *,
        derive: Callable[[Pod], PodInfo],
        scheduler_name: str,
        on_decision: Callable[[ShadowDecision], None],
        percentage_of_nodes_to_score: int | None = None,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._evaluator = evaluator
        self._cluster, self._nominator = evaluator.cluster, evaluator.nominator
        self._shadow_evaluator = ShadowEvaluator(
            evaluator, percentage_of_nodes_to_score=percentage_of_nodes_to_score
        )
        self._derive = derive
        self._scheduler_name = scheduler_name
        self._on_decision = on_decision
        self._settle = settle_seconds
        self.schedulers: Counter[str] = Counter()
        """Every scheduler name that was seen, with its number of pods."""
        self._pending: dict[str, _Pending] = {}
        self._numbers = count()
        self._failures: dict[str, dict[str, int]] = {}
        """Number of failures by the pod's UID, then by event."""
        self._stream: deque[_Arrival] = deque()
        """Changes that were seen, but are not in the table yet."""
        self._recent: deque[_Change] = deque(maxlen=MAX_AROUND)
        self._changed_nodes: dict[str, float] = {}
        self._begun = False
        self.synced = asyncio.Event()
        """Set when everything was listed: from now on decisions are made."""
        self._arrived = asyncio.Event()
        self.stopped = asyncio.Event()
        """Set by `stop()`."""
        stores = evaluator.stores
        kinds: set[type[Any]] = {Namespace, Node}
        kinds.update(stores.kinds())
        kinds.discard(Pod)
        self._following = Following(
            [
                *(
                    Reflector(api, kind, stores.of(kind), self._handler(kind), optional=kind is not Node)
                    for kind in sorted(kinds, key=lambda kind: kind.__name__)
                ),
                Reflector(api, Pod, stores.of(Pod), self._handler(Pod), field_selector=UNFINISHED),
                Reflector(
                    api, Event, Store(), self._count_failures, field_selector=FAILED_SCHEDULING, optional=True
                ),
            ]
        )

    async def run(self) -> None:
        """Watch and decide until `stop()`; everything seen by then is decided too."""
        async with asyncio.TaskGroup() as tasks:
            self._following.start(tasks)
            stopping = tasks.create_task(self.stopped.wait(), name="end")
            syncing = tasks.create_task(self._following.wait_synced(), name="first lists")
            await asyncio.wait((stopping, syncing), return_when=asyncio.FIRST_COMPLETED)
            if syncing.done():
                self._begun = True
                self.synced.set()
                deciding = tasks.create_task(self._decide_in_time(), name="decisions")
                await stopping
                deciding.cancel()
            syncing.cancel()
            self._following.stop()
        while self._stream:
            self._apply(self._stream.popleft())

    def stop(self) -> None:
        self.stopped.set()

    async def _decide_in_time(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            while self._stream and (wait := self._stream[0].at + self._settle - now()) <= 0:
                self._apply(self._stream.popleft())
                # One decision takes milliseconds: let the watches run.
                await asyncio.sleep(0)
            if self._stream:
                await asyncio.sleep(wait)
            else:
                self._arrived.clear()
                await self._arrived.wait()

    # The watch

    def _handler(self, kind: type[Any]) -> Callable[[Any, Any], None]:
        if kind not in (Pod, Node, Namespace):
            return _ignore

        def handle(old: Any, new: Any) -> None:
            coming = self._alteration_of(old, new) if kind is Pod and self._begun else None
            arrival = _Arrival(asyncio.get_running_loop().time(), kind, old, new, coming)
            if kind is Pod and old is None and new is not None:
                self.schedulers[new.spec.scheduler_name] += 1
            if self._begun:
                self._stream.append(arrival)
                self._arrived.set()
            else:
                self._apply(arrival)

        return handle

    def _count_failures(self, old: Event | None, new: Event | None) -> None:
        """Count the failed attempts that events report."""
        event = new or old
        if event is None:
            return
        of_pod = self._failures.setdefault(event.regarding.uid, {})
        if new is None:
            of_pod.pop(object_key(event), None)
        else:
            count = new.series.count if new.series is not None else max(1, new.deprecated_count)
            of_pod[object_key(new)] = count
        if not of_pod:
            del self._failures[event.regarding.uid]

    # The table

    def _apply(self, arrival: _Arrival) -> None:
        if arrival.kind is Pod:
            self._apply_pod(arrival)
        elif arrival.kind is Node:
            self._apply_node(arrival)
        else:
            gone = arrival.new is None
            namespace = (arrival.old if gone else arrival.new).metadata
            self._cluster.set_namespace(namespace.name, None if gone else namespace.labels)

    def _apply_node(self, arrival: _Arrival) -> None:
        old, new = arrival.old, arrival.new
        if new is None:
            self._cluster.remove_node(old.metadata.name)
        else:
            self._cluster.set_node(new)
        if self._begun and (old is None or new is None or node_changes(old, new)):
            self._changed_nodes[(new or old).metadata.name] = arrival.at

    def _apply_pod(self, arrival: _Arrival) -> None:
        old, new = arrival.old, _unfinished(arrival.new)
        if old is not None and old.spec.node_name:
            if new is not None:
                if not self._cluster.renew_pod(new):
                    self._cluster.update_pod(self._derive(new))
            elif (placed := self._cluster.placed(old.metadata.uid)) is not None:
                self._cluster.remove_pod(placed.uid)
                self._record_change(_Change(arrival.at, Alteration(placed, adds=True, is_learned=True)))
        elif new is not None and new.spec.node_name:
            self._handle_binding(arrival.at, old, new)
        elif self._is_shadowed(new or old):
            self._handle_pending(arrival.at, old, new)

    def _is_shadowed(self, pod: Pod | None) -> bool:
        return pod is not None and pod.spec.scheduler_name == self._scheduler_name

    def _handle_binding(self, at: float, old: Pod | None, new: Pod) -> None:
        info = self._derive(new)
        place = self._queue_place(new)
        is_own = self._is_shadowed(new)
        if old is not None and is_own:
            if self._begun:
                self._decide(at, old, node=new.spec.node_name)
            self._forget(old)
        self._cluster.add_pod(info)
        self._record_change(_Change(at, Alteration(info, adds=False, is_learned=not is_own), place))

    def _handle_pending(self, at: float, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old)
            if old.spec.scheduling_group is not None:
                self._cluster.pod_groups.leave(self._derive(old))
            return
        condition = rejection_of(new)
        if not new.spec.scheduling_gates and new.metadata.uid not in self._pending:
            self._pending[new.metadata.uid] = _Pending(next(self._numbers), at if self._begun else None)
        if self._begun and condition is not None and (old is None or condition != rejection_of(old)):
            # Before its nomination counts: one that came with the rejection is for the next attempt.
            self._decide(at, new if old is None else old, message=condition.message)
        info = self._derive(new)
        if info.group:
            self._cluster.pod_groups.arrive(info)
        if old is None:
            self._nominator.adopt(info)
        else:
            self._nominator.update(old, info)

    def _forget(self, pod: Pod) -> None:
        self._nominator.withdraw(pod)
        self._pending.pop(pod.metadata.uid, None)
        self._failures.pop(pod.metadata.uid, None)

    def _queue_place(self, pod: Pod) -> _QueuePlace | None:
        pending = self._pending.get(pod.metadata.uid)
        if pending is None or pending.rejections:
            return None
        return -pod_priority(pod), pending.number

    def _record_change(self, change: _Change) -> None:
        if self._begun:
            self._recent.append(change)

    # Decisions

    def _decide(self, at: float, pod: Pod, *, node: str = "", message: str = "") -> None:
        uid = pod.metadata.uid
        pending = self._pending.setdefault(uid, _Pending(next(self._numbers), None))
        pending.own_attempts += 1
        around = self._surroundings(at, pod)
        pending.rejections += not node
        verdict: ShadowComparison | None = None
        try:
            if node:
                verdict = self._shadow_evaluator.placed(_without_announced_node(pod), node, around)
            else:
                verdict = self._shadow_evaluator.rejected(pod, around)
            problem = verdict.answer.message
        except KuberthError as failure:
            problem = str(failure)
        failures = max(pending.rejections, sum(self._failures.get(uid, {}).values()))
        self._on_decision(
            _decision(
                verdict,
                pod=object_key(pod),
                node=node,
                message=message,
                own_message=problem,
                waited_seconds=None if pending.since is None else round(at - pending.since, 6),
                attempts=failures + 1 if node else max(failures, 1),
                own_attempts=pending.own_attempts,
                own_seconds=0.0 if verdict is None else round(verdict.seconds, 6),
            )
        )

    def _surroundings(self, at: float, pod: Pod) -> Surroundings:
        earliest, latest = at - self._settle, at + self._settle
        while self._recent and self._recent[0].at < earliest:
            self._recent.popleft()
        self._changed_nodes = {
            name: changed for name, changed in self._changed_nodes.items() if changed >= earliest
        }
        own = self._queue_place(pod)
        coming = (
            arrival.coming
            for arrival in self._stream
            if arrival.coming is not None and arrival.at <= latest and self._may_be_known(arrival.coming, own)
        )
        after = list(islice(coming, MAX_AROUND))
        crossed: list[Alteration] = []
        if own is not None:
            crossed += (each.inverse for each in self._recent if each.place and each.place > own)
            crossed += (
                each
                for each in after
                if each.adds and (place := self._queue_place(each.info.pod)) and place < own
            )
        return Surroundings(
            before=[each.inverse for each in reversed(self._recent) if not _popped_before(each.place, own)],
            after=after,
            nodes=tuple(self._changed_nodes),
            crossed=crossed,
        )

    def _may_be_known(self, coming: Alteration, own: _QueuePlace | None) -> bool:
        """Whether the real scheduler may have made this binding before the decision of the pod at `own`.

        The pod existed then, and is not behind the other one in the queue. What others do to pods reaches the
        scheduler by its watch, in the order in which it was stored.
        """
        pod = coming.info.pod
        if not coming.adds or not self._is_shadowed(pod):
            return False
        return pod.metadata.uid in self._pending and not _popped_before(own, self._queue_place(pod))

    def _alteration_of(self, old: Pod | None, new: Pod | None) -> Alteration | None:
        """The pod that this change places or removes; None if it does neither."""
        new = _unfinished(new)
        placed, stays = (pod is not None and bool(pod.spec.node_name) for pod in (old, new))
        if placed == stays:
            return None
        pod = new if stays else old
        assert pod is not None
        return Alteration(self._derive(pod), adds=stays)


def _popped_before(first: _QueuePlace | None, second: _QueuePlace | None) -> bool:
    """Whether the scheduler popped the first pod before the second.

    The first arrived earlier, with at least the same priority. A later pod of a higher priority may have
    arrived too late to be popped first.
    """
    return first is not None and second is not None and first[0] <= second[0] and first[1] < second[1]


def _decision(verdict: ShadowComparison | None, **known: Any) -> ShadowDecision:
    if verdict is None:
        return ShadowDecision(agreement=Agreement.FAILED, **known)
    answer = verdict.answer

    def scores(node: str) -> dict[str, int]:
        return {plugin: of[node] for plugin, of in answer.scores.items() if node in of}

    rejection = answer.rejections.get(known["node"])
    if rejection is not None:
        known["own_message"] = f"{known['node']}: {rejection.plugin}: {rejection.message}"
    return ShadowDecision(
        agreement=verdict.agreement,
        own_node=verdict.own_node,
        passing=len(answer.feasible),
        equals=verdict.equals,
        scores=scores(known["node"]),
        own_scores=scores(verdict.own_node),
        explanation=verdict.explanation,
        reordered=verdict.reordered,
        **known,
    )


def rejection_of(pod: Pod) -> PodCondition | None:
    """The condition of a failed attempt, if there is one."""
    return next(
        (
            each
            for each in pod.status.conditions
            if each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable"
        ),
        None,
    )


def _without_announced_node(pod: Pod) -> Pod:
    """The pod without a nominated node that only announces its binding, which is the decision itself.

    A nomination by preemption comes with a rejection.
    """
    if not pod.status.nominated_node_name or rejection_of(pod) is not None:
        return pod
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=""))


def _unfinished(pod: Pod | None) -> Pod | None:
    """A finished pod uses no resources, even if its object still exists."""
    is_finished = pod is not None and pod.status.phase in FINISHED and pod.spec.node_name
    return None if is_finished else pod


def _ignore(_old: object, _new: object) -> None:
    """Do nothing: plugins read these kinds from stores, and the table does not contain them."""
