"""Pods that wait for an event, filed under the plugins whose events can move them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, only those it may concern, in the order they came: an event
costs nothing for pods whose plugins did not register for it, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.hints import Hints

ANYONE: Final = ""
"""Where pods are filed that every event may concern, as no plugin speaks for them."""


class _Filed(NamedTuple):
    number: int
    queued: QueuedPod
    plugins: Sequence[str]


class UnschedulableRoom:
    """Queued pods by namespace/name, and by plugin."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._numbers = count()
        self._pods: dict[str, _Filed] = {}
        self._by_plugin: dict[str, dict[str, _Filed]] = {}

    def add(self, queued: QueuedPod) -> bool:
        """Bring a pod in, or file it anew if it is in already. True: it was not."""
        old = self._pods.get(queued.key)
        if old is not None:
            self._unfile(queued.key, old)
        number = next(self._numbers) if old is None else old.number
        filed = self._pods[queued.key] = _Filed(number, queued, self._plugins_of(queued))
        for plugin in filed.plugins:
            self._by_plugin.setdefault(plugin, {})[queued.key] = filed
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

    def concerned_by(self, event: ClusterEvent) -> Sequence[QueuedPod]:
        """The pods that the event may move; the others need not be asked about."""
        if event.is_wildcard:
            return list(self)
        found: dict[str, _Filed] = {}
        for plugin in (ANYONE, *self._hints.plugins_concerned(event)):
            found |= self._by_plugin.get(plugin, {})
        return [filed.queued for filed in sorted(found.values(), key=lambda filed: filed.number)]

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (filed.queued for filed in self._pods.values())

    def _plugins_of(self, queued: QueuedPod) -> Sequence[str]:
        """A gate is opened by its own plugin's events alone, whoever else rejected the pod before."""
        if queued.gated:
            return (queued.gating_plugin,)
        known = self._hints.knows(queued.pod.spec.scheduler_name)
        return tuple(queued.rejectors) if known and queued.rejectors else (ANYONE,)

    def _unfile(self, key: str, filed: _Filed) -> None:
        for plugin in filed.plugins:
            drawer = self._by_plugin[plugin]
            del drawer[key]
            if not drawer:
                del self._by_plugin[plugin]
