"""A pod's story: every move between queues with what caused it, and how its last attempts went.

In: what the queue and the ends of attempts tell. Out: trees of JSON. Of each pod the last moves and attempts
are kept, of all pods those that something happened to lately.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
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
from kuberth.overview.waiting import DELETED, IN_FLIGHT, PERMIT, PLACED
from kuberth.queue.observing import UNTOLD, MoveCause

K = TypeVar("K")

MOVES: Final = 50
ATTEMPTS: Final = 5
PODS: Final = 5000
_REASONS: Final = 20
"""Told of one attempt; the message has them all."""

NOTES: Final[Mapping[str, str]] = {
    cluster_events.SCHEDULE_ATTEMPT_FAILURE: "its attempt failed",
    cluster_events.BACKOFF_COMPLETE: "its backoff is over",
    cluster_events.FORCE_ACTIVATE: "a plugin asked for it",
    cluster_events.UNSCHEDULABLE_TIMEOUT.label: "it waited so long that it is tried without an event",
    cluster_events.CONFIGURATION_CHANGE.label: "the configuration changed",
    UNTOLD.label: "seen there; this queue does not tell why",
}
"""Why a pod moved where no object was the cause, by the cause's label."""


class Move(NamedTuple):
    at: float
    before: str
    to: str
    cause: MoveCause | None
    """With the name of its object instead of the object."""
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
    """How one attempt went."""

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


class Story:
    """What happened to one pod."""

    __slots__ = ("attempts", "key", "moves", "uid")

    def __init__(self, uid: str, key: str) -> None:
        self.uid = uid
        self.key = key
        # Lists, as most stories are short: an empty deque takes as much memory as ten moves.
        self.moves: list[Move] = []
        self.attempts: list[Attempt] = []

    @property
    def queue(self) -> str:
        """Where the last move led."""
        return self.moves[-1].to if self.moves else ""


class Stories:
    """Those of the pods that something happened to lately."""

    def __init__(self, clock: Clock, *, pods: int = PODS) -> None:
        self._clock = clock
        self._most = pods
        self._stories: OrderedDict[str, Story] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stories)

    def of(self, uid: str) -> Story | None:
        return self._stories.get(uid)

    def named(self, key: str) -> Story | None:
        """The latest of a pod with this namespace/name, which may be gone."""
        return next((story for story in reversed(self._stories.values()) if story.key == key), None)

    # What is told as it happens

    def moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        story = self._story(queued.uid, queued.key)
        if story.queue != queue:
            note = NOTES.get(cause.label, "")
            if cause.event is not None:
                if cause.label == cluster_events.SCHEDULE_ATTEMPT_FAILURE:
                    note = "it happened while the pod was being tried"
                if cause.about is not None:
                    cause = cause._replace(about=_name(cause.about))
            self._note(story, queue, cause, note)

    def popped(self, queued: QueuedPod) -> None:
        story = self._story(queued.uid, queued.key)
        self._note(story, IN_FLIGHT, None, f"attempt {queued.attempts}")

    def deleted(self, uid: str, *, node: str) -> None:
        """It waits no more: somebody bound it to the node, or it is gone."""
        story = self._stories.get(uid)
        if story is not None and story.queue not in (PLACED, DELETED):
            if node:
                self._note(story, PLACED, None, f"bound to {node}")
            else:
                self._note(story, DELETED, None, "")

    def held(self, placement: Placement) -> None:
        story = self._story(placement.info.uid, placement.info.key)
        self._note(story, PERMIT, None, f"{', '.join(placement.permit_timeouts)} asked to wait")

    def bound(self, placement: Placement, seconds: float) -> None:
        story = self._story(placement.info.uid, placement.info.key)
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
        _keep(story.attempts, attempt, ATTEMPTS)
        if story.queue != PLACED:
            self._note(story, PLACED, None, f"bound to {choice.node_name}")

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
        _keep(self._story(rejection.queued.uid, rejection.queued.key).attempts, attempt, ATTEMPTS)

    def _story(self, uid: str, key: str) -> Story:
        story = self._stories.get(uid)
        if story is None:
            story = self._stories[uid] = Story(uid, key)
            if len(self._stories) > self._most:
                self._stories.popitem(last=False)
        else:
            self._stories.move_to_end(uid)
        return story

    def _note(self, story: Story, queue: str, cause: MoveCause | None, note: str) -> None:
        _keep(story.moves, Move(self._now(), story.queue, queue, cause, note), MOVES)

    def _now(self) -> float:
        return self._clock.now_ns() / NANOSECONDS


def _keep(kept: list[K], last: K, most: int) -> None:
    kept.append(last)
    if len(kept) > most:
        del kept[0]


@lru_cache(maxsize=1024)
def event_text(event: ClusterEvent) -> str:
    """`Node/Add`; nothing for what no object was the cause of."""
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
