"""Faults that are planted to measure what universes find: one change of the source each.

Each is a mistake that someone could make: an event, a copy, a check or a clean-up that is forgotten, a
comparison that is turned round. `python -m tests.universe.planted` plants them one after the other in a copy
of the source. A test checks that every text is still there, once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

STORE: Final = "store"
"""The area whose faults are sought with histories of the local API server instead of universes."""


class Planted(NamedTuple):
    """A text of a file under src/kuberth, and what it is replaced by."""

    area: str
    file: str
    old: str
    new: str
    what: str


_QUEUE: Final = "queue/priority_queue.py"
_UNSCHEDULABLE: Final = "queue/unschedulable.py"
_IN_FLIGHT: Final = "queue/in_flight.py"
_SUB_QUEUES: Final = "queue/sub_queues.py"
_BACKOFF: Final = "queue/backoff.py"
_HINTS: Final = "queue/hints.py"
_REJECTIONS: Final = "framework/equal_pods.py"
_GUARD: Final = "queue/guard.py"
_INTAKE: Final = "intake/intake.py"
_BINDING: Final = "binding/cycle.py"
_FAILURES: Final = "outcomes/failure_handling.py"
_WRITER: Final = "outcomes/status_writer.py"
_BINDER: Final = "plugins/default_binder/plugin.py"
_FENCING: Final = "client/fencing.py"
_ELECTION: Final = "programs/run/leader_election.py"
_REFLECTOR: Final = "informers/reflector.py"
_STORE: Final = "informers/store.py"
_STORE_FILE: Final = "local/apiserver/store/store.py"
_JOURNAL: Final = "local/apiserver/store/journal.py"
_SUBSCRIPTIONS: Final = "local/apiserver/store/subscriptions.py"
_CORE: Final = "local/apiserver/verbs/core.py"
_DELETION: Final = "local/apiserver/verbs/deletion.py"
_READING: Final = "local/apiserver/verbs/reading.py"
_WRITING: Final = "local/apiserver/verbs/writing.py"

PLANTED: Final = (
    # Kept rejections
    Planted(
        "queue",
        _REJECTIONS,
        "        elif kept.rows_version != self.cluster.changes.version:\n"
        "            kept = equal_pods.rejection = self._renewed(kept, equal_pods, state)\n",
        "",
        "a kept rejection outlives what it depends on",
    ),
    Planted(
        "queue",
        _FAILURES,
        "                report = reports[id(kept)] = _Report.of(kept.status, kept.nomination)\n"
        "            self._report(queued, report)\n",
        "                report = reports[id(kept)] = _Report.of(kept.status, kept.nomination)\n",
        "repeated rejections are not reported",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._record_rejection(queued)\n"
        "            self._enter_unschedulable(queued, _ATTEMPT_FAILED)\n",
        "            self._enter_unschedulable(queued, _ATTEMPT_FAILED)\n",
        "a repeated rejection starts no backoff",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._record_rejection(queued)\n"
        "            self._enter_unschedulable(queued, _ATTEMPT_FAILED)\n",
        "            self._record_rejection(queued)\n"
        "            self._enter_active(queued, _ATTEMPT_FAILED)\n",
        "a pod that is rejected again stays in activeQ",
    ),
    # The queue
    Planted(
        "queue",
        _QUEUE,
        "        if queued is None and self._context.pop_from_backoff:\n",
        "        if self._context.pop_from_backoff:\n",
        "an early pop loses the pod that is active",
    ),
    Planted(
        "queue",
        _QUEUE,
        "                    self._record_for_in_flight(change, old, new.pod)\n                return\n",
        "                    pass\n                return\n",
        "an update of a pod in flight is not an event for it",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            queued.info = new\n            self._active.add(queued)\n",
        "            pass\n",
        "a pod in activeQ keeps its old version",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            queued.info = new\n            self._backing_off.resort(queued)\n",
        "            pass\n",
        "a pod in backoffQ keeps its old version",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            queued.info = new\n            self._requeue_updated(queued, old, changes)\n",
        "            queued.info = new\n",
        "an update of an unschedulable pod does not bring it back",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            queued.info = new\n"
        "            self._requeue_updated(queued, old, changes)\n        else:",
        "            self._requeue_updated(queued, old, changes)\n        else:",
        "an unschedulable pod keeps its old version",
    ),
    Planted(
        "queue",
        _QUEUE,
        "    def delete(self, pod: Pod) -> None:\n        self._remove(object_key(pod))\n",
        "    def delete(self, pod: Pod) -> None:\n        self._active.remove(object_key(pod))\n",
        "a deleted pod stays unless it is in activeQ",
    ),
    Planted(
        "queue",
        _QUEUE,
        "self._active.remove(key) or self._backing_off.remove(key) or self._unschedulable.remove(key)",
        "self._active.remove(key) or self._unschedulable.remove(key)",
        "a deleted pod stays in backoffQ",
    ),
    Planted(
        "queue",
        _QUEUE,
        "    def requeue(self, queued: QueuedPod) -> None:\n"
        "        try:\n"
        "            self._requeue(queued)\n"
        "        finally:\n"
        "            self.done(queued.uid)\n",
        "    def requeue(self, queued: QueuedPod) -> None:\n        self._requeue(queued)\n",
        "a requeued pod stays in flight",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        missed = self._in_flight.missed_by(queued.uid)\n",
        "        missed: Sequence[object] | None = ()\n",
        "events that a pod missed in flight are forgotten",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            if strategy is QueueingStrategy.SKIP:\n"
        "                continue\n"
        "            if strategy is QueueingStrategy.IMMEDIATELY or best",
        "            if strategy is QueueingStrategy.SKIP:\n"
        "                break\n"
        "            if strategy is QueueingStrategy.IMMEDIATELY or best",
        "only the first missed event is looked at",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        if self._context.queueing_hints:\n"
        "            self._record_for_in_flight(event, old, new)\n"
        "\n"
        "    def _move_in_slices(",
        "\n    def _move_in_slices(",
        "events are not kept for pods in flight",
    ),
    Planted(
        "queue",
        _QUEUE,
        "[each for each in found.pods if pre_check(each.pod)]",
        "[each for each in found.pods if not pre_check(each.pod)]",
        "an event brings back the pods that the check excludes",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            if not self._unschedulable.still_waits(queued, found.end):\n                continue\n",
        "",
        "a pod that has left meanwhile is moved again",
    ),
    Planted(
        "queue",
        _QUEUE,
        "                if pod.metadata.uid in self._in_flight:\n"
        "                    self._record_for_in_flight(cluster_events.FORCED_ACTIVATION, None, pod)\n",
        "",
        "the activation of a pod in flight is forgotten",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        queued = self._backing_off.remove(key)\n"
        "        if queued is None:\n"
        "            return False\n",
        "        queued = self._backing_off.get(key)\n"
        "        if queued is None:\n"
        "            return False\n"
        "        return False\n",
        "pods in backoffQ are not activated",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self.flush_backoff_completed()\n            self._next",
        "            self._next",
        "pods whose backoff is over stay in backoffQ",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        if now_ns >= self._next_unschedulable_flush_ns:\n"
        "            self.flush_unschedulable_leftover()\n",
        "        if now_ns >= self._next_unschedulable_flush_ns:\n",
        "unschedulable pods are never flushed",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        if len(self._backing_off) or self._notify_due is None:\n",
        "        if self._notify_due is None:\n",
        "ticks do not come while pods back off",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        self._unschedulable.remove(queued.key)\n"
        "        self._backing_off.remove(queued.key)\n"
        "        self._active.add(queued)\n",
        "        self._backing_off.remove(queued.key)\n        self._active.add(queued)\n",
        "a pod that becomes active stays unschedulable, too",
    ),
    Planted(
        "queue",
        "queue/slices.py",
        "        if self._is_running:\n",
        "        if True:\n",
        "the loop is not woken for a pod that becomes active",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        self._unschedulable.remove(queued.info.key)\n"
        "        if self._notify_due is not None and not len(self._backing",
        "        if self._notify_due is not None and not len(self._backing",
        "a pod that backs off stays unschedulable, too",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._next_backoff_flush_ns = now_ns - now_ns % NANOSECONDS + FLUSH_BACKOFF_NS\n"
        "            self._notify_due()\n",
        "            self._next_backoff_flush_ns = now_ns - now_ns % NANOSECONDS + FLUSH_BACKOFF_NS\n",
        "the first pod to back off does not start the ticks",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._pass_flushes(self._clock.now_ns())\n            self._notify_due()\n",
        "            self._pass_flushes(self._clock.now_ns())\n",
        "the first unschedulable pod does not start the ticks",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        if status is None or status.is_success:\n"
        '            queued.gating_plugin = ""\n'
        "            return\n",
        "        if status is None or status.is_success or queued.attempts:\n"
        '            queued.gating_plugin = ""\n'
        "            return\n",
        "gates hold only pods that were never tried",
    ),
    Planted(
        "queue",
        _QUEUE,
        "{*queued.unschedulable_plugins, status.plugin}",
        "{*queued.unschedulable_plugins}",
        "the plugin that gates a pod is not one that rejected it",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._apply_strategy(queued, QueueingStrategy.AFTER_BACKOFF, _RECONFIGURED)\n",
        "            self._unschedulable.add(queued)\n",
        "pods are not tried again after a reload",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            if self._context.queueing_hints and self._in_flight.start(pod):\n",
        "            if False:\n",
        "pods in flight are unknown to the queue of a new configuration",
    ),
    Planted(
        "queue",
        _GUARD,
        "        self.when_ready(self._notify)\n"
        "        if self._notify_due is not None:\n"
        "            self.when_due(",
        "        if self._notify_due is not None:\n            self.when_due(",
        "the queue of a new configuration does not wake the loop",
    ),
    Planted(
        "queue",
        _QUEUE,
        "            self._record_rejection(queued)\n"
        "            self._enter_unschedulable(queued, _ATTEMPT_FAILED)\n",
        "            self._record_rejection(queued)\n",
        "a pod whose rejection repeats is lost",
    ),
    Planted(
        "queue",
        _QUEUE,
        "        queued.timestamp_ns = self._clock.now_ns()\n        queued.backoff_expires_ns = None\n",
        "        queued.timestamp_ns = self._clock.now_ns()\n        queued.backoff_expires_ns = 0\n",
        "pods do not back off",
    ),
    Planted(
        "queue",
        _QUEUE,
        "                queued.clear_flush_flag()\n"
        "                self._enter_unschedulable(queued, cause)\n"
        "                return False\n",
        "                queued.clear_flush_flag()\n                return False\n",
        "a pod that is gated when it is to back off is lost",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "            self._remove_from_indexes(key, old.index_entry)\n",
        "",
        "a pod that is filed again stays where it was",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "            self._remove_from_indexes(key, queued.index_entry)\n        return queued\n",
        "            pass\n        return queued\n",
        "a pod that leaves stays filed",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "                if equals and not self._skips_all((plugin, signed), equals, event, old, new):\n"
        "                    found |= equals\n",
        "                if equals and len(equals) > 1 and not self._skips_all("
        "(plugin, signed), equals, event, old, new):\n"
        "                    found |= equals\n",
        "an event does not bring back a pod that has no equals",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "if not self._hints.is_gated(queued)",
        "if self._hints.is_gated(queued)",
        "gated pods are brought back only while their gate refuses them",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "                for key in about:\n"
        "                    found |= self._by_concern.get((plugin, key), {})\n",
        "",
        "events about named pods concern none",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "            self.info is queued.info\n            and self.hints is hints\n",
        "            self.hints is hints\n",
        "a new version of a pod is filed as the old one",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "            and self.rejectors == queued.rejectors\n",
        "",
        "a pod is filed under the plugins that rejected it before",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "if queued.index_entry.number < end]",
        "if queued.index_entry.number < end - 2]",
        "events miss the pods that came last",
    ),
    Planted(
        "queue",
        _UNSCHEDULABLE,
        "        for plugin, signature in index_entry.plugin_keys:\n            by_signature = ",
        "        for plugin, signature in index_entry.plugin_keys[:1]:\n            by_signature = ",
        "a pod is indexed under one of the plugins that rejected it",
    ),
    Planted(
        "queue",
        _IN_FLIGHT,
        "            if number < popped[0]:\n                break\n",
        "            if number > popped[0]:\n                break\n",
        "a pod misses the events since it was popped",
    ),
    Planted(
        "queue",
        _IN_FLIGHT,
        "        while self._events and (oldest is None or self._events[0][0] < oldest[0]):\n",
        "        while self._events:\n",
        "events are let go while pods in flight need them",
    ),
    Planted(
        "queue",
        _SUB_QUEUES,
        "        found = self._pods.pop(key, None)\n",
        "        found = self._pods.get(key)\n",
        "a pod that is taken out of activeQ is still there",
    ),
    Planted(
        "queue",
        _SUB_QUEUES,
        "        del self._pods[first[3]]\n",
        "",
        "a popped pod is still there",
    ),
    Planted(
        "queue",
        _BACKOFF,
        "        return self._rejected.remove(key) or self._failed.remove(key)\n",
        "        return self._rejected.remove(key)\n",
        "a pod that backs off after an error cannot be taken out",
    ),
    Planted(
        "queue",
        _BACKOFF,
        "        for queue in (self._rejected, self._failed):\n            for line",
        "        for queue in (self._rejected,):\n            for line",
        "a pod that backs off after an error does not come back",
    ),
    Planted(
        "queue",
        _HINTS,
        "            if self._call(registered, queued, event, old, new) is Hint.SKIP:\n"
        "                continue\n"
        "            self.decided_by",
        "            if self._call(registered, queued, event, old, new) is Hint.SKIP:\n"
        "                return strategy\n"
        "            self.decided_by",
        "one plugin that says Skip decides for all",
    ),
    Planted(
        "queue",
        _HINTS,
        "        if not rejectors:\n            return QueueingStrategy.AFTER_BACKOFF\n",
        "        if not rejectors:\n            return QueueingStrategy.SKIP\n",
        "a pod that no plugin rejected is not brought back",
    ),
    Planted(
        "queue",
        _HINTS,
        "        found: set[Hashable] = {ANYTHING}\n        for profile in self._hints:\n",
        "        found: set[Hashable] = {ANYTHING}\n        for profile in list(self._hints)[:0]:\n",
        "plugins' events are about no pod",
    ),
    # Intake
    Planted(
        "intake",
        _INTAKE,
        "            self.cluster.add_pod(self.derive(pod))\n        self.queue.move",
        "        self.queue.move",
        "a pod that another scheduler placed takes no room",
    ),
    Planted(
        "intake",
        _INTAKE,
        "                self.queue.delete(old)\n                self.nominator.withdraw(old)\n        elif",
        "                self.nominator.withdraw(old)\n        elif",
        "a bound pod stays in the queue",
    ),
    Planted(
        "intake",
        _INTAKE,
        "                self.queue.delete(old)\n                self.nominator.withdraw(old)\n        elif",
        "                self.queue.delete(old)\n        elif",
        "a bound pod stays nominated",
    ),
    Planted(
        "intake",
        _INTAKE,
        "            self.cluster.remove_node(old.metadata.name)\n",
        "",
        "a removed node stays in the table",
    ),
    Planted(
        "intake",
        _INTAKE,
        "            self.queue.move(event, old, None)\n            self.cluster.remove_node",
        "            self.cluster.remove_node",
        "the removal of a node is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        changes = [ClusterEvent(Resource.NODE, Action.ADD)] if old is None else "
        "node_changes(old, new)\n",
        "        changes = [] if old is None else node_changes(old, new)\n",
        "a new node is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        changes = [ClusterEvent(Resource.NODE, Action.ADD)] if old is None else "
        "node_changes(old, new)\n",
        "        changes = [ClusterEvent(Resource.NODE, Action.ADD)] if old is None else []\n",
        "a node's change is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "            self.cluster.remove_pod(old.metadata.uid)\n"
        "            self.queue.move(cluster_events.ASSIGNED_POD_DELETE, old, None)\n",
        "            self.queue.move(cluster_events.ASSIGNED_POD_DELETE, old, None)\n",
        "a deleted pod takes room",
    ),
    Planted(
        "intake",
        _INTAKE,
        "            self.cluster.remove_pod(old.metadata.uid)\n"
        "            self.queue.move(cluster_events.ASSIGNED_POD_DELETE, old, None)\n",
        "            self.cluster.remove_pod(old.metadata.uid)\n",
        "the deletion of a placed pod is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        if not self.cluster.renew_pod(new):\n"
        "            self.cluster.update_pod(self.derive(new))\n",
        "        pass\n",
        "an update of a placed pod does not reach the table",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self._move_all(pod_changes(old, new), old, new, started)\n",
        "",
        "an update of a placed pod is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self.queue.move(cluster_events.ASSIGNED_POD_ADD, None, pod)\n",
        "",
        "a pod that is placed is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self.nominator.adopt(info)\n        if info.group:",
        "        if info.group:",
        "nominations are lost when a process starts",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        if self._pods_complete_gangs:\n"
        "            self.queue.move(cluster_events.UNSCHEDULED_POD_ADD, None, pod)\n",
        "",
        "a pod that completes its gang is no event",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        if self.cluster.is_assumed(new.metadata.uid):\n            # The pod is being bound",
        "        if False:\n            # The pod is being bound",
        "a pod that is being bound is queued again by an update",
    ),
    Planted(
        "intake",
        _INTAKE,
        "                self._drop_assumed(new)\n            return\n",
        "                pass\n            return\n",
        "a pod that is deleted while it is bound keeps its room",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self.queue.update(old, info)\n",
        "",
        "an update of a pending pod does not reach the queue",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self.queue.delete(pod)\n"
        "        self.nominator.withdraw(pod)\n"
        "        if pod.spec.scheduling_group is not None:\n"
        "            self.cluster.pod_groups.leave(self.derive(pod))\n"
        "        if self",
        "        self.nominator.withdraw(pod)\n"
        "        if pod.spec.scheduling_group is not None:\n"
        "            self.cluster.pod_groups.leave(self.derive(pod))\n"
        "        if self",
        "a deleted pending pod stays in the queue",
    ),
    Planted(
        "intake",
        _INTAKE,
        "        self.queue.delete(pod)\n"
        "        self.nominator.withdraw(pod)\n"
        "        if pod.spec.scheduling_group is not None:\n"
        "            self.cluster.pod_groups.leave(self.derive(pod))\n"
        "        if self",
        "        self.queue.delete(pod)\n"
        "        if pod.spec.scheduling_group is not None:\n"
        "            self.cluster.pod_groups.leave(self.derive(pod))\n"
        "        if self",
        "a deleted pending pod stays nominated",
    ),
    Planted(
        "intake",
        _INTAKE,
        "            if resource in _ALWAYS_EVENTS or kind in self._event_kinds:\n"
        "                self._other(resource, old, new)\n",
        "            if resource in _ALWAYS_EVENTS:\n                self._other(resource, old, new)\n",
        "kinds of plugins have no events",
    ),
    Planted(
        "intake",
        _INTAKE,
        '        if not self.waiting_pods.reject(pod.metadata.uid, "removed"):\n'
        "            self.cluster.forget_pod(pod.metadata.uid)\n",
        '        self.waiting_pods.reject(pod.metadata.uid, "removed")\n',
        "a pod that is removed while it is bound stays assumed",
    ),
    # Binding
    Planted(
        "binding",
        _BINDING,
        "        forgotten = self.cluster.forget_pod(info.uid)\n",
        "        forgotten = True\n",
        "a failed binding keeps its room",
    ),
    Planted(
        "binding",
        _BINDING,
        "        placement.runner.reserving.run_unreserve(placement.state, info.pod, placement.node_name)\n",
        "",
        "a failed binding is not unreserved",
    ),
    Planted(
        "binding",
        _BINDING,
        "            if forgotten:\n"
        "                self.queue.move(ASSIGNED_POD_DELETE, info.pod, None)\n"
        "            self",
        "            self",
        "the room of a failed binding is no event",
    ),
    Planted(
        "binding",
        _BINDING,
        "            if forgotten:\n"
        "                self.queue.move(ASSIGNED_POD_DELETE, info.pod, None, pre_check=is_another)\n",
        "            pass\n",
        "the room of a pod that Permit rejects is no event",
    ),
    Planted(
        "binding",
        _BINDING,
        "        await self.writer.finish(placement.info.uid)\n",
        "",
        "a binding does not wait for the report about the last attempt",
    ),
    Planted(
        "binding",
        _BINDING,
        "        if self.writer.is_writing(placement.info.uid) or self._pre_flight(placement) is not SKIP:\n",
        "        if self._pre_flight(placement) is not SKIP:\n",
        "a posted binding does not wait for the report about the last attempt",
    ),
    Planted(
        "binding",
        _BINDING,
        "        if not status.is_success:\n            return rejected_on(node_name, status)\n",
        "",
        "what Permit says in the end is ignored",
    ),
    Planted(
        "binding",
        _BINDING,
        "            status = await waiting.wait()\n"
        "        finally:\n"
        "            self.waiting_pods.remove(placement.info.uid)\n",
        "            status = await waiting.wait()\n        finally:\n            pass\n",
        "a pod that was allowed stays among those that wait",
    ),
    Planted(
        "binding",
        _BINDING,
        "            if not future.cancelled() and isinstance(future.exception(), AnswerLostError):\n",
        "            if False:\n",
        "a lost answer to a posted binding counts as a failure",
    ),
    Planted(
        "binding",
        _BINDING,
        "        self.queue.done(placement.info.uid)\n"
        "        self.metrics.goroutines.inc(_BINDING)\n"
        "        self._under",
        "        self.metrics.goroutines.inc(_BINDING)\n        self._under",
        "a posted pod stays in flight",
    ),
    Planted(
        "binding",
        _BINDING,
        "        if self.limit.end(started_ns, answered=_is_answered(future)):\n"
        "            self._notify_capacity()\n",
        "        self.limit.end(started_ns, answered=_is_answered(future))\n",
        "the loop is not woken when there is room for bindings",
    ),
    Planted(
        "binding",
        _BINDER,
        "                if await self._is_bound(pod, node_name):\n"
        "                    return\n"
        "                if not tries_left:\n"
        "                    raise\n",
        "                return\n",
        "a lost answer counts as a success",
    ),
    Planted(
        "binding",
        _BINDER,
        "        if present.metadata.uid != metadata.uid:\n            raise",
        "        if False:\n            raise",
        "a pod that was made again counts as the bound one",
    ),
    Planted(
        "binding",
        _BINDER,
        "name=metadata.name, uid=metadata.uid),\n            target",
        "name=metadata.name),\n            target",
        "a binding does not name the pod's UID",
    ),
    Planted(
        "binding",
        _FAILURES,
        "        if current is not queued.pod:\n",
        "        if False:\n",
        "a pod returns to the queue in an old version",
    ),
    Planted(
        "binding",
        _FAILURES,
        "        if current is None or current.metadata.uid != metadata.uid or "
        "current.spec.node_name:\n"
        "            what",
        "        if current is None:\n            what",
        "a pod that was bound or made again returns to the queue",
    ),
    Planted(
        "binding",
        _FAILURES,
        "            self.queue.done(queued.uid)\n            return False\n",
        "            return False\n",
        "a pod that is gone stays in flight",
    ),
    Planted(
        "binding",
        _FAILURES,
        "            queued.unschedulable_plugins = set(diagnosis.unschedulable_plugins)\n"
        "            queued.pending_plugins = set(diagnosis.pending_plugins)\n"
        "            logger",
        "            queued.unschedulable_plugins = set(list(diagnosis.unschedulable_plugins)[:1])\n"
        "            logger",
        "one of the plugins that rejected a pod is noted",
    ),
    Planted(
        "binding",
        _WRITER,
        "            if (ended := self._ended.pop(metadata.uid, None)) is not None:\n"
        "                ended.set()\n",
        "",
        "a binding waits for a report for ever",
    ),
    # Fencing
    Planted(
        "fencing",
        _FENCING,
        "        await self._check_slowly()\n        return await self._api.write(write)\n",
        "        return await self._api.write(write)\n",
        "writes are not fenced",
    ),
    Planted(
        "fencing",
        _FENCING,
        "            await asyncio.sleep(PAUSE_SECONDS)\n",
        "",
        "a refusal takes no time",
    ),
    Planted(
        "fencing",
        _FENCING,
        "            self._check()\n            if check",
        "            if check",
        "a post that waited is not checked again",
    ),
    Planted(
        "fencing",
        _ELECTION,
        "        return self._leading and self._clock.now_ns() - self._renewed_ns < "
        "self._renew_seconds * NANOSECONDS\n",
        "        return self._leading\n",
        "a leader that cannot renew goes on",
    ),
    Planted(
        "fencing",
        _ELECTION,
        "        return self._observed_ns + (self._observed.lease_duration_seconds or 0) "
        "* NANOSECONDS > now_ns\n",
        "        return self._observed_ns + 1 * NANOSECONDS > now_ns\n",
        "a lease counts as free too early",
    ),
    Planted(
        "fencing",
        _ELECTION,
        "        self._renewed_ns = sent_ns\n",
        "        self._renewed_ns = self._clock.now_ns() + 10 * NANOSECONDS\n",
        "a lease counts from later than its renewal was sent",
    ),
    Planted(
        "fencing",
        _ELECTION,
        "            self._stop_leading()\n            logger.debug",
        "            logger.debug",
        "a leader that sees another one goes on",
    ),
    # Informers
    Planted(
        "informers",
        _REFLECTOR,
        "        for obj in [obj for obj in self._store if _identity(obj) not in present]:\n"
        "            self._remove(obj)\n",
        "",
        "what a list lacks is not removed",
    ),
    Planted(
        "informers",
        _REFLECTOR,
        "            self._handler(old, None)\n            old = None\n",
        "            pass\n",
        "an object that was made again counts as an update",
    ),
    Planted(
        "informers",
        _REFLECTOR,
        '            self._version = ""\n',
        "            pass\n",
        "a version that is gone is asked for again",
    ),
    Planted(
        "informers",
        _REFLECTOR,
        "                self._version = event.resource_version\n                self._silent = False\n",
        "                self._silent = False\n",
        "a watch goes on from where the last one began",
    ),
    Planted(
        "informers",
        _REFLECTOR,
        "        self._handler(self._store.remove(obj) or obj, None)\n",
        "        self._store.remove(obj)\n",
        "deletions are not passed on",
    ),
    Planted(
        "informers",
        _REFLECTOR,
        "        self._take_over(listed.items)\n        self._version = listed.resource_version\n",
        "        self._version = listed.resource_version\n"
        "        if not self.synced.is_set():\n"
        "            self._take_over(listed.items)\n",
        "a second list is ignored",
    ),
    Planted(
        "informers",
        _STORE,
        "        return self._objects.pop(key, None)\n",
        "        return self._objects.get(key)\n",
        "a removed object stays in the store",
    ),
    Planted(
        "informers",
        _STORE,
        "        self._by_namespace.setdefault(_namespace_in(key), {})[key] = obj\n"
        "        self.changes.note(key)\n",
        "        self._by_namespace.setdefault(_namespace_in(key), {})[key] = obj\n",
        "caches do not learn of new versions",
    ),
    # The store of the local API server, which histories check
    Planted(
        STORE,
        _STORE_FILE,
        "                group.waiters.append(waiter)\n                await waiter\n",
        "                group.waiters.append(waiter)\n",
        "a write is answered before it is committed",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        return self.get(resource, key) if change is None else change.new\n",
        "        return self.get(resource, key)\n",
        "writers do not see writes that are not committed",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "            if staged[change.key] is change:\n                del staged[change.key]\n",
        "            staged.pop(change.key, None)\n",
        "a commit hides later writes of the same object",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        for log in touched.values():\n            log.wake_readers()\n",
        "",
        "watches are not woken",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        self._versions.update(self._staged.keys())\n        self._staged.clear()\n",
        "        self._versions.update(self._staged.keys())\n",
        "writes that were lost are seen by writers",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        for group in groups:\n            group.settle(error)\n",
        "        for group in groups:\n            group.settle(None)\n",
        "writes that were lost are answered",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        self._revision = self._last_staged = max(self._revision, compacted)\n",
        "        self._last_staged = self._revision\n",
        "revisions are used again after a restart",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        self._compacted_on_disk = compacted\n        self.compact(compacted)\n",
        "        self._compacted_on_disk = compacted\n",
        "a restart forgets what was compacted",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "takewhile(lambda old: old.by <= self._compacted, ",
        "takewhile(lambda old: old.by <= self._revision, ",
        "rows are deleted that watches may ask for",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        if old is not None:\n"
        "            self._superseded.append(_Superseded(change.revision, revision_of(old)))\n",
        "        if old is not None and change.new is not None:\n"
        "            self._superseded.append(_Superseded(change.revision, revision_of(old)))\n",
        "a tombstone is deleted before the row that it hides",
    ),
    Planted(
        STORE,
        _STORE_FILE,
        "        if revision < self._compacted:\n"
        "            raise CompactedError(\n"
        '                f"changes',
        '        if False:\n            raise CompactedError(\n                f"changes',
        "a watch from a compacted revision is served",
    ),
    Planted(
        STORE,
        _JOURNAL,
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = OFF",
        "commits are not synced",
    ),
    Planted(
        STORE,
        _JOURNAL,
        "        self._sync_log()\n        ((found",
        "        ((found",
        "what a killed process left is served before it is synced",
    ),
    Planted(
        STORE,
        _JOURNAL,
        'FROM changes ORDER BY revision"',
        'FROM changes ORDER BY resource, key, revision"',
        "a restart reads the changes in another order",
    ),
    Planted(
        STORE,
        _SUBSCRIPTIONS,
        "position=self.end - len(self.since(since)), limit",
        "position=min(self.end, self.end - len(self.since(since)) + 1), limit",
        "a watch begins one change late",
    ),
    Planted(
        STORE,
        _READING,
        "    for change in reversed(changes):\n",
        "    for change in changes:\n",
        "later pages have objects of another revision",
    ),
    Planted(
        STORE,
        _READING,
        "        items = [obj for obj in items if key_of(obj) > start]\n",
        "        items = [obj for obj in items if key_of(obj) >= start]\n",
        "a page begins with the last object of the one before",
    ),
    Planted(
        STORE,
        _READING,
        '        return ("ADDED" if old is None else "MODIFIED"), to_view(row, new)\n    new_matches',
        '        return "MODIFIED", to_view(row, new)\n    new_matches',
        "a new object is a modified one",
    ),
    Planted(
        STORE,
        _WRITING,
        '        if version != old["metadata"]["resourceVersion"]:\n            raise modified(row, name)\n',
        "        pass\n",
        "versions of updates are not compared",
    ),
    Planted(
        STORE,
        _DELETION,
        '        ("resourceVersion", "ResourceVersion", "The object might have been modified"),\n',
        "",
        "versions of deletions are not compared",
    ),
    Planted(
        STORE,
        _CORE,
        "        except StatusError:\n            await core._durable()\n            raise\n",
        "        except StatusError:\n            raise\n",
        "a refusal does not wait for the writes that it rests on",
    ),
)
