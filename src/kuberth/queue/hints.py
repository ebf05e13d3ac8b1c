"""Queueing hints: whether an event justifies a new attempt of a rejected pod (KEP-4247).

In: a waiting pod and an event. Out: leave the pod, requeue it after its backoff, or immediately, according to
the hint functions of the plugins that rejected it.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from kuberth.errors import reraise_interrupt
from kuberth.framework.cluster_events import ClusterEvent, Concern, Hint, concerns
from kuberth.framework.plan import sum_of_versions
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Status
from kuberth.observe import verbosity
from kuberth.observe.metrics import SchedulerMetrics

logger = logging.getLogger(__name__)


ANYTHING: Final = object()
"""The key of a pod for which the plugin's `Concern` failed: every event may be about it."""


class QueueingStrategy(enum.Enum):
    """What an event means for a waiting pod, under kube-scheduler's name."""

    SKIP = enum.auto()
    AFTER_BACKOFF = enum.auto()
    IMMEDIATELY = enum.auto()


class Hints:
    """All hint functions of all profiles."""

    def __init__(self, hints: Mapping[str, Sequence[RegisteredHint]], metrics: SchedulerMetrics) -> None:
        self._hints = hints
        self._metrics = metrics
        self._concerned: dict[tuple[str, ClusterEvent], tuple[RegisteredHint, ...]] = {}
        self._plugins_concerned: dict[ClusterEvent, frozenset[str]] = {}
        self._signers = {
            (profile, each.plugin): each.sign
            for profile, of_profile in hints.items()
            for each in of_profile
            if each.sign is not None
        }
        self._concerns: dict[tuple[str, str], list[Concern]] = {}
        """By profile and plugin. Most plugins have none."""
        for profile, of_profile in hints.items():
            for each in of_profile:
                if each.concern is not None:
                    self._concerns.setdefault((profile, each.plugin), []).append(each.concern)
        self._labels = {
            registered.labels
            for of_profile in hints.values()
            for registered in of_profile
            if registered.labels is not None
        }
        self.decided_by = ""
        """The plugin whose hint decided last; "" if no hint was called, or all returned Skip."""

    @property
    def signatures_version(self) -> int:
        """Grows when signatures of pods change."""
        return sum_of_versions(self._labels)

    def knows(self, profile: str) -> bool:
        return profile in self._hints

    def plugins_concerned(self, event: ClusterEvent) -> frozenset[str]:
        """The plugins that registered for the event, in any profile."""
        found = self._plugins_concerned.get(event)
        if found is None:
            found = self._plugins_concerned[event] = frozenset(
                registered.plugin
                for profile in self._hints
                for registered in self._registered(profile, event)
            )
        return found

    def signature(self, plugin: str, queued: QueuedPod) -> Hashable:
        """Waiting pods with equal signatures get equal hints, except for events about the pod itself."""
        profile = queued.pod.spec.scheduler_name
        sign = self._signers.get((profile, plugin))
        signature = None if sign is None else sign(queued.info)
        return queued.uid if signature is None else (profile, signature)

    def signatures_hold(self, plugin_keys: Iterable[tuple[str, Hashable]], queued: QueuedPod) -> bool:
        """Whether the pod still has these signatures for these plugins."""
        return all(not plugin or self.signature(plugin, queued) == signed for plugin, signed in plugin_keys)

    def would_help(
        self, plugin: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> bool:
        """Whether a hint of the plugin returns anything but Skip for the pod."""
        return any(
            registered.plugin == plugin and self._call(registered, queued, event, old, new) is not Hint.SKIP
            for registered in self._registered(queued.pod.spec.scheduler_name, event)
        )

    def concern_keys(self, plugin: str, queued: QueuedPod) -> Iterable[Hashable]:
        """The keys of a waiting pod, according to the plugin's `Concern`s."""
        found: set[Hashable] = set()
        for concern in self._concerns.get((queued.pod.spec.scheduler_name, plugin), ()):
            try:
                found.update(concern.of_pod(queued.pod))
            except BaseException as exc:
                reraise_interrupt(exc)
                logger.exception(
                    "plugin %r: the Concern failed for pod %s; every event may concern the pod",
                    plugin,
                    queued.key,
                )
                found.add(ANYTHING)
        return found

    def event_keys(
        self, plugin: str, event: ClusterEvent, old: object, new: object
    ) -> Iterable[Hashable] | None:
        """The keys of the pods that the event concerns, according to the plugin; None: any pod."""
        found: set[Hashable] = {ANYTHING}
        for profile in self._hints:
            for registered in self._registered(profile, event):
                if registered.plugin != plugin:
                    continue
                keys = None if registered.concern is None else self._keys(registered, event, old, new)
                if keys is None:
                    return None
                found |= keys
        return found

    def _keys(
        self, registered: RegisteredHint, event: ClusterEvent, old: object, new: object
    ) -> set[Hashable] | None:
        assert registered.concern is not None
        try:
            keys = registered.concern.of_event(old, new)
            return None if keys is None else set(keys)
        except BaseException as exc:
            reraise_interrupt(exc)
            logger.exception(
                "plugin %r: the Concern failed for event %s; it may concern any pod",
                registered.plugin,
                event.label,
            )
            return None

    def is_gated(self, queued: QueuedPod) -> bool:
        """Whether the plugin that gates the pod would reject it again."""
        for registered in self._hints.get(queued.pod.spec.scheduler_name, ()):
            if registered.plugin == queued.gating_plugin and registered.gate is not None:
                try:
                    status = registered.gate(queued.pod)
                except BaseException as exc:  # logged when PreEnqueue runs for an attempt
                    reraise_interrupt(exc)
                    return False
                return isinstance(status, Status) and status.is_rejected
        return False

    def concerns_any_plugin(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self.plugins_concerned(event))

    def strategy_for(
        self, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> QueueingStrategy:
        """Call the hints of the rejecting plugins; a pod with a Pending plugin skips backoff."""
        self.decided_by = ""
        rejectors = queued.rejectors
        if not rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            # A wildcard event with a pod concerns only this pod.
            metadata = getattr(new, "metadata", None)
            is_concerned = new is None or (metadata is not None and metadata.uid == queued.uid)
            return QueueingStrategy.AFTER_BACKOFF if is_concerned else QueueingStrategy.SKIP
        profile = queued.pod.spec.scheduler_name
        if not self.knows(profile):
            logger.error("pod %s waits for scheduler %r, which has no profile here", queued.key, profile)
            return QueueingStrategy.AFTER_BACKOFF
        strategy = QueueingStrategy.SKIP
        for registered in self._registered(profile, event):
            if registered.plugin not in rejectors:
                continue
            if self._call(registered, queued, event, old, new) is Hint.SKIP:
                continue
            self.decided_by = registered.plugin
            if registered.plugin in queued.pending_plugins:
                return QueueingStrategy.IMMEDIATELY
            strategy = QueueingStrategy.AFTER_BACKOFF
            if not queued.pending_plugins:
                return strategy
        if strategy is QueueingStrategy.SKIP and verbosity.level >= 5:
            verbosity.log(5, "Event is not making pod schedulable", pod=queued.pod, event=event.label)
        return strategy

    def _registered(self, profile: str, event: ClusterEvent) -> tuple[RegisteredHint, ...]:
        key = (profile, event)
        found = self._concerned.get(key)
        if found is None:
            found = self._concerned[key] = tuple(
                registered for registered in self._hints[profile] if concerns(registered.event, event)
            )
        return found

    def _call(
        self, registered: RegisteredHint, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> Hint:
        """Call a hint. If it fails, it counts as Queue: a needless attempt is better than a stuck pod."""
        started = time.perf_counter()
        label = Hint.QUEUE.value
        hint = Hint.QUEUE
        if registered.hint is not None:
            try:
                hint = registered.hint(queued.pod, old, new)
                if not isinstance(hint, Hint):
                    raise TypeError(f"returned {hint!r:.200} where a Hint is expected")
                label = hint.value
            except BaseException as exc:
                reraise_interrupt(exc)
                logger.exception(
                    "plugin %r failed in its hint for event %s and pod %s; queueing the pod",
                    registered.plugin,
                    event.label,
                    queued.key,
                )
                hint, label = Hint.QUEUE, "Error"
        self._metrics.queueing_hint_execution_duration.observe(
            (registered.plugin, event.label, label), time.perf_counter() - started
        )
        if verbosity.level >= 5:
            verbosity.log(
                5,
                "Queueing hint answered",
                pod=queued.pod,
                plugin=registered.plugin,
                event=event.label,
                hint=label,
            )
        return hint
