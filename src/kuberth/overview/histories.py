"""Pod histories: every move between queues with its cause, and the results of the last attempts.

In: calls of the queue and of both cycles. Out: trees of JSON. The last moves and attempts of a pod are kept,
for the pods that moved or were tried last.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from kuberth.clock import NANOSECONDS, Clock
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import ClusterEvent, Hint
from kuberth.framework.diagnosis import FitError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Status
from kuberth.outcomes.placement import BestScores, Placement
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


class Move(NamedTuple):
    at: float
    before: str
    to: str
    cause: MoveCause | None
    """Its `about` is the object's name instead of the object."""
    note: str

    def tree(self) -> dict[str, Any]:
        event = None if self.cause is None else self.cause.event
        plugin = "" if self.cause is None else self.cause.plugin
        return {
            "at": self.at,
            "from": self.before,
            "to": self.to,
            "event": "" if event is None else event_text(event),
            "object": "" if self.cause is None else str(self.cause.about or ""),
            "plugin": plugin,
            "hint": Hint.QUEUE.value if plugin else "",
            "note": self.note,
        }


class Attempt(NamedTuple):
    at: float
    seconds: float
    result: str
    node: str
    nominated: str
    message: str
    rejections: list[dict[str, Any]]
    scores: BestScores | None
    weights: Mapping[str, int]
    evaluated: int
    feasible: int

    def tree(self) -> dict[str, Any]:
        tree = self._asdict()
        del tree["weights"]
        if self.scores is not None:
            weights = {plugin: self.weights.get(plugin, 1) for plugin in self.scores.plugins}
            tree["scores"] = self.scores._asdict() | {"weights": weights}
        return tree


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
        self._most = pods
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
            if cause.event is not None:
                if cause.label == cluster_events.SCHEDULE_ATTEMPT_FAILURE:
                    note = "it happened during the pod's attempt"
                if cause.about is not None:
                    cause = cause._replace(about=_name(cause.about))
            self._note(history, queue, cause, note)

    def popped(self, queued: QueuedPod) -> None:
        history = self._history(queued.uid, queued.key)
        self._note(history, IN_FLIGHT, None, f"attempt {queued.attempts}")

    def deleted(self, uid: str, *, node: str) -> None:
        """The pod left the queue: it was bound to the node by another program, or deleted."""
        history = self._histories.get(uid)
        if history is not None and history.queue not in (PLACED, DELETED):
            if node:
                self._note(history, PLACED, None, f"bound to {node}")
            else:
                self._note(history, DELETED, None, "")

    def held(self, placement: Placement) -> None:
        history = self._history(placement.info.uid, placement.info.key)
        holds = [
            f"{name} holds it for at most {duration(each)}"
            for name, each in placement.permit_timeouts.items()
        ]
        self._note(history, PERMIT, None, ", ".join(holds))

    def bound(self, placement: Placement, seconds: float) -> None:
        history = self._history(placement.info.uid, placement.info.key)
        choice = placement.choice
        attempt = Attempt(
            self._now() - seconds,
            seconds,
            "scheduled",
            choice.node_name,
            "",
            "",
            [],
            choice.scores,
            {} if choice.scores is None else placement.runner.profile.score_weights,
            choice.evaluated_nodes,
            choice.feasible_nodes,
        )
        _keep(history.attempts, attempt, ATTEMPTS)
        if history.queue != PLACED:
            self._note(history, PLACED, None, f"bound to {choice.node_name}")

    def rejected(self, rejection: Rejection, seconds: float) -> None:
        status = rejection.status
        attempt = Attempt(
            self._now() - seconds,
            seconds,
            "unschedulable" if status.is_rejected else "error",
            "",
            rejection.nomination or "",
            status.message,
            _rejections(status),
            None,
            {},
            len(status.cause.diagnosis) if isinstance(status.cause, FitError) else 0,
            0,
        )
        _keep(self._history(rejection.queued.uid, rejection.queued.key).attempts, attempt, ATTEMPTS)

    def _history(self, uid: str, key: str) -> PodHistory:
        history = self._histories.get(uid)
        if history is None:
            history = self._histories[uid] = PodHistory(uid, key)
            if len(self._histories) > self._most:
                self._histories.popitem(last=False)
        else:
            self._histories.move_to_end(uid)
        return history

    def _note(self, history: PodHistory, queue: str, cause: MoveCause | None, note: str) -> None:
        _keep(history.moves, Move(self._now(), history.queue, queue, cause, note), MOVES)

    def _now(self) -> float:
        return self._clock.now_ns() / NANOSECONDS


def _keep(kept: list[K], last: K, most: int) -> None:
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
