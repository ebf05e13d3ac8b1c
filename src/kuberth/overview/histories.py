"""Pod histories: every move between queues with its cause, and the results of the last attempts.

In: calls of the queue and of both cycles. Out: trees of JSON. The last moves and attempts of a pod are kept,
for the pods that moved or were tried last.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from kuberth.clock import NANOSECONDS, Clock
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import ClusterEvent, Hint
from kuberth.framework.diagnosis import FitError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Status
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.overview.pending import DELETED, IN_FLIGHT, PERMIT, PLACED
from kuberth.queue.observing import UNREPORTED, MoveCause
from kuberth.text.figures import duration

K = TypeVar("K")

MOVES: Final = 50
ATTEMPTS: Final = 5
PODS: Final = 5000
_REASONS: Final = 20
"""The maximum number of reasons listed for one attempt; its message contains all of them."""

NOTES: Final[Mapping[str, str]] = {
    cluster_events.SCHEDULE_ATTEMPT_FAILURE: "its attempt failed",
    cluster_events.BACKOFF_COMPLETE: "its backoff is over",
    cluster_events.FORCE_ACTIVATE: "a plugin activated it",
    cluster_events.UNSCHEDULABLE_TIMEOUT.label: "it waited for the longest time allowed without an event",
    cluster_events.CONFIGURATION_CHANGE.label: "the configuration changed",
    UNREPORTED.label: "found there; this queue does not report why",
}
"""Why a pod moved if no object caused it, by the label of the cause."""


class Move(msgspec.Struct, frozen=True):
    """A move between queues, with the fields of its JSON."""

    at: float
    before: str = msgspec.field(name="from")
    to: str
    event: str
    object: str
    """The name of the event's object."""
    plugin: str
    hint: str
    note: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduling attempt, with the fields of its JSON."""

    at: float
    seconds: float
    result: str
    node: str = ""
    nominated: str = ""
    message: str = ""
    rejections: list[dict[str, Any]] = []
    scores: dict[str, Any] | None = None
    evaluated: int
    feasible: int = 0


@dataclass(slots=True, eq=False)
class PodHistory:
    """The moves and attempts of one pod."""

    uid: str
    key: str
    # Lists, because most histories are short: an empty deque takes as much memory as ten moves.
    moves: list[Move] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def queue(self) -> str:
        """The queue that the last move led to."""
        return self.moves[-1].to if self.moves else ""


class PodHistories:
    """Histories by UID, at most `pods` of them; the least recently changed is dropped."""

    def __init__(self, clock: Clock, *, pods: int = PODS) -> None:
        self._clock = clock
        self._max_pods = pods
        self._histories: OrderedDict[str, PodHistory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._histories)

    def of(self, uid: str) -> PodHistory | None:
        return self._histories.get(uid)

    def named(self, key: str) -> PodHistory | None:
        """The latest history of a pod with this namespace/name, which may be deleted."""
        return next((history for history in reversed(self._histories.values()) if history.key == key), None)

    # Called by the overview

    def moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        history = self._history(queued.uid, queued.key)
        if history.queue != queue:
            note = NOTES.get(cause.label, "")
            if cause.event is not None and cause.label == cluster_events.SCHEDULE_ATTEMPT_FAILURE:
                note = "it happened during the pod's attempt"
            self._add_move(history, queue, note, cause)

    def popped(self, queued: QueuedPod) -> None:
        history = self._history(queued.uid, queued.key)
        self._add_move(history, IN_FLIGHT, f"attempt {queued.attempts}")

    def deleted(self, uid: str, *, node: str) -> None:
        """The pod left the queue: it was bound to the node by another program, or deleted."""
        history = self._histories.get(uid)
        if history is not None and history.queue not in (PLACED, DELETED):
            self._add_move(history, PLACED if node else DELETED, f"bound to {node}" if node else "")

    def held(self, placement: Placement) -> None:
        history = self._history(placement.info.uid, placement.info.key)
        holds = [
            f"{name} holds it for at most {duration(each)}"
            for name, each in placement.permit_timeouts.items()
        ]
        self._add_move(history, PERMIT, ", ".join(holds))

    def bound(self, placement: Placement, seconds: float) -> None:
        history = self._history(placement.info.uid, placement.info.key)
        choice = placement.choice
        scores: dict[str, Any] | None = None
        if choice.scores is not None:
            weights = placement.runner.profile.score_weights
            weighted = {plugin: weights.get(plugin, 1) for plugin in choice.scores.plugins}
            scores = choice.scores._asdict() | {"weights": weighted}
        attempt = Attempt(
            at=self._now() - seconds,
            seconds=seconds,
            result="scheduled",
            node=choice.node_name,
            scores=scores,
            evaluated=choice.evaluated_nodes,
            feasible=choice.feasible_nodes,
        )
        _append(history.attempts, attempt, ATTEMPTS)
        if history.queue != PLACED:
            self._add_move(history, PLACED, f"bound to {choice.node_name}")

    def rejected(self, rejection: Rejection, seconds: float) -> None:
        status = rejection.status
        attempt = Attempt(
            at=self._now() - seconds,
            seconds=seconds,
            result="unschedulable" if status.is_rejected else "error",
            nominated=rejection.nomination or "",
            message=status.message,
            rejections=_rejections(status),
            evaluated=len(status.cause.diagnosis) if isinstance(status.cause, FitError) else 0,
        )
        _append(self._history(rejection.queued.uid, rejection.queued.key).attempts, attempt, ATTEMPTS)

    def _history(self, uid: str, key: str) -> PodHistory:
        history = self._histories.get(uid)
        if history is None:
            history = self._histories[uid] = PodHistory(uid, key)
            if len(self._histories) > self._max_pods:
                self._histories.popitem(last=False)
        else:
            self._histories.move_to_end(uid)
        return history

    def _add_move(self, history: PodHistory, queue: str, note: str, cause: MoveCause = UNREPORTED) -> None:
        move = Move(
            self._now(),
            history.queue,
            queue,
            "" if cause.event is None else event_text(cause.event),
            "" if cause.event is None else _name(cause.about),
            cause.plugin,
            Hint.QUEUE.value if cause.plugin else "",
            note,
        )
        _append(history.moves, move, MOVES)

    def _now(self) -> float:
        return self._clock.now_ns() / NANOSECONDS


def _append(kept: list[K], last: K, most: int) -> None:
    kept.append(last)
    if len(kept) > most:
        del kept[0]


@lru_cache(maxsize=1024)
def event_text(event: ClusterEvent) -> str:
    """`Node/Add`; "" for an event that no object caused."""
    if event.is_wildcard:
        return ""
    return f"{event.resource.rpartition('/')[2]}/{event.action.label}"


def _name(about: object) -> str:
    metadata = getattr(about, "metadata", None)
    if metadata is None:
        return ""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def _rejections(status: Status) -> list[dict[str, Any]]:
    """By plugin and reason, the most frequent first."""
    if not isinstance(status.cause, FitError):
        return []
    diagnosis = status.cause.diagnosis
    numbers: Counter[tuple[str, str]] = Counter()
    if diagnosis.pre_filter is not None:
        for reason in diagnosis.pre_filter.reasons:
            numbers[diagnosis.pre_filter.plugin, reason] += status.cause.total_nodes
    else:
        for each, number in diagnosis.counts():
            for reason in each.reasons:
                numbers[each.plugin, reason] += number
    return [
        {"plugin": plugin, "reason": reason, "nodes": number}
        for (plugin, reason), number in numbers.most_common(_REASONS)
    ]
