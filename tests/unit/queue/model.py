"""The queue's rules written down a second time, as plainly as possible: one dict of queues, one log.

In: the same operations as the queue takes. Out: where every pod must be, and which may be popped next.
Nothing here is fast, and nothing is shared with the queue but the types of pods and events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from tests.unit.queue.harness import GATES, NODE_ADD, NODE_LABEL, NODE_TAINT, with_status

Queue = Literal["active", "backoff", "error", "unschedulable", "gated"]
QueueingStrategy = Literal["nothing", "after backoff", "at once"]
Answers = Mapping[str, str]
"""What the hint of each plugin answers to an event that is not about a pod: queue, skip or raise."""

DOOR: Final = "Door"
DOOR_LABEL: Final = "door"
"""Pods with this label are gated by a plugin whose gate opens and closes without any change of the pod."""

REGISTERED: Final[Mapping[ClusterEvent, frozenset[str]]] = {
    NODE_ADD: frozenset({"A", "B", DOOR}),
    NODE_TAINT: frozenset({"A"}),
    NODE_LABEL: frozenset(),
    cluster_events.ASSIGNED_POD_DELETE: frozenset({"A", "B"}),
    ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE): frozenset({"A", "B"}),
    ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL): frozenset({"A", "B"}),
    ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED): frozenset(
        {"A", "B", GATES}
    ),
}
"""Plugins that registered for each event."""


def key_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


@dataclass
class Known:
    """What the rules remember of a pod."""

    pod: Pod
    entered_ns: int
    queue: Queue = "active"
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    flushed_ns: int = 0
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gate: str = ""

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0


@dataclass
class Model:
    """All pods of a queue, and all events since it began."""

    hints: bool
    early: bool
    initial_seconds: int
    max_seconds: int
    patience_seconds: int
    now_ns: int
    queues: dict[str, Known] = field(default_factory=dict)
    flying: dict[str, Known] = field(default_factory=dict)
    log: list[tuple[ClusterEvent, object]] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    """How long the log was when a pod was popped."""
    door_is_closed: bool = False
    pops: int = 0
    pops_at_last_move: int = -1

    # What must be

    def in_queue(self, *queues: Queue) -> list[Known]:
        return [known for known in self.queues.values() if known.queue in queues]

    def may_be_popped(self, share: Callable[[Known], float] = lambda _known: 0.0) -> list[Known]:
        """The pods that are first; more than one if the rules do not order them.

        Whose tenant has the smallest share comes before anything else.
        """
        active = self.in_queue("active")
        waiting: list[tuple[tuple[float, ...], Known]]
        if active:
            waiting = [((share(known), -known.priority, known.entered_ns), known) for known in active]
        elif self.early:
            waiting = [
                ((share(known), self.expiry_ns(known), -known.priority, known.entered_ns), known)
                for known in self.in_queue("backoff")
            ]
        else:
            return []
        first = min((order for order, _known in waiting), default=None)
        return [known for order, known in waiting if order == first]

    def expiry_ns(self, known: Known) -> int:
        """KEP-5142: failure time and doubling delay, cut to whole seconds. -1 for a pod that never failed."""
        failures = known.errors or known.rejections
        if not failures:
            return -1
        delay = min(self.initial_seconds << (failures - 1), self.max_seconds)
        expiry = known.entered_ns + delay * NANOSECONDS
        return expiry // NANOSECONDS * NANOSECONDS if self.early else expiry

    def backs_off(self, known: Known) -> bool:
        """A window is over when the next one begins; an exact time is over right after it."""
        past = self.expiry_ns(known) + NANOSECONDS - 1 if self.early else self.expiry_ns(known)
        return self.expiry_ns(known) >= 0 and self.now_ns <= past

    def kept_events(self) -> int:
        return len(self.log) - min(self.started.values()) if self.started else 0

    def rejected_by(self) -> Counter[str]:
        """The unschedulable_pods gauge."""
        return Counter(plugin for known in self.queues.values() for plugin in known.rejectors | known.pending)

    # Rules

    def gate_of(self, known: Known) -> str:
        closed = [GATES] if known.pod.spec.scheduling_gates else []
        if self.door_is_closed and DOOR_LABEL in known.pod.metadata.labels:
            closed.append(DOOR)
        # The plugin that holds a pod back is asked first.
        return known.gate if known.gate in closed else next(iter(closed), "")

    def judge(self, known: Known, event: ClusterEvent, new: object) -> QueueingStrategy:
        rejectors = known.rejectors | known.pending
        if not rejectors:
            return "after backoff"
        if event.is_wildcard:
            meant = new is None or (isinstance(new, Pod) and new.metadata.uid == known.pod.metadata.uid)
            return "after backoff" if meant else "nothing"
        asked = REGISTERED[event] & rejectors
        willing = {plugin for plugin in asked if not self.hints or answer(plugin, known.pod, new) != "skip"}
        if willing & known.pending:
            return "at once"
        return "after backoff" if willing else "nothing"

    def send(self, known: Known, worth: QueueingStrategy, *, from_backoff: bool = False) -> bool:
        """Put a pod where its worth leads; whether that is a queue it can be popped from."""
        self.queues[key_of(known.pod)] = known
        if worth == "nothing":
            known.queue = "gated" if known.gate else "unschedulable"
            return False
        backoff = worth == "after backoff" and self.backs_off(known)
        # Gates are asked once on the way to the active queue: with KEP-5142 before the backoff queue.
        if self.early if backoff else not (self.early and from_backoff):
            known.gate = self.gate_of(known)
            if known.gate:
                known.rejectors.add(known.gate)
                known.queue = "gated"
                return False
        known.queue = "active" if not backoff else "backoff" if known.rejectors | known.pending else "error"
        return True

    # Operations

    def add(self, pod: Pod) -> None:
        self.queues.pop(key_of(pod), None)
        self.send(Known(pod, self.now_ns), "at once")

    def update(self, old: Pod, new: Pod) -> None:
        if self.hints and new.metadata.uid in self.flying:
            self.log += [(change, new) for change in changes(old, new)]
            return
        known = self.queues.get(key_of(new))
        if known is None:
            self.send(Known(new, self.now_ns), "at once")
            return
        known.pod = new
        if known.queue not in ("unschedulable", "gated"):
            return
        if self.hints:
            any(self.send(known, self.judge(known, change, new)) for change in changes(old, new))
        elif old.metadata != new.metadata or old.spec != new.spec:
            self.send(known, "after backoff")

    def delete(self, pod: Pod) -> None:
        self.queues.pop(key_of(pod), None)

    def popped(self, key: str) -> None:
        known = self.queues.pop(key)
        known.attempts += 1
        self.pops += 1
        self.flying[known.pod.metadata.uid] = known
        self.started[known.pod.metadata.uid] = len(self.log)

    def done(self, uid: str) -> None:
        del self.flying[uid], self.started[uid]

    def requeue(self, uid: str, plugins: set[str], pending: set[str]) -> None:
        known = self.flying[uid]
        missed = self.log[self.started[uid] :]
        self.done(uid)
        if key_of(known.pod) in self.queues:
            return
        known.rejectors, known.pending = set(plugins), set(pending)
        known.entered_ns, known.flushed_ns = self.now_ns, 0
        if plugins or pending:
            known.rejections, known.errors = known.rejections + 1, 0
            worths: set[QueueingStrategy] = {self.judge(known, event, new) for event, new in missed}
            if not self.hints:
                worths = {"after backoff" if self.pops_at_last_move >= self.pops else "nothing"}
        else:
            known.errors += 1
            worths = {"after backoff"}
        self.send(known, next((worth for worth in _BEST_FIRST if worth in worths), "nothing"))

    def move(self, event: ClusterEvent, new: object) -> None:
        if REGISTERED[event]:
            self._move(self.in_queue("unschedulable", "gated"), event, new)

    def _move(self, waiting: Sequence[Known], event: ClusterEvent, new: object) -> None:
        for known in waiting:
            # Events that the gating plugin did not register for cannot open its gate.
            if not known.gate or event.is_wildcard or known.gate in REGISTERED[event]:
                self.send(known, self.judge(known, event, new))
        self.pops_at_last_move = self.pops
        self.log.append((event, new))

    def activate(self, pod: Pod) -> None:
        known = self.queues.get(key_of(pod))
        if known is None or known.queue == "active":
            activated = False
        else:
            activated = self.send(known, "at once", from_backoff=known.queue in ("backoff", "error"))
        if not activated:
            if self.hints and pod.metadata.uid in self.flying:
                self.log.append((cluster_events.FORCED_ACTIVATION, pod))
            self.pops_at_last_move = self.pops

    def flush_backoff(self) -> None:
        for known in self.in_queue("backoff", "error"):
            if not self.backs_off(known):
                self.send(known, "at once", from_backoff=True)

    def flush_unschedulable(self) -> None:
        overdue = [
            known
            for known in self.in_queue("unschedulable", "gated")
            if self.now_ns - max(known.entered_ns, known.flushed_ns) > self.patience_seconds * NANOSECONDS
        ]
        for known in overdue:
            known.flushed_ns = self.now_ns
        if overdue:
            self._move(overdue, cluster_events.UNSCHEDULABLE_TIMEOUT, None)


_BEST_FIRST: Final[Sequence[QueueingStrategy]] = ("at once", "after backoff", "nothing")


def answer(plugin: str, pod: Pod, new: object) -> str:
    """What a plugin's hint says: about a pod by the pod's label, about anything else by the event."""
    if plugin == GATES:
        return "queue" if isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid else "skip"
    if isinstance(new, Pod):
        return new.metadata.labels.get(plugin, "skip")
    assert isinstance(new, Mapping)
    return str(new.get(plugin, "skip"))


def changes(old: Pod, new: Pod) -> list[ClusterEvent]:
    """The events of a pod's update, for the few changes that the tests make.

    A nomination is what a scheduler writes itself, so it is no event.
    """
    if old != new and with_status(old, nominated_node_name=new.status.nominated_node_name) == new:
        return []
    found: list[Action] = []
    if old.metadata.labels != new.metadata.labels:
        found.append(Action.UPDATE_POD_LABEL)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        found.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    return [ClusterEvent(Resource.UNSCHEDULABLE_POD, action) for action in found or [Action.UPDATE]]
