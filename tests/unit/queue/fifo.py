"""A whole custom queue in a screenful: first come, first served, pods that fail go to the back.

Built on the public interface only, to see that it is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.interface import PreCheck, QueueContext, SchedulingQueue

RETRY_SECONDS = 5.0


class Fifo(SchedulingQueue):
    """One line; pods that failed or are gated wait for any event, or for the next tick."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._line: dict[str, QueuedPod] = {}
        self._waiting: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, Pod] = {}
        self._notify: Callable[[], None] = lambda: None

    def add(self, info: PodInfo) -> None:
        self.delete(info.pod)
        self._waiting[info.key] = QueuedPod(info, timestamp_ns=self._context.clock.now_ns())
        self._retry()

    def update(self, old: Pod, new: PodInfo) -> None:
        if new.uid in self._in_flight:
            return
        queued = self._line.get(new.key) or self._waiting.get(new.key)
        if queued is None:
            self.add(new)
        else:
            queued.info = new
            self._retry()

    def delete(self, pod: Pod) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._line.pop(key, None)
        self._waiting.pop(key, None)

    def pop_nowait(self) -> QueuedPod | None:
        if not self._line:
            return None
        queued = self._line.pop(next(iter(self._line)))
        queued.attempts += 1
        self._in_flight[queued.uid] = queued.pod
        return queued

    def requeue(self, queued: QueuedPod) -> None:
        self.done(queued.uid)
        if self.get(queued.key) is not None:
            raise QueueError(f"pod {queued.key} waits already")
        self._waiting[queued.key] = queued

    def done(self, uid: str) -> None:
        self._in_flight.pop(uid, None)

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        self._retry()

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self._retry()

    def tick(self) -> float:
        self._retry()
        return RETRY_SECONDS

    def when_ready(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        return {"active": tuple(self._line.values()), "unschedulable": tuple(self._waiting.values())}

    def in_flight(self) -> Sequence[Pod]:
        return tuple(self._in_flight.values())

    def _retry(self) -> None:
        for key, queued in list(self._waiting.items()):
            pre_enqueue = self._context.pre_enqueue[queued.pod.spec.scheduler_name]
            if pre_enqueue(queued.pod, "").is_success:
                self._line[key] = self._waiting.pop(key)
                self._notify()
