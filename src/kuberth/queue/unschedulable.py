"""Pods that wait for an event, filed under the plugins whose events can move them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, only those it may concern, in the order they came: an event
costs nothing for pods whose plugins did not register for it or know that it is not about them, however many
they are, and one hint for all pods that are equal for the plugin. A gated pod that its gate would refuse
again is left alone.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence, Set
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.informers.store import object_key
from kuberth.queue.hints import Hints

ANYONE: Final = ""
"""Where pods are filed that every event may concern, as no plugin speaks for them."""


FILED_AT_ONCE: Final = 200
"""Pods that are filed again with an event: about two milliseconds."""


class EquallyRejected(NamedTuple):
    """Pods that are rejected by the same plugins and are equal for each of them."""

    drawers: tuple[tuple[str, Hashable], ...]
    pending: Set[str] = frozenset()
    """Those of the plugins that answered Pending."""


class Filing:
    """Where a waiting pod is filed, as `QueuedPod.filing`: the same one while the same plugins reject it."""

    __slots__ = (
        "alike",
        "drawers",
        "equals",
        "gate",
        "hints",
        "info",
        "known_by",
        "number",
        "rejectors",
        "version",
    )

    def __init__(self, queued: QueuedPod, hints: Hints) -> None:
        self.number = 0
        """Grows with every pod that comes to wait."""
        self.gate = queued.gating_plugin
        """The plugin that holds the pod back before it is even tried; none: it was rejected."""
        self.equals: Hashable = None
        """Of a gated pod: what it shares with those of which one hint of the gate speaks for all."""
        self.drawers: tuple[tuple[str, Hashable], ...] = ()
        """Of a rejected pod: by plugin and, within, by what the plugin reads of the pod."""
        self.known_by: Sequence[tuple[str, Hashable]] = ()
        """By plugin, what its concerns know the pod by."""
        self.alike: EquallyRejected | None = None
        """What pods have in common to which every event is worth the same; None: nothing that is known."""
        # What this was worked out from.
        self.hints = hints
        self.info = queued.info
        self.rejectors = frozenset(queued.rejectors)
        self.version = hints.signatures_version

    def is_of(self, hints: Hints, queued: QueuedPod) -> bool:
        """Whether the pod, which was rejected again, is to be filed in the same places."""
        return (
            self.info is queued.info
            and self.hints is hints
            and self.version == hints.signatures_version
            and self.alike is not None
            and not self.gate
            and self.alike.pending == queued.pending_plugins
            and self.rejectors == queued.rejectors
        )


class ConcernedPods(NamedTuple):
    """Pods that an event may move, in the order they came."""

    pods: Sequence[QueuedPod]
    end: int
    """Pods with this number or a greater one came later, or left and came back."""


class UnschedulablePods:
    """Queued pods by namespace/name, and by plugin."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._numbers = count()
        self._pods: dict[str, QueuedPod] = {}
        self._by_plugin: dict[str, dict[Hashable, dict[str, QueuedPod]]] = {}
        self._by_gate: dict[str, dict[Hashable, dict[str, QueuedPod]]] = {}
        self._by_concern: dict[tuple[str, Hashable], dict[str, QueuedPod]] = {}
        self._version = hints.signatures_version
        self._outdated: list[str] = []

    def add(self, queued: QueuedPod) -> bool:
        """Add a pod, or file it again if it is here already. Return whether it is new."""
        key = queued.info.key
        old = self._pods.get(key)
        if old is None:
            number = next(self._numbers)
        else:
            number = old.filing.number
            self._unfile(key, old.filing)
        filing = queued.filing
        if type(filing) is not Filing or queued.gating_plugin or not filing.is_of(self._hints, queued):
            filing = queued.filing = self._filing_of(queued)
        filing.number = number
        self._pods[key] = queued
        if filing.gate:
            self._by_gate.setdefault(filing.gate, {}).setdefault(filing.equals, {})[key] = queued
        for plugin, signature in filing.drawers:
            drawers = self._by_plugin.get(plugin)
            if drawers is None:
                drawers = self._by_plugin[plugin] = {}
            drawer = drawers.get(signature)
            if drawer is None:
                drawer = drawers[signature] = {}
            drawer[key] = queued
        for concern in filing.known_by:
            self._by_concern.setdefault(concern, {})[key] = queued
        return old is None

    def remove(self, key: str) -> QueuedPod | None:
        """Take out the pod of this namespace/name, if it is here."""
        queued = self._pods.pop(key, None)
        if queued is not None:
            self._unfile(key, queued.filing)
        return queued

    def get(self, key: str) -> QueuedPod | None:
        """The pod of this namespace/name, if it is here."""
        return self._pods.get(key)

    def concerned_by(self, event: ClusterEvent, old: object, new: object) -> ConcernedPods:
        """The pods that the event may move; the others need not be asked about."""
        search = self.search(event, old, new)
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: ConcernedPods = end.value
                return found

    def search(self, event: ClusterEvent, old: object, new: object) -> Generator[None, None, ConcernedPods]:
        """The same, with a break after every hint that is asked. Pods that come in a break are left out."""
        self._file_again()
        end = next(self._numbers)
        if event.is_wildcard:
            return ConcernedPods(list(self._pods.values()), end)
        found: dict[str, QueuedPod] = {}
        about_itself = self._pods.get(_key_of(old if new is None else new))
        for plugin in (ANYONE, *self._hints.plugins_concerned(event)):
            about = None if plugin == ANYONE else self._hints.about(plugin, event, old, new)
            if about is not None:
                for key in about:
                    found |= self._by_concern.get((plugin, key), {})
                continue
            for signed, equals in list(self._by_plugin.get(plugin, {}).items()):
                if len(equals) > 1 and plugin != ANYONE:
                    yield
                if equals and not self._is_vain((plugin, signed), equals, event, old, new):
                    found |= equals
            for signed, equals in list(self._by_gate.get(plugin, {}).items()):
                yield
                if equals and not self._is_vain((plugin, signed), equals, event, old, new):
                    found |= {
                        key: queued for key, queued in equals.items() if not self._hints.is_refused(queued)
                    }
        if about_itself is not None:  # what it means for others says nothing of the pod itself
            found[about_itself.key] = about_itself
        pods = [queued for queued in found.values() if queued.filing.number < end]
        pods.sort(key=attrgetter("filing.number"))
        return ConcernedPods(pods, end)

    def still_waits(self, queued: QueuedPod, end: int) -> bool:
        """Whether a pod that was found to be concerned has not left since."""
        now = self._pods.get(queued.info.key)
        return now is not None and now.filing.number < end

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def _is_vain(
        self,
        drawer: tuple[str, Hashable],
        equals: Mapping[str, QueuedPod],
        event: ClusterEvent,
        old: object,
        new: object,
    ) -> bool:
        """Whether the plugin says of one of these pods, and so of all, that the event does not help."""
        plugin = drawer[0]
        if len(equals) == 1 or plugin == ANYONE:
            return False
        one = next(iter(equals.values()))
        # Since they were filed, the statement may have turned out to be wrong, or more labels to matter.
        return not self._hints.would_help(plugin, one, event, old, new) and self._hints.speak_for_equals(
            (drawer,), one
        )

    def _file_again(self) -> None:
        """File some of the pods again whose signatures are other ones now; until then each is asked about."""
        if self._version != self._hints.signatures_version:
            self._version = self._hints.signatures_version
            self._outdated = list(self._pods)
        for _ in range(min(len(self._outdated), FILED_AT_ONCE)):
            if (queued := self._pods.get(self._outdated.pop())) is not None:
                self.add(queued)

    def _filing_of(self, queued: QueuedPod) -> Filing:
        filing = Filing(queued, self._hints)
        filing.known_by = self._known_by(queued)
        if filing.gate:
            filing.equals = self._equals(queued)
            filing.alike = (
                None if filing.equals == queued.uid else EquallyRejected(((filing.gate, filing.equals),))
            )
        else:
            filing.drawers = self._drawers_of(queued, filing.rejectors)
            filing.alike = EquallyRejected(filing.drawers, frozenset(queued.pending_plugins))
        return filing

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

    def _unfile(self, key: str, filing: Filing) -> None:
        for concern in filing.known_by:
            del self._by_concern[concern][key]
            if not self._by_concern[concern]:
                del self._by_concern[concern]
        if filing.gate:
            _take_out(self._by_gate, filing.gate, filing.equals, key)
        for plugin, signature in filing.drawers:
            _take_out(self._by_plugin, plugin, signature, key)


def _key_of(obj: object) -> str:
    return object_key(obj) if isinstance(obj, Pod) else ""


def _take_out(
    cabinet: dict[str, dict[Hashable, dict[str, QueuedPod]]], plugin: str, signature: Hashable, key: str
) -> None:
    drawers = cabinet[plugin]
    drawer = drawers[signature]
    del drawer[key]
    if not drawer:
        del drawers[signature]
        if not drawers:
            del cabinet[plugin]
