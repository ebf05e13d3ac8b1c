"""The stage of every pod: created, attempted, scheduled.

In: the events of a watch of pods. Out: counts by namespace and labels, and a call for every newly
scheduled pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kuberth.local.apiserver.objects import Obj


class SeenPod(NamedTuple):
    """The parts of a pod that the ledger needs."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    node: str
    attempted: bool
    """Whether the pod has the condition PodScheduled, with any status."""


def seen_pod(pod: Obj) -> SeenPod:
    metadata, conditions = pod["metadata"], pod.get("status", {}).get("conditions", ())
    return SeenPod(
        metadata["namespace"],
        metadata["name"],
        metadata.get("labels", {}),
        pod["spec"].get("nodeName", ""),
        any(condition["type"] == "PodScheduled" for condition in conditions),
    )


class Stages(NamedTuple):
    """How many pods have come how far; each is in one stage."""

    scheduled: int
    attempted: int
    unattempted: int
    waiting: str
    """A pod that is not scheduled, for messages; one that was attempted if there is one."""


OnScheduled = Callable[[SeenPod], None]


class PodLedger:
    def __init__(self) -> None:
        self._pods: dict[str, dict[str, SeenPod]] = {}
        self._listeners: list[OnScheduled] = []

    def set(self, pod: SeenPod) -> None:
        pods = self._pods.setdefault(pod.namespace, {})
        old = pods.get(pod.name)
        pods[pod.name] = pod
        if pod.node and (old is None or not old.node):
            for listener in self._listeners:
                listener(pod)

    def remove(self, namespace: str, name: str) -> None:
        self._pods.get(namespace, {}).pop(name, None)

    def listen(self, listener: OnScheduled) -> Callable[[], None]:
        """Call it for every newly scheduled pod, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def pods(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Iterator[SeenPod]:
        wanted = labels.items()
        for namespace in namespaces:
            for pod in self._pods.get(namespace, {}).values():
                if not wanted or wanted <= pod.labels.items():
                    yield pod

    def stages(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Stages:
        scheduled = attempted = unattempted = 0
        waiting, sure = "", False
        for pod in self.pods(namespaces, labels):
            if pod.node:
                scheduled += 1
                continue
            attempted += pod.attempted
            unattempted += not pod.attempted
            if not waiting or (pod.attempted and not sure):
                waiting, sure = f"{pod.namespace}/{pod.name}", pod.attempted
        return Stages(scheduled, attempted, unattempted, waiting)
