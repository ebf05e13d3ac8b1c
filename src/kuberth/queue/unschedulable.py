"""Pods that wait for an event, filed under the plugins whose events can move them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, only those it may concern, in the order they came: an event
costs nothing for pods whose plugins did not register for it or know that it is not about them, however many
they are, and one hint for all pods that are equal for the plugin. A gated pod that its gate would refuse
again is left alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.informers.store import object_key
from kuberth.queue.hints import Hints

ANYONE: Final = ""
"""Where pods are filed that every event may concern, as no plugin speaks for them."""


class _Filed(NamedTuple):
    number: int
    queued: QueuedPod
    gate: str
    """The plugin that holds the pod back before it is even tried; none: it was rejected."""
    equals: Hashable
    """Of a gated pod: what it shares with those of which one hint of the gate speaks for all."""
    drawers: Sequence[tuple[str, Hashable]]
    """Of a rejected pod: by plugin and, within, by what the plugin reads of the pod."""
    known_by: Sequence[tuple[str, Hashable]]
    """By plugin, what its concerns know the pod by."""


class UnschedulablePods:
    """Queued pods by namespace/name, and by plugin."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._numbers = count()
        self._pods: dict[str, _Filed] = {}
        self._by_plugin: dict[str, dict[Hashable, dict[str, _Filed]]] = {}
        self._by_gate: dict[str, dict[Hashable, dict[str, _Filed]]] = {}
        self._by_concern: dict[tuple[str, Hashable], dict[str, _Filed]] = {}

    def add(self, queued: QueuedPod) -> bool:
        """Add a pod, or file it again if it is here already. Return whether it is new."""
        old = self._pods.get(queued.key)
        if old is not None:
            self._unfile(queued.key, old)
        number = next(self._numbers) if old is None else old.number
        equals = self._equals(queued) if queued.gated else None
        filed = _Filed(
            number, queued, queued.gating_plugin, equals, self._drawers_of(queued), self._known_by(queued)
        )
        self._pods[queued.key] = filed
        if filed.gate:
            self._by_gate.setdefault(filed.gate, {}).setdefault(equals, {})[queued.key] = filed
        for plugin, signature in filed.drawers:
            self._by_plugin.setdefault(plugin, {}).setdefault(signature, {})[queued.key] = filed
        for concern in filed.known_by:
            self._by_concern.setdefault(concern, {})[queued.key] = filed
        return old is None

    def remove(self, key: str) -> QueuedPod | None:
        """Take out the pod of this namespace/name, if it is here."""
        filed = self._pods.pop(key, None)
        if filed is None:
            return None
        self._unfile(key, filed)
        return filed.queued

    def get(self, key: str) -> QueuedPod | None:
        """The pod of this namespace/name, if it is here."""
        filed = self._pods.get(key)
        return None if filed is None else filed.queued

    def concerned_by(self, event: ClusterEvent, old: object, new: object) -> Sequence[QueuedPod]:
        """The pods that the event may move; the others need not be asked about."""
        if not self._pods:  # as nearly always
            return ()
        if event.is_wildcard:
            return list(self)
        found: dict[str, _Filed] = {}
        about_itself = self._pods.get(_key_of(old if new is None else new))
        for plugin in (ANYONE, *self._hints.plugins_concerned(event)):
            about = None if plugin == ANYONE else self._hints.about(plugin, event, old, new)
            if about is not None:
                for key in about:
                    found |= self._by_concern.get((plugin, key), {})
                continue
            for equals in self._by_plugin.get(plugin, {}).values():
                if not self._is_vain(plugin, equals, event, old, new):
                    found |= equals
            if gated := self._by_gate.get(plugin):
                for equals in gated.values():
                    if not self._is_vain(plugin, equals, event, old, new):
                        found |= {
                            key: filed
                            for key, filed in equals.items()
                            if not self._hints.is_refused(filed.queued)
                        }
        if about_itself is not None:  # what it means for others says nothing of the pod itself
            found[about_itself.queued.key] = about_itself
        return [filed.queued for filed in sorted(found.values(), key=lambda filed: filed.number)]

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (filed.queued for filed in self._pods.values())

    def _is_vain(
        self, plugin: str, equals: Mapping[str, _Filed], event: ClusterEvent, old: object, new: object
    ) -> bool:
        """Whether the plugin says of one of these pods, and so of all, that the event does not help."""
        if len(equals) == 1 or plugin == ANYONE:
            return False
        one = next(iter(equals.values())).queued
        if self._hints.signature(plugin, one) == one.uid:
            return False  # what it states has turned out to be wrong since they were filed
        return not self._hints.would_help(plugin, one, event, old, new)

    def _drawers_of(self, queued: QueuedPod) -> Sequence[tuple[str, Hashable]]:
        """Only events of its own plugin open a gate, whichever other plugins rejected the pod before."""
        if queued.gated:
            return ()
        if not self._hints.knows(queued.pod.spec.scheduler_name) or not queued.rejectors:
            return ((ANYONE, ""),)
        return [(plugin, self._hints.signature(plugin, queued)) for plugin in queued.rejectors]

    def _equals(self, queued: QueuedPod) -> Hashable:
        """Gated pods for which this is equal are moved by the same events.

        Others that rejected the pod before have a say besides its gate.
        """
        gate = queued.gating_plugin
        return self._hints.signature(gate, queued) if queued.rejectors == {gate} else queued.uid

    def _known_by(self, queued: QueuedPod) -> Sequence[tuple[str, Hashable]]:
        plugins = (queued.gating_plugin,) if queued.gated else queued.rejectors
        return [(plugin, key) for plugin in plugins for key in self._hints.known_by(plugin, queued)]

    def _unfile(self, key: str, filed: _Filed) -> None:
        for concern in filed.known_by:
            del self._by_concern[concern][key]
            if not self._by_concern[concern]:
                del self._by_concern[concern]
        if filed.gate:
            _take_out(self._by_gate, filed.gate, filed.equals, key)
        for plugin, signature in filed.drawers:
            _take_out(self._by_plugin, plugin, signature, key)


def _key_of(obj: object) -> str:
    return object_key(obj) if isinstance(obj, Pod) else ""


def _take_out(
    cabinet: dict[str, dict[Hashable, dict[str, _Filed]]], plugin: str, signature: Hashable, key: str
) -> None:
    drawers = cabinet[plugin]
    del drawers[signature][key]
    if not drawers[signature]:
        del drawers[signature]
        if not drawers:
            del cabinet[plugin]
