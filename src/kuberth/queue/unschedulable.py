"""Pods that wait for an event, filed under the plugins whose events can move them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, only those it may concern, in the order they came: an event
costs nothing for pods whose plugins did not register for it or know that it is not about them, however many
they are, and one hint for all pods that are equal for the plugin. A gated pod that its gate would refuse
again is left alone.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
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
    drawers: tuple[tuple[str, Hashable], ...]
    """Of a rejected pod: by plugin and, within, by what the plugin reads of the pod."""
    known_by: Sequence[tuple[str, Hashable]]
    """By plugin, what its concerns know the pod by."""
    alike: Alike | None
    """What pods have in common to which every event is worth the same; None: nothing that is known."""


class Alike(NamedTuple):
    """Pods that are rejected by the same plugins and are equal for each of them."""

    drawers: tuple[tuple[str, Hashable], ...]
    pending: tuple[str, ...]
    """Those of the plugins that answered Pending."""


class _Filing(NamedTuple):
    """How a pod was filed, and what that was worked out from."""

    hints: Hints
    info: PodInfo
    rejectors: Set[str]
    alike: Alike
    known_by: Sequence[tuple[str, Hashable]]

    def is_of(self, hints: Hints, queued: QueuedPod, rejectors: Set[str]) -> bool:
        return (
            self.hints is hints
            and self.info is queued.info
            and self.rejectors == rejectors
            and len(self.alike.pending) == len(queued.pending_plugins)
            and queued.pending_plugins.issuperset(self.alike.pending)
        )


class Concerned(NamedTuple):
    """A pod that an event may move."""

    queued: QueuedPod
    alike: Alike | None
    """To pods for which this is equal the event is worth the same; None: the pod has to be asked about."""
    number: int = 0
    """Grows with every pod that comes to wait."""


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
        gate, equals = queued.gating_plugin, None
        drawers: tuple[tuple[str, Hashable], ...] = ()
        if gate:
            equals, known_by = self._equals(queued), self._known_by(queued)
            alike = None if equals == queued.uid else Alike(((gate, equals),), ())
        else:
            alike, known_by = self._places_of(queued)
            drawers = alike.drawers
        filed = _Filed(number, queued, gate, equals, drawers, known_by, alike)
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

    def concerned_by(self, event: ClusterEvent, old: object, new: object) -> Sequence[Concerned]:
        """The pods that the event may move, in the order they came; the others need not be asked about."""
        search = self.search(event, old, new)
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: Sequence[Concerned] = end.value
                return found

    def search(
        self, event: ClusterEvent, old: object, new: object
    ) -> Generator[None, None, Sequence[Concerned]]:
        """The same, with a break after every hint that is asked. Pods that come in a break are left out."""
        if event.is_wildcard:
            return [Concerned(filed.queued, None, filed.number) for filed in self._pods.values()]
        end = next(self._numbers)
        found: dict[str, _Filed] = {}
        about_itself = self._pods.get(_key_of(old if new is None else new))
        for plugin in (ANYONE, *self._hints.plugins_concerned(event)):
            about = None if plugin == ANYONE else self._hints.about(plugin, event, old, new)
            if about is not None:
                for key in about:
                    found |= self._by_concern.get((plugin, key), {})
                continue
            for equals in list(self._by_plugin.get(plugin, {}).values()):
                if len(equals) > 1 and plugin != ANYONE:
                    yield
                if equals and not self._is_vain(plugin, equals, event, old, new):
                    found |= equals
            for equals in list(self._by_gate.get(plugin, {}).values()):
                yield
                if equals and not self._is_vain(plugin, equals, event, old, new):
                    found |= {
                        key: filed
                        for key, filed in equals.items()
                        if not self._hints.is_refused(filed.queued)
                    }
        if about_itself is not None:  # what it means for others says nothing of the pod itself
            found[about_itself.queued.key] = about_itself
        # Tuples of their numbers and themselves: no two numbers are equal.
        return [
            Concerned(filed.queued, None if filed is about_itself else filed.alike, filed.number)
            for filed in sorted(found.values())
            if filed.number < end
        ]

    def still_waits(self, concerned: Concerned) -> bool:
        """Whether a pod that was found to be concerned has not left since."""
        filed = self._pods.get(concerned.queued.key)
        return filed is not None and filed.number == concerned.number

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

    def _places_of(self, queued: QueuedPod) -> tuple[Alike, Sequence[tuple[str, Hashable]]]:
        """Where a rejected pod is filed: as the last time, if the same plugins rejected the same version."""
        filing, rejectors = queued.filing, queued.rejectors
        if not isinstance(filing, _Filing) or not filing.is_of(self._hints, queued, rejectors):
            alike = Alike(self._drawers_of(queued, rejectors), tuple(sorted(queued.pending_plugins)))
            filing = queued.filing = _Filing(
                self._hints, queued.info, rejectors, alike, self._known_by(queued)
            )
        return filing.alike, filing.known_by

    def _drawers_of(self, queued: QueuedPod, rejectors: Set[str]) -> tuple[tuple[str, Hashable], ...]:
        if not self._hints.knows(queued.pod.spec.scheduler_name) or not rejectors:
            return ((ANYONE, ""),)
        return tuple((plugin, self._hints.signature(plugin, queued)) for plugin in sorted(rejectors))

    def _equals(self, queued: QueuedPod) -> Hashable:
        """Gated pods for which this is equal are moved by the same events.

        Others that rejected the pod before have a say besides its gate.
        """
        gate = queued.gating_plugin
        is_alone = queued.rejectors == {gate} and not queued.pending_plugins
        return self._hints.signature(gate, queued) if is_alone else queued.uid

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
