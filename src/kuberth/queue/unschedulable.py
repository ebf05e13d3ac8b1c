"""Pods that wait for an event, filed under the plugins whose events can move them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, only those it may concern, in the order they came: an event
costs nothing for pods whose plugins did not register for it, however many they are, and one hint for all pods
that the plugin cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from kuberth.framework.cluster_events import ClusterEvent, Resource
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.hints import Hints

ANYONE: Final = ""
"""Where pods are filed that every event may concern, as no plugin speaks for them."""

_GATED: Final = "gated"
"""Apart from those that the plugin rejected: hints about gated pods read other fields."""


class _Filed(NamedTuple):
    number: int
    queued: QueuedPod
    drawers: Sequence[tuple[str, Hashable]]
    """By plugin and, within, by what the plugin knows the pod by."""


class UnschedulableRoom:
    """Queued pods by namespace/name, and by plugin."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._numbers = count()
        self._pods: dict[str, _Filed] = {}
        self._by_plugin: dict[str, dict[Hashable, dict[str, _Filed]]] = {}

    def add(self, queued: QueuedPod) -> bool:
        """Bring a pod in, or file it anew if it is in already. True: it was not."""
        old = self._pods.get(queued.key)
        if old is not None:
            self._unfile(queued.key, old)
        number = next(self._numbers) if old is None else old.number
        filed = self._pods[queued.key] = _Filed(number, queued, self._drawers_of(queued))
        for plugin, signature in filed.drawers:
            self._by_plugin.setdefault(plugin, {}).setdefault(signature, {})[queued.key] = filed
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
        if event.is_wildcard:
            return list(self)
        found: dict[str, _Filed] = {}
        for plugin in (ANYONE, *self._hints.plugins_concerned(event)):
            for equals in self._by_plugin.get(plugin, {}).values():
                if not self._is_vain(plugin, equals, event, old, new):
                    found |= equals
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
        """Whether the plugin would say of all these pods, one for all, that the event does not help.

        Of pods that it rejected, equal ones are known to get equal hints about nodes; of pods that it gates,
        about everything.
        """
        if len(equals) == 1 or plugin == ANYONE:
            return False
        anyone = next(iter(equals.values())).queued
        if event.resource != Resource.NODE and not anyone.gated:
            return False
        return not self._hints.would_help(plugin, anyone, event, old, new)

    def _drawers_of(self, queued: QueuedPod) -> Sequence[tuple[str, Hashable]]:
        """A gate is opened by its own plugin's events alone, whoever else rejected the pod before."""
        if queued.gated:
            return ((queued.gating_plugin, (_GATED, self._hints.gate_signature(queued))),)
        if not self._hints.knows(queued.pod.spec.scheduler_name) or not queued.rejectors:
            return ((ANYONE, ""),)
        return [(plugin, self._hints.signature(plugin, queued)) for plugin in queued.rejectors]

    def _unfile(self, key: str, filed: _Filed) -> None:
        for plugin, signature in filed.drawers:
            drawers = self._by_plugin[plugin]
            del drawers[signature][key]
            if not drawers[signature]:
                del drawers[signature]
                if not drawers:
                    del self._by_plugin[plugin]
