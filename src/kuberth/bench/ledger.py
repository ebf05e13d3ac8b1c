"""The stage of every pod: created, attempted, scheduled.

In: the changes of an informer of pods. Out: counts by namespace and labels, and a call for every newly
scheduled pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of, labels_of, name_of, namespace_of


class Stages(NamedTuple):
    """The number of pods by their stage; each is in one stage."""

    scheduled: int
    attempted: int
    unattempted: int
    waiting: str
    """A pod that is not scheduled, for messages; one that was attempted if there is one."""


class PodLedger:
    """The pods of every namespace."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Obj]] = {}
        self._listeners: list[Callable[[Obj], None]] = []

    def handle(self, old: Obj | None, new: Obj | None) -> None:
        """Handle a change of a pod, as an informer reports it."""
        if new is None:
            if old is not None:
                self._pods.get(namespace_of(old), {}).pop(name_of(old), None)
            return
        pods = self._pods.setdefault(namespace_of(new), {})
        before = pods.get(name_of(new))
        pods[name_of(new)] = new
        if new["spec"].get("nodeName") and not (before and before["spec"].get("nodeName")):
            for listener in self._listeners:
                listener(new)

    def listen(self, listener: Callable[[Obj], None]) -> Callable[[], None]:
        """Call it for every newly scheduled pod, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def pods(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Iterator[Obj]:
        wanted = labels.items()
        for namespace in namespaces:
            for pod in self._pods.get(namespace, {}).values():
                if not wanted or wanted <= labels_of(pod).items():
                    yield pod

    def stages(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Stages:
        scheduled, attempted, unattempted = 0, [], []
        for pod in self.pods(namespaces, labels):
            conditions = pod.get("status", {}).get("conditions", ())
            if pod["spec"].get("nodeName"):
                scheduled += 1
            elif any(condition["type"] == "PodScheduled" for condition in conditions):
                attempted.append(pod)
            else:
                unattempted.append(pod)
        waiting = next((key_of(pod) for pod in (*attempted, *unattempted)), "")
        return Stages(scheduled, len(attempted), len(unattempted), waiting)
