"""A copy of the cluster for answering questions, which no scheduling cycle sees.

In: all objects of the cluster, at each question. Out: an `Evaluator` over them. The first question builds the
cluster table; later ones only update the objects that differ. Objects are compared by identity, because they
are never modified in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kuberth.api.core import Node, Pod
from kuberth.api.pods import FINISHED
from kuberth.cluster.pod_info import PodInfo, group_of
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.evaluation import Evaluator
from kuberth.framework.registry import Registry
from kuberth.informers.store import object_key


class ClusterCopy:
    """The objects of one cluster under the rules of one configuration."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        registry: Registry | None = None,
        feature_gates: FeatureGates | None = None,
    ) -> None:
        self.config = config
        self.evaluator = Evaluator(config=config, registry=registry, feature_gates=feature_gates)
        self._objects: dict[int, Any] = {}
        """The objects of the last `update`, by identity."""
        self._finished: set[str] = set()
        """Keys of finished pods; they use no resources and are omitted."""

    def update(self, objects: Sequence[Any]) -> None:
        """Update the copy to contain exactly these objects."""
        before = self._objects
        after = self._objects = dict(zip(map(id, objects), objects, strict=True))
        gone = [before[identity] for identity in before.keys() - after.keys()]
        different = after.keys() - before.keys()
        new = [obj for identity, obj in after.items() if identity in different] if different else []
        replaced = {obj.metadata.name for obj in new if isinstance(obj, Node)}
        for obj in gone:
            # A node with a new version keeps its row and its pods.
            if not (isinstance(obj, Node) and obj.metadata.name in replaced):
                self._remove(obj)
        for obj in new:
            self._add(obj)

    @contextmanager
    def without(self, pod: Pod) -> Iterator[bool]:
        """Remove the pod with this name while the block lasts; yields whether the cluster has it."""
        key = object_key(pod)
        found = self.evaluator.stores.of(Pod).get_by_key(key)
        if found is None:
            yield key in self._finished
            return
        self._remove(found)
        try:
            yield True
        finally:
            self._add(found)

    @contextmanager
    def pending(self, pod: Pod) -> Iterator[None]:
        """Add the pod to the pods, and to the unscheduled ones of its group, while the block lasts."""
        info, groups = PodInfo(pod), self.evaluator.cluster.pod_groups
        with self.evaluator.pending(pod):
            if not info.group:
                yield
                return
            groups.arrive(info)
            try:
                yield
            finally:
                groups.leave(info)

    def _add(self, obj: Any) -> None:
        if isinstance(obj, Pod):
            if obj.status.phase in FINISHED:
                self._finished.add(object_key(obj))
                return
            if not obj.spec.node_name and obj.status.nominated_node_name:
                # The scheduler counts a nominated pod on its node.
                self.evaluator.nominator.adopt(PodInfo(obj))
            if not obj.spec.node_name and group_of(obj):
                self.evaluator.cluster.pod_groups.arrive(PodInfo(obj))
        self.evaluator.add(obj)

    def _remove(self, obj: Any) -> None:
        if isinstance(obj, Pod):
            if obj.status.phase in FINISHED:
                self._finished.discard(object_key(obj))
                return
            self.evaluator.nominator.withdraw(obj)
            if not obj.spec.node_name and group_of(obj):
                self.evaluator.cluster.pod_groups.leave(PodInfo(obj))
        self.evaluator.remove(obj)
