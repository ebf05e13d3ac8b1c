"""Unschedulable and gated pods, indexed by the plugins whose events can requeue them (KEP-4247, KEP-3521).

In: rejected and gated pods. Out: for an event, the pods that it may concern, in the order in which they
arrived. An event costs nothing for pods whose plugins did not register for it, or state that it is about
other pods. For pods that are equal for a plugin, one call of its hint decides. Gated pods that their gate
would reject again are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.informers.store import object_key
from kuberth.queue.hints import Hints
from kuberth.queue.slices import WORK_OF_A_HINT, finished

ANY_PLUGIN: Final = ""
"""The key of pods that every event may concern, since no plugin of a known profile rejected them."""


REINDEXED_AT_ONCE: Final = 200
"""The number of outdated pods that are indexed again with an event: about two milliseconds."""


class EquallyRejected(NamedTuple):
    """Pods that are rejected by the same plugins and are equal for each of them."""

    plugin_keys: tuple[tuple[str, Hashable], ...]
    """Each plugin with the signature of the pods for it."""
    pending: Set[str] = frozenset()
    """The plugins that returned Pending."""


@dataclass(slots=True, eq=False)
class IndexEntry:
    """The keys under which a waiting pod is indexed; reused while the same plugins reject the pod."""

    gate: str
    """The plugin that gates the pod; "" if it was rejected in an attempt."""
    # What the keys were computed from.
    hints: Hints
    info: PodInfo
    rejectors: frozenset[str]
    version: int
    concern_keys: Sequence[tuple[str, Hashable]] = ()
    """Each plugin that has a `Concern` with a key of the pod."""
    number: int = 0
    """Its place in the order of arrival."""
    equals: Hashable = None
    """For a gated pod: its signature for the gate, whose hint is called once for equal pods."""
    plugin_keys: tuple[tuple[str, Hashable], ...] = ()
    """For a rejected pod: each rejecting plugin with the pod's signature for it."""
    equality: EquallyRejected | None = None
    """Pods for which this is equal get the same hints; None if unknown."""

    def is_of(self, hints: Hints, queued: QueuedPod) -> bool:
        """Whether the keys still hold for the pod, which was rejected again."""
        return (
            self.info is queued.info
            and self.hints is hints
            and self.version == hints.signatures_version
            and self.equality is not None
            and not self.gate
            and self.equality.pending == queued.pending_plugins
            and self.rejectors == queued.rejectors
        )


class ConcernedPods(NamedTuple):
    """Pods that an event may requeue, in the order in which they arrived."""

    pods: Sequence[QueuedPod]
    end: int
    """Pods with this number or a higher one arrived later, or left and returned."""


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
        """Add a pod, or update its keys if it is here already. Return whether it is new."""
        key = queued.info.key
        old = self._pods.get(key)
        if old is None:
            number = next(self._numbers)
        else:
            number = old.index_entry.number
            self._remove_from_indexes(key, old.index_entry)
        index_entry = queued.index_entry
        if (
            type(index_entry) is not IndexEntry
            or queued.gating_plugin
            or not index_entry.is_of(self._hints, queued)
        ):
            index_entry = queued.index_entry = self._index_entry_of(queued)
        index_entry.number = number
        self._pods[key] = queued
        if index_entry.gate:
            self._by_gate.setdefault(index_entry.gate, {}).setdefault(index_entry.equals, {})[key] = queued
        for plugin, signature in index_entry.plugin_keys:
            by_signature = self._by_plugin.get(plugin)
            if by_signature is None:
                by_signature = self._by_plugin[plugin] = {}
            equal_pods = by_signature.get(signature)
            if equal_pods is None:
                equal_pods = by_signature[signature] = {}
            equal_pods[key] = queued
        for concern in index_entry.concern_keys:
            self._by_concern.setdefault(concern, {})[key] = queued
        return old is None

    def remove(self, key: str) -> QueuedPod | None:
        """Remove the pod with this namespace/name; None if it is not here."""
        queued = self._pods.pop(key, None)
        if queued is not None:
            self._remove_from_indexes(key, queued.index_entry)
        return queued

    def get(self, key: str) -> QueuedPod | None:
        """The pod with this namespace/name; None if it is not here."""
        return self._pods.get(key)

    def concerned_by(self, event: ClusterEvent, old: object, new: object) -> ConcernedPods:
        """The pods that the event may requeue."""
        return finished(self.search(event, old, new))

    def search(self, event: ClusterEvent, old: object, new: object) -> Generator[int, None, ConcernedPods]:
        """As `concerned_by`, yielding the work of every hint; pods that arrive meanwhile are left out."""
        self._reindex_some()
        end = next(self._numbers)
        if event.is_wildcard:
            return ConcernedPods(list(self._pods.values()), end)
        found: dict[str, QueuedPod] = {}
        about_itself = self._pods.get(_key_of(old if new is None else new))
        for plugin in (ANY_PLUGIN, *self._hints.plugins_concerned(event)):
            about = None if plugin == ANY_PLUGIN else self._hints.event_keys(plugin, event, old, new)
            if about is not None:
                for key in about:
                    found |= self._by_concern.get((plugin, key), {})
                continue
            for signed, equals in list(self._by_plugin.get(plugin, {}).items()):
                if len(equals) > 1 and plugin != ANY_PLUGIN:
                    yield WORK_OF_A_HINT
                if equals and not self._skips_all((plugin, signed), equals, event, old, new):
                    found |= equals
            for signed, equals in list(self._by_gate.get(plugin, {}).items()):
                yield WORK_OF_A_HINT
                if equals and not self._skips_all((plugin, signed), equals, event, old, new):
                    found |= {
                        key: queued for key, queued in equals.items() if not self._hints.is_gated(queued)
                    }
        if about_itself is not None:  # a hint for an equal pod does not hold for the event's own pod
            found[about_itself.key] = about_itself
        pods = [queued for queued in found.values() if queued.index_entry.number < end]
        pods.sort(key=attrgetter("index_entry.number"))
        return ConcernedPods(pods, end)

    def still_waits(self, queued: QueuedPod, end: int) -> bool:
        """Whether a pod that `search` found has not left since."""
        now = self._pods.get(queued.info.key)
        return now is not None and now.index_entry.number < end

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def _skips_all(
        self,
        plugin_key: tuple[str, Hashable],
        equals: Mapping[str, QueuedPod],
        event: ClusterEvent,
        old: object,
        new: object,
    ) -> bool:
        """Whether the plugin's hint returns Skip for one of these equal pods, and thus for all of them."""
        plugin = plugin_key[0]
        if len(equals) == 1 or plugin == ANY_PLUGIN:
            return False
        one = next(iter(equals.values()))
        # The signatures may be outdated: a statement may have proved wrong, or more labels may matter now.
        return not self._hints.would_help(plugin, one, event, old, new) and self._hints.signatures_hold(
            (plugin_key,), one
        )

    def _reindex_some(self) -> None:
        """Update some outdated keys; until then, hints are called for each of these pods."""
        if self._version != self._hints.signatures_version:
            self._version = self._hints.signatures_version
            self._outdated = list(self._pods)
        for _ in range(min(len(self._outdated), REINDEXED_AT_ONCE)):
            if (queued := self._pods.get(self._outdated.pop())) is not None:
                self.add(queued)

    def _index_entry_of(self, queued: QueuedPod) -> IndexEntry:
        index_entry = IndexEntry(
            queued.gating_plugin,
            self._hints,
            queued.info,
            frozenset(queued.rejectors),
            self._hints.signatures_version,
            self._concern_keys_of(queued),
        )
        if index_entry.gate:
            index_entry.equals = self._equals(queued)
            index_entry.equality = (
                None
                if index_entry.equals == queued.uid
                else EquallyRejected(((index_entry.gate, index_entry.equals),))
            )
        else:
            index_entry.plugin_keys = self._plugin_keys_of(queued, index_entry.rejectors)
            index_entry.equality = EquallyRejected(index_entry.plugin_keys, frozenset(queued.pending_plugins))
        return index_entry

    def _plugin_keys_of(self, queued: QueuedPod, rejectors: Set[str]) -> tuple[tuple[str, Hashable], ...]:
        if not self._hints.knows(queued.pod.spec.scheduler_name) or not rejectors:
            return ((ANY_PLUGIN, ""),)
        return tuple((plugin, self._hints.signature(plugin, queued)) for plugin in sorted(rejectors))

    def _equals(self, queued: QueuedPod) -> Hashable:
        """A gated pod's signature for its gate.

        The pod's UID if other plugins rejected it before, since their hints count too.
        """
        gate = queued.gating_plugin
        is_alone = queued.rejectors == {gate} and not queued.pending_plugins
        return self._hints.signature(gate, queued) if is_alone else queued.uid

    def _concern_keys_of(self, queued: QueuedPod) -> Sequence[tuple[str, Hashable]]:
        plugins = (queued.gating_plugin,) if queued.gated else queued.rejectors
        return [(plugin, key) for plugin in plugins for key in self._hints.concern_keys(plugin, queued)]

    def _remove_from_indexes(self, key: str, index_entry: IndexEntry) -> None:
        for concern in index_entry.concern_keys:
            del self._by_concern[concern][key]
            if not self._by_concern[concern]:
                del self._by_concern[concern]
        if index_entry.gate:
            _remove_key(self._by_gate, index_entry.gate, index_entry.equals, key)
        for plugin, signature in index_entry.plugin_keys:
            _remove_key(self._by_plugin, plugin, signature, key)


def _key_of(obj: object) -> str:
    return object_key(obj) if isinstance(obj, Pod) else ""


def _remove_key(
    index: dict[str, dict[Hashable, dict[str, QueuedPod]]], plugin: str, signature: Hashable, key: str
) -> None:
    by_signature = index[plugin]
    equal_pods = by_signature[signature]
    del equal_pods[key]
    if not equal_pods:
        del by_signature[signature]
        if not by_signature:
            del index[plugin]
